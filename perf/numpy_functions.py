"""Functions that NumPy does faster, beside NumPy: the last bullets of "Known gaps" in
`docs/performance.md`.

    python perf/numpy_functions.py [--elements 1000000] [--rounds 9]

Milliseconds, medians of rounds in which both take turns, of values in memory to a result in memory;
compiled before. Results are compared first.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numba_grad as ng


class Case(NamedTuple):
    name: str
    ours: Callable[[], np.ndarray]
    numpys: Callable[[], np.ndarray]
    compared: Callable[[np.ndarray], np.ndarray] = np.asarray  # what is the same of both results


def cases(size: int) -> list[Case]:
    """For so many elements, or nearly as many."""
    generator = np.random.default_rng(0)
    x, v = generator.normal(size=(2, size))
    square = x[: int(size**0.5) ** 2].reshape(int(size**0.5), -1)
    places = generator.integers(0, size, size)
    few = np.sort(generator.choice(size, size // 1000, replace=False))
    many = np.arange(0, size, 10)
    tx, tv, ts, key = ng.tensor(x), ng.tensor(v), ng.tensor(square), ng.random.key(0)

    def written(array: Any, values: Any) -> Any:
        result = array * 1.0
        np.maximum.at(result, places, values)
        return result

    return [
        Case("cummax", lambda: ng.cummax(tx, 0).numpy(), lambda: np.maximum.accumulate(x)),
        Case(
            "cummax along the first axis",
            lambda: ng.cummax(ts, 0).numpy(),
            lambda: np.maximum.accumulate(square, 0),
        ),
        Case(
            "permutation",
            lambda: ng.random.permutation(key, size).numpy(),
            lambda: generator.permutation(size),
            np.sort,
        ),
        Case(
            "pad by the mean",
            lambda: np.pad(ts, 1, "mean").numpy(),
            lambda: np.pad(square, 1, "mean"),
        ),
        Case("maximum.at", lambda: written(tx, tv).numpy(), lambda: written(x, v)),
        Case(
            "add.reduceat, segments of some 1,000",
            lambda: np.add.reduceat(tx, few).numpy(),
            lambda: np.add.reduceat(x, few),
        ),
        Case(
            "add.reduceat, segments of 10",
            lambda: np.add.reduceat(tx, many).numpy(),
            lambda: np.add.reduceat(x, many),
        ),
    ]


def milliseconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return 1e3 * (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--elements", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    sys.stdout.write(f"{'milliseconds':<38} {'ours':>8} {'NumPy':>8}\n")
    for name, ours, numpys, compared in cases(options.elements):
        np.testing.assert_allclose(
            compared(ours()), compared(numpys()), rtol=1e-9, atol=1e-9, strict=True, err_msg=name
        )
        rounds = [(milliseconds(ours), milliseconds(numpys)) for _ in range(options.rounds)]
        own, other = map(statistics.median, zip(*rounds, strict=True))
        sys.stdout.write(f"{name:<38} {own:>8.2f} {other:>8.2f}\n")


if __name__ == "__main__":
    main()
