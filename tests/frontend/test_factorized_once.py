"""Systems of larger matrices: one factorization for a system and its derivatives, and for all steps
of a loop in which the matrix stays as it is."""

import numpy as np
import pytest

import numba_grad as ng

N = 20
RNG = np.random.default_rng(0)
MATRIX = RNG.normal(size=(N, N)) + N * np.eye(N)
COUPLING = RNG.normal(size=(N, N))
VECTOR = RNG.normal(size=N)
STEPS = 24


def made_anew(p):
    u = VECTOR
    for _ in range(STEPS):
        u = np.linalg.solve(np.eye(N) * 9 - p * COUPLING, u + p)
    return np.sum(u**2)


def made_before(p):
    a, u = MATRIX + p * COUPLING, VECTOR
    for _ in range(STEPS):
        u = np.linalg.solve(a, N * u - p)
    return np.sum(u**2)


def scanned(p):
    def step(u, _):
        u = np.linalg.solve(np.eye(N) * 9 - p * COUPLING, u + p)
        return u, u[0]

    u, firsts = ng.scan(step, ng.tensor(VECTOR), None, length=STEPS)
    return np.sum(u**2) + np.sum(firsts)


def transposed(p):
    a = MATRIX * p
    return np.sum(np.linalg.solve(a.T, np.linalg.solve(a, VECTOR)) ** 2)


WAYS = [made_anew, made_before, scanned]


@pytest.mark.thorough(every=2)
@pytest.mark.parametrize("f", [*WAYS, transposed])
def test_values_and_derivatives(f):
    p, width = np.array(0.7), 1e-4
    both = ng.value_and_grad(f)
    value, slope = both(p)
    compiled_value, compiled_slope = ng.jit(both)(p)
    np.testing.assert_allclose(compiled_value, value, rtol=1e-12)
    np.testing.assert_allclose(compiled_slope, slope, rtol=1e-10)
    np.testing.assert_allclose(ng.jit(f)(p), value, rtol=1e-12)
    difference = (f(p + width) - f(p - width)) / (2 * width)
    np.testing.assert_allclose(slope, np.asarray(difference), rtol=1e-6)
    curvature = ng.grad(ng.grad(f))(p)
    difference = (ng.grad(f)(p + width) - ng.grad(f)(p - width)) / (2 * width)
    np.testing.assert_allclose(curvature, difference, rtol=1e-6)
    _, tangent = ng.jvp(f, (p,), (np.array(1.0),))
    np.testing.assert_allclose(tangent, slope, rtol=1e-10)


@pytest.mark.parametrize("f", WAYS)
def test_a_matrix_that_stays_is_factorized_once(f):
    for function in (f, ng.value_and_grad(f)):
        text = str(ng.jit(function).lower(np.array(0.7)).graph)
        outside = text.split("\n\n")[0]
        assert text.count("= lu(") == outside.count("= lu(") == 1


@pytest.mark.thorough(every=16)
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("columns", [(), (1,), (3,)])
@pytest.mark.parametrize("stacks", [((), ()), ((2,), ()), ((), (2,)), ((2, 1), (3,))])
def test_stacks_and_right_sides(dtype, columns, stacks):
    def array(*shape):
        x = RNG.normal(size=shape)
        return (x + 1j * RNG.normal(size=shape) if dtype[0] == "c" else x).astype(dtype)

    if not columns and stacks[1]:
        columns = (1,)
    a = array(*stacks[0], N, N) + np.eye(N, dtype=dtype) * N
    a[..., [0, 5], :] = a[..., [5, 0], :]  # rows are exchanged
    b = array(*stacks[1], N, *columns)
    x = np.linalg.solve(a, b)
    tolerance = 1e-4 if dtype in ("f4", "c8") else 1e-12
    np.testing.assert_allclose(ng.linalg.solve(ng.tensor(a), b), x, tolerance, tolerance)
    weight = array(*x.shape)

    def f(a, b, solve=ng.linalg.solve):
        return np.sum(np.real(solve(a, b) * weight))

    found = ng.grad(f, (0, 1))(a, b)
    expected = ng.grad(lambda a, b: f(a, b, by_inverse), (0, 1))(a, b)
    for own, other in zip(found, expected, strict=True):
        assert own.dtype == other.dtype
        np.testing.assert_allclose(own, other, 10 * tolerance, 10 * tolerance)


def by_inverse(a, b):
    return np.linalg.inv(a) @ b


def test_batches():
    directions = RNG.normal(size=(5, N))
    matrices = RNG.normal(size=(5, N, N)) + N * np.eye(N)
    of_vectors = ng.vmap(lambda b: np.linalg.solve(ng.tensor(MATRIX), b))(directions)
    np.testing.assert_allclose(of_vectors, np.linalg.solve(MATRIX, directions.T).T, rtol=1e-12)
    of_matrices = ng.vmap(lambda a: np.linalg.solve(a, VECTOR))(matrices)
    expected = [np.linalg.solve(a, VECTOR) for a in matrices]
    np.testing.assert_allclose(of_matrices, expected, rtol=1e-12)
    rows = ng.jacobian(lambda b: np.linalg.solve(ng.tensor(MATRIX), b))(VECTOR)
    np.testing.assert_allclose(rows, np.linalg.inv(MATRIX), atol=1e-14)


@pytest.mark.parametrize("is_compiled", [False, True])
def test_singular_matrices(is_compiled):
    def f(a):
        return np.sum(np.linalg.solve(a, VECTOR))

    f = ng.jit(f) if is_compiled else f
    singular = np.ones((N, N))
    with pytest.raises(np.linalg.LinAlgError, match=r"solve: Singular matrix"):
        float(f(ng.tensor(singular)))
    broken = MATRIX.copy()
    broken[3, 4] = np.nan
    assert np.isnan(float(f(ng.tensor(broken))))
