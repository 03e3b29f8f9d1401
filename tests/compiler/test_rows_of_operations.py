"""Operations of many elements run row by row, in vector code, with the bits of single elements."""

import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler import evaluate
from numba_grad.compiler.building import build
from numba_grad.compiler.first_tier import plans, recipes
from numba_grad.compiler.operation_kernels import elementwise_row_text
from numba_grad.compiler.partition.flat_graph import flatten
from numba_grad.compiler.scalar_expressions import parsed
from numba_grad.config import configure
from numba_grad.errors import DTypeError
from numba_grad.graph.node import OPS, Node, leaf
from numba_grad.ops import all_ops
from tests.processes import run_python

DTYPES = ["float64", "float32", "float16", "complex128", "complex64", "int64", "uint8", "bool"]
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 1e-310, 1e300]
# With params, or of given dtypes and shapes.
OF_THEIR_OWN = {
    "cast",
    "integer_power",
    "half_integer_power",
    "philox",
    "gamma_path",
    "integer_zeta",
    "lambertw_branch",
}
ELEMENTWISE = [
    name
    for name, op in sorted(all_ops().items())
    if op.family == "elementwise" and name not in OF_THEIR_OWN
]


@pytest.fixture(autouse=True)
def _native_engine() -> Iterator[None]:
    with configure(engine="native"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    kind = np.dtype(dtype).kind
    if kind in "iub":
        return rng.integers(0, 2 if kind == "b" else 9, shape).astype(dtype)
    x = rng.normal(size=shape) * np.exp(3 * rng.normal(size=shape))
    x = np.where(rng.random(shape) < 0.2, rng.choice(SPECIAL, shape), x)
    return (x + 1j * rng.normal(size=shape) if kind == "c" else x).astype(dtype)


def values(out: Node, elements_worth_rows: int, monkeypatch: Any) -> tuple[np.ndarray, list[str]]:
    """What a node is, and the kernels that compute it."""
    monkeypatch.setattr(recipes, "_ELEMENTS_WORTH_ROWS", elements_worth_rows)
    graph = flatten([out])
    program = plans.lowered(graph)
    [value] = evaluate.runner(program, "cpu")(*[graph.nodes[k].value for k in graph.inputs])
    return value, list(program.kernels)


def assert_same_bits(out: Node, monkeypatch: Any) -> list[str]:
    """The kernels of rows that were run."""
    expected, single = values(out, 1 << 60, monkeypatch)
    found, kernels = values(out, 1, monkeypatch)
    assert not any("in_vectors" in source for source in single)
    expected, found = np.atleast_1d(expected), np.atleast_1d(found)
    is_nan = (expected != expected) & (found != found)  # of which nobody promises the sign
    expected[is_nan] = found[is_nan] = 0
    assert found.tobytes() == expected.tobytes()
    return [source for source in kernels if "in_vectors" in source]


def operands(name: str, dtype: str, seed: int) -> list[Node]:
    """Arrays, one of them a view with rows farther apart, and one that is broadcast."""
    rng = np.random.default_rng(seed)
    count = len(OPS[name].input_names)
    found = []
    for k in range(count):
        own = "bool" if name == "where" and k == 0 else dtype
        shape = (5, 1) if seed == 1 and k == count - 1 and count > 1 else (5, 37)
        x = leaf(drawn(rng, (shape[0], shape[1] + 3), own))
        x = OPS["slice"](x, starts=(0, 2), sizes=shape, steps=(1, 1))
        found.append(x if k else leaf(drawn(rng, (5, 37), own)))
    return found


@pytest.mark.thorough(every=8)
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_every_elementwise_operation(name, monkeypatch):
    count = 0
    for dtype in DTYPES:
        for seed in range(2):
            try:
                out = OPS[name](*operands(name, dtype, seed))
            except DTypeError:
                continue
            if name == "power" and out.dtype.kind == "i":
                continue  # its kernel tells of negative exponents
            count += bool(assert_same_bits(out, monkeypatch))
    assert count


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("dtype", DTYPES)
def test_casts_and_powers(dtype, monkeypatch):
    for result in DTYPES:
        if np.dtype(dtype).kind == "c" and np.dtype(result).kind != "c":
            continue
        [x] = operands("negative", dtype, 0)
        if dtype.startswith("f") and np.dtype(result).kind in "iu":
            x = leaf(np.nan_to_num(x.value, posinf=1, neginf=1) % 7)  # else what C leaves open
        assert assert_same_bits(OPS["cast"](x, dtype=np.dtype(result)), monkeypatch) or (
            dtype == result
        )
    if dtype != "bool":
        [x] = operands("negative", dtype, 1)
        assert assert_same_bits(OPS["integer_power"](x, exponent=3), monkeypatch)


def reduced(rng: np.random.Generator, dtype: str) -> Any:
    shape = tuple(rng.integers(1, 20, rng.integers(2, 4)).tolist())
    x = ng.tensor(drawn(rng, shape, dtype))
    if rng.random() < 0.4:
        x = ng.transpose(x, tuple(rng.permutation(len(shape)).tolist()))
    axes = tuple(np.flatnonzero(rng.random(len(shape)) < 0.5).tolist()) or (0,)
    name = rng.choice(["sum", "prod", "max", "min", "any", "all"])
    return getattr(np, str(name))(x, axis=axes)


def multiplied(rng: np.random.Generator, dtype: str) -> Any:
    m, k, n = rng.integers(1, 24, 3).tolist()
    x = ng.tensor(drawn(rng, (3, m, k), dtype))
    y = ng.tensor(drawn(rng, (n, k), dtype)).T if rng.random() < 0.3 else None
    return x @ (ng.tensor(drawn(rng, (k, n), dtype)) if y is None else y)


def moved(rng: np.random.Generator, dtype: str) -> Any:
    x = np.pad(np.roll(ng.tensor(drawn(rng, (5, 30), dtype)), 2, axis=int(rng.integers(2))), 1)
    x = np.concatenate([x, x[::-1], x[:, ::-1]], axis=-1)
    y = ng.zeros(x.shape, dtype)
    y[1:, 2:] = x[:-1, 2:]
    return np.where(y == x, y, x[::-1])


@pytest.mark.thorough(every=5)
@pytest.mark.parametrize("program", [reduced, multiplied, moved])
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_made_of_many(program, dtype, monkeypatch):
    kernels = []
    for seed in range(12):
        out = program(np.random.default_rng(seed), dtype)
        kernels += assert_same_bits(out._node, monkeypatch)
    assert kernels or (dtype == "bool" and program is multiplied)  # a segment of its own


def test_rows_are_vectors():
    float64, float32 = np.dtype("float64"), np.dtype("float32")
    both = ("x", "y"), (float64, float64), float64
    for text in ("{x} + {y}", "maximum({x}, {y})", "select({x} < {y}, {x}, {y})", "exp({x})"):
        source = elementwise_row_text(parsed(text), *both, (True, False))
        [kernel] = build.build_requests([build.KernelRequest(source, is_quick=True)])
        assert re.search(r"<\d+ x double>", kernel.llvm)
    # What no vector code is written for is a loop.
    to_float64 = elementwise_row_text(
        parsed("cast({x}, {dtype})"), ("x",), (float32,), float64, (True,)
    )
    no_cast = elementwise_row_text(
        parsed("cast({x}, {dtype})"), ("x",), (float64,), float64, (True,)
    )
    for source in (to_float64, no_cast):
        [kernel] = build.build_requests([build.KernelRequest(source, is_quick=True)])
        assert not re.search(r"<\d+ x double>", kernel.llvm)


def test_few_elements_have_no_kernels_of_rows():
    x = ng.tensor(np.ones((64, 64)))
    once = plans.lowered(flatten([(x * x + x)._node]))
    assert not any("in_vectors" in source for source in once.kernels)
    y = x
    for _ in range(64):
        y = y * x
    often = plans.lowered(flatten([(y + x)._node]))
    assert sum("in_vectors" in source for source in often.kernels) == 1  # the products'
    z = x
    for _ in range(32):  # of more work each
        z = np.exp(z)
    costly = plans.lowered(flatten([z._node]))
    assert sum("in_vectors" in source for source in costly.kernels) == 1


IMPORTS = """
import sys, numpy as np, numba_grad as ng
x = u = ng.tensor(np.ones((64, 64)), requires_grad=True)
for _ in range(60):
    u = u + 0.1 * (np.roll(u, 1, 0) - 2 * u + np.roll(u, -1, 1))
np.sum(u * u).backward()
x.grad.numpy()
print("numpy.ma" in sys.modules)
"""


@pytest.mark.thorough
def test_a_larger_graph_imports_no_masked_arrays():
    assert run_python(IMPORTS, NUMBA_GRAD_ENGINE="native").strip() == "False"
