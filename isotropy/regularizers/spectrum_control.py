"""A penalty on the spectrum of an embedding matrix, after Wang et al. 2020, "... with Spectrum Control"."""

from torch import Tensor

from isotropy.evenness import evenness
from isotropy.regularizers.penalty import Penalty


class SpectrumControl(Penalty):
    """Penalty lam (1 - E) on the singular values s of a matrix W [V, d], to be added to the task's loss.

    E = ((sum s^2)^2 / sum s^4 - 1) / (d - 1) is 1 where all d singular values are equal and 0 where only one is left.
    lam > 0 flattens the spectrum, lam < 0 makes it steeper, whatever the scale of W. W is not centered: a mean that its
    rows share is a singular value too. W and its gradient are the same in all processes.

    **This is not the method of the paper.** Wang et al. (ICLR 2020, "Improving Neural Language Generation with Spectrum
    Control") train W as U diag(s) V^T with a slowly decaying prior on s. Here W stays the model's parameter, so that a
    pretrained one can be fine-tuned; the prior is flat; and two sums of W^T W suffice, without the gradients of
    singular vectors, which fail where values are equal.

    Example::

        spectrum = SpectrumControl(lam=1.0)
        loss = output.loss + spectrum(model.get_input_embeddings().weight)
    """

    def __init__(self, lam: float) -> None:
        super().__init__()
        self.lam = lam

    def forward(self, matrix: Tensor) -> Tensor:
        """Return the penalty on a matrix [V, d]: 0-d, between 0 and lam, at least float32, in V d^2 operations.

        For lam > 0 and V < d it is at least lam (d - V) / (d - 1). A zero matrix has penalty lam and gradient 0.
        Raises ValueError where ``evenness`` does.
        """
        score, _ = evenness(matrix, is_centered=False)
        return self.lam * (1 - score)
