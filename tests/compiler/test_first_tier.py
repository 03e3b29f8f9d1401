"""Small graphs run operation by operation, on kernels that all programs share."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler import evaluate, programs
from numba_grad.compiler.building import build
from numba_grad.compiler.first_tier import plans
from numba_grad.compiler.partition.flat_graph import flatten
from numba_grad.compiler.reference_engine import evaluate_with_numpy
from numba_grad.config import configure
from numba_grad.graph.node import OPS, Node, leaf
from numba_grad.graph.types import TupleType
from numba_grad.ops import all_ops
from tests.counting import found_by
from tests.processes import run_python

pytestmark = pytest.mark.usefixtures("native_engine")


def on_first_tier(out: Node) -> np.ndarray:
    graph = flatten([out])
    assert programs.is_small(graph)
    program = plans.lowered(graph)
    run = evaluate.runner(program, "cpu")
    [value] = run(*[graph.nodes[k].value for k in graph.inputs])
    return value.reshape(out.shape)


def assert_as_reference(out: Node) -> None:
    expected = evaluate_with_numpy([out])[0]
    precision = 1e-10 if np.finfo(expected.dtype).eps < 1e-9 else 1e-5
    np.testing.assert_allclose(on_first_tier(out), expected, rtol=precision, atol=1e-12)


def examples() -> list[Any]:
    return [
        pytest.param(op, id=name)
        for name, op in all_ops().items()
        if op.example is not None and op.reference is not None
    ]


@pytest.mark.parametrize("op", examples())
def test_every_operation_agrees_with_numpy(op):
    for arrays, params in op.example(np.random.default_rng(0)):
        out = op(*[leaf(np.array(array, order="C")) for array in arrays], **params)
        if isinstance(out.type, TupleType):
            continue
        expected = evaluate_with_numpy([out])[0]
        if expected.dtype.kind in "fc":
            assert_as_reference(out)
        else:
            np.testing.assert_array_equal(on_first_tier(out), expected)


def movements(rng: np.random.Generator, x: ng.Tensor) -> ng.Tensor:
    """One movement that fits `x`, drawn at random."""
    kind = rng.integers(7)
    if kind == 0:
        return x[tuple(slice(int(rng.integers(2)), None, int(rng.integers(1, 3))) for _ in x.shape)]
    if kind == 1:
        return ng.transpose(x, tuple(rng.permutation(x.ndim).tolist()))
    if kind == 2:
        return ng.flip(x, int(rng.integers(x.ndim)))
    if kind == 3:
        return ng.broadcast_to(x[None], (2, *x.shape))
    if kind == 4:
        return ng.reshape(x, (-1, x.shape[-1]))
    if kind == 5:
        return ng.reshape(x, (x.shape[0], 1, -1))
    return ng.pad(x, 1) if x.ndim < 3 else ng.concatenate([x, 2 * x], axis=1)


def moved(seed: int) -> tuple[ng.Tensor, ng.Tensor]:
    rng = np.random.default_rng(seed)
    x = ng.tensor(rng.normal(size=(4, 3, 5)), requires_grad=True)
    y = x
    for _ in range(4):
        y = movements(rng, y)
        if y.ndim > 4 or y.size > 1000:
            y = ng.sum(y, 0)
    (g,) = ng.autograd.grad(ng.sum(y * y * y), x, retain_graph=True)
    return y, g


@pytest.mark.parametrize("seed", range(25))
def test_movements_on_movements_agree_with_numpy(seed):
    results = [value.detach().numpy() for value in moved(seed)]
    with configure(engine="reference"):
        for result, expected in zip(results, moved(seed), strict=True):
            np.testing.assert_allclose(result, expected.detach().numpy(), rtol=1e-12, atol=1e-14)


def network(x: Any, w: Any) -> Any:
    hidden = np.tanh(x @ w + w[0])
    return np.mean((hidden @ w - x) ** 2)


def picked(x: Any, w: Any) -> Any:
    return np.sum(x[np.array([0, 2, 2, -1])] * w[0]) + np.sum(np.sort(x, 0)[1] * w[1])


def solved(x: Any, w: Any) -> Any:
    return np.sum(np.linalg.solve(w @ w.T + 5 * np.eye(5), x.T) ** 2)


def filled(x: Any, w: Any) -> Any:
    buffer = ng.zeros((6, 5))
    for i in range(6):
        buffer[i] = x[i] * w[i % 5]
    return np.sum(np.cumsum(buffer, 0) ** 2)


def argument_of_largest(x: Any, w: Any) -> Any:
    return np.sum(np.where(np.argmax(x, 1)[:, None] == np.arange(5), x, w[0]))


PROGRAMS: list[Callable[[Any, Any], Any]] = [
    network,
    picked,
    solved,
    filled,
    argument_of_largest,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients_agree_with_fused_ones(program):
    rng = np.random.default_rng(3)
    x, w = rng.normal(size=(6, 5)), rng.normal(size=(5, 5))
    value, gradients = ng.value_and_grad(program, (0, 1))(x, w)
    with configure(engine="fused"):
        fused, fused_gradients = ng.value_and_grad(program, (0, 1))(x, w)
        np.testing.assert_allclose(value.numpy(), fused.numpy(), rtol=1e-12)
        for g, expected in zip(gradients, fused_gradients, strict=True):
            np.testing.assert_allclose(g.numpy(), expected.numpy(), rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64", "complex128", "int32"])
def test_products_sums_and_casts_in_every_precision(dtype):
    rng = np.random.default_rng(1)
    x = (rng.normal(size=(3, 4, 5)) * 3).astype(dtype)
    y = (rng.normal(size=(5, 2)) * 3).astype(dtype)
    out = ng.sum(ng.tensor(x) @ ng.tensor(y), axis=1)
    expected = np.sum(x @ y, axis=1)
    tolerance = 1e-2 if dtype == "float16" else 1e-5
    assert out.dtype == expected.dtype
    np.testing.assert_allclose(out.numpy(), expected, rtol=tolerance, atol=tolerance)


def test_elementary_functions_give_the_bits_of_vector_code():
    x = np.random.default_rng(2).uniform(0.01, 0.99, 200)
    for name in ("sin", "cos", "tan", "exp", "expm1", "log", "log1p", "tanh", "arcsin", "arctan"):
        one_by_one = getattr(ng, name)(ng.tensor(x)).numpy()
        with configure(engine="fused"):
            np.testing.assert_array_equal(getattr(ng, name)(ng.tensor(x)).numpy(), one_by_one)


def test_empty_and_0d_arrays():
    x = ng.tensor(np.zeros((0, 3)))
    assert ng.sum(ng.exp(x) * 2, axis=1).numpy().shape == (0,)
    np.testing.assert_array_equal(ng.sum(x, axis=0).numpy(), np.zeros(3))
    assert float(ng.prod(x)) == 1.0
    np.testing.assert_array_equal(ng.concatenate([x, x + 1]).numpy().shape, (0, 3))
    assert float(ng.sin(ng.tensor(0.5)) + 1) == np.sin(0.5) + 1


def test_the_position_in_an_axis_of_one_integer_is_0():
    """Its dtype is that of the elements, which are not it."""
    for x in (np.array([5]), np.array([[5], [-6]]), np.array([[[-4, 7]]])):
        for name in ("argmax", "argmin"):
            for axis in range(x.ndim):
                out = OPS[name](leaf(x), axis=axis)
                np.testing.assert_array_equal(on_first_tier(out), evaluate_with_numpy([out])[0])


def test_results_are_arrays_of_their_own():
    x = ng.tensor(np.arange(6.0).reshape(2, 3))
    y = (x + 0).mT
    z = ng.broadcast_to(x[0] + 0, (2, 3))
    for value in (y.numpy(), z.numpy()):
        assert value.flags.c_contiguous
        assert not np.shares_memory(value, x.numpy())


def test_mistakes_in_indices_and_matrices_are_found():
    x = ng.tensor(np.ones((3, 3)))
    with pytest.raises(IndexError, match="7"):
        x[ng.tensor(np.array([0, 7]))].numpy()
    with pytest.raises(np.linalg.LinAlgError):
        ng.linalg.solve(x, np.ones(3)).numpy()
    with pytest.raises(ValueError, match="exponent : -2"):
        (2 ** ng.tensor([1, -2])).numpy()


def loss(x: ng.Tensor, factor: float) -> ng.Tensor:
    return ng.sum(ng.sin(x) * factor)


def test_a_graph_that_comes_again_and_again_is_fused(monkeypatch):
    fused = []
    compile_flat = evaluate.compile_flat
    monkeypatch.setattr(
        evaluate, "compile_flat", lambda *args: fused.append(args) or compile_flat(*args)
    )
    x = ng.tensor(np.linspace(0, 1, 11 * programs.FEW_ELEMENTS))
    results = [float(loss(x, 0.5 + k)) for k in range(programs.RUNS + 4)]
    assert len(fused) == 1
    expected = [np.sum(np.sin(x.numpy())) * (0.5 + k) for k in range(len(results))]
    np.testing.assert_allclose(results, expected, rtol=1e-14)


def test_fusing_waits_where_it_saves_nothing():
    """Of operations on few elements recording takes nearly all the time."""

    def runs(x):
        return programs.first_tier_runs(flatten([ng.sum(ng.sin(x) * 2.0)._node]))

    few, many = ng.tensor(np.ones(11)), ng.tensor(np.ones(11 * programs.FEW_ELEMENTS))
    assert runs(few) == programs.RUNS_OF_FEW_ELEMENTS > programs.RUNS == runs(many)
    # A sum or a product has one result, and takes as long as what it reads.
    assert programs.first_tier_runs(flatten([ng.sum(many)._node])) == programs.RUNS
    row = ng.tensor(np.ones((1, 1000)))
    assert programs.first_tier_runs(flatten([(row @ ng.ones((1000, 1)))._node])) == programs.RUNS


def test_what_is_large_or_long_is_fused_at_once():
    x = ng.tensor(np.ones(programs.MOST_ELEMENTS_AT_FIRST + 1))
    assert not programs.is_small(flatten([(x + 1)._node]))
    # A sum of more than some would be less exact.
    y = ng.tensor(np.ones(programs.MOST_ELEMENTS + 1))
    assert programs.is_small(flatten([(y + 1)._node]))
    assert not programs.is_small(flatten([y.sum()._node]))
    a = ng.tensor(np.ones((100, 100)))
    assert not programs.is_small(flatten([(a @ a)._node]))
    # However large the matrices are, what is summed counts: one product here, five below.
    column, row = ng.tensor(np.ones((400, 1))), ng.tensor(np.ones((1, 10)))
    assert programs.is_small(flatten([(column @ row)._node]))
    signal, filtering = ng.tensor(np.ones(2000)), ng.tensor(np.ones(5))
    assert programs.is_small(flatten([np.convolve(signal, filtering, "same")._node]))
    node = ng.tensor(1.0)._node
    for _ in range(programs.MOST_NODES):  # as tensors, they would be computed from time to time
        node = OPS["multiply"](node, node)
    assert not programs.is_small(flatten([node]))


def elementwise_sweeps(u: Node, sweeps: int) -> Node:
    """Averages of neighbours in place, element by element: each is an operation of its own."""
    for _ in range(sweeps):
        for i in range(1, u.shape[0] - 1):
            left, right = (
                OPS["slice"](u, starts=(k,), sizes=(1,), steps=(1,)) for k in (i - 1, i + 1)
            )
            u = OPS["update_slice"](u, OPS["add"](left, right), starts=(i,), steps=(1,))
    return u


def test_what_is_long_and_not_alike_is_no_more_to_be_fused_at_once(monkeypatch):
    monkeypatch.setattr(programs, "MOST_NODES", 400)
    u = ng.tensor(np.linspace(1, 2, 62))._node
    graph = flatten([elementwise_sweeps(u, 2)])
    assert len(graph.nodes) > 400
    assert programs.is_small(graph)
    assert programs.RUNS < programs.first_tier_runs(graph) <= programs.RUNS_OF_FEW_ELEMENTS
    monkeypatch.setattr(programs, "MOST_BYTES_AT_FIRST", 100)
    assert not programs.is_small(graph)


def test_larger_graphs_are_run_by_operations_for_as_long_as_it_takes_to_fuse_them():
    def runs(side, steps):
        u = ng.tensor(np.ones((side, side)))._node
        for k in range(steps):
            for _ in range(2):
                before = OPS["slice"](u, starts=(0, 0), sizes=(side, side), steps=(1, 1))
                u = OPS["add"](OPS["sin"](before), OPS["multiply"](u, OPS["cos"](u)))
            u = OPS["multiply"](u, ng.tensor(1.0 + k)._node)
        graph = flatten([u])
        return programs.first_tier_runs(graph) if programs.is_small(graph) else 0

    assert runs(16, 20) == programs.RUNS
    assert programs.FEWEST_RUNS <= runs(64, 60) < programs.RUNS
    assert runs(64, 60) > runs(64, 120) >= 0  # as long to fuse, and twice as long to run
    assert runs(120, 1000) == 0


def test_steps_that_nobody_remembers_are_fused(monkeypatch):
    u = ng.tensor(np.ones((20, 20)))._node
    for _ in range(300):
        u = OPS["multiply"](OPS["sin"](u), OPS["add"](u, u))
    graph = flatten([u])
    assert programs.is_small(graph)
    assert not programs.is_small_each_time(graph)
    monkeypatch.setattr(programs, "MOST_NODES", 400)
    v = ng.tensor(np.linspace(1, 2, 62))._node
    assert programs.is_small_each_time(flatten([elementwise_sweeps(v, 2)]))


def test_what_goes_back_through_steps_is_alike():
    held = [ng.tensor(np.ones(3))._node]
    for _ in range(1000):
        held.append(OPS["sin"](OPS["multiply"](held[-1], held[-1])))
    slope = held[-1]
    for node in reversed(held):  # as a backward pass does
        slope = OPS["multiply"](slope, OPS["cos"](node))
    assert programs._count_unlike(flatten([slope])) <= programs._FAR


def test_what_is_too_long_to_be_kept_runs_operation_by_operation_as_well(monkeypatch):
    monkeypatch.setattr(programs, "MOST_NODES", 100)
    monkeypatch.setattr(evaluate, "_LONGEST_KEPT", 100)
    monkeypatch.setattr(evaluate, "compile_flat", lambda *_: pytest.fail("fused"))
    u = elementwise_sweeps(ng.tensor(np.linspace(1, 2, 42))._node, 1)
    expected = evaluate_with_numpy([u])[0]
    for _ in range(2):
        again = elementwise_sweeps(ng.tensor(np.linspace(1, 2, 42))._node, 1)
        evaluate.evaluate([again])
        np.testing.assert_array_equal(again.value, expected)


def test_another_program_of_the_same_operations_compiles_nothing():
    x = ng.tensor(np.ones((3, 4)), requires_grad=True)
    first = ng.sum(ng.exp(x) * x[0] - x)
    first.backward()
    first.item()
    before = build.statistics().compilations
    y = ng.tensor(np.ones((5, 2)), requires_grad=True)
    second = ng.sum(ng.exp(y - ng.exp(y)) * y[1])
    second.backward()
    y.grad.numpy()
    assert build.statistics().compilations == before


@pytest.mark.parametrize("function", [np.linalg.inv, np.linalg.cholesky, np.linalg.det])
def test_kernels_of_linear_algebra_are_the_same_for_few_products(function):
    """Of a fused graph those of few products are others, compiled without LLVM's passes."""

    def sources(n: int) -> set[str]:
        return set(plans.lowered(flatten([function(ng.tensor(np.eye(n) + 0.1))._node])).kernels)

    assert sources(6) == sources(14)


