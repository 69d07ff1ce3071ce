"""Time a training step with I-STAR, compared with a plain step, in the shape of BERT-base.

Run: python -m benchmarks.training_step
"""

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor
from transformers.utils.generic import ModelOutput

from benchmarks._rounds import interleave, machine, ratio, requested_rounds, table
from benchmarks._step import BATCH, TOKENS, Penalty, Step
from isoscope.hidden_states import hidden_states_of
from isotropy.points import draw_tokens, union_of_layers
from isotropy.regularizers.istar import IStar
from isotropy.spectrum import Moments

THREADS = 2
SHRINKAGE_BATCH = 4 * BATCH  # Without gradients, four times a training batch fits into memory
LAM, ZETA, FRACTION = -1.0, 0.2, 0.25
SHRINKAGE_POINTS = 250_000

PointPenalty = Callable[[Tensor], Tensor]  # Points [n, d] in, a scalar out


def eigenvalue_penalty(points: Tensor, S_S: Tensor) -> Tensor:
    """Return the penalty as published, from the eigenvalues of the shrunk covariance."""
    d = len(S_S)
    eigenvalues = torch.linalg.eigvalsh((1 - ZETA) * torch.cov(points.T) + ZETA * S_S)
    normed = d**0.5 * eigenvalues / eigenvalues.norm()
    defect = (normed - 1).norm() / (2 * (d - d**0.5)) ** 0.5
    used = (d - defect**2 * (d - d**0.5)) ** 2 / d**2
    penalty: Tensor = LAM * (1 - (d * used - 1) / (d - 1))
    return penalty


def autograd_penalty(points: Tensor, S_S: Tensor) -> Tensor:
    """Return the penalty by Isoscope's closed form, but with autograd's graph of the covariance."""
    S = (1 - ZETA) * torch.cov(points.T) + ZETA * S_S
    penalty: Tensor = LAM * (1 - (S.trace() ** 2 / S.square().sum() - 1) / (len(S) - 1))
    return penalty


def on_tokens(penalty: PointPenalty, fraction: float = 1.0) -> Penalty:
    """Return the penalty on a fraction of the tokens of all layers."""
    draw = torch.Generator().manual_seed(0)

    def token_penalty(outputs: ModelOutput, batch: Mapping[str, Tensor]) -> Tensor:
        return penalty(union_of_layers(hidden_states_of(outputs), draw_tokens(batch["attention_mask"], fraction, draw)))

    return token_penalty


def compute_moments(step: Step, rows: Mapping[str, Tensor]) -> Moments:
    """Return moments of all layers' tokens, as for a batch of the pass for the shrinkage covariance."""
    moments = Moments(step.model.config.hidden_size, step.model.device)
    step.model.eval()
    with torch.no_grad():
        outputs = step.model(**rows, output_hidden_states=True)
        moments.update(union_of_layers(outputs.hidden_states, rows["attention_mask"]))
    step.model.train()
    return moments


def main() -> None:
    """Print the medians of interleaved rounds and their ratios to the plain step."""
    torch.set_num_threads(THREADS)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    step = Step(device)
    shrinkage_rows = step.rows(SHRINKAGE_BATCH)
    S_S = compute_moments(step, shrinkage_rows).covariance().float()
    istar = IStar(LAM, ZETA).to(device)
    istar.set_shrinkage(S_S)

    plain, shrinkage = "plain step", f"one batch of {SHRINKAGE_BATCH} rows of the shrinkage pass"
    functions: dict[str, Callable[[], object]] = {
        plain: step.take,
        "I-STAR, all tokens": partial(step.take, on_tokens(istar)),
        f"I-STAR, {FRACTION:.0%} of the tokens": partial(step.take, on_tokens(istar, FRACTION)),
        "all tokens, autograd's own graph": partial(step.take, on_tokens(partial(autograd_penalty, S_S=S_S))),
        "all tokens, eigenvalues": partial(step.take, on_tokens(partial(eigenvalue_penalty, S_S=S_S))),
        shrinkage: partial(compute_moments, step, shrinkage_rows),
    }
    times = interleave(functions, requested_rounds(), torch.cuda.synchronize if device.type == "cuda" else lambda: None)

    batches = SHRINKAGE_POINTS / (SHRINKAGE_BATCH * TOKENS * step.model.config.num_hidden_layers)
    device_name = torch.cuda.get_device_name() if device.type == "cuda" else f"{THREADS} threads"
    print(machine("torch", "transformers"))
    print(f"BERT-base, {BATCH} x {TOKENS} tokens, no padding, float32, {device_name}, {len(times[plain])} rounds\n")
    print(table(times, base=plain))
    print(
        f"\n- The shrinkage pass of an epoch, {SHRINKAGE_POINTS:,} points or {batches:.1f} such batches, "
        f"takes {batches * ratio(times[shrinkage], times[plain]):.1f} plain steps."
    )


if __name__ == "__main__":
    main()
