from collections.abc import Callable
from multiprocessing.context import ForkServerContext
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from isotropy.distributed import gathered, max_over_processes, summed
from isotropy.regularizers.cosreg import CosReg
from isotropy.regularizers.istar import IStar
from isotropy.regularizers.persistent_entropy import PersistentEntropy
from isotropy.regularizers.spectrum_control import SpectrumControl
from isotropy.regularizers.unbiased_istar import UnbiasedIStar
from tests.rounding import tolerance

pytestmark = pytest.mark.slow

D = 6
SPLITS = {"unequal": (13, 5), "one without rows": (18, 0)}
DTYPES = {"float64": torch.float64, "float32": torch.float32}
# Rows and weights are multiples of 1 / 16, so that points are exact and only the penalties round.
GRID = 16
ROWS = 18
# An upper bound: a sum over all pairs of rows, then one over all pairs of dimensions.
ROUNDINGS = ROWS**2 + D**2


def shrunk(across):
    istar = IStar(lam=-2.0, zeta=0.3, across_processes=across)
    istar.set_shrinkage(torch.diag(torch.arange(1.0, D + 1)))
    return istar


def point_penalty(regularizer):
    return lambda model, x, labels: regularizer(model(x))


PENALTIES = {
    "istar": lambda across: point_penalty(shrunk(across)),
    "istar far from the origin": lambda across: lambda model, x, labels: shrunk(across)(model(x) + 1000),
    "istar without shrinkage": lambda across: point_penalty(IStar(lam=1.0, zeta=0.0, across_processes=across)),
    "unbiased": lambda across: (
        lambda model, x, labels: UnbiasedIStar(1.0, across_processes=across)([model(x), model(x)[:, :3] ** 3])
    ),
    "unbiased, fewer rows than dimensions": lambda across: (
        lambda model, x, labels: UnbiasedIStar(1.0, across_processes=across)(
            [torch.cat([model(x) ** k for k in range(1, 5)], dim=1)]
        )
    ),
    "cosreg": lambda across: (
        lambda model, x, labels: CosReg(1.0, across_processes=across)(model(x) * (x[:, :1] > -0.5))
    ),
    "entropy": lambda across: point_penalty(PersistentEntropy(1.0, bars="all", across_processes=across)),
    "entropy by label": lambda across: (
        lambda model, x, labels: PersistentEntropy(1.0, cluster_weight=0.3, across_processes=across)(model(x), labels)
    ),
    "spectrum": lambda across: (
        lambda model, x, labels: SpectrumControl(1.0)(next(model.parameters())) + 0 * model(x).sum()
    ),
}


def batch(dtype):
    generator = torch.Generator().manual_seed(1)
    x = 0.5 + torch.randn(ROWS, D, dtype=torch.float64, generator=generator) * torch.arange(1, D + 1)
    return ((x * GRID).round() / GRID).to(dtype), torch.randint(3, (ROWS,), generator=generator)


def step(penalty, model, x, labels):
    value = penalty(model, x, labels)
    value.backward()
    (gradient,) = (parameter.grad for parameter in model.parameters())
    return float(value.detach()), gradient.tolist()


def conditions(penalty, x, labels):
    model, points = model_of(torch.float64), []
    model.register_forward_hook(lambda *call: points.append(call[2]) or call[2].retain_grad())
    value, _ = step(penalty, model, x, labels)
    used = [(tensor.detach(), tensor.grad) for tensor in points if tensor.grad is not None]
    size = abs(value) + sum(float((tensor * gradient).abs().sum()) for tensor, gradient in used)
    return size, max((float((gradient.abs().T @ x.abs()).max()) for _, gradient in used), default=0)


def model_of(dtype):
    model = torch.nn.Linear(D, D, bias=False, dtype=dtype)
    with torch.no_grad():
        model.weight.copy_(torch.eye(D) + (torch.arange(float(D * D)).view(D, D).sin() * GRID / 4).round() / GRID)
    return model


def rows_of(rank, sizes):
    return slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))


def steps_of_rank(rank):
    steps = {}
    for split, sizes in SPLITS.items():
        for kind, dtype in DTYPES.items():
            x, labels = (part[rows_of(rank, sizes)] for part in batch(dtype))
            for name, make in PENALTIES.items():
                model = DistributedDataParallel(model_of(dtype))
                steps[name, split, kind] = step(make(True), model, x, labels)
    x, labels = (part[rows_of(rank, SPLITS["unequal"])] for part in batch(torch.float64))
    wrapped = DistributedDataParallel(model_of(torch.float64))
    steps["separate"] = step(PENALTIES["istar without shrinkage"](False), wrapped, x, labels)
    steps["functions"] = functions_of_rank(rank)
    steps["degenerate"] = degenerate_of_rank(rank)
    return steps