BITS = """
import numpy as np, numba_grad as ng
x = np.random.default_rng(0).normal(size=(7, 5))
f = lambda x: np.sum(np.tanh(x @ x.T) * np.exp(-x[:, :1])) / np.var(x)
value, gradient = ng.value_and_grad(f)(x)
print(value.numpy().tobytes().hex(), gradient.numpy().tobytes().hex())
"""


def test_the_bits_are_the_same_cold_and_warm(tmp_path):
    environment = {"NUMBA_GRAD_CACHE_DIR": tmp_path / "cache", "NUMBA_GRAD_ENGINE": "native"}
    (tmp_path / "cache").mkdir(mode=0o700)
    outputs = [run_python(BITS, **environment) for _ in range(2)]
    assert outputs[0] == outputs[1] != ""


def test_loops_one_after_the_other_have_the_same_memory(monkeypatch):
    """The derivative of one whose number of steps is not known has 40 MiB for its states."""
    arenas = found_by(monkeypatch, evaluate, "compile_small", lambda made: [made.plan.arena_bytes])

    def most_bytes(count):
        def f(x):
            for _ in range(count):
                x = ng.while_loop(lambda s: s[0] < 1.0, lambda s: s * 1.1, x) * 0.5
            return x.sum()

        arenas.clear()
        ng.grad(f)(np.array([0.5, 0.7])).numpy()
        return max(arenas)

    assert 0 < most_bytes(12) < 2 * most_bytes(2)
