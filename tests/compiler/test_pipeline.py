"""The whole way from a graph to values: kernels used again, memory, threads, messages."""

import gc

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler import cpu_target, pipeline
from numba_grad.compiler.building import build
from numba_grad.compiler.fusion.assemblies import with_assemblies
from numba_grad.compiler.partition.flat_graph import flatten
from numba_grad.compiler.passes.simplify import simplify
from numba_grad.config import configure
from numba_grad.errors import TracingError
from numba_grad.graph.node import OPS, argument
from numba_grad.graph.types import array_type
from numba_grad.graph.walk import toposort

F8 = np.dtype(np.float64)


def all_pairs(x):
    d = x[:, None] - x[None, :]
    return ng.exp(-d * d).sum()


def stencil(x):
    p = ng.pad(x, 1)
    return ((p[2:] + p[:-2] - 2 * x) ** 2).sum()


@pytest.mark.parametrize(
    "f",
    [
        lambda x: ng.sin(x) * x,
        lambda x: (x * x).sum(),
        all_pairs,
        ng.grad(all_pairs),
        stencil,
        ng.grad(stencil),
        ng.softmax,
    ],
    ids=["sin", "sum", "pairs", "pairs_gradient", "stencil", "stencil_gradient", "softmax"],
)
def test_another_size_compiles_nothing(f, tmp_path):
    """Where the program was compiled: one from disk loads what another size needs besides then."""
    with configure(cache_directory=tmp_path):
        _check_that_another_size_compiles_nothing(f)


def _check_that_another_size_compiles_nothing(f):
    jitted = ng.jit(lambda x: f(x))
    jitted(np.linspace(0, 1, 50))
    before = build.statistics().compilations, build.statistics().loads
    for n in (17, 51, 300):
        x = np.linspace(0, 1, n)
        with configure(engine="reference"):
            expected = f(ng.tensor(x)).numpy()
        np.testing.assert_allclose(jitted(x), expected, rtol=1e-10, atol=1e-12)
    assert (build.statistics().compilations, build.statistics().loads) == before


@pytest.mark.parametrize("f", [all_pairs, ng.grad(all_pairs)], ids=["value", "gradient"])
def test_all_pairs_take_no_memory_for_pairs(f):
    n = 2000
    assert ng.jit(lambda x: f(x)).lower(np.ones(n)).peak_memory < 50 * n * 8


def pairs(x):
    while x.shape[0] > 1:
        x = x[0::2] + x[1::2]
    return x


def halves(x):
    while x.shape[0] > 1:
        half = x.shape[0] // 2
        x = x[:half] * x[half:] + x[:half]
    return x


def quarters(x):
    while x.shape[0] >= 16:
        quarter = x.shape[0] // 4
        x = x[:quarter] + x[quarter : 2 * quarter]
    return x


def squares(x):
    while x.shape[0] > 1:
        x = x[0::2] + x[1::2]
        x = x[:, 0::2] + x[:, 1::2]
    return x


@pytest.mark.parametrize(
    ("f", "shape", "kernels"),
    [
        (pairs, (1024,), 2),
        (halves, (1024,), 2),
        (quarters, (4**8,), 2),
        (squares, (64, 64), 3),
    ],
)
def test_each_part_of_a_chain_of_slices_is_written_out_for_few_places(f, shape, kernels):
    x = np.linspace(0, 1, np.prod(shape)).reshape(shape)
    lowered = ng.jit(lambda x: f(x)).lower(x)
    assert len(lowered.kernels) <= kernels
    assert max(kernel.source.count("load(") for kernel in lowered.kernels) <= 300
    np.testing.assert_allclose(ng.jit(lambda x: f(x))(x), f(x), rtol=1e-12)


def test_what_is_not_read_of_a_long_expression_is_not_computed():
    def head(x):
        for k in range(6):
            x = x * x + k
        return x[:8] * 2

    lowered = ng.jit(head).lower(np.zeros(1000))
    assert [kernel.source.count("for ") for kernel in lowered.kernels] == [0]


