"""numba_grad.linalg against NumPy, SciPy, finite differences and torch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import numba_grad as ng
from numba_grad.config import configure
from numba_grad.errors import DTypeError, ShapeError
from numba_grad.testing import check_gradients

pytestmark = pytest.mark.usefixtures("numpy_engine")

RNG = np.random.default_rng(3)
REAL = {
    shape: RNG.standard_normal(shape)
    for shape in [(3, 3), (4, 2), (2, 4), (2, 3, 3), (0, 0), (0, 2, 2), (3, 0), (0, 3), (1, 1)]
}
COMPLEX = {shape: x + 1j * RNG.standard_normal(shape) for shape, x in REAL.items()}
SQUARE = [shape for shape in REAL if shape[-1] == shape[-2]]


def hermitian(x: Any) -> Any:
    return (x + np.conj(x).mT) / 2


def definite(x: Any) -> Any:
    return x @ np.conj(x).mT + np.eye(x.shape[-1])


def check(ours: Any, expected: Any, tolerance: float = 1e-11) -> None:
    if isinstance(expected, tuple):
        assert len(ours) == len(expected)
        for x, y in zip(ours, expected, strict=True):
            check(x, y, tolerance)
        return
    expected = np.asarray(expected)
    value = np.asarray(ours)
    assert value.shape == expected.shape
    assert value.dtype.kind == expected.dtype.kind
    np.testing.assert_allclose(value, expected, rtol=tolerance, atol=tolerance)


# Each is called with numpy and with our tensors through NumPy's functions, then with ng.
ANY: list[Callable[[Any, Any], Any]] = [
    lambda m, a: tuple(m.linalg.qr(a)),
    lambda m, a: tuple(m.linalg.qr(a, mode="complete")),
    lambda m, a: m.linalg.qr(a, "r"),
    lambda m, a: tuple(m.linalg.svd(a)),
    lambda m, a: tuple(m.linalg.svd(a, full_matrices=False)),
    lambda m, a: m.linalg.svd(a, compute_uv=False),
    lambda m, a: m.linalg.svdvals(a),
    lambda m, a: m.linalg.pinv(a),
    lambda m, a: m.linalg.pinv(a, rtol=0.3),
    lambda m, a: m.linalg.pinv(a, 0.3),
    lambda m, a: m.linalg.matrix_rank(a),
    lambda m, a: m.linalg.matrix_rank(a, 1.0),
    lambda m, a: m.linalg.matrix_rank(a, rtol=0.9),
    lambda m, a: m.linalg.matrix_norm(a),
    lambda m, a: m.linalg.matrix_norm(a, ord="nuc", keepdims=True),
    lambda m, a: m.linalg.norm(a, "nuc", axis=(-1, -2)),
    lambda m, a: m.linalg.matrix_transpose(a),
    lambda m, a: m.linalg.diagonal(a),
    lambda m, a: m.linalg.diagonal(a, offset=1),
    lambda m, a: m.linalg.trace(a, offset=-1),
]
OF_SQUARE: list[Callable[[Any, Any], Any]] = [
    lambda m, a: tuple(m.linalg.eigh(hermitian(a))),
    lambda m, a: tuple(m.linalg.eigh(a, "U")),
    lambda m, a: m.linalg.eigvalsh(a),
    lambda m, a: m.linalg.eigvalsh(a, UPLO="u"),
    lambda m, a: m.linalg.cholesky(definite(a)),
    lambda m, a: m.linalg.cholesky(definite(a), upper=True),
    lambda m, a: m.linalg.det(a),
    lambda m, a: tuple(m.linalg.slogdet(a)),
    lambda m, a: m.linalg.inv(a + 5 * np.eye(a.shape[-1])),
    lambda m, a: m.linalg.matrix_power(a, 0),
    lambda m, a: m.linalg.matrix_power(a, 5),
    lambda m, a: m.linalg.matrix_power(a + 3 * np.eye(a.shape[-1]), -2),
    lambda m, a: m.linalg.matrix_rank(a, hermitian=True),
    lambda m, a: m.linalg.svd(hermitian(a), hermitian=True)[1],
    lambda m, a: m.linalg.svd(hermitian(a), hermitian=True, compute_uv=False),
    lambda m, a: m.linalg.pinv(hermitian(a), hermitian=True),
]
OF_FILLED: list[Callable[[Any, Any], Any]] = [
    lambda m, a: m.linalg.norm(a, 2, axis=(-2, -1)),
    lambda m, a: m.linalg.norm(a, -2, axis=(-2, -1), keepdims=True),
    lambda m, a: m.linalg.norm(a, 1, axis=(-2, -1)),
    lambda m, a: m.linalg.norm(a, -np.inf, axis=(-2, -1)),
    lambda m, a: m.linalg.norm(a, 0.5, axis=-1),
    lambda m, a: m.linalg.norm(a, -1, axis=-1),
    lambda m, a: m.linalg.vector_norm(a, ord=3),
    lambda m, a: m.linalg.cond(a),
    lambda m, a: m.linalg.cond(a, -2),
]
ORDERS_OF_CONDITION = ("fro", "nuc", 1, -1, np.inf, -np.inf)


def check_call(call: Callable[[Any, Any], Any], a: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        expected = call(np, a)
    check(call(np, ng.tensor(a)), expected)
    check(call(ng, a), expected)


@pytest.mark.parametrize("number", range(len(ANY)))
def test_functions_of_matrices(number):
    for a in (*REAL.values(), *COMPLEX.values()):
        check_call(ANY[number], a)


@pytest.mark.parametrize("number", range(len(OF_SQUARE)))
def test_functions_of_square_matrices(number):
    for shape in SQUARE:
        for a in (REAL[shape], COMPLEX[shape]):
            check_call(OF_SQUARE[number], a)


@pytest.mark.parametrize("number", range(len(OF_FILLED)))
def test_functions_of_matrices_with_elements(number):
    for arrays in (REAL, COMPLEX):
        for shape in ((3, 3), (4, 2), (2, 4), (2, 3, 3)):
            check_call(OF_FILLED[number], arrays[shape])


def test_numbers_that_are_not_floating_and_layouts():
    n = np.array([[4, 1], [1, 3]])
    for call in (*ANY, *OF_SQUARE):
        if "mode" not in call.__code__.co_names:
            check_call(call, n)
    reversed_axes = np.asfortranarray(REAL[3, 3])[::-1, ::-1]
    check(ng.linalg.svdvals(reversed_axes), np.linalg.svdvals(reversed_axes))
    check(ng.linalg.qr(ng.tensor(REAL[4, 2]).mT[:, ::2]), tuple(np.linalg.qr(REAL[4, 2].T[:, ::2])))
    assert ng.linalg.matrix_power(n, 3).dtype == np.int64


def test_eigenvalues_are_complex_always():
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    for a in (turn, REAL[3, 3], COMPLEX[3, 3], REAL[2, 3, 3], REAL[0, 0], np.diag([1.0, 2.0])):
        values, vectors = ng.linalg.eig(a)
        assert values.dtype == vectors.dtype == np.complex128
        expected = np.linalg.eig(a)
        check(values, expected.eigenvalues.astype(complex))
        check(vectors, expected.eigenvectors.astype(complex))
        check(np.linalg.eigvals(ng.tensor(a)), expected.eigenvalues.astype(complex))


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (2, 0, 3), (0, 3, 3)], ids=str)
def test_norms_of_nothing_are_numpys(shape):
    a = np.zeros(shape)
    calls: list[Callable[[Any], Any]] = [
        lambda m, o=order, k=keeps: m.norm(a, o, axis=(-2, -1), keepdims=k)
        for order in (None, "fro", "nuc", 2, -2, 1, -1, np.inf, -np.inf)
        for keeps in (False, True)
    ]
    calls += [lambda m, o=o: m.vector_norm(a, ord=o, axis=-1) for o in (0, 1, 2, 3, np.inf)]
    for call in calls:
        try:
            expected = call(np.linalg)
        except ValueError:
            with pytest.raises(ValueError, match="zero-size array"):
                call(ng.linalg)
        else:
            check(call(ng.linalg), expected)
    assert gradient(lambda a: ng.linalg.norm(a, 2, axis=(-2, -1)).sum(), a).shape == shape


def test_condition_of_every_order():
    for order in ORDERS_OF_CONDITION:
        for arrays in (REAL, COMPLEX):
            for shape in ((3, 3), (2, 3, 3)):
                check(ng.linalg.cond(arrays[shape], order), np.linalg.cond(arrays[shape], order))
        singular = np.stack([np.ones((2, 2)), np.eye(2), np.zeros((2, 2))])
        check(
            ng.linalg.cond(singular, order),
            np.array([np.inf, np.linalg.cond(np.eye(2), order), np.inf]),
        )
    with np.errstate(all="ignore"):
        check(ng.linalg.cond(np.zeros((2, 2))), np.linalg.cond(np.zeros((2, 2))))


def test_least_squares():
    for arrays in (REAL, COMPLEX):
        for shape in ((3, 3), (4, 2), (2, 4), (3, 0), (0, 3)):
            a = arrays[shape]
            b = np.ones((shape[0], 2)) + a.sum() * np.arange(2)
            for right in (b, b[:, 0]):
                result = np.linalg.lstsq(ng.tensor(a), right)
                expected = np.linalg.lstsq(a, right)
                check(result, (*expected[:2], np.int64(expected[2]), expected[3]), 1e-9)
    stack = ng.linalg.lstsq(REAL[2, 3, 3][..., :2], REAL[3, 3])
    for k in range(2):
        expected = np.linalg.lstsq(REAL[2, 3, 3][k, :, :2], REAL[3, 3])
        check([part[k] for part in stack], (*expected[:2], np.int64(expected[2]), expected[3]))
    deficient = np.outer([1.0, 2.0, 3.0], [1.0, 1.0])
    result = ng.linalg.lstsq(deficient, np.ones(3))
    expected = np.linalg.lstsq(deficient, np.ones(3))
    check(result.solution, expected[0])
    assert int(result.rank) == 1


def test_triangular_systems_are_those_of_scipy():
    for a in (REAL[3, 3] + 3 * np.eye(3), COMPLEX[3, 3] + 3 * np.eye(3)):
        for b in (COMPLEX[3, 3], COMPLEX[3, 3][0]):
            for trans in (0, 1, 2, "N", "T", "C"):
                for lower in (False, True):
                    for unit in (False, True):
                        args: Any = (a, b, trans, lower, unit)
                        expected = scipy.linalg.solve_triangular(*args)
                        check(ng.linalg.solve_triangular(*args), expected)


def test_lu_factors_are_those_of_scipy():
    for arrays in (REAL, COMPLEX):
        for shape in ((3, 3), (4, 2), (2, 4), (1, 1)):
            expected = scipy.linalg.lu_factor(arrays[shape])
            check(ng.linalg.lu_factor(arrays[shape]), expected)
        a = arrays[3, 3]
        for b in (COMPLEX[3, 3], COMPLEX[3, 3][0]):
            for trans in (0, 1, 2):
                expected = scipy.linalg.lu_solve(scipy.linalg.lu_factor(a), b, trans)
                check(ng.linalg.lu_solve(ng.linalg.lu_factor(a), b, trans), expected)
    a = REAL[2, 3, 3]
    check(ng.linalg.lu_solve(ng.linalg.lu_factor(a), REAL[3, 3]), np.linalg.solve(a, REAL[3, 3]))


@pytest.mark.parametrize("lower", [False, True])
def test_cholesky_solutions_are_those_of_scipy(lower):
    for a in (REAL[3, 3], COMPLEX[3, 3]):
        # The other triangle is not read.
        a = (np.tril if lower else np.triu)(a @ a.conj().T + np.eye(3, dtype=a.dtype))
        factor = ng.linalg.cho_factor(a, lower)
        expected, is_lower = scipy.linalg.cho_factor(a, lower)
        assert factor[1] is lower and is_lower == lower
        check(factor[0], (np.tril if lower else np.triu)(expected))
        # Nor that of the factor: SciPy leaves what was there.
        rest = np.triu(np.full((3, 3), 9), 1)
        garbage = (factor[0] + (rest if lower else rest.T).astype(a.dtype), lower)
        for b in (COMPLEX[3, 3], COMPLEX[3, 3][0]):
            expected = scipy.linalg.cho_solve(scipy.linalg.cho_factor(a, lower), b)
            check(ng.linalg.cho_solve(factor, b), expected)
            check(ng.linalg.cho_solve(garbage, b), expected)
    stack = np.stack([np.eye(3), 2 * np.eye(3)])
    found = ng.linalg.cho_solve(ng.linalg.cho_factor(stack, lower), np.ones(3))
    check(found, np.array([[1.0] * 3, [0.5] * 3]))
    single = (REAL[3, 3] @ REAL[3, 3].T + np.eye(3)).astype(np.float32)
    found = ng.linalg.cho_solve(ng.linalg.cho_factor(single, lower), single[0])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [1, 0, 0], atol=1e-5)
    with pytest.raises(np.linalg.LinAlgError, match="cho_solve: not a matrix"):
        ng.linalg.cho_solve((np.ones(3), lower), np.ones(3))


@pytest.mark.thorough(but="False")
@pytest.mark.parametrize("lower", [False, True])
def test_gradients_of_cholesky_solutions(lower):
    def solution(a: Any, b: Any) -> Any:
        hermitian = a @ ng.conj(a.T) + 3 * np.eye(3)
        return ng.linalg.cho_solve(ng.linalg.cho_factor(hermitian, lower), b)

    check_gradients(solution, REAL[3, 3], REAL[3, 3][0])
    check_gradients(lambda a, b: ng.abs(solution(a, b)).sum(), COMPLEX[3, 3], COMPLEX[3, 3])
    a = REAL[3, 3]
    np.testing.assert_allclose(
        ng.jit(solution)(a, a[0]), np.linalg.solve(a @ a.T + 3 * np.eye(3), a[0])
    )


def test_products_and_tensor_equations():
    chain = [RNG.standard_normal(shape) for shape in ((4, 2), (2, 5), (5, 3), (3, 2))]
    check(np.linalg.multi_dot([ng.tensor(x) for x in chain]), np.linalg.multi_dot(chain))
    check(ng.linalg.multi_dot(chain[:2]), chain[0] @ chain[1])
    v, w = RNG.standard_normal(4), RNG.standard_normal(2)
    check(ng.linalg.multi_dot([v, *chain, w]), np.linalg.multi_dot([v, *chain, w]))
    check(ng.linalg.multi_dot([v, *chain]), np.linalg.multi_dot([v, *chain]))
    a = RNG.standard_normal((2, 3, 6))
    b = RNG.standard_normal((2, 3))
    check(np.linalg.tensorsolve(ng.tensor(a), b), np.linalg.tensorsolve(a, b))
    turned = RNG.standard_normal((6, 2, 3))
    check(ng.linalg.tensorsolve(turned, b, axes=(0,)), np.linalg.tensorsolve(turned, b, axes=(0,)))
    check(np.linalg.tensorinv(ng.tensor(a)), np.linalg.tensorinv(a))
    check(ng.linalg.tensorinv(a.reshape(6, 3, 2), 1), np.linalg.tensorinv(a.reshape(6, 3, 2), 1))
    check(np.linalg.cross(ng.tensor(a[0]).mT, a[1].T), np.linalg.cross(a[0].T, a[1].T))
    check(np.linalg.outer(ng.tensor(v), w), np.linalg.outer(v, w))
    check(np.linalg.vecdot(ng.tensor(v), v), np.linalg.vecdot(v, v))


def test_exponential():
    for arrays in (REAL, COMPLEX):
        for shape in ((3, 3), (2, 3, 3), (1, 1)):
            for scale in (1e-3, 0.1, 0.5, 1.0, 10.0):
                a = arrays[shape] * scale
                expected = scipy.linalg.expm(a)
                check(ng.linalg.expm(a) / np.abs(expected).max(), expected / np.abs(expected).max())
    assert np.isnan(np.asarray(ng.linalg.expm(np.full((2, 2), np.inf)))).all()


def test_exponentials_of_triangular_matrices_keep_their_digits():
    """Also where what is off the diagonal is far larger: the closed form of two rows."""
    for p, q, r in ((1.0, 1e8, -1.0), (-1e3, 1e5, -0.5), (0.25j, 1e6, -1.0), (700.0, 1.0, 0.0)):
        both = np.exp(p), np.exp(r)
        expected = np.array([[both[0], q * (both[0] - both[1]) / (p - r)], [0, both[1]]])
        a = np.array([[p, q], [0, r]])
        for found in (ng.linalg.expm(a), ng.linalg.expm(a.T).mT):
            np.testing.assert_allclose(found, expected, rtol=3e-13)


def test_a_large_gradient_of_the_exponential_is_as_exact_as_a_small_one():
    def loss(a, size):
        return (size * ng.linalg.expm(a).real).sum()

    for a in (REAL[2, 3, 3], COMPLEX[3, 3]):
        expected = ng.grad(loss)(a, 1.0).numpy()
        for size in (1e-9, 1e9, 1e150):
            check(ng.grad(loss)(a, size).numpy() / size, expected)


# Derivatives


def phase_free(vectors: Any) -> Any:
    """What does not depend on the phases of vectors: the weights of their elements."""
    return np.abs(vectors) ** 2


GRADIENTS: dict[str, tuple[Callable[..., Any], np.ndarray]] = {
    "cholesky": (lambda a: ng.linalg.cholesky(definite(a)), REAL[2, 3, 3]),
    "cholesky of complex": (lambda a: ng.linalg.cholesky(definite(a)), COMPLEX[3, 3]),
    "upper cholesky": (lambda a: ng.linalg.cholesky(definite(a), upper=True), COMPLEX[3, 3]),
    "qr": (lambda a: ng.linalg.qr(a), COMPLEX[4, 2]),
    "qr of wide": (lambda a: ng.linalg.qr(a), COMPLEX[2, 4]),
    "r": (lambda a: ng.linalg.qr(a, "r"), COMPLEX[4, 2]),
    "complete qr": (
        lambda a: projector(ng.linalg.qr(a, "complete").Q[:, 2:]),
        COMPLEX[4, 2],
    ),
    "eigh": (lambda a: _squared(ng.linalg.eigh(hermitian(a))), COMPLEX[3, 3]),
    "eigh of real": (lambda a: ng.linalg.eigh(hermitian(a), "U"), REAL[2, 3, 3]),
    "eigvalsh": (lambda a: ng.linalg.eigvalsh(hermitian(a)), COMPLEX[2, 3, 3]),
    "eig": (lambda a: _squared(ng.linalg.eig(a)), COMPLEX[3, 3]),
    "eig of real": (lambda a: _squared(ng.linalg.eig(a)), REAL[2, 3, 3]),
    "eigvals": (lambda a: ng.linalg.eigvals(a), REAL[3, 3]),
    "svd": (lambda a: _without_phases(ng.linalg.svd(a, False)), COMPLEX[4, 2]),
    "svd of wide": (lambda a: _without_phases(ng.linalg.svd(a, False)), COMPLEX[2, 4]),
    "svd of square": (lambda a: _without_phases(ng.linalg.svd(a)), REAL[2, 3, 3]),
    "full svd": (lambda a: projector(ng.linalg.svd(a).U[:, 2:]), COMPLEX[4, 2]),
    "full svd of wide": (lambda a: projector(ng.linalg.svd(a).Vh[2:].mT), COMPLEX[2, 4]),
    "svd of hermitian": (
        lambda a: _without_phases(ng.linalg.svd(hermitian(a), hermitian=True)),
        COMPLEX[3, 3],
    ),
    "svdvals": (lambda a: ng.linalg.svdvals(a), COMPLEX[2, 4]),
    "pinv": (lambda a: ng.linalg.pinv(a), COMPLEX[4, 2]),
    "pinv of wide": (lambda a: ng.linalg.pinv(a), REAL[2, 4]),
    "pinv of a product": (lambda a: ng.linalg.pinv(a @ a.mT, rtol=1e-8), REAL[4, 2]),
    "lstsq": (lambda a: ng.linalg.lstsq(a, a[:, 0] ** 2 + 1)[:2], COMPLEX[4, 2]),
    "lstsq of wide": (lambda a: ng.linalg.lstsq(a, a[:, :3] ** 2), REAL[2, 4]),
    "det": (lambda a: ng.linalg.det(a), COMPLEX[2, 3, 3]),
    "slogdet": (lambda a: ng.linalg.slogdet(a), COMPLEX[2, 3, 3]),
    "slogdet of real": (lambda a: ng.linalg.slogdet(a), REAL[3, 3]),
    "matrix_power": (lambda a: ng.linalg.matrix_power(a, 3), COMPLEX[3, 3]),
    "negative matrix_power": (lambda a: ng.linalg.matrix_power(a, -2), REAL[3, 3]),
    "expm": (lambda a: ng.linalg.expm(a), COMPLEX[3, 3]),
    "solve_triangular": (
        lambda a: ng.linalg.solve_triangular(a + 3 * np.eye(3), a[0], "C", True),
        COMPLEX[2, 3, 3],
    ),
    "lu_factor": (lambda a: ng.linalg.lu_factor(a)[0], COMPLEX[3, 3]),
    "lu_factor of tall": (lambda a: ng.linalg.lu_factor(a)[0], COMPLEX[4, 2]),
    "lu_factor of wide": (lambda a: ng.linalg.lu_factor(a)[0], COMPLEX[2, 4]),
    "lu_solve": (
        lambda a: ng.linalg.lu_solve(ng.linalg.lu_factor(a), a[0] ** 2, 2),
        COMPLEX[3, 3],
    ),
    "nuclear norm": (lambda a: ng.linalg.norm(a, "nuc"), COMPLEX[4, 2]),
    "spectral norm": (lambda a: ng.linalg.norm(a, 2), REAL[4, 2]),
    "least singular value": (lambda a: ng.linalg.matrix_norm(a, ord=-2), REAL[2, 3, 3]),
    "cond": (lambda a: ng.linalg.cond(a), REAL[3, 3]),
    "cond 1": (lambda a: ng.linalg.cond(a, 1), REAL[3, 3]),
    "tensorinv": (lambda a: ng.linalg.tensorinv(a.reshape(3, 1, 3), 1), REAL[3, 3]),
}


def projector(basis: Any) -> Any:
    return basis @ np.conj(basis).mT


def _squared(result: Any) -> Any:
    return result.eigenvalues, phase_free(result.eigenvectors)


def _without_phases(result: Any) -> Any:
    u, s, vh = result
    return phase_free(u), s, phase_free(vh), u @ vh


@pytest.mark.thorough(every=12)
@pytest.mark.parametrize("name", GRADIENTS)
def test_derivatives_match_finite_differences(name):
    function, a = GRADIENTS[name]
    check_gradients(function, a, rtol=1e-5, atol=1e-5, elements=6)


def test_derivatives_of_lu_solve_in_both():
    a, b = REAL[2, 3, 3], REAL[3, 3]
    for trans in (0, 1):
        check_gradients(
            lambda a, b, t=trans: ng.linalg.lu_solve(ng.linalg.lu_factor(a), b, t), a, b, elements=6
        )


def gradient(function: Callable[..., Any], *args: Any) -> np.ndarray:
    return np.asarray(ng.grad(function)(*args))


def test_functions_of_equal_singular_values_have_their_gradient():
    """U V^H, the nearest unitary matrix, of a multiple of one: all singular values are equal."""
    a = np.linalg.qr(COMPLEX[3, 3]).Q * 2
    weights = REAL[3, 3]

    def nearest(a: Any) -> Any:
        u, _, vh = ng.linalg.svd(a)
        return np.sum((u @ vh).real * weights)

    step = 1e-6

    def value(a: np.ndarray) -> float:
        u, _, vh = np.linalg.svd(a)
        return float(np.sum(np.real(u @ vh) * weights))

    direction = COMPLEX[3, 3]
    expected = (value(a + step * direction) - value(a - step * direction)) / (2 * step)
    assert np.vdot(gradient(nearest, a), direction).real == pytest.approx(expected, abs=1e-8)


def test_functions_of_the_span_of_equal_eigenvalues_have_their_gradient():
    q = np.linalg.qr(REAL[3, 3]).Q
    a = q @ np.diag([1.0, 1.0, 4.0]) @ q.T
    weights = hermitian(REAL[2, 3, 3][0])

    def of_span(a: Any) -> Any:
        vectors = ng.linalg.eigh(a).eigenvectors[:, :2]
        return np.sum(vectors @ vectors.mT * weights)

    step = 1e-6
    direction = hermitian(REAL[2, 3, 3][1])

    def value(a: np.ndarray) -> float:
        vectors = np.linalg.eigh(a).eigenvectors[:, :2]
        return float(np.sum(vectors @ vectors.T * weights))

    expected = (value(a + step * direction) - value(a - step * direction)) / (2 * step)
    assert np.vdot(gradient(of_span, a), direction) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("a", [np.eye(3), np.zeros((3, 3)), np.diag([1.0, 1.0, 0.0])], ids=str)
def test_gradients_are_finite_where_values_are_equal(a):
    functions: list[Callable[[Any], Any]] = [
        lambda a: sum(x.sum() for x in ng.linalg.eigh(a)),
        lambda a: sum(x.sum() for x in ng.linalg.svd(a)),
        lambda a: ng.linalg.eigvalsh(a).sum(),
        lambda a: ng.linalg.norm(a, "nuc"),
        lambda a: ng.linalg.norm(a, 2),
    ]
    for function in functions:
        assert np.isfinite(gradient(function, a)).all()
        second = ng.grad(lambda a, f=function: (ng.grad(f)(a) ** 2).sum())(a)
        assert np.isfinite(np.asarray(second)).all()


def test_determinant_of_singular_matrices_has_a_gradient():
    a = np.stack([np.diag([2.0, 3.0, 0.0]), np.diag([2.0, 0.0, 0.0]), np.eye(3)])
    expected = np.stack([np.diag([0, 0, 6.0]), np.zeros((3, 3)), np.eye(3)])
    np.testing.assert_allclose(gradient(lambda a: ng.linalg.det(a).sum(), a), expected, atol=1e-14)
    q = np.linalg.qr(COMPLEX[3, 3]).Q
    b = q @ np.diag([1.0, 2.0j, 0.0]) @ q.T
    direction = COMPLEX[2, 3, 3][0]
    step = 1e-6
    expected = np.linalg.det(b + step * direction) - np.linalg.det(b - step * direction)
    found = gradient(lambda b: ng.linalg.det(b).real, b)
    assert np.vdot(found, direction).real == pytest.approx(expected.real / (2 * step), abs=1e-8)


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_second_derivatives_of_determinants_of_singular_matrices(n, rank):
    """A determinant is a polynomial, so differences of differences are nearly exact."""
    rng = np.random.default_rng(n)
    real = rng.standard_normal((4, n, n))
    for x, y, e, h in (real, real + 1j * rng.standard_normal((4, n, n))):
        a = x[:, :rank] @ y[:rank] if rank < n else x
        steps = [(1, 1), (1, -1), (-1, 1), (-1, -1)]
        expected = sum(s * t * np.linalg.det(a + 1e-3 * (s * e + t * h)) for s, t in steps) / 4e-6

        def slope(a, e=e):
            gradient = ng.grad(lambda a: ng.real(ng.linalg.det(a)))(a)
            return ng.real((ng.conj(gradient) * e).sum())

        found = np.vdot(np.asarray(ng.grad(slope)(ng.tensor(a))), h).real
        assert found == pytest.approx(expected.real, rel=1e-3, abs=1e-3)


def test_third_derivatives_of_determinants():
    def third(a):
        second = lambda a: (ng.grad(lambda a: ng.linalg.det(a))(a) ** 2).sum()  # noqa: E731
        return (ng.grad(second)(a) ** 2).sum()

    for n in (1, 2, 3, 4):
        check_gradients(third, RNG.standard_normal((n, n)) + 2 * np.eye(n), order=1)
    ng.grad(third)(np.zeros((3, 3)))
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        ng.grad(third)(np.zeros((4, 4))).sum()


@pytest.mark.parametrize("shape", [(0, 0), (0, 2, 2), (0, 3), (3, 0)], ids=str)
def test_gradients_of_matrices_without_elements(shape):
    linalg = ng.linalg
    functions: list[Callable[[Any], Any]] = [
        lambda a: sum(part.sum() for part in linalg.svd(a)),
        lambda a: sum(part.sum() for part in linalg.svd(a, False)),
        lambda a: sum(part.sum() for part in linalg.qr(a)),
        lambda a: linalg.qr(a, "r").sum(),
        lambda a: linalg.pinv(a).sum(),
        lambda a: linalg.lstsq(a, np.ones((*shape[:-1], 1))).solution.sum(),
        lambda a: linalg.norm(a, "nuc", (-2, -1)).sum(),
        lambda a: linalg.lu_factor(a)[0].sum(),
    ]
    if shape[-1] == shape[-2]:
        functions += [
            lambda a: linalg.det(a).sum(),
            lambda a: linalg.slogdet(a).logabsdet.sum(),
            lambda a: linalg.eigh(a).eigenvectors.sum(),
            lambda a: linalg.eigvalsh(a).sum(),
            lambda a: ng.real(linalg.eig(a).eigenvectors).sum(),
            lambda a: ng.real(linalg.eigvals(a)).sum(),
            lambda a: linalg.expm(a).sum(),
            lambda a: linalg.inv(a).sum(),
            lambda a: linalg.cholesky(a).sum(),
            lambda a: linalg.matrix_power(a, -3).sum(),
            lambda a: linalg.lu_solve(linalg.lu_factor(a), np.ones(shape)).sum(),
        ]
    for function in functions:
        assert gradient(function, np.zeros(shape)).shape == shape


def test_the_hessian_of_the_logarithm_of_the_determinant():
    a = REAL[3, 3]
    inverse = np.linalg.inv(a)
    hessian = ng.hessian(lambda a: ng.linalg.slogdet(a).logabsdet)(a)
    check(hessian, -np.einsum("li,jk->ijkl", inverse, inverse), 1e-9)


def test_gradients_are_those_of_torch():
    torch = pytest.importorskip("torch")
    linalg = torch.linalg
    cases: list[tuple[Callable[[Any], Any], Callable[[Any], Any], np.ndarray]] = [
        (
            lambda a: phase_free(ng.linalg.eigh(a).eigenvectors)[0, 0],
            lambda a: linalg.eigh(a).eigenvectors.abs().square()[0, 0],
            hermitian(COMPLEX[3, 3]),
        ),
        (
            lambda a: ng.linalg.cholesky(a).real.sum(),
            lambda a: linalg.cholesky(a).real.sum(),
            definite(COMPLEX[3, 3]),
        ),
        (
            lambda a: ng.linalg.eigvals(a).imag[0],
            lambda a: linalg.eigvals(a).imag[0],
            REAL[3, 3],
        ),
        (
            lambda a: phase_free(ng.linalg.eig(a).eigenvectors)[0, 0],
            lambda a: linalg.eig(a).eigenvectors.abs().square()[0, 0],
            REAL[3, 3],
        ),
        (
            lambda a: phase_free(ng.linalg.svd(a, False).U)[0, 0],
            lambda a: linalg.svd(a, False).U.abs().square()[0, 0],
            COMPLEX[4, 2],
        ),
        (
            lambda a: ng.linalg.qr(a).Q.real.sum(),
            lambda a: linalg.qr(a).Q.real.sum(),
            COMPLEX[4, 2],
        ),
        (lambda a: ng.linalg.det(a).imag, lambda a: linalg.det(a).imag, COMPLEX[3, 3]),
        (
            lambda a: ng.linalg.slogdet(a).sign.imag,
            lambda a: linalg.slogdet(a).sign.imag,
            COMPLEX[3, 3],
        ),
        (
            lambda a: ng.linalg.pinv(a).real.sum(),
            lambda a: linalg.pinv(a).real.sum(),
            COMPLEX[4, 2],
        ),
        (
            lambda a: ng.linalg.expm(a).real.sum(),
            lambda a: torch.matrix_exp(a).real.sum(),
            COMPLEX[3, 3],
        ),
        (lambda a: ng.linalg.norm(a, "nuc"), lambda a: linalg.norm(a, "nuc"), COMPLEX[2, 4]),
        (lambda a: ng.linalg.cond(a), lambda a: linalg.cond(a), COMPLEX[3, 3]),
        (lambda a: ng.linalg.norm(a, 3), lambda a: linalg.vector_norm(a, 3), np.zeros(3)),
    ]
    for number, (ours, theirs, a) in enumerate(cases):
        x = torch.tensor(a, requires_grad=True)
        theirs(x).backward()
        expected = x.grad.numpy()
        if number <= 1:
            # Of Hermitian matrices; torch's has a part besides, which none of them sees.
            expected = hermitian(expected)
        np.testing.assert_allclose(gradient(ours, a), expected, rtol=1e-9, atol=1e-10)


# jit, vmap, dtypes


def test_results_with_names_go_through_jit_and_vmap():
    a = REAL[2, 3, 3]
    with configure(engine="native"):
        result = ng.jit(ng.linalg.eigh)(a)
        assert type(result) is ng.linalg.EighResult
        check(result, tuple(np.linalg.eigh(a)))
        check(ng.jit(ng.linalg.slogdet)(a), tuple(np.linalg.slogdet(a)))
    check(ng.vmap(ng.linalg.svd)(a), tuple(np.linalg.svd(a)))
    check(ng.vmap(ng.linalg.lstsq)(a, a)[0], np.stack([np.eye(3)] * 2))
    shared = ng.vmap(lambda t: ng.linalg.pinv(a[0], rtol=t))(np.array([1e-9, 2.0]))
    check(shared, np.stack([np.linalg.inv(a[0]), np.zeros((3, 3))]))
    in_b = ng.vmap(ng.linalg.solve_triangular, in_axes=(None, 0))(np.eye(3), a)
    check(in_b, a)


def test_the_dtype_of_results():
    for dtype, real in ((np.float32, np.float32), (np.complex64, np.float32)):
        a = (definite(REAL[3, 3])).astype(dtype)
        with configure(engine="native"):
            for result, expected in (
                (ng.linalg.eigh(a).eigenvalues, real),
                (ng.linalg.eigh(a).eigenvectors, dtype),
                (ng.linalg.svd(a).S, real),
                (ng.linalg.eigvals(a), np.complex64),
                (ng.linalg.slogdet(a).logabsdet, real),
                (ng.linalg.slogdet(a).sign, dtype),
                (ng.linalg.norm(a, "nuc"), real),
                (ng.linalg.pinv(a), dtype),
            ):
                assert result.dtype == expected


def test_pseudoinverses_of_single_precision_leave_out_what_is_rounding():
    a = np.outer([1.0, 2.0, 3.0], [0.1, 0.2]).astype(np.float32)
    for engine in ("native", "reference"):
        with configure(engine=engine):
            inverse = np.asarray(ng.linalg.pinv(a))
        np.testing.assert_allclose(inverse, np.linalg.pinv(a.astype(float), 1e-6), rtol=1e-5)


# What goes wrong


BAD = np.stack([np.eye(3), np.diag([1.0, -1.0, 1.0])])


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_failures_are_numpys(engine):
    nan = np.full((2, 2), np.nan)
    cases: list[tuple[Callable[[], Any], str]] = [
        (lambda: ng.linalg.cholesky(BAD), "not positive definite"),
        (lambda: ng.linalg.svd(nan), "SVD did not converge"),
        (lambda: ng.linalg.svdvals(nan), "SVD did not converge"),
        (lambda: ng.linalg.pinv(nan), "SVD did not converge"),
        (lambda: ng.linalg.eig(nan), "infs or NaNs"),
        (lambda: ng.linalg.eigvals(nan), "infs or NaNs"),
        (lambda: ng.linalg.inv(np.ones((2, 2))), "Singular matrix"),
        (lambda: ng.linalg.solve_triangular(np.zeros((2, 2)), np.ones(2)), "Singular matrix"),
        (lambda: ng.linalg.matrix_power(np.zeros((2, 2)), -1), "Singular matrix"),
    ]
    with configure(engine=engine):
        for call, text in cases:
            result = call()
            with pytest.raises(np.linalg.LinAlgError, match=text):
                np.asarray(result[0] if isinstance(result, tuple) else result)


def test_the_number_of_the_matrix_is_named():
    with (
        configure(engine="native"),
        pytest.raises(np.linalg.LinAlgError, match=r"cholesky: .*\(number 1 of the batch\)"),
    ):
        ng.linalg.cholesky(BAD).numpy()


def test_matrices_that_are_not_finite():
    """LAPACK never sees them where it iterates: it may hang."""
    with configure(engine="native"):
        for bad in (np.nan, np.inf):
            a = np.eye(3)
            a[2, 2] = bad
            assert np.isnan(ng.linalg.eigvalsh(a).numpy()).all()
            assert np.isnan(ng.linalg.eigh(a).eigenvectors.numpy()).all()
            assert np.isnan(ng.linalg.expm(a).numpy()).all()
            assert not np.isfinite(ng.linalg.det(a).numpy())
        assert np.isnan(ng.linalg.svdvals(a).numpy()).all()
        above = np.eye(2)
        above[0, 1] = np.nan
        check(ng.linalg.eigvalsh(above), np.ones(2))
        check(ng.linalg.cholesky(above), np.eye(2))


def test_wrong_arguments():
    wide = np.ones((2, 3))
    functions = [
        ng.linalg.cholesky,
        ng.linalg.eigh,
        ng.linalg.eigvalsh,
        ng.linalg.eig,
        ng.linalg.eigvals,
        ng.linalg.det,
        ng.linalg.slogdet,
        ng.linalg.expm,
        lambda a: ng.linalg.matrix_power(a, 2),
        lambda a: ng.linalg.cond(a, 1),
        lambda a: ng.linalg.pinv(a, hermitian=True),
    ]
    for function in functions:
        with pytest.raises(np.linalg.LinAlgError, match="not square"):
            function(wide)
    for function in (ng.linalg.qr, ng.linalg.svd, ng.linalg.pinv, ng.linalg.det):
        with pytest.raises(np.linalg.LinAlgError, match="not a matrix"):
            function(np.ones(3))
    with pytest.raises(DTypeError, match="float16"):
        ng.linalg.svd(wide.astype(np.float16))
    with pytest.raises(ValueError, match="mode='raw'"):
        ng.linalg.qr(wide, "raw")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="UPLO"):
        ng.linalg.eigh(np.eye(2), "X")
    with pytest.raises(ValueError, match="no matrix norm 7"):
        ng.linalg.norm(wide, 7)
    with pytest.raises(ValueError, match="one too many"):
        ng.linalg.matrix_rank(wide, 1, rtol=1)
    with pytest.raises(ShapeError, match="as many tolerances"):
        ng.linalg.pinv(wide, np.ones(3))
    with pytest.raises(np.linalg.LinAlgError, match="as many rows"):
        ng.linalg.lstsq(wide, np.ones(3))
    with pytest.raises(ShapeError, match="shapes do not fit"):
        ng.linalg.multi_dot([wide, wide])
    with pytest.raises(ValueError, match="two arrays"):
        ng.linalg.multi_dot([wide])
    with pytest.raises(TypeError, match="an integer"):
        ng.linalg.matrix_power(np.eye(2), 0.5)  # type: ignore[arg-type]
    with pytest.raises(np.linalg.LinAlgError, match="squared"):
        ng.linalg.tensorsolve(np.ones((2, 3)), np.ones(2))
    with pytest.raises(ValueError, match="ind=0"):
        ng.linalg.tensorinv(np.eye(2), 0)
    with pytest.raises(ShapeError, match="not vectors"):
        ng.linalg.outer(wide, wide)
    with pytest.raises(ValueError, match="trans=3"):
        ng.linalg.solve_triangular(np.eye(2), np.ones(2), 3)
    with pytest.raises(ShapeError, match="do not fit together"):
        ng.linalg.lu_solve((np.eye(2), np.zeros(3, int)), np.ones(2))
    with pytest.raises(np.linalg.LinAlgError, match="empty"):
        ng.linalg.cond(np.zeros((0, 0)))


def test_exchanges_with_rows_that_do_not_exist_are_named():
    with configure(engine="native"):
        solution = ng.linalg.lu_solve((np.eye(2), np.array([5, 1])), np.ones(2))
        with pytest.raises(np.linalg.LinAlgError, match="lu_solve"):
            solution.numpy()


NUMBERS = {"float": 2.1, "int": 300, "bool": True, "complex": 1j, "large": 2**63}
PRODUCTS_OF_NUMBERS = {
    "dot": lambda x, n: np.dot(x, n),
    "dot, from the left": lambda x, n: np.dot(n, x),
    "method": lambda x, n: x.dot(n),
    "vdot": lambda x, n: np.vdot(x[:1], n),
    "inner": lambda x, n: np.inner(x, n),
    "outer": lambda x, n: np.outer(n, x),
    "tensordot": lambda x, n: np.tensordot(x, n, 0),
    "convolve": lambda x, n: np.convolve(x, n),
    "einsum": lambda x, n: np.einsum("i,->i", x, n),
    "isin": lambda x, n: np.isin(x, n),
}


@pytest.mark.parametrize("name", PRODUCTS_OF_NUMBERS)
def test_functions_that_make_arrays_of_numbers_have_numpys_dtypes(name):
    function = PRODUCTS_OF_NUMBERS[name]
    x = np.array([1.1, 2.1, 3.1], np.float32)
    for array in (x, x.astype(np.int8)):
        for kind, number in NUMBERS.items():
            with configure(engine="reference"):
                ours = function(ng.tensor(array), number)
            expected = function(array, number)
            assert ours.dtype == expected.dtype, (kind, array.dtype)
            np.testing.assert_allclose(ours.numpy(), expected, rtol=1e-6)


def test_a_number_in_a_jitted_function_is_made_an_array():
    x = ng.tensor(np.ones(2, np.float32))
    assert ng.jit(np.dot)(x, 2.1).dtype == np.float64
    gradient = ng.grad(lambda x: np.sum(np.dot(x, 2.1)))(x)
    assert gradient.dtype == np.float32


def test_sets_and_quotients_of_polynomials_with_a_number_have_numpys_dtypes():
    x = np.array([1.1, 2.1, 3.1], np.float32)
    for function in (np.intersect1d, np.setxor1d, np.union1d, lambda x, n: np.polydiv(x, n)[0]):
        ours, expected = function(ng.tensor(x), 2.1), function(x, 2.1)
        assert ours.dtype == expected.dtype
        np.testing.assert_allclose(ours.numpy(), expected, rtol=1e-12)
