"""Results of one kernel that are outputs of one program share an allocation, and nothing else."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import numba_grad as ng
from numba_grad.compiler import plan_cache
from numba_grad.compiler.partition import joint_outputs
from tests.processes import run_python


def powers(x, square, cube):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            square[i, j] = x[i, j] ** 2
            cube[i, j] = x[i, j] ** 3


powers_of = ng.differentiable(powers)


def given(n):
    x = np.random.default_rng(0).normal(size=(n, n))
    return x, np.zeros((n, n)), np.zeros((n, n))


@pytest.fixture
def joined(monkeypatch):
    """The outputs that were joined, by program."""
    found = []
    inner = joint_outputs.joint_outputs

    def noting(graph):
        result = inner(graph)
        found.append([len(joint.places) for joint in result.values()])
        return result

    monkeypatch.setattr("numba_grad.compiler.pipeline.joint_outputs", noting)
    monkeypatch.setattr(plan_cache, "read", lambda key, stored: None)
    return found


@pytest.mark.parametrize("n", [3, 63, 64, 150])
def test_results_are_arrays_of_their_own(n, joined):
    x, *others = given(n)
    square, cube = map(np.asarray, ng.jit(lambda *a: powers_of(*a))(x, *others))
    assert joined == [[2] if n > 60 else []]
    assert_array_equal(square, x**2)
    np.testing.assert_allclose(cube, x**3, rtol=1e-15)
    assert square.flags.c_contiguous and square.flags.writeable and square.flags.aligned
    assert not np.shares_memory(square, cube)
    expected = cube.copy()
    square[...] = -1.0
    assert_array_equal(cube, expected)
    again, _ = ng.jit(lambda *a: powers_of(*a))(x, *others)
    assert_array_equal(again, x**2)


def test_a_result_that_is_read_further_is_an_output_too(joined):
    x, *others = given(90)

    def results(x, *others):
        square, cube = powers_of(x, *others)
        return cube, np.sum(square) + np.sum(cube), square, square.reshape(-1), x + cube

    cube, total, square, flat, moved = ng.jit(results)(x, *others)
    assert joined == [[2]]
    np.testing.assert_allclose(total, np.sum(x**2) + np.sum(x**3))
    assert_array_equal(flat, (x**2).ravel())
    assert_array_equal(moved, x + np.asarray(cube))
    values = [np.asarray(v) for v in (cube, square, flat, moved)]
    for k, a in enumerate(values):
        assert not any(np.shares_memory(a, b) for b in values[:k])


def test_what_is_left_out_of_the_outputs_decides(joined):
    """Nothing is joined where the first result is no output: the array would begin elsewhere."""
    x, *others = given(90)
    cube = ng.jit(lambda *a: powers_of(*a)[1])(x, *others)
    assert joined == [[]]
    np.testing.assert_allclose(cube, x**3, rtol=1e-15)


def scaled(x, y):
    out = np.empty_like(x)
    for i in range(x.shape[0]):
        out[i] = x[i] * y[i] + np.sin(x[i])
    return out


@pytest.mark.parametrize("of", [ng.grad, ng.value_and_grad])
def test_gradients_of_one_kernel_are_joined(of, joined):
    """Also where they are items of what the rule of the function gave."""
    x, y = np.random.default_rng(2).normal(size=(2, 9000))
    f = ng.differentiable(scaled)
    found = ng.jit(of(lambda x, y: np.sum(f(x, y)), argnums=(0, 1)))(x, y)
    x_bar, y_bar = map(np.asarray, found if of is ng.grad else found[1])
    assert joined == [[2]]
    np.testing.assert_allclose(x_bar, y + np.cos(x), rtol=1e-14, atol=1e-15)
    assert_array_equal(y_bar, x)
    assert not np.shares_memory(x_bar, y_bar)


def test_gradients_and_loops():
    x, a, b = given(80)
    weights = np.random.default_rng(1).normal(size=x.shape)

    def loss(x, a, b):
        square, cube = powers_of(x + np.sin(x), a, b)
        return np.sum(square * weights) + np.sum(cube)

    found = ng.jit(ng.grad(loss, argnums=(0, 1, 2)))(x, a, b)
    y = x + np.sin(x)
    slope = 2 * y * weights + 3 * y**2
    np.testing.assert_allclose(found[0], slope * (1 + np.cos(x)), rtol=1e-11, atol=1e-11)
    assert_array_equal(found[1], 0 * x)
    assert_array_equal(found[2], 0 * x)
    states = ng.jit(
        lambda x: ng.fori_loop(0, 3, lambda k, s: powers_of(0.1 * (s[0] + s[1]), a, b), (x, x))
    )(x)
    s = (x, x)
    for _ in range(3):
        y = 0.1 * (s[0] + s[1])
        s = (y**2, y**3)
    for result, expected in zip(states, s, strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-300)


PROGRAM = """
import numpy as np
import numba_grad as ng

def both(x, y):
    for i in range(x.shape[0]):
        y[i] = 2.0 * x[i]
        x[i] += 1.0

x, y = np.arange(9000.0), np.zeros(9000)
more, twice = ng.jit(lambda x, y: ng.differentiable(both)(x, y))(x, y)
assert np.array_equal(more, x + 1) and np.array_equal(twice, 2 * x)
print(np.asarray(more).base is not None and np.asarray(more).base is np.asarray(twice).base)
"""


@pytest.mark.thorough
def test_a_plan_from_disk_has_them_joined(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    for _ in range(2):
        assert run_python(program, NUMBA_GRAD_CACHE_DIR=folder) == "True\n"