def test_a_scan_by_doubling_has_few_kernels_whatever_its_length():
    x = np.linspace(0, 1, 9000)
    lowered = ng.jit(np.hypot.accumulate).lower(x)
    assert len(lowered.kernels) <= 10
    assert max(kernel.source.count("\n") for kernel in lowered.kernels) <= 200
    np.testing.assert_allclose(ng.jit(np.hypot.accumulate)(x), np.hypot.accumulate(x), rtol=1e-12)


@pytest.mark.thorough
def test_a_chain_of_100_000_nodes():
    x = y = ng.tensor(np.ones(3))
    for _ in range(50_000):
        y = y * 0.5 + 1.0
    np.testing.assert_allclose(y.numpy(), 2.0)
    assert x.shape == y.shape


def test_a_jitted_step_in_a_loop_is_compiled_once():
    traced = []

    @ng.jit
    def step(x):
        traced.append(x.shape)
        return ng.tanh(x) * 1.01 + x[::-1] * 0.001

    def loop(count):
        def f(x):
            for _ in range(count):
                x = step(x)
            return x

        return ng.jit(f)

    x = np.linspace(0, 1, 40)
    few = {kernel.source for kernel in loop(5).lower(x).kernels}
    before = build.statistics().compilations
    many = {kernel.source for kernel in loop(100).lower(x).kernels}
    assert many == few
    assert len(traced) == 1
    assert build.statistics().compilations == before
    expected = x
    for _ in range(100):
        expected = np.tanh(expected) * 1.01 + expected[::-1] * 0.001
    np.testing.assert_allclose(loop(100)(x), expected, rtol=1e-12)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: ng.exp(x[:, None] - x).sum(axis=1),
        lambda x: ng.softmax(x * 2.0) @ ng.cumsum(x),
        ng.grad(stencil),
        lambda x: ng.concatenate([x, x[::-1]])[np.array([1, 2, -1])],
        lambda x: ng.linalg.solve(ng.eye(13) + ng.outer(x, x), x),
        lambda x: ng.where(x > 0.3, x, 0.0).argmax(),
    ],
    ids=["pairs", "softmax", "stencil", "concatenate", "solve", "argmax"],
)
def test_every_pass_keeps_graphs_well_formed(f):
    x = np.linspace(0, 1, 13)
    with configure(check_passes=True):
        # Another function each time: segments that are known already would skip the passes.
        found = ng.jit(lambda x: f(x + 0.125) * 3)(x)
    with configure(engine="reference"):
        expected = ng.jit(lambda x: f(x + 0.125) * 3)(x)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: ng.sin(x) * ng.exp(-x),
        lambda x: x.sum(),
        lambda x: (x * x).sum(axis=0),
        lambda x: (x * x).sum(axis=1),
        lambda x: x.T @ x,
    ],
    ids=["elementwise", "sum", "columns", "rows", "matmul"],
)
def test_bits_do_not_depend_on_the_number_of_threads(f):
    x = np.random.default_rng(3).normal(size=(611, 517))
    jitted = ng.jit(f)
    before = ng.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 4):
            ng.set_num_threads(threads)
            results.append(np.asarray(jitted(x)).tobytes())
    finally:
        ng.set_num_threads(before)
    assert results[0] == results[1] == results[2]


def test_a_fused_gather_names_the_index_that_is_out_of_bounds():
    f = ng.jit(lambda x, i: ng.sin(x[i]) * 2)
    with pytest.raises(IndexError, match=r"index 44 .* axis 0 .* size 30"):
        f(np.ones(30), np.array([1, 44, 2] * 5))
    with pytest.raises(IndexError, match=r"index -31 .* axis 0 .* size 30"):
        f(np.ones(30), np.array([1, -31, 2] * 5))
    np.testing.assert_allclose(f(np.ones(30), np.full(15, -30)), 2 * np.sin(1.0))


