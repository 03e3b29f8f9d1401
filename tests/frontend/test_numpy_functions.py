"""Every public function against NumPy: values, dtypes, shapes, and what both refuse."""

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import numba_grad as ng
from numba_grad.config import configure

pytestmark = [
    pytest.mark.usefixtures("numpy_engine"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

DTYPES = [
    np.dtype(name)
    for name in [
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
        "complex64",
        "complex128",
    ]
]
# What primitives refuse and NumPy does not: complex numbers are not ordered here, and have no rint.
REFUSED = re.compile(
    r"(maximum|minimum|max|min|less|less_equal|greater|greater_equal|rint|reciprocal): "
    r"not defined for (this dtype|these dtypes)\n  x : (complex|u?int)"
)
SAMPLES = np.array([0, 1, 2, 3, 1, 7, 100, 2])


def sample(dtype: np.dtype, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.permutation(SAMPLES)
    if dtype.kind in "fc":
        values = values / 4 - 1
    if dtype.kind == "c":
        values = values + 1j * rng.permutation(values)
    return values.astype(dtype)


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    """The result, or the class of the error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args)
    except (TypeError, ValueError, OverflowError) as error:
        return error


def check_same(ours: Any, numpys: Any, tolerance: float = 1e-6) -> None:
    if isinstance(numpys, Exception):
        assert isinstance(ours, Exception), f"NumPy raises {numpys!r}; the result is {ours!r}"
        return
    if isinstance(ours, Exception):
        if REFUSED.search(str(ours)):
            return
        raise ours
    if isinstance(numpys, (tuple, list)):
        assert len(ours) == len(numpys)
        for x, y in zip(ours, numpys, strict=True):
            check_same(x, y, tolerance)
        return
    assert isinstance(ours, ng.Tensor)
    expected = np.asarray(numpys)
    assert (ours.dtype, ours.shape) == (expected.dtype, expected.shape)
    if expected.dtype.kind in "biu":
        np.testing.assert_array_equal(ours.detach(), expected)
    else:
        if expected.dtype == np.float16:
            tolerance = 5e-3
        elif expected.dtype in (np.float32, np.complex64):
            tolerance = max(tolerance, 1e-5)
        np.testing.assert_allclose(ours.detach(), expected, rtol=tolerance, atol=tolerance)


UNARY = [
    *[
        "absolute",
        "negative",
        "positive",
        "sign",
        "square",
        "reciprocal",
        "sqrt",
        "cbrt",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log1p",
    ],
    *[
        "log2",
        "log10",
        "sin",
        "cos",
        "tan",
        "arcsin",
        "arccos",
        "arctan",
        "sinh",
        "cosh",
        "tanh",
        "arcsinh",
        "arccosh",
        "arctanh",
    ],
    *[
        "floor",
        "ceil",
        "trunc",
        "rint",
        "logical_not",
        "invert",
        "isnan",
        "isinf",
        "isfinite",
        "conjugate",
        "fabs",
        "deg2rad",
    ],
    *["rad2deg", "signbit", "real", "imag", "angle", "nan_to_num"],
]
# NumPy's loops of float16 through float32 and of complex reciprocals and signs are as ours.
BINARY = [
    *[
        "add",
        "subtract",
        "multiply",
        "divide",
        "floor_divide",
        "remainder",
        "fmod",
        "power",
        "arctan2",
        "hypot",
    ],
    *[
        "maximum",
        "minimum",
        "fmax",
        "fmin",
        "copysign",
        "logical_and",
        "logical_or",
        "logical_xor",
        "bitwise_and",
    ],
    *[
        "bitwise_or",
        "bitwise_xor",
        "left_shift",
        "right_shift",
        "equal",
        "not_equal",
        "less",
        "less_equal",
    ],
    *["greater", "greater_equal", "logaddexp", "logaddexp2", "heaviside", "float_power"],
]


@pytest.mark.parametrize("name", UNARY)
def test_unary_functions_have_the_dtypes_and_values_of_numpy(name):
    for dtype in DTYPES:
        x = sample(dtype)
        if name == "reciprocal" and dtype.kind in "iu":
            x = np.where(x == 0, 3, x).astype(dtype)  # that of 0 is not defined
        check_same(outcome(getattr(ng, name), x), outcome(getattr(np, name), x))


@pytest.mark.parametrize("name", BINARY)
def test_binary_functions_promote_as_numpy(name):
    for first in DTYPES:
        for second in DTYPES[::2] if first.kind != "f" else DTYPES:
            x, y = sample(first), sample(second, 1)
            if name in ("left_shift", "right_shift"):
                y = y % 7 if y.dtype.kind in "iu" else y
            check_same(outcome(getattr(ng, name), x, y), outcome(getattr(np, name), x, y))


@pytest.mark.parametrize("scalar", [2, -3, 300, 0.5, 2.0, 1j, True, np.float32(2), np.int8(2)])
def test_operators_with_scalars_promote_as_numpy(scalar):
    operators: list[Callable[[Any, Any], Any]] = [
        lambda x, y: x + y,
        lambda x, y: y - x,
        lambda x, y: x * y,
        lambda x, y: y / x,
        lambda x, y: x // y,
        lambda x, y: y % x,
        lambda x, y: x < y,
        lambda x, y: y >= x,
        lambda x, y: x == y,
        lambda x, y: x & y,
    ]
    for dtype in DTYPES:
        x = sample(dtype)
        for operator in operators:
            check_same(outcome(operator, ng.tensor(x), scalar), outcome(operator, x, scalar))


@pytest.mark.parametrize(
    "exponent", [0, 1, 2, 3, 7, -1, -2, 0.5, 2.0, -0.5, 40, -1.5, 4.5, 0.0, 2j]
)
def test_powers_with_scalar_exponents(exponent):
    for dtype in DTYPES:
        x = sample(dtype)
        check_same(
            outcome(lambda x: x**exponent, ng.tensor(x)), outcome(lambda x: x**exponent, x), 1e-5
        )


def test_powers_with_scalar_bases():
    for dtype in DTYPES:
        x = sample(dtype) % 5 if dtype.kind in "iu" else sample(dtype)
        check_same(outcome(lambda x: 2**x, ng.tensor(x)), outcome(lambda x: 2**x, x), 1e-5)


@pytest.mark.parametrize(
    "name",
    ["+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>", "==", "<", "divmod", "matmul"],
)
def test_an_array_on_the_left_reaches_our_operators(name):
    x, y = np.array([5, 6, 7]), np.array([1, 2, 3])
    functions = {
        "divmod": divmod,
        "matmul": lambda a, b: a @ b,
    }
    function = functions.get(name) or eval(f"lambda a, b: a {name} b")
    for left, right in ((x, ng.tensor(y)), (ng.tensor(x), y), (ng.tensor(x), ng.tensor(y))):
        check_same(function(left, right), function(x, y))
    scalar = np.int64(3)
    if name != "matmul":
        check_same(function(scalar, ng.tensor(y)), function(scalar, y))
        check_same(function([5, 6, 7], ng.tensor(y)), function(x, y))


REDUCTIONS = [
    "sum",
    "prod",
    "max",
    "min",
    "any",
    "all",
    "mean",
    "var",
    "std",
    "ptp",
    "count_nonzero",
]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_have_the_dtypes_of_numpy(name):
    for dtype in DTYPES:
        x = sample(dtype).reshape(2, 4)
        check_same(outcome(getattr(ng, name), x), outcome(getattr(np, name), x))
        for axis in (0, -1, (0, 1), (1,), ()):
            for keepdims in (False, True):
                kwargs = {"axis": axis, "keepdims": keepdims}
                ours = outcome(lambda x, k=kwargs: getattr(ng, name)(x, **k), x)
                check_same(ours, outcome(lambda x, k=kwargs: getattr(np, name)(x, **k), x), 1e-5)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_argmax(name):
    x = np.random.default_rng(0).integers(0, 4, (3, 4, 2))
    for axis in (None, 0, 1, -1):
        for keepdims in (False, True):
            expected = getattr(np, name)(x, axis, keepdims=keepdims)
            check_same(getattr(ng, name)(x, axis, keepdims=keepdims), expected)
            check_same(getattr(np, name)(ng.tensor(x), axis, keepdims=keepdims), expected)


def test_dtype_and_ddof():
    x = np.arange(12).reshape(3, 4)
    for dtype in (np.float32, np.int8, np.complex128):
        for name in ("sum", "prod", "mean"):
            check_same(getattr(ng, name)(x, 0, dtype), getattr(np, name)(x, 0, dtype))
        check_same(ng.cumsum(x, 0, dtype), np.cumsum(x, 0, dtype))
    for ddof in (0, 1, 4, 5):
        check_same(ng.var(x, 1, ddof=ddof), np.var(x, 1, ddof=ddof))
        check_same(ng.std(x * 1j, 1, ddof=ddof), np.std(x * 1j, 1, ddof=ddof))
    check_same(ng.std(x, 1, np.float32), np.std(x, 1, np.float32))


def test_logsumexp_and_softmax():
    special = pytest.importorskip("scipy.special")
    x = np.array([[1000.0, 1000.0, -np.inf], [0.5, -2.0, 3.0], [-np.inf] * 3, [np.inf, 0, 1]])
    check_same(ng.logsumexp(x, 1), special.logsumexp(x, 1))
    check_same(ng.logsumexp(x[:2]), special.logsumexp(x[:2]))
    check_same(ng.logsumexp(x, 1, keepdims=True), special.logsumexp(x, 1, keepdims=True))
    check_same(ng.softmax(x[:2]), special.softmax(x[:2], -1))
    check_same(ng.softmax(x[:2], (0, 1)), special.softmax(x[:2]))
    check_same(ng.log_softmax(x[:2], 0), special.log_softmax(x[:2], 0))


X = np.random.default_rng(1).standard_normal((2, 3, 4))
N = np.arange(24).reshape(2, 3, 4)
WITH_NAN = np.array([[1.0, np.nan, 3.0, -2.0], [np.nan] * 4, [0.5, 2.0, np.nan, 7.0]])
QUANTILES = [0.0, 0.1, 0.25, 0.5, 0.625, 0.75, 0.9, 1.0]
METHODS = [
    "inverted_cdf",
    "averaged_inverted_cdf",
    "closest_observation",
    "interpolated_inverted_cdf",
    "hazen",
    "weibull",
    "linear",
    "median_unbiased",
    "normal_unbiased",
    "lower",
    "higher",
    "midpoint",
    "nearest",
]

# (function of a module and arrays, arrays): the same in NumPy and here, through both modules.
CALLS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (lambda m, x: m.reshape(x, (4, -1)), (X,)),
    (lambda m, x: m.reshape(x, 24), (X,)),
    (lambda m, x: m.ravel(x), (X,)),
    (lambda m, x: m.transpose(x), (X,)),
    (lambda m, x: m.transpose(x, (1, 0, 2)), (X,)),
    (lambda m, x: m.transpose(x, (-1, 0, 1)), (X,)),
    (lambda m, x: m.matrix_transpose(x), (X,)),
    (lambda m, x: m.permute_dims(x, (2, 0, 1)), (X,)),
    (lambda m, x: m.swapaxes(x, 0, -1), (X,)),
    (lambda m, x: m.moveaxis(x, 0, -1), (X,)),
    (lambda m, x: m.moveaxis(x, [0, 2], [1, 0]), (X,)),
    (lambda m, x: m.expand_dims(x, 1), (X,)),
    (lambda m, x: m.expand_dims(x, (0, -1)), (X,)),
    (lambda m, x: m.squeeze(x), (X[:, :1],)),
    (lambda m, x: m.squeeze(x, 1), (X[:, :1],)),
    (lambda m, x: m.squeeze(x, axis=(1,)), (X[:, :1],)),
    (lambda m, x: m.atleast_1d(x), (np.float64(3),)),
    (lambda m, x: m.atleast_2d(x), (X[0, 0],)),
    (lambda m, x: m.broadcast_to(x, (5, 2, 3, 4)), (X,)),
    (lambda m, x, y: list(m.broadcast_arrays(x, y)), (X, N[0, 0])),
    (lambda m, x: m.flip(x), (X,)),
    (lambda m, x: m.flip(x, (0, -1)), (X,)),
    (lambda m, x: m.fliplr(x), (X,)),
    (lambda m, x: m.flipud(x), (X,)),
    (lambda m, x: m.roll(x, 5), (X,)),
    (lambda m, x: m.roll(x, -2, 1), (X,)),
    (lambda m, x: m.roll(x, (1, 2), axis=(0, 2)), (X,)),
    (lambda m, x: m.diff(x), (X,)),
    (lambda m, x: m.diff(x, 2, axis=0), (X,)),
    (lambda m, x: m.diff(x > 0), (X,)),
    (lambda m, x, y: m.concatenate([x, y]), (X, N)),
    (lambda m, x, y: m.concatenate((x, y), axis=-1), (X, N)),
    (lambda m, x, y: m.concatenate([x, y], None), (X, N)),
    (lambda m, x, y: m.concat([x, y], axis=1), (N, X)),
    (lambda m, x, y: m.concatenate([x, y], dtype=np.float32), (N, X)),
    (lambda m, x, y: m.stack([x, y]), (X, N)),
    (lambda m, x, y: m.stack([x, y], axis=-1), (X, X)),
    (lambda m, x, y: m.stack((x, y), 1), (np.int8([1]), np.uint8([2]))),
    (lambda m, x, y: m.vstack([x, y]), (X[0], N[0])),
    (lambda m, x, y: m.vstack([x, y]), (X[0, 0], N[0, 0])),
    (lambda m, x, y: m.hstack([x, y]), (X[0], N[0])),
    (lambda m, x, y: m.hstack([x, y]), (X[0, 0], N[0, 0])),
    (lambda m, x, y: m.column_stack([x, y]), (X[0, 0], N[0].T)),
    (lambda m, x: m.split(x, 2, axis=2), (X,)),
    (lambda m, x: m.split(x, [1, 3], axis=-1), (X,)),
    (lambda m, x: m.split(x, [3, 1, 9], axis=-1), (X,)),
    (lambda m, x: m.array_split(x, 3, axis=2), (X,)),
    (lambda m, x: m.unstack(x, axis=1), (X,)),
    (lambda m, x: m.tile(x, 2), (X,)),
    (lambda m, x: m.tile(x, (2, 1, 3, 1)), (X,)),
    (lambda m, x: m.tile(x, (2, 3)), (X,)),
    (lambda m, x: m.repeat(x, 3), (X,)),
    (lambda m, x: m.repeat(x, 2, axis=1), (X,)),
    (lambda m, x: m.repeat(x, [0, 2, 1], 1), (X,)),
    (lambda m, x: m.pad(x, 2), (X,)),
    (lambda m, x: m.pad(x, (1, 2), constant_values=7), (N,)),
    (
        lambda m, x: m.pad(x, ((0, 1), (2, 0), (1, 1)), constant_values=((1, 2), (3, 4), (5, 6))),
        (X,),
    ),
    (lambda m, x: m.pad(x, 1, mode="edge"), (X,)),
    (lambda m, x: m.pad(x, ((0, 1), (2, 2), (1, 1)), "reflect"), (X,)),
    (lambda m, x: m.pad(x, 1, "wrap"), (X,)),
    (lambda m, x: m.tril(x), (X,)),
    (lambda m, x: m.triu(x, 1), (X,)),
    (lambda m, x: m.tril(x, -1), (N,)),
    (lambda m, x: m.tril(x, 1), (X[0, 0],)),
    (lambda m, x: m.triu(x), (N[0, 0],)),
    (lambda m, x: m.triu(x), (X[0, 0, :0],)),
    (lambda m, x, y: list(m.meshgrid(x, y)), (X[0, 0], N[0, :, 0])),
    (lambda m, x, y: list(m.meshgrid(x, y, x, indexing="ij")), (X[0, 0], N[0, :, 0])),
    (lambda m, x, y: m.where(x > 0, x, y), (X, N)),
    (lambda m, x: m.where(x > 0, x, 0), (np.float32(X),)),
    (lambda m, x: m.where(x, 1, 2.0), (X,)),
    (lambda m, x: m.clip(x, -0.5, 0.5), (X,)),
    (lambda m, x: m.clip(x, None, 0.5), (X,)),
    (lambda m, x: m.clip(x, 3, 10), (np.uint8(N),)),
    (lambda m, x, y: m.clip(x, y, 1), (X, np.array([0.0, np.nan, 2.0, -1.0]))),
    (lambda m, x: m.clip(x, 0.5, -0.5), (X,)),
    (lambda m, x: m.take(x, [0, -1, 1], axis=1), (X,)),
    (lambda m, x: m.take(x, np.array([[3, 5]])), (X,)),
    (lambda m, x: m.take(x, [5, -9], mode="wrap", axis=2), (X,)),
    (lambda m, x: m.take(x, [5, -9], mode="clip", axis=2), (X,)),
    (lambda m, x: m.take_along_axis(x, np.argsort(X, 1), axis=1), (X,)),
    (lambda m, x: m.take_along_axis(x, np.array([[[2], [0], [1]]]), axis=-1), (X,)),
    (lambda m, x: m.argsort(x, axis=1), (X,)),
    (lambda m, x: m.argsort(x, axis=None), (X,)),
    (lambda m, x: m.sort(x), (X,)),
    (lambda m, x: m.sort(x, axis=0), (X,)),
    (lambda m, x: m.sort(x, None), (X,)),
    (lambda m, x: m.sort(x), (np.array([2.0, np.nan, -np.inf, 1.0, np.nan, -0.0, 0.0]),)),
    (lambda m, x: m.cumsum(x), (X,)),
    (lambda m, x: m.cumsum(x, axis=1), (X,)),
    (lambda m, x: m.cumsum(x, 2), (np.uint8(N),)),
    (lambda m, x: m.nonzero(x), (N % 3,)),
    (lambda m, x: m.round(x, 2), (X,)),
    (lambda m, x: m.round(x * 100, -1), (X,)),
    (lambda m, x: m.round(x), (N,)),
    (lambda m, x: m.nan_to_num(x), (np.array([np.nan, np.inf, -np.inf, 1.0]),)),
    (
        lambda m, x: m.nan_to_num(x, nan=1, posinf=2, neginf=3),
        (np.array([np.nan, np.inf, -np.inf]),),
    ),
    (
        lambda m, x, y: m.isclose(x, y),
        (np.array([1.0, np.inf, np.nan, 0]), np.array([1 + 1e-9, np.inf, np.nan, 1e-7])),
    ),
    (
        lambda m, x, bound: m.isclose(x, 0, rtol=0.1, atol=bound),
        (np.float32([1, 2]), np.array([[1 - 2**-53], [3]])),
    ),
    (lambda m, x, y: m.matmul(x, y), (X, N[0].T)),
    (lambda m, x, y: m.matmul(x, y), (X, N[0, 0])),
    (lambda m, x, y: m.matmul(x, y), (X[0, 0], X[0].T)),
    (lambda m, x, y: m.matmul(x, y), (X[0, 0], X.swapaxes(1, 2))),
    (lambda m, x, y: m.matmul(x, y), (X[0, 0], N[0, 0])),
    (lambda m, x, y: m.matmul(x, y), (N > 5, N[0].T > 3)),
    (lambda m, x, y: m.matmul(x, y), (N[0, 0] > 5, N[0, 0] > 3)),
    (lambda m, x, y: m.matmul(x, y), (np.int8(N), np.int8(N[0].T))),
    (lambda m, x, y: m.matmul(x, y), (X[:, None], X[None].swapaxes(2, 3))),
    (lambda m, x, y: m.matmul(x, y), (np.ones((3, 0)), np.ones((0, 2)))),
    (lambda m, x, y: m.dot(x, y), (X, N.transpose(0, 2, 1))),
    (lambda m, x, y: m.dot(x, y), (X, X[0, 0])),
    (lambda m, x, y: m.dot(x, y), (X, 3)),
    (lambda m, x, y: m.dot(x, y), (X[0], N[0].T)),
    (lambda m, x, y: m.inner(x, y), (X, N[0])),
    (lambda m, x, y: m.outer(x, y), (X[0], N[0])),
    (lambda m, x, y: m.vdot(x, y), (X + 1j, N * 2j)),
    (lambda m, x, y: m.vecdot(x, y), (X + 1j, N[0] * 2j)),
    (lambda m, x, y: m.vecdot(x, y, axis=0), (X, N)),
    (lambda m, x, y: m.tensordot(x, y), (X, N[0])),
    (lambda m, x, y: m.tensordot(x, y, 0), (X[0], N[0])),
    (lambda m, x, y: m.tensordot(x, y, axes=([0, 2], [1, 0])), (X, N.transpose(2, 0, 1))),
    (lambda m, x, y: m.tensordot(x, y, 3), (X, N)),
    (lambda m, x: m.diagonal(x), (X,)),
    (lambda m, x: m.diagonal(x, 1, 2, 0), (X,)),
    (lambda m, x: m.diagonal(x, -7), (X,)),
    (lambda m, x: m.trace(x), (N,)),
    (lambda m, x: m.trace(x, -1, 1, 2), (X,)),
    (lambda m, x: m.diag(x), (X[0],)),
    (lambda m, x: m.diag(x, 2), (X[0, 0],)),
    (lambda m, x: m.diag(x, -1), (N[0, 0],)),
    (lambda m, x: m.linalg.norm(x), (X,)),
    (lambda m, x: m.linalg.norm(x, axis=1), (X * 1j,)),
    (lambda m, x: m.linalg.norm(x, axis=(0, 2), keepdims=True), (X,)),
    (lambda m, x: m.linalg.norm(x, 1, 0), (X,)),
    (lambda m, x: m.linalg.norm(x, np.inf, -1), (X,)),
    (lambda m, x: m.linalg.norm(x, 3, -1), (X,)),
    (lambda m, x: m.linalg.norm(x, 0, -1), (np.float64(N % 2),)),
    (lambda m, x: m.linalg.norm(x, np.inf), (X[0],)),
    (lambda m, x: m.linalg.norm(x, 1, axis=(1, 0)), (X,)),
    (lambda m, x: m.linalg.vector_norm(x, axis=(0, 1)), (X,)),
    (lambda m, x, y: m.linalg.solve(x, y), (X[0] @ X[0].T, X[0])),
    (lambda m, x, y: m.linalg.solve(x, y), (X[0] @ X[0].T, X[0, :, 0])),
    (lambda m, x, y: m.linalg.solve(x, y), (N[0, :, :3] + np.eye(3, dtype=int) * 7, N[0, :, 0])),
    (lambda m, x, y: m.linalg.solve(x, y), (np.eye(3, dtype=np.int8) * 7, np.float32(X[0, :, 0]))),
    (lambda m, x, y: m.linalg.lstsq(x, y)[0], (np.float32(X[0]).T, np.int8([1, 2, 3, 4]))),
    (lambda m, x: m.linalg.inv(x), (X[0] @ X[0].T,)),
    (lambda m, x: m.average(x), (X,)),
    (lambda m, x: m.average(x, axis=(0, 2), keepdims=True), (N,)),
    (lambda m, x, w: m.average(x, weights=w), (X, N)),
    (lambda m, x, w: m.average(x, axis=1, weights=w), (X, np.float32([1, 2, 3]))),
    (lambda m, x, w: m.average(x, axis=(2, 0), weights=w), (N, np.abs(X[:, 0].T))),
    (lambda m, x, w: m.average(x, 1, w, True), (X, np.array([1.0, 2.0, 3.0]))),
    (lambda m, x: m.average(x, 0, returned=True), (X,)),
    (lambda m, x: m.median(x), (X,)),
    (lambda m, x: m.median(x, axis=1), (N,)),
    (lambda m, x: m.median(x, axis=(0, 2), keepdims=True), (X,)),
    (lambda m, x: m.median(x, 0), (WITH_NAN,)),
    (lambda m, x: m.quantile(x, 0.3), (X,)),
    (lambda m, x: m.quantile(x, 0.3, axis=-1), (np.float32(X),)),
    (lambda m, x, q: m.quantile(x, q, axis=(0, 1)), (X, np.array([[0.0, 0.25], [0.5, 1.0]]))),
    (lambda m, x, q: m.quantile(x, q, 2, keepdims=True), (N, np.array([0.1, 0.7]))),
    (lambda m, x: m.percentile(x, 35, axis=1), (X,)),
    (lambda m, x: m.percentile(x, [20, 80], method="midpoint"), (X,)),
    (lambda m, x: m.nanmedian(x, 0), (WITH_NAN,)),
    (lambda m, x: m.nanquantile(x, 0.4, axis=1), (WITH_NAN,)),
    (lambda m, x: m.nanpercentile(x, [0, 50, 100], axis=0), (WITH_NAN,)),
    *[
        (lambda m, x, k=k: m.quantile(x, QUANTILES, axis=1, method=k), (N[0] % 7 / 2,))
        for k in METHODS
    ],
    (lambda m, x: m.cov(x), (X[0],)),
    (lambda m, x: m.cov(x), (X[0, 0],)),
    (lambda m, x: m.cov(x, rowvar=False), (N[1],)),
    (lambda m, x, y: m.cov(x, y), (X[0], X[1])),
    (lambda m, x: m.cov(x, bias=True), (X[0] + 1j * X[1],)),
    (lambda m, x: m.cov(x, ddof=2, fweights=[1, 2, 0, 3]), (X[0],)),
    (lambda m, x: m.cov(x, aweights=[1, 2, 0.5, 3]), (X[0],)),
    (lambda m, x: m.cov(x, fweights=[1, 2, 1, 3], aweights=[1, 2, 0.5, 3]), (X[0],)),
    (lambda m, x: m.corrcoef(x), (X[0],)),
    (lambda m, x, y: m.corrcoef(x, y), (X[0, 0], X[1, 0])),
    (lambda m, x: m.corrcoef(x), (X[0] + 1j * X[1],)),
    *[
        (lambda m, x, f=f, a=a: getattr(m, f)(x, axis=a), (WITH_NAN,))
        for f in ("nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin")
        for a in (None, 0, 1)
    ],
    (lambda m, x: m.nanmean(x), (N,)),
    (lambda m, x: m.nanmax(x, keepdims=True), (N,)),
    (lambda m, x: m.nanvar(x, ddof=1), (WITH_NAN * 1j,)),
    (lambda m, x: m.nanstd(x, axis=0, ddof=2, keepdims=True), (WITH_NAN,)),
    (lambda m, x: m.nansum(x, 0, np.float32), (WITH_NAN,)),
    (lambda m, x: m.nancumsum(x, 1), (WITH_NAN,)),
    (lambda m, x: m.trapezoid(x), (N,)),
    (lambda m, x: m.trapezoid(x, dx=0.5, axis=1), (X,)),
    (lambda m, x, y: m.trapezoid(x, y, axis=0), (X, np.array([0.0, 0.3]))),
    (lambda m, x, y: m.trapezoid(x, y), (X, np.cumsum(np.abs(X), -1))),
    (lambda m, x: m.gradient(x), (X[0, 0],)),
    (lambda m, x: m.gradient(x, axis=1), (N,)),
    (lambda m, x: m.gradient(x, 0.5, axis=(1, 2)), (X,)),
    (lambda m, x: m.gradient(x, 0.5, 2.0, 3.0), (X,)),
    (lambda m, x: m.gradient(x, axis=-1, edge_order=2), (X,)),
    (lambda m, x, y: m.gradient(x, y, axis=2), (X, np.array([0.0, 0.5, 2.0, 2.5]))),
    (lambda m, x, y: m.gradient(x, y, axis=2, edge_order=2), (X, np.array([0.0, 0.5, 2.0, 2.5]))),
    (lambda m, x: m.unwrap(x), (4 * np.cumsum(X, -1),)),
    (lambda m, x: m.unwrap(x, axis=0, discont=4.0), (9 * X,)),
    (lambda m, x: m.unwrap(x, period=6), (N[0] * 5,)),
    (lambda m, x: m.unwrap(x, period=6), (np.int8(N[0] * 5),)),
    (lambda m, x: m.vander(x, 3), (np.array([np.nan, np.inf, 2.0]),)),
    (lambda m, x: m.trapezoid(x), (X > 0,)),
    (lambda m, x: m.trapezoid(x * 9), (np.int8(N),)),
    (lambda m, x: m.unwrap(x, period=5), (N[0] * 4,)),
    (lambda m, p, x: m.polyval(p, x), (X[0, 0], X[1])),
    (lambda m, p, x: m.polyval(p, x), (N[0, 0], N[1])),
    (lambda m, p, x: m.polyval(p, x), (X[0], X[1, 0])),
    (lambda m, x, y: m.cross(x, y), (X.swapaxes(1, 2), N.swapaxes(1, 2))),
    (lambda m, x, y: m.cross(x, y, axis=1), (X, N)),
    (lambda m, x, y: m.cross(x, y, axisa=1, axisb=0, axisc=0), (X, N[0])),
    (lambda m, x: m.vander(x), (X[0, 0],)),
    (lambda m, x: m.vander(x, N=2), (N[0, 0],)),
    (lambda m, x: m.vander(x, 6, increasing=True), (np.int8(N[0, 0]),)),
    (lambda m, x, y: m.kron(x, y), (X[0], N)),
    (lambda m, x, y: m.kron(x, y), (X, X[0, 0])),
    (lambda m, x: m.sinc(x), (X,)),
    (lambda m, x: m.sinc(x), (np.array([0.0, -0.0, 1.0, 1e-8, 0.15, 0.16, np.nan]),)),
    (lambda m, x, y: m.logaddexp2(x, y), (X, np.array([-np.inf, np.inf, 1000.0, np.nan]))),
    (lambda m, x: m.atleast_3d(x), (X[0],)),
    (lambda m, x: m.atleast_3d(x), (X[0, 0],)),
    (lambda m, x, y: m.dstack([x, y]), (X[0], N[0])),
    (lambda m, x: m.hsplit(x, 3), (X,)),
    (lambda m, x: m.hsplit(x, [1]), (X[0, 0],)),
    (lambda m, x: m.vsplit(x, 2), (X,)),
    (lambda m, x: m.dsplit(x, [1, 3]), (X,)),
    *[(lambda m, x, k=k: m.rot90(x, k), (X,)) for k in (-1, 0, 1, 2, 3)],
    (lambda m, x: m.rot90(x, axes=(2, 0)), (X,)),
    *[(lambda m, x, a=a, b=b: m.rollaxis(x, a, b), (X,)) for a in (0, 1, -1) for b in range(-3, 4)],
    (lambda m, x: m.diff(x, prepend=0, append=x[..., :2]), (N,)),
    (lambda m, x: m.diff(x, 2, 0, prepend=x[:1]), (X,)),
    (lambda m, x: m.diff(x, append=1.5), (N,)),
    (lambda m, x: m.diff(x, 0, append=1.5), (N,)),
    (lambda m, x: m.reshape(x, (-1, 2), copy=True), (X,)),
    (lambda m, x: m.zeros_like(x), (X,)),
    (lambda m, x: m.ones_like(x, dtype=np.int8), (X,)),
    (lambda m, x: m.full_like(x, 7), (np.float32(X),)),
    # Reductions and others of a number take axis 0, and -1.
    *[
        (lambda m, x, name=name, axis=axis: getattr(m, name)(x, axis=axis), (X[0, 0, 0],))
        for name in (
            *("sum", "prod", "max", "min", "any", "all", "ptp", "argmax", "argmin", "cumsum"),
            *("cumprod", "count_nonzero", "nansum", "nanmax", "squeeze", "cumulative_sum"),
        )
        for axis in (0, -1)
    ],
    (lambda m, x: m.take(x, 0, axis=-1), (X[0, 0, 0],)),
    (lambda m, x: m.take(x, [0, 0], axis=0), (X[0, 0, 0],)),
    (lambda m, x: m.repeat(x, 3, axis=0), (X[0, 0, 0],)),
    (lambda m, x: m.sort(x, axis=None), (X[0, 0, 0],)),
    (lambda m, x: m.cumulative_prod(x), (X[0, 0, 0],)),
    (lambda m, x: m.max(x, axis=0, initial=9.0), (X[0, 0, 0],)),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_functions_of_arrays_are_those_of_numpy(number):
    call, arrays = CALLS[number]
    expected = call(np, *arrays)
    check_same(call(ng, *arrays), expected)
    if number not in NOT_OF_TENSORS:
        check_same(call(np, *[ng.tensor(x) for x in arrays]), expected)


def test_vectors_of_two_components_have_a_third_that_is_zero():
    """NumPy had this until 2.5."""

    def third(x, axis=-1):
        return np.insert(x, 2, 0, axis=axis)

    x, n = X[0, :, :2], N[0, :, :3]
    check_same(ng.cross(x, N[0, 0, :2]), np.cross(third(x), third(N[0, 0, :2]))[..., 2])
    check_same(ng.cross(X[0, 0, :2], n[0]), np.cross(third(X[0, 0, :2]), n[0]))
    check_same(ng.cross(n, x, axisc=0), np.cross(n, third(x), axisc=0))
    check_same(ng.cross(N[0, :2], n[0], axisa=0), np.cross(third(N[0, :2], 0), n[0], axisa=0))


# numpy.broadcast_arrays and the like give tuples or take what has no tensor in it.
NOT_OF_TENSORS: set[int] = set()

EINSUM = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ij->ji", (2, 3)),
    ("ij", (2, 3)),
    ("ba", (2, 3)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("i,i", (4,), (4,)),
    ("i,i->i", (4,), (4,)),
    ("i,j->ji", (4,), (3,)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("...ij,...jk->...ik", (2, 3, 4), (4, 5)),
    ("...i,...i->...", (2, 3), (3,)),
    ("...i->i...", (2, 3, 4)),
    ("ij,ij->", (2, 3), (2, 3)),
    ("ij,kl->", (2, 3), (4, 5)),
    ("ijk,k->ij", (2, 3, 4), (4,)),
    ("ij,j->ij", (2, 3), (3,)),
    ("ij,j->i", (2, 3), (1,)),
    ("ij,jk->ik", (2, 1), (3, 4)),
    ("iij,jkk->ik", (2, 2, 3), (3, 4, 4)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("i,ij,j", (2,), (2, 3), (3,)),
    ("a,b,c,d->dcba", (2,), (3,), (4,), (5,)),
    ("abc,cd,be,ad->e", (2, 3, 4), (4, 5), (3, 6), (2, 5)),
    (" i j , j -> i ", (2, 3), (3,)),
    ("ij,jk->ik", (2, 0), (0, 4)),
    ("i->", (0,)),
]


@pytest.mark.parametrize("case", EINSUM, ids=lambda case: case[0])
@pytest.mark.parametrize("optimize", [False, True])
def test_einsum(case, optimize):
    subscripts, *shapes = case
    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal(shape) for shape in shapes]
    expected = np.einsum(subscripts, *arrays)
    check_same(ng.einsum(subscripts, *arrays, optimize=optimize), expected)
    check_same(np.einsum(subscripts, *map(ng.tensor, arrays), optimize=optimize), expected)


@settings(max_examples=40)
@given(st.data())
def test_broadcasting_promotion_and_operators(data):
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3))
    dtypes = data.draw(st.tuples(*[st.sampled_from(DTYPES)] * 2))
    name = data.draw(st.sampled_from([*BINARY[:4], "maximum", "less", "arctan2", "logical_and"]))
    arrays = [
        data.draw(hnp.arrays(dtype, shape, elements=_elements(dtype)))
        for dtype, shape in zip(dtypes, shapes.input_shapes, strict=True)
    ]
    with configure(engine="reference"), np.errstate(all="ignore"):
        check_same(outcome(getattr(ng, name), *arrays), outcome(getattr(np, name), *arrays))


def _elements(dtype):
    if dtype.kind == "b":
        return st.booleans()
    if dtype.kind in "iu":
        return st.integers(1, 100)
    if dtype.kind == "c":
        return st.complex_numbers(min_magnitude=0.25, max_magnitude=8, width=64)
    return st.floats(0.25, 8, width=16)


@settings(max_examples=60)
@given(st.data())
def test_indices_of_every_form(data):
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=3, max_side=4))
    x = np.arange(np.prod(shape), dtype=float).reshape(shape)
    index = data.draw(
        st.one_of(
            hnp.basic_indices(shape, allow_newaxis=True),
            *([hnp.integer_array_indices(shape)] if shape else []),
            hnp.arrays(bool, shape),
        )
    )
    with configure(engine="reference"):
        check_same(ng.tensor(x)[index], x[index])
        written, ours = x.copy(), ng.tensor(x)
        written[index] = -1
        ours[index] = -1
        check_same(ours, written)


def test_reduce_and_accumulate_of_ufuncs():
    x = ng.tensor(X)
    check_same(np.add.reduce(x), np.add.reduce(X))
    check_same(np.multiply.reduce(x, axis=(0, 1)), np.multiply.reduce(X, axis=(0, 1)))
    check_same(np.maximum.reduce(x, axis=1, keepdims=True), X.max(1, keepdims=True))
    check_same(np.add.accumulate(x, 1), np.add.accumulate(X, 1))


def test_arguments_by_numpys_names_and_positions():
    x = ng.tensor(X)
    check_same(np.sum(a=x, axis=1, keepdims=True), np.sum(a=X, axis=1, keepdims=True))
    check_same(np.sum(x, 1, None, None, True), np.sum(X, 1, None, None, True))
    check_same(np.max(a=x, axis=0, out=None), X.max(0))
    check_same(np.transpose(a=x, axes=(2, 1, 0)), X.T)
    check_same(np.tile(A=x, reps=2), np.tile(X, 2))
    check_same(np.linalg.norm(x=x, ord=None, axis=0), np.linalg.norm(X, axis=0))
    check_same(np.linalg.solve(a=x[0] @ x[0].T, b=X[0]), np.linalg.solve(X[0] @ X[0].T, X[0]))
    check_same(np.clip(x, a_min=0, a_max=1), np.clip(X, 0, 1))
    check_same(np.clip(x, min=0), np.clip(X, 0, None))
    check_same(np.zeros_like(a=x, order="K"), np.zeros_like(X))
    assert np.shape(x) == (2, 3, 4) and np.ndim(x) == 3 and np.size(x) == 24 and np.size(x, 1) == 3
    assert np.allclose(x, X) and np.array_equal(x, X) and not np.iscomplexobj(x)
    assert np.result_type(x, np.float32) == np.float64 and np.can_cast(x, np.complex128)
    assert np.common_type(x, ng.tensor(np.complex64([1]))) is np.complex128
    assert np.common_type(ng.tensor(np.float32([1])), ng.tensor(np.float16([1]))) is np.float32
    check_same(np.where(x > 0), np.where(X > 0))
    check_same(np.append(x, [1.0]), np.append(X, [1.0]))


SAMPLED = np.array([[1.25, -0.5, 3.0], [0.5, 2.5, -1.75]])
EDGES = {
    "diagonal of bool": lambda x: np.diag(x[0] > 0, 1),
    "sinc of bool": lambda x: np.sinc(x > 0),
    "powers of single precision": lambda x: np.vander(x[0].astype("float32"), 3),
    "places of double precision": lambda x: np.gradient(
        x.astype("float32"), np.array([0.0, 1.0, 3.0]), axis=1
    ),
    "inverse indices of a number": lambda x: tuple(np.unique_all(x[0, 0])),
    "largest of no element": lambda x: np.linalg.norm(x[:0, 0], np.inf),
    "rounded complex": lambda x: np.rint(x * (1 + 2j)),
    "rounded complex to decimals": lambda x: np.round(x * (0.1 + 0.3j), 1),
    "median of nothing": lambda x: np.median(x[:0], axis=0),
    "median of no integers": lambda x: np.nanmedian(x[:0].astype(int), keepdims=True),
    "quantiles of no rows": lambda x: np.quantile(x[:, :0], [0.1, 0.5], axis=0),
}


@pytest.mark.parametrize("name", EDGES)
def test_what_is_easily_forgotten(name):
    check_same(EDGES[name](ng.tensor(SAMPLED)), EDGES[name](SAMPLED))


@pytest.mark.parametrize("method", ["lower", "higher", "nearest", "inverted_cdf"])
def test_quantiles_that_are_elements_keep_their_dtype(method):
    for x in (np.array([3, 2**60 + 1, 2**61, 5]), np.float16([1, 2, np.nan]), np.float32([3, 1])):
        for function in (np.quantile, np.nanquantile):
            expected = function(x, [0.2, 0.6], method=method)
            result = function(ng.tensor(x), [0.2, 0.6], method=method)
            check_same(result, expected, 0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: np.ptp(x, out=np.zeros(())), r"numpy\.ptp: out= is not supported"),
        (lambda x: np.sum(x, out=np.zeros(())), r"numpy\.sum: out= is not supported"),
        (lambda x: np.add(x, 1, out=np.zeros(3)), r"numpy\.add: out= is not supported"),
        (lambda x: np.add(x, 1, where=[True]), r"numpy\.add: where= is not supported"),
        (lambda x: np.add(x, 1, order="F"), r"numpy\.add: order= is not supported"),
        (lambda x: np.power.reduceat(x, [0]), r"numpy\.power\.reduceat: not supported on tensors"),
        (lambda x: np.isnat(x), r"numpy\.isnat: not supported on tensors"),
        (
            lambda x: np.min_scalar_type(x),
            r"numpy\.min_scalar_type\(x\.detach\(\)\.numpy",
        ),
        (lambda x: scipy.special.airy(x), r"scipy\.special\.airy: not supported"),
        (lambda x: np.isnat(x), r"try: numpy\.isnat\(x\.detach\(\)\.numpy\(\)\)"),
        (lambda x: np.isnat(x), r"the nearest is numpy\.isnan\n"),
        (
            lambda x: np.busday_count(x, x),
            r"under the same name\n",
        ),
        (lambda x: np.copyto(np.zeros(3), x), r"copyto: cannot write into a ndarray"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(call, message):
    with pytest.raises(TypeError, match=message):
        call(ng.tensor([1.0, 2.0, 3.0]))


def test_in_place_operators_of_arrays_are_refused():
    a = np.ones(3)
    with pytest.raises(TypeError, match=r"(?s)in place.*try: a = a \+ x"):
        a += ng.ones(3)


def test_public_names_have_docstrings():
    named = set(ng.__all__) - {"e", "euler_gamma", "inf", "nan", "newaxis", "pi", "config"}
    assert [name for name in sorted(named) if not getattr(ng, name).__doc__] == []
