"""Growth of the resident memory while each workload, small, runs ten thousand times."""

import importlib
import time
from collections.abc import Callable
from typing import NamedTuple

from perf.goals import AtMost
from perf.implementations import Prepared
from perf.process import resident_megabytes


class Size(NamedTuple):
    runs: int


TITLE = "Growth of the resident memory over many runs of a workload"
SIZES = {"small": Size(runs=10_000)}
REPEATS = 1
LIMIT = 400.0
WORKLOADS = (
    "rosenbrock",
    "lennard_jones",
    "gaussian_mixture",
    "mlp",
    "softmax_rows",
    "lstm",
    "lotka_volterra",
    "wave_inversion",
    "heat_adjoint",
    "jacobi",
    "bundle_adjustment",
)


def growth(workload: str) -> Callable[[Size], Prepared]:
    """A tenth of the runs comes first: allocators and pools have what they want by then."""

    def prepare(size: Size) -> Prepared:
        module = importlib.import_module(f"perf.workloads.{workload}")
        prepared: Prepared = module.IMPLEMENTATIONS["numba_grad"](module.SIZES["small"])
        for _ in range(size.runs // 10):
            prepared.run()
        before = resident_megabytes()
        start = time.perf_counter()
        for _ in range(size.runs):
            prepared.run()
        seconds = time.perf_counter() - start
        figures = {"MB": resident_megabytes() - before}
        return Prepared(
            lambda: seconds, None, lambda: figures, operations=size.runs, is_own_clock=True
        )

    return prepare


IMPLEMENTATIONS = {f"numba_grad, {name}": growth(name) for name in WORKLOADS}
GOALS = [AtMost(1.0, figure="MB", implementation=name) for name in IMPLEMENTATIONS]