def test_closed_over_tensors_are_read_at_the_time_of_the_call():
    weight = ng.tensor([1.0, 2.0])
    f = ng.jit(lambda x: x * weight)
    x = np.array([1.0, 1.0])
    np.testing.assert_array_equal(f(x), [1.0, 2.0])
    weight[0] = 5.0
    np.testing.assert_array_equal(f(x), [5.0, 2.0])


def test_a_branch_on_a_value_names_what_to_use_instead():
    f = ng.jit(lambda x: x * 2 if x.sum() > 0 else x)
    with pytest.raises(TracingError, match=r"ng\.where"):
        f(np.ones(3))


def test_arrays_without_elements_are_not_read():
    x, nothing = argument(array_type((3, 40), F8)), argument(array_type((0, 40), F8))
    no_rows = {"starts": (1, 0), "steps": (1, 1)}
    one_above = {"low": (1, 0), "high": (0, 0), "interior": (0, 0)}
    outputs = [
        OPS["concatenate"](x, nothing, x, axis=0),
        OPS["concatenate"](nothing, x, axis=0),
        OPS["update_slice"](x, nothing, **no_rows),
        OPS["add_slice"](x, nothing, **no_rows),
        OPS["pad"](nothing, **one_above),
    ]
    simplified = simplify(outputs)
    assert [node.type for node in simplified] == [node.type for node in outputs]
    assert nothing not in toposort(simplified)
    assert simplified[1:4] == [x, x, x]


def test_no_cycles_are_collected_while_a_graph_is_lowered(monkeypatch):
    """From the first pass on: each collection would look at every node."""
    enabled = []

    def noting(graph):
        enabled.append(gc.isenabled())
        return with_assemblies(graph)

    monkeypatch.setattr(pipeline, "with_assemblies", noting)
    pipeline.lowered(
        flatten([(ng.tensor(np.ones(3)) * 2.0)._node]), cpu_target.TARGET, is_run=False
    )
    assert enabled == [False]
    assert gc.isenabled()


@pytest.mark.thorough
def test_long_sums_whose_terms_are_all_in_memory_are_cut():
    a, x = np.linspace(0, 1, 110 * 110 * 2).reshape(2, 110, 110)

    def loss(a):
        y = x
        for _ in range(20):
            y = np.tanh(np.sin(y * a) * np.exp(-y * y)) + 0.5 * y
        return (y * y).sum()

    direction = np.cos(np.arange(110.0))
    gradient = ng.jit(ng.grad(loss))(a)
    _, slope = ng.jvp(loss, (a,), (np.broadcast_to(direction, a.shape).copy(),))
    np.testing.assert_allclose((gradient @ direction).sum(), slope, rtol=1e-10)


def test_what_a_segment_passes_on_from_outside_is_read_where_it_begins():
    """Gradients start with 1 times `a[1]`, which is a part of an argument; two segments read it."""

    def energy(x, a):
        return a[0] * x[0] ** 2 + a[1] * np.sum(x**3)

    def descended(x, a):
        for _ in range(8):
            x = x - 0.05 * ng.grad(energy)(x, a)
        return (x * x).sum()

    gradient = ng.grad(descended, argnums=(0, 1))
    x, a = np.array([0.3, -0.2]), np.array([0.5, 1.0])
    with configure(engine="reference"):
        expected = gradient(x, a)
    for actual, wanted in zip(ng.jit(gradient)(x, a), expected, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-12)


def test_copies_of_any_shape_are_one_kernel():
    def f(x, y):
        return ng.reshape(x, (2, 6)), ng.reshape(y, (15,)), ng.reshape(x[5], (1,))

    x, y = np.arange(12.0), np.arange(15.0).reshape(3, 5)
    jitted = ng.jit(f)
    assert len(jitted.lower(x, y).kernels) == 1
    for found, expected in zip(jitted(x, y), f(x, y), strict=True):
        assert found.tolist() == expected.tolist()
