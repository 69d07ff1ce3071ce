"""A penalty on the spectrum of an embedding matrix, after Wang et al. 2020, "... with Spectrum Control"."""

import torch
from torch import Tensor

from isotropy.isoscore import evenness
from isotropy.points import at_least_float32, require_points
from isotropy.spectrum import products


class SpectrumControl(torch.nn.Module):
    """Penalty lam (1 - E) on the singular values s of a matrix W [V, d], to be added to the task's loss.

    E = ((sum s^2)^2 / sum s^4 - 1) / (d - 1) is 1 where all d singular values are equal and 0 where only one is left.
    lam > 0 flattens the spectrum, lam < 0 makes it steeper. E does not depend on the scale of W. W is not centered: a
    mean that its rows share is a singular value too, often the greatest, and is what narrows embeddings to a cone.

    **This is not the method of the paper, and its figures are not that method's.** Wang, Huang, Huang, Hu, Wang & Gu
    (ICLR 2020, "Improving Neural Language Generation with Spectrum Control") train the output embedding matrix as a
    product U diag(s) V^T from the start, and guide its singular values with a prior that decays slowly. Here

    - W stays the parameter that the model has, so that a pretrained one can be fine-tuned: no factors are trained;
    - the prior is flat, that is without any decay, and lam says how much it counts;
    - singular values are compared in their ratios only, through their squares. So two sums of W^T W are enough, with
      neither eigenvalues nor singular vectors, whose gradients fail where values are equal.

    W is the same in all processes of a run, and so are penalty and gradient: there is nothing to add up over them.

    Example::

        spectrum = SpectrumControl(lam=1.0)
        loss = output.loss + spectrum(model.get_input_embeddings().weight)

    Args:
        lam: strength, of either sign.

    """

    def __init__(self, lam: float) -> None:
        super().__init__()
        self.lam = lam

    def forward(self, matrix: Tensor) -> Tensor:
        """Return the penalty on a matrix [V, d]: 0-d, between 0 and lam, float64 if it is, else float32.

        In V d^2 operations for the value and as many for the gradient, which is not 0 for any row. Not below
        lam (d - V) / (d - 1) where V < d. For a matrix of zeros it is lam by
        convention, and the gradient 0.

        Raises:
            ValueError: ``matrix`` is not a floating tensor [V, d] of at least two dimensions, or not finite.

        """
        require_points(matrix)
        return self.lam * (1 - evenness(products(at_least_float32(matrix))))

    def extra_repr(self) -> str:
        return f"lam={self.lam}"
