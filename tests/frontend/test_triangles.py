"""Functions that read one triangle, beside NumPy's: whose gradient is it, and of which matrices."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.config import configure
from numba_grad.testing import check_gradients

pytestmark = pytest.mark.usefixtures("numpy_engine")

RNG = np.random.default_rng(12)


def random(dtype: Any, *shape: int) -> np.ndarray:
    x = RNG.standard_normal(shape)
    return x + 1j * RNG.standard_normal(shape) if np.dtype(dtype).kind == "c" else x


def adjoint(a: Any) -> Any:
    return np.conj(a).mT


def definite(dtype: Any, *shape: int) -> np.ndarray:
    x = random(dtype, *shape)
    a = x @ adjoint(x) + 2 * np.eye(shape[-1])
    return (a + adjoint(a)) / 2


def spoiled(a: np.ndarray, *, lower: bool) -> np.ndarray:
    """The matrix with anything where it is not read."""
    other = np.triu(random(a.dtype, *a.shape), 1)
    result = np.tril(a) + other if lower else np.triu(a) + other.mT
    if a.dtype.kind == "c":
        result += 1j * np.diag(RNG.standard_normal(a.shape[-1]))
    return result


def weights_of_elements(vectors: Any) -> Any:
    """What does not depend on phases."""
    return np.abs(vectors) ** 2


def _eigh(m: Any, a: Any, uplo: str) -> Any:
    values, vectors = m.linalg.eigh(a, uplo)
    return values, weights_of_elements(vectors)


def _svd(m: Any, a: Any) -> Any:
    u, s, _ = m.linalg.svd(a, hermitian=True)
    return weights_of_elements(u), s


# Each is called with numpy and with ng.
LOWER: dict[str, Callable[[Any, Any], Any]] = {
    "cholesky": lambda m, a: m.linalg.cholesky(a),
    "eigh": lambda m, a: _eigh(m, a, "L"),
    "eigvalsh": lambda m, a: m.linalg.eigvalsh(a, "L"),
    "pinv": lambda m, a: m.linalg.pinv(a, hermitian=True),
    "svd": _svd,
    "svdvals": lambda m, a: m.linalg.svd(a, hermitian=True, compute_uv=False),
}
UPPER: dict[str, Callable[[Any, Any], Any]] = {
    "upper cholesky": lambda m, a: m.linalg.cholesky(a, upper=True),
    "upper eigh": lambda m, a: _eigh(m, a, "U"),
    "upper eigvalsh": lambda m, a: m.linalg.eigvalsh(a, "U"),
}
FUNCTIONS = {**LOWER, **UPPER}
NAMES = list(FUNCTIONS)
DTYPES = ("float64", "complex128")


def parts_of(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def weighted(name: str, a: np.ndarray) -> tuple[Callable[[Any], float], Callable[[Any], Any]]:
    """The sum of all results with random weights, by NumPy and by us."""
    function = FUNCTIONS[name]
    weights = [random(part.dtype, *part.shape) for part in parts_of(function(np, a))]

    def total(m: Any, a: Any) -> Any:
        parts = parts_of(function(m, a))
        return sum((np.conj(w) * x).real.sum() for w, x in zip(weights, parts, strict=True))

    return lambda a: float(total(np, a)), lambda a: total(ng, a)


def units(a: np.ndarray) -> list[complex]:
    return [1, 1j] if a.dtype.kind == "c" else [1]


def differences(f: Callable[[Any], float], a: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """The gradient by central differences: df/d(real) + 1j df/d(imaginary) of each element."""
    result = np.zeros_like(a)
    for index in np.ndindex(a.shape):
        for unit in units(a):
            moved = np.zeros_like(a)
            moved[index] = step * unit
            result[index] += unit * (f(a + moved) - f(a - moved)) / (2 * step)
    return result


def second_difference(
    f: Callable[[Any], float], a: np.ndarray, d: np.ndarray, e: np.ndarray
) -> float:
    """The second derivative along two directions; of fourth order."""

    def at(step: float) -> float:
        signs = ((1, 1), (1, -1), (-1, 1), (-1, -1))
        return sum(s * t * f(a + step * (s * d + t * e)) for s, t in signs) / (4 * step**2)

    return (4 * at(1e-3) - at(2e-3)) / 3


def gradient(f: Callable[[Any], Any], a: Any) -> np.ndarray:
    return np.asarray(ng.grad(f)(a))


def slope_along(f: Callable[[Any], Any], d: np.ndarray) -> Callable[[Any], Any]:
    return lambda a: (np.conj(d) * ng.grad(f)(a)).real.sum()


def argument(name: str, dtype: str, n: int = 3) -> tuple[np.ndarray, bool]:
    return definite(dtype, n, n), name in LOWER


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_of_general_matrices_the_derivatives_are_those_of_the_function_as_computed(name, dtype):
    whole, lower = argument(name, dtype)
    filled = np.tril(whole) if lower else np.triu(whole)
    for a in (filled, spoiled(whole, lower=lower)):
        theirs, ours = weighted(name, a)
        found = gradient(ours, a)
        np.testing.assert_allclose(found, differences(theirs, a), rtol=1e-6, atol=1e-8)
        assert not np.triu(found if lower else found.mT, 1).any()
        d, e = random(dtype, 3, 3), random(dtype, 3, 3)
        second = np.vdot(gradient(slope_along(ours, d), a), e).real
        assert second == pytest.approx(second_difference(theirs, a, d, e), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_of_hermitian_matrices_the_gradient_is_hermitian(name, dtype):
    a, _ = argument(name, dtype)
    theirs, ours = weighted(name, a)
    found = gradient(ours, a)
    np.testing.assert_allclose(found, adjoint(found), rtol=0, atol=1e-14)
    d, e = (definite(dtype, 3, 3) - definite(dtype, 3, 3) for _ in range(2))
    slope = np.vdot(differences(theirs, a), d).real  # along a Hermitian direction
    assert np.vdot(found, d).real == pytest.approx(slope, rel=1e-6)
    second = gradient(slope_along(ours, d), a)
    np.testing.assert_allclose(second, adjoint(second), rtol=0, atol=1e-13)
    expected = second_difference(theirs, a, d, e)
    assert np.vdot(second, e).real == pytest.approx(expected, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("name", ["cholesky", "eigh", "eigvalsh"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_and_hessians_of_hermitian_matrices_are_those_of_torch(name, dtype):
    torch = pytest.importorskip("torch")
    a, _ = argument(name, dtype)
    results: dict[str, Callable[[Any], Any]] = {
        "cholesky": lambda m: lambda a: m.linalg.cholesky(a),
        "eigh": lambda m: lambda a: m.abs(m.linalg.eigh(a)[1]) ** 2,
        "eigvalsh": lambda m: lambda a: m.linalg.eigvalsh(a) ** 2,
    }
    shape = (3,) if name == "eigvalsh" else (3, 3)
    w = random("float64", *shape)
    d = definite(dtype, 3, 3)

    def theirs(a: Any) -> Any:
        return (torch.real(results[name](torch)(a)) * torch.tensor(w)).sum()

    def ours(a: Any) -> Any:
        return (ng.real(results[name](ng)(a)) * w).sum()

    x = torch.tensor(a, requires_grad=True)
    (first,) = torch.autograd.grad(theirs(x), x, create_graph=True)
    (second,) = torch.autograd.grad((torch.tensor(d).conj() * first).real.sum(), x)
    # torch's of a complex factor has a skew part besides, which no Hermitian matrix sees.
    for found, expected in (
        (gradient(ours, a), first.detach().numpy()),
        (gradient(slope_along(ours, d), a), second.numpy()),
    ):
        expected = (expected + adjoint(expected)) / 2
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10)


def test_the_gradient_of_a_complex_factor_is_hermitian_where_that_of_torch_is_not():
    """Both are right along Hermitian directions. Along others the factor has another slope than
    torch's gradient says, and descending by that gradient leaves the Hermitian matrices."""
    torch = pytest.importorskip("torch")
    a = definite("complex128", 3, 3)
    weights = random("complex128", 3, 3)
    x = torch.tensor(a, requires_grad=True)
    (torch.tensor(weights).conj() * torch.linalg.cholesky(x)).real.sum().backward()
    theirs = x.grad.numpy()
    ours = gradient(lambda a: ng.real(np.conj(weights) * ng.linalg.cholesky(a)).sum(), a)
    computed = differences(lambda a: np.vdot(weights, np.linalg.cholesky(a)).real, a)
    d = definite("complex128", 3, 3)
    slopes = [np.vdot(g, d).real for g in (ours, theirs)]
    np.testing.assert_allclose(slopes, np.vdot(computed, d).real, rtol=1e-7)
    np.testing.assert_allclose(ours, (theirs + adjoint(theirs)) / 2, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(ours, (computed + adjoint(computed)) / 2, rtol=1e-6, atol=1e-8)
    assert np.abs(theirs - adjoint(theirs)).max() > 0.1
    assert np.abs(theirs - computed).max() > 0.1


def test_parameters_that_fill_a_triangle_have_all_of_the_gradient():
    p = np.array([2.0, 0.5, 1.0])

    def stacked(m: Any, p: Any) -> Any:
        return m.stack([p[0], 0 * p[0], p[1], p[2]]).reshape(2, 2)

    def assigned(m: Any, p: Any) -> Any:
        a = m.zeros((2, 2))
        a[0, 0], a[1, 0], a[1, 1] = p[0], p[1], p[2]
        return a

    for read in (
        lambda m, a: m.linalg.cholesky(a).sum(),
        lambda m, a: m.linalg.eigvalsh(a)[0],
        lambda m, a: (m.linalg.eigh(a)[1] ** 2)[0, 0],
    ):
        for fill in (stacked, assigned):
            expected = differences(lambda p, f=fill, r=read: float(r(np, f(np, p))), p)
            found = gradient(lambda p, f=fill, r=read: r(ng, f(ng, p)), p)
            np.testing.assert_allclose(found, expected, rtol=1e-7)


def mixed(dtype: str) -> np.ndarray:
    """Hermitian, filled, and with nan where it is not read."""
    stack = np.stack([definite(dtype, 3, 3) for _ in range(3)])
    stack[1] = np.tril(stack[1])
    stack[2][np.triu_indices(3, 1)] = np.nan
    return stack


@pytest.mark.parametrize("name", list(LOWER))
def test_each_matrix_of_a_stack_has_its_own(name):
    stack = mixed("float64")
    _, ours = weighted(name, stack[0])
    slope = slope_along(ours, random("float64", 3, 3))
    for f in (ours, slope):
        singles = np.stack([gradient(f, a) for a in stack])
        assert np.isfinite(singles).all()
        assert not np.triu(singles[1:], 1).any()
        np.testing.assert_allclose(singles[0], singles[0].T, rtol=1e-10)
        for of_stack in (
            lambda s, f=f: ng.vmap(ng.grad(f))(s),
            ng.grad(lambda s, f=f: ng.vmap(f)(s).sum()),
        ):
            np.testing.assert_allclose(of_stack(stack), singles, rtol=1e-10, atol=1e-12)


@pytest.mark.thorough(but="float64")
@pytest.mark.parametrize(("name", "dtype"), [("cholesky", "complex128"), ("eigh", "float64")])
def test_the_compiled_gradient_of_a_stack(name, dtype):
    stack = mixed(dtype)
    _, ours = weighted(name, stack[0])
    expected = np.stack([gradient(ours, a) for a in stack])
    with configure(engine="native"):
        compiled = ng.jit(ng.grad(lambda s: ng.vmap(ours)(s).sum()))
        np.testing.assert_allclose(compiled(stack), expected, rtol=1e-10, atol=1e-12)
        # The same program: which of them it is depends on values alone.
        np.testing.assert_allclose(compiled(stack[::-1]), expected[::-1], rtol=1e-10, atol=1e-12)
        # With nan where it is read, on both sides: no Hermitian matrix.
        stack[0, 2, 0] = stack[0, 0, 2] = np.nan
        found = np.asarray(compiled(stack))
        np.testing.assert_allclose(found[1:], expected[1:], rtol=1e-10, atol=1e-12)
        assert np.isnan(found[0, 2]).all()
        assert not np.triu(found[0], 1).any()


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_read_may_be_anything(name):
    a, lower = argument(name, "complex128")
    _, ours = weighted(name, a)
    other = np.triu_indices(3, 1) if lower else np.tril_indices(3, -1)
    general = np.tril(a) if lower else np.triu(a)
    expected = gradient(ours, general)
    for anything in (np.nan, np.inf, -np.inf, 1e300):
        general[other] = anything
        found = gradient(ours, general)
        np.testing.assert_allclose(found, expected, rtol=1e-10)
        assert not found[other].any()


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("unit_diagonal", [True, False])
def test_of_triangular_systems_the_other_triangle_has_no_derivative(lower, unit_diagonal):
    a, b = random("complex128", 3, 3) + 3 * np.eye(3), random("complex128", 3, 2)
    is_read = np.tri(3, k=-unit_diagonal, dtype=bool)
    is_read = is_read if lower else is_read.T

    def f(a: Any) -> Any:
        return np.abs(ng.linalg.solve_triangular(a, b, "C", lower, unit_diagonal)).sum()

    for g in (f, slope_along(f, random("complex128", 3, 3))):
        found = gradient(g, np.where(is_read, a, np.nan))
        np.testing.assert_allclose(found, gradient(g, a), rtol=1e-12)
        assert not found[~is_read].any()


@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e200])
def test_hermitian_is_meant_to_rounding(scale):
    """Products of three matrices differ from their adjoints in the last digits."""
    for dtype in DTYPES:
        q = np.linalg.qr(random(dtype, 20, 20)).Q
        a = q @ np.diag(np.arange(1.0, 21.0)) @ adjoint(q) * scale
        assert np.abs(a - adjoint(a)).max() > 0
        found = gradient(lambda a: ng.linalg.eigvalsh(a)[3], a)
        np.testing.assert_allclose(found, adjoint(found), rtol=0, atol=1e-15)
        # Well above: what is read has all of it.
        a[0, 1] *= 1 + 1e-9
        assert not np.triu(gradient(lambda a: ng.linalg.eigvalsh(a)[3], a), 1).any()