def functions_of_rank(rank):
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])[2 * rank : 2 + rank].requires_grad_()
    rows = gathered(x)
    # Each rank weighs the rows differently; the gradients of both are added.
    (rows * torch.tensor([[1.0], [2.0], [3.0]]) * (rank + 1)).sum().backward()
    y = torch.tensor([1.0 + rank, 10.0], requires_grad=True)
    total = summed(y)
    (total * (rank + 1)).sum().backward()
    return {
        "rows": rows.tolist(), "rows' gradient": x.grad.tolist(),
        "sum": total.tolist(), "sum's gradient": y.grad.tolist(),
        "max_over_processes": max_over_processes(torch.tensor([1.0 - rank, float(rank)])).tolist(),
        "labels": gathered(torch.full((rank + 1,), rank)).tolist(),
    }  # fmt: skip


def degenerate_of_rank(rank):
    equal = torch.full((3 + rank, D), 0.1, requires_grad=True)
    value = IStar(lam=1.0, zeta=0.0, across_processes=True)(equal)
    value.backward()
    with pytest.raises(ValueError, match="Expected at least 1 point in all processes, got 0: skip batches"):
        IStar(lam=1.0, zeta=0.0, across_processes=True)(torch.empty(0, D))
    return float(value.detach()), float(equal.grad.abs().max())


@pytest.fixture(scope="module")
def ranks(tmp_path_factory, forked):
    return run_ranks(steps_of_rank, tmp_path_factory.mktemp("ranks"), forked)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("name", PENALTIES)
def test_two_processes_match_penalty_and_gradient_of_one(ranks, name, split, kind):
    value, gradient = step(PENALTIES[name](True), model_of(DTYPES[kind]), *batch(DTYPES[kind]))
    gradient = torch.tensor(gradient, dtype=torch.float64)
    assert gradient.any()
    size, pull = conditions(PENALTIES[name](True), *batch(torch.float64))
    for rank in ranks:
        value_of_rank, gradient_of_rank = rank[name, split, kind]
        assert value_of_rank == pytest.approx(value, rel=0, abs=tolerance(ROUNDINGS, DTYPES[kind], size))
        atol = tolerance(ROUNDINGS, DTYPES[kind], max(pull, float(gradient.abs().max())))
        torch.testing.assert_close(torch.tensor(gradient_of_rank, dtype=torch.float64), gradient, rtol=0, atol=atol)


def test_penalties_per_process_differ_from_joint_penalty(ranks):
    value, gradient = step(PENALTIES["istar without shrinkage"](True), model_of(torch.float64), *batch(torch.float64))
    mean = sum(rank["separate"][0] for rank in ranks) / 2
    assert abs(mean - value) > 0.01 * value
    assert not torch.allclose(torch.tensor(ranks[0]["separate"][1]), torch.tensor(gradient), rtol=0.01)


def test_rows_sums_and_maxima_cover_all_processes(ranks):
    for rank in ranks:
        assert rank["functions"]["rows"] == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
        assert rank["functions"]["labels"] == [0, 1, 1]
    assert ranks[0]["functions"]["rows' gradient"] == [[3.0, 3.0], [6.0, 6.0]]
    assert ranks[1]["functions"]["rows' gradient"] == [[9.0, 9.0]]
    for rank in ranks:
        assert rank["functions"]["sum"] == [3.0, 20.0]
        assert rank["functions"]["sum's gradient"] == [3.0, 3.0]
        assert rank["functions"]["max_over_processes"] == [1.0, 1.0]
    assert [rank["degenerate"] for rank in ranks] == [(1.0, 0.0), (1.0, 0.0)]


def test_values_are_unchanged_without_process_group():
    x = torch.ones(2, 3, requires_grad=True)
    assert summed(x) is x
    assert gathered(x) is x
    assert torch.equal(max_over_processes(x), x.detach())


def run_ranks(work: Callable[[int], Any], folder: Path, context: ForkServerContext, world_size: int = 2) -> list[Any]:
    results: Queue[tuple[int, Any]] = context.Queue()
    meeting = (folder / "meeting").as_uri()
    processes = [
        context.Process(target=_rank, args=(work, rank, world_size, meeting, results), daemon=True)
        for rank in range(world_size)
    ]
    for process in processes:
        process.start()
    try:
        by_rank = {}
        for _ in processes:
            rank, value = results.get(timeout=300)
            if isinstance(value, Exception):
                raise value  # other ranks may wait for this one forever
            by_rank[rank] = value
    finally:
        for process in processes:
            process.kill()
            process.join()
    return [by_rank[rank] for rank in range(world_size)]


def _rank(
    work: Callable[[int], Any], rank: int, world_size: int, meeting: str, results: "Queue[tuple[int, Any]]"
) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=world_size)
    try:
        value = work(rank)
        distributed.destroy_process_group()
    except Exception as error:  # noqa: BLE001 (the test raises it)
        value = error
    results.put((rank, value))