@pytest.mark.parametrize("name", NAMES)
def test_matrices_of_one_row_and_of_none(name):
    a = np.array([[2.0 + 0.5j]])  # whose imaginary part is not read
    theirs, ours = weighted(name, a)
    np.testing.assert_allclose(gradient(ours, a), differences(theirs, a), rtol=1e-7, atol=1e-9)
    assert not np.imag(gradient(slope_along(ours, a), a))
    for shape in ((0, 0), (0, 1, 1), (0, 3, 3), (2, 0, 0)):
        f = FUNCTIONS[name]
        found = gradient(lambda a, f=f: sum(x.sum() for x in parts_of(f(ng, a))), np.zeros(shape))
        assert found.shape == shape


def test_values_by_one_triangle_are_those_of_numpy():
    for dtype in DTYPES:
        a = spoiled(definite(dtype, 4, 4), lower=True)
        for rcond in (1e-15, 0.3):
            found = ng.linalg.pinv(a, rcond, hermitian=True)
            np.testing.assert_allclose(found, np.linalg.pinv(a, rcond, hermitian=True), atol=1e-12)
        limit = np.linalg.eigvalsh(a)[1:3].mean()
        found = ng.linalg.matrix_rank(a, limit, hermitian=True)
        assert int(found) == np.linalg.matrix_rank(a, limit, hermitian=True)


def test_checks_of_gradients_need_no_hermitian_argument():
    a = spoiled(definite("complex128", 3, 3), lower=True)
    check_gradients(ng.linalg.cholesky, a)
    check_gradients(ng.linalg.eigvalsh, a)


def test_kernels_of_gradients_are_of_any_size():
    """Rounding depends on the size: as a number, not as text."""

    def sources(n: int) -> list[str]:
        def f(a: Any) -> Any:
            vectors = ng.linalg.eigh(a).eigenvectors
            return (ng.linalg.cholesky(a)[0] * vectors[0] ** 2).sum()

        with configure(engine="native"):
            return [kernel.source for kernel in ng.jit(ng.grad(f)).lower(np.eye(n)).kernels]

    assert sources(40) == sources(50)
