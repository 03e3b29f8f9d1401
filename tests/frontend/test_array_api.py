"""The Python array API standard, 2024.12, from its text: signatures, dtypes, special cases."""

import functools
import inspect
import itertools
import math
from inspect import Parameter

import numpy as np
import pytest

import numba_grad as ng
from tests.complex_grid import complex_grid, different_numbers, values_by_numpy

# What the standard's section on each function says, without annotations.
SIGNATURES = """
__array_namespace_info__()
abs(x, /)
acos(x, /)
acosh(x, /)
add(x1, x2, /)
all(x, /, *, axis=None, keepdims=False)
any(x, /, *, axis=None, keepdims=False)
arange(start, /, stop=None, step=1, *, dtype=None, device=None)
argmax(x, /, *, axis=None, keepdims=False)
argmin(x, /, *, axis=None, keepdims=False)
argsort(x, /, *, axis=-1, descending=False, stable=True)
asarray(obj, /, *, dtype=None, device=None, copy=None)
asin(x, /)
asinh(x, /)
astype(x, dtype, /, *, copy=True, device=None)
atan(x, /)
atan2(x1, x2, /)
atanh(x, /)
bitwise_and(x1, x2, /)
bitwise_invert(x, /)
bitwise_left_shift(x1, x2, /)
bitwise_or(x1, x2, /)
bitwise_right_shift(x1, x2, /)
bitwise_xor(x1, x2, /)
broadcast_arrays(*arrays)
broadcast_to(x, /, shape)
can_cast(from_, to, /)
ceil(x, /)
clip(x, /, min=None, max=None)
concat(arrays, /, *, axis=0)
conj(x, /)
copysign(x1, x2, /)
cos(x, /)
cosh(x, /)
count_nonzero(x, /, *, axis=None, keepdims=False)
cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False)
cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False)
diff(x, /, *, axis=-1, n=1, prepend=None, append=None)
divide(x1, x2, /)
empty(shape, *, dtype=None, device=None)
empty_like(x, /, *, dtype=None, device=None)
equal(x1, x2, /)
exp(x, /)
expand_dims(x, /, *, axis=0)
expm1(x, /)
eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)
finfo(type, /)
flip(x, /, *, axis=None)
floor(x, /)
floor_divide(x1, x2, /)
from_dlpack(x, /, *, device=None, copy=None)
full(shape, fill_value, *, dtype=None, device=None)
full_like(x, /, fill_value, *, dtype=None, device=None)
greater(x1, x2, /)
greater_equal(x1, x2, /)
hypot(x1, x2, /)
iinfo(type, /)
imag(x, /)
isdtype(dtype, kind)
isfinite(x, /)
isinf(x, /)
isnan(x, /)
less(x1, x2, /)
less_equal(x1, x2, /)
linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True)
log(x, /)
log10(x, /)
log1p(x, /)
log2(x, /)
logaddexp(x1, x2, /)
logical_and(x1, x2, /)
logical_not(x, /)
logical_or(x1, x2, /)
logical_xor(x1, x2, /)
matmul(x1, x2, /)
matrix_transpose(x, /)
max(x, /, *, axis=None, keepdims=False)
maximum(x1, x2, /)
mean(x, /, *, axis=None, keepdims=False)
meshgrid(*arrays, indexing='xy')
min(x, /, *, axis=None, keepdims=False)
minimum(x1, x2, /)
moveaxis(x, source, destination, /)
multiply(x1, x2, /)
negative(x, /)
nextafter(x1, x2, /)
nonzero(x, /)
not_equal(x1, x2, /)
ones(shape, *, dtype=None, device=None)
ones_like(x, /, *, dtype=None, device=None)
permute_dims(x, /, axes)
positive(x, /)
pow(x1, x2, /)
prod(x, /, *, axis=None, dtype=None, keepdims=False)
real(x, /)
reciprocal(x, /)
remainder(x1, x2, /)
repeat(x, repeats, /, *, axis=None)
reshape(x, /, shape, *, copy=None)
result_type(*arrays_and_dtypes)
roll(x, /, shift, *, axis=None)
round(x, /)
searchsorted(x1, x2, /, *, side='left', sorter=None)
sign(x, /)
signbit(x, /)
sin(x, /)
sinh(x, /)
sort(x, /, *, axis=-1, descending=False, stable=True)
sqrt(x, /)
square(x, /)
squeeze(x, /, axis)
stack(arrays, /, *, axis=0)
std(x, /, *, axis=None, correction=0.0, keepdims=False)
subtract(x1, x2, /)
sum(x, /, *, axis=None, dtype=None, keepdims=False)
take(x, indices, /, *, axis)
take_along_axis(x, indices, /, *, axis=-1)
tan(x, /)
tanh(x, /)
tensordot(x1, x2, /, *, axes=2)
tile(x, repetitions, /)
tril(x, /, *, k=0)
triu(x, /, *, k=0)
trunc(x, /)
unique_all(x, /)
unique_counts(x, /)
unique_inverse(x, /)
unique_values(x, /)
unstack(x, /, *, axis=0)
var(x, /, *, axis=None, correction=0.0, keepdims=False)
vecdot(x1, x2, /, *, axis=-1)
where(condition, x1, x2, /)
zeros(shape, *, dtype=None, device=None)
zeros_like(x, /, *, dtype=None, device=None)
linalg.cholesky(x, /, *, upper=False)
linalg.cross(x1, x2, /, *, axis=-1)
linalg.det(x, /)
linalg.diagonal(x, /, *, offset=0)
linalg.eigh(x, /)
linalg.eigvalsh(x, /)
linalg.inv(x, /)
linalg.matmul(x1, x2, /)
linalg.matrix_norm(x, /, *, keepdims=False, ord='fro')
linalg.matrix_power(x, n, /)
linalg.matrix_rank(x, /, *, rtol=None)
linalg.matrix_transpose(x, /)
linalg.outer(x1, x2, /)
linalg.pinv(x, /, *, rtol=None)
linalg.qr(x, /, *, mode='reduced')
linalg.slogdet(x, /)
linalg.solve(x1, x2, /)
linalg.svd(x, /, *, full_matrices=True)
linalg.svdvals(x, /)
linalg.tensordot(x1, x2, /, *, axes=2)
linalg.trace(x, /, *, offset=0, dtype=None)
linalg.vecdot(x1, x2, /, *, axis=-1)
linalg.vector_norm(x, /, *, axis=None, keepdims=False, ord=2)
fft.fft(x, /, *, n=None, axis=-1, norm='backward')
fft.fftfreq(n, /, *, d=1.0, dtype=None, device=None)
fft.fftn(x, /, *, s=None, axes=None, norm='backward')
fft.fftshift(x, /, *, axes=None)
fft.hfft(x, /, *, n=None, axis=-1, norm='backward')
fft.ifft(x, /, *, n=None, axis=-1, norm='backward')
fft.ifftn(x, /, *, s=None, axes=None, norm='backward')
fft.ifftshift(x, /, *, axes=None)
fft.ihfft(x, /, *, n=None, axis=-1, norm='backward')
fft.irfft(x, /, *, n=None, axis=-1, norm='backward')
fft.irfftn(x, /, *, s=None, axes=None, norm='backward')
fft.rfft(x, /, *, n=None, axis=-1, norm='backward')
fft.rfftfreq(n, /, *, d=1.0, dtype=None, device=None)
fft.rfftn(x, /, *, s=None, axes=None, norm='backward')
Tensor.__abs__(self, /)
Tensor.__array_namespace__(self, /, *, api_version=None)
Tensor.__bool__(self, /)
Tensor.__complex__(self, /)
Tensor.__dlpack__(self, /, *, stream=None, max_version=None, dl_device=None, copy=None)
Tensor.__dlpack_device__(self, /)
Tensor.__float__(self, /)
Tensor.__getitem__(self, key, /)
Tensor.__index__(self, /)
Tensor.__int__(self, /)
Tensor.__invert__(self, /)
Tensor.__neg__(self, /)
Tensor.__pos__(self, /)
Tensor.__setitem__(self, key, value, /)
Tensor.to_device(self, device, /, *, stream=None)
"""


def object_of(path):
    found = ng
    for name in path.split("."):
        found = getattr(found, name)
    return found


@pytest.mark.parametrize(
    "line", SIGNATURES.strip().splitlines(), ids=lambda line: line.partition("(")[0]
)
def test_every_call_of_the_standard_is_allowed(line):
    path, _, rest = line.partition("(")
    scope: dict = {}
    exec(f"def standard({rest}: pass", scope)
    wanted = inspect.signature(scope["standard"]).parameters.values()
    ours = inspect.signature(object_of(path)).parameters
    takes_any_number = any(p.kind is Parameter.VAR_POSITIONAL for p in ours.values())
    by_name = {
        name
        for name, p in ours.items()
        if p.kind in (Parameter.KEYWORD_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    }
    places = [p.name for p in ours.values() if p.kind.name.startswith("POSITIONAL")]
    for place, parameter in enumerate(wanted):
        name = parameter.name
        if parameter.kind is Parameter.VAR_POSITIONAL:
            assert takes_any_number
            continue
        if parameter.kind is not Parameter.KEYWORD_ONLY:
            assert takes_any_number or place < len(places), f"{name} cannot be passed by position"
        if parameter.kind is Parameter.POSITIONAL_OR_KEYWORD:
            assert places[place] == name, f"{name} is not in the same place"
        if parameter.kind is not Parameter.POSITIONAL_ONLY:
            assert name in by_name, f"{name} cannot be passed by name"
        if name in by_name and parameter.default is not Parameter.empty:
            default = ours[name].default
            assert default == parameter.default or (name, default) in SAME_MEANING, name


# What None stands for in NumPy; sorting is always stable. The tolerance of numpy.linalg.pinv is not
# the standard's unless rtol=None is passed.
SAME_MEANING = {("norm", None), ("stable", None), ("correction", None), ("rtol", 1e-15)}

OPERATORS = [
    *["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"],
    *["and", "or", "xor", "lshift", "rshift"],
]
COMPARISONS = ["lt", "le", "gt", "ge", "eq", "ne"]


def test_the_array_object_has_all_operators_and_attributes():
    names = [f"__{form}{name}__" for name in OPERATORS for form in ("", "r", "i")]
    names += [f"__{name}__" for name in COMPARISONS]
    for name in names:
        parameters = list(inspect.signature(getattr(ng.Tensor, name)).parameters.values())
        assert len(parameters) == 2, name
    x = ng.ones((2, 3))
    assert (x.device, x.dtype, x.ndim, x.shape, x.size) == ("cpu", ng.float64, 2, (2, 3), 6)
    assert x.T.shape == x.mT.shape == (3, 2)
    assert x.to_device("cpu") is x and x.to_device(x.device) is x
    with pytest.raises(ng.errors.DeviceError):
        x.to_device("cuda")


def test_constants_and_dtypes():
    assert (ng.e, ng.inf, ng.pi) == (math.e, math.inf, math.pi) and math.isnan(ng.nan)
    assert ng.newaxis is None
    for name, dtype in ng.__array_namespace_info__().dtypes().items():
        assert np.dtype(getattr(ng, name)) == dtype
        assert ng.zeros(1, dtype=getattr(ng, name)).dtype == getattr(ng, name) == dtype


# Inspection


def test_what_the_namespace_says_of_itself():
    assert ng.__array_api_version__ == "2024.12"
    info = ng.__array_namespace_info__()
    assert info.capabilities() == {
        "boolean indexing": True,
        "data-dependent shapes": True,
        "max dimensions": 64,
    }
    assert info.devices() == [info.default_device()] == ["cpu"]
    defaults = info.default_dtypes(device="cpu")
    assert defaults["real floating"] == ng.ones(1).dtype == ng.asarray(1.0).dtype
    assert defaults["complex floating"] == ng.asarray(1j).dtype
    assert defaults["integral"] == ng.asarray(1).dtype == ng.arange(3).dtype
    assert defaults["indexing"] == ng.argsort([1.0]).dtype == ng.nonzero([1])[0].dtype
    assert set(defaults) == {"real floating", "complex floating", "integral", "indexing"}
    with pytest.raises(ng.errors.DeviceError):
        info.dtypes(device="cuda")


SIGNED, UNSIGNED = ["int8", "int16", "int32", "int64"], ["uint8", "uint16", "uint32", "uint64"]
FLOATS, COMPLEX = ["float32", "float64"], ["complex64", "complex128"]
KINDS = {
    "bool": ["bool"],
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": SIGNED + UNSIGNED,
    "real floating": FLOATS,
    "complex floating": COMPLEX,
    "numeric": SIGNED + UNSIGNED + FLOATS + COMPLEX,
    ("bool", "real floating"): ["bool", *FLOATS],
    (): [],
}
ALL = ["bool", *KINDS["numeric"]]


def test_dtypes_by_kind():
    info = ng.__array_namespace_info__()
    assert sorted(info.dtypes()) == sorted(ALL)
    for kind, names in KINDS.items():
        assert sorted(info.dtypes(kind=kind)) == sorted(names)
        for name in ALL:
            assert ng.isdtype(getattr(ng, name), kind) is (name in names)
            assert ng.isdtype(np.dtype(name), kind) is (name in names)
    assert ng.isdtype(ng.float32, ng.float32) and not ng.isdtype(ng.float32, ng.float64)
    assert ng.isdtype(ng.int8, (ng.int16, ng.int8))


@pytest.mark.parametrize("version", [None, "2021.12", "2022.12", "2023.12", "2024.12"])
def test_the_namespace_of_a_tensor(version):
    assert ng.ones(1).__array_namespace__(api_version=version) is ng


def test_a_version_that_is_not():
    for version in ("2020.01", "2099.12", 2024):
        with pytest.raises(ValueError, match="not a supported revision"):
            ng.ones(1).__array_namespace__(api_version=version)


# Dtypes


def test_limits_of_dtypes():
    for name, bits, eps in (("float32", 32, 2**-23), ("float64", 64, 2**-52)):
        for of in (getattr(ng, name), ng.ones(1, name), getattr(ng, f"complex{2 * bits}")):
            limits = ng.finfo(of)
            assert (limits.bits, limits.eps, limits.dtype) == (bits, eps, np.dtype(name))
            assert limits.max == -limits.min == np.finfo(name).max and limits.smallest_normal > 0
            for field in dir(np.finfo(name)):
                if not field.startswith("_") and field != "dtype":
                    numpys = getattr(np.finfo(name), field)
                    assert getattr(limits, field) == numpys
                    assert type(getattr(limits, field)) in (int, float), field
    assert (ng.ones(1, "float32") + ng.finfo("float64").eps).dtype == ng.float32
    for name in SIGNED + UNSIGNED:
        limits = ng.iinfo(getattr(ng, name))
        assert (limits.bits, limits.dtype) == (8 * np.dtype(name).itemsize, np.dtype(name))
        assert ng.iinfo(ng.zeros(1, name)).max == limits.max == int(np.iinfo(name).max)
        assert limits.min == (0 if name in UNSIGNED else -limits.max - 1)


def promoted(a, b):
    """The standard's tables; None where it leaves the result open."""
    if a == b:
        return a
    for group in (SIGNED, UNSIGNED, FLOATS, COMPLEX):
        if a in group and b in group:
            return max(a, b, key=group.index)
    if a in UNSIGNED and b in SIGNED:
        a, b = b, a
    if a in SIGNED and b in UNSIGNED:
        if b == "uint64":
            return None
        return SIGNED[max(SIGNED.index(a), UNSIGNED.index(b) + 1)]
    if a in COMPLEX and b in FLOATS:
        a, b = b, a
    if a in FLOATS and b in COMPLEX:
        return "complex128" if a == "float64" or b == "complex128" else "complex64"
    return None


PROMOTIONS = [
    (a, b, promoted(a, b))
    for a, b in itertools.product(ALL, repeat=2)
    if promoted(a, b) is not None
]


def test_the_tables_of_promotion_are_whole():
    # One of bool, 16 each of (un)signed, 2 * 12 of mixed integers, and 16 of floats.
    assert len(PROMOTIONS) == 1 + 16 + 16 + 24 + 16


@pytest.mark.usefixtures("numpy_engine")
@pytest.mark.parametrize(("a", "b", "wanted"), PROMOTIONS)
def test_promotion(a, b, wanted):
    x, y = ng.ones((2, 1), a), ng.ones(3, b)
    assert ng.result_type(x, y) == ng.result_type(getattr(ng, a), y) == wanted
    assert ng.result_type(np.dtype(a), np.dtype(b)) == ng.promote_types(a, b) == wanted
    assert ng.where(x != 0, x, y).dtype == ng.concat([x[0], y]).dtype == wanted
    assert (x == y).dtype == ng.bool
    if a == "bool":
        assert ng.logical_and(x, y).dtype == (x & y).dtype == wanted
        return
    for function in (ng.add, ng.subtract, ng.multiply, ng.pow, ng.matmul, ng.vecdot):
        assert function(x, y[:1]).dtype == wanted, function
    assert ng.tensordot(x, y[None], axes=1).dtype == wanted
    if wanted not in COMPLEX:
        for function in (ng.maximum, ng.minimum, ng.remainder, ng.floor_divide):
            assert function(x, y).dtype == wanted, function
        assert (x < y).dtype == (x >= y).dtype == ng.bool
    if wanted in FLOATS + COMPLEX:
        assert (x / y).dtype == wanted
    else:
        for function in (ng.bitwise_and, ng.bitwise_xor, ng.bitwise_left_shift):
            assert function(x, y).dtype == wanted, function
    if np.can_cast(b, a, "same_kind"):
        z = ng.ones((2, 3), a)
        z += y
        assert z.dtype == a


SCALARS = [(True, ["bool"]), (1, ALL[1:]), (1.0, FLOATS + COMPLEX), (1j, COMPLEX)]


@pytest.mark.usefixtures("numpy_engine")
@pytest.mark.parametrize(("scalar", "names"), SCALARS)
def test_python_scalars_take_the_dtype_of_the_array(scalar, names):
    for name in names:
        x = ng.ones(2, name)
        assert ng.result_type(x, scalar) == ng.result_type(scalar, x.dtype) == name
        assert ng.where(x != 0, x, scalar).dtype == name
        if name == "bool":
            assert (x & scalar).dtype == (scalar | x).dtype == name
            continue
        assert (x + scalar).dtype == (scalar - x).dtype == (x**scalar).dtype == name
        assert (ng.multiply(scalar, x)).dtype == name
    # Of mixed kinds, where the standard leaves it open in part.
    assert (ng.ones(1, "float32") + 1j).dtype == ng.complex64


def test_casting():
    for a, b, wanted in PROMOTIONS:
        assert ng.can_cast(getattr(ng, a), getattr(ng, b)) is (wanted == b)
    assert ng.can_cast(ng.ones(1, "int8"), ng.int16)
    assert not ng.can_cast(ng.float64, ng.int64) and ng.can_cast(ng.float64, "f4", "same_kind")


@pytest.mark.usefixtures("numpy_engine")
def test_astype():
    x = ng.asarray([-1.7, 0.0, 2.9])
    assert ng.astype(x, ng.int32).tolist() == [-1, 0, 2]
    assert ng.astype(x, ng.bool).tolist() == [True, False, True]
    assert ng.astype(x, ng.float64, copy=False) is x and ng.astype(x, ng.float64) is not x
    assert ng.astype(x, ng.complex64, device="cpu").dtype == ng.complex64
    with pytest.raises(ng.errors.DeviceError):
        ng.astype(x, ng.float32, device="cuda")
    assert ng.astype(ng.asarray([True, False]), ng.complex128).tolist() == [1, 0]


UNARY = {
    "numeric": "abs negative positive sign square",
    "real": "ceil floor trunc",
    "floating": "acos acosh asin asinh atan atanh cos cosh exp expm1 log log10 log1p log2 "
    "reciprocal sin sinh sqrt tan tanh",
}


@pytest.mark.usefixtures("numpy_engine")
def test_results_have_the_dtype_of_the_input():
    kinds = {
        "numeric": ALL[1:],
        "real": SIGNED + UNSIGNED + FLOATS,
        "floating": FLOATS + COMPLEX,
    }
    for kind, functions in UNARY.items():
        for function, name in itertools.product(functions.split(), kinds[kind]):
            found = getattr(ng, function)(ng.ones(2, name)).dtype
            real = name.replace("complex64", "float32").replace("complex128", "float64")
            assert found == (real if function == "abs" else name), (function, name)
    for name in FLOATS:
        assert ng.signbit(ng.ones(1, name)).dtype == ng.bool
        assert ng.real(ng.ones(1, f"complex{64 * (1 + FLOATS.index(name))}")).dtype == name
    for name in KINDS["numeric"]:
        x = ng.ones((2, 2), name)
        assert ng.isnan(x).dtype == ng.isfinite(x).dtype == ng.isinf(x).dtype == ng.bool
        assert ng.argmax(ng.real(x)).dtype == ng.count_nonzero(x).dtype == ng.int64


@pytest.mark.usefixtures("numpy_engine")
def test_dtypes_of_reductions():
    for name in KINDS["numeric"]:
        # Sums of few bits are of the default integer, or of the unsigned one of its size.
        wanted = "int64" if name in SIGNED else "uint64" if name in UNSIGNED else name
        for function in (ng.sum, ng.prod):
            assert function(ng.ones(2, name)).dtype == wanted
            assert function(ng.ones(2, name), dtype=ng.float32).dtype == ng.float32
    for name in FLOATS + COMPLEX:
        real = {"complex64": "float32", "complex128": "float64"}.get(name, name)
        assert ng.mean(ng.ones(2, name)).dtype == name
        assert ng.var(ng.ones(2, name)).dtype == ng.std(ng.ones(2, name)).dtype == real
    for name in FLOATS + SIGNED + UNSIGNED:
        assert ng.max(ng.ones(2, name)).dtype == ng.min(ng.ones(2, name)).dtype == name
    for name in ALL:
        assert ng.any(ng.ones(2, name)).dtype == ng.all(ng.ones(2, name)).dtype == ng.bool


def test_python_numbers_of_tensors():
    x = ng.asarray(3)
    assert (int(x), float(x), complex(x), bool(x), x.__index__()) == (3, 3.0, 3 + 0j, True, 3)
    assert [10, 20, 30, 40][x] == 40 and complex(ng.asarray(1 + 2j)) == 1 + 2j
    for convert in (int, float):
        with pytest.raises(TypeError):
            convert(ng.asarray(1j))
    with pytest.raises(TypeError):
        ng.asarray(1.0).__index__()
    for name in ("nan", "inf", "-inf"):
        assert repr(float(ng.asarray(float(name)))) == name
    with pytest.raises(OverflowError):
        int(ng.asarray(math.inf))
    with pytest.raises(ValueError, match="NaN"):
        int(ng.asarray(math.nan))


# Special cases: what the text lists for each function, at some values of each range it names.

NAN, INF, PI = math.nan, math.inf, math.pi
UNARY_CASES = {
    "abs": [(-0.0, 0.0), (-INF, INF)],
    "acos": [(1.5, NAN), (-1.5, NAN), (1.0, 0.0)],
    "acosh": [(0.5, NAN), (-2.0, NAN), (1.0, 0.0), (INF, INF)],
    "asin": [(1.5, NAN), (-1.5, NAN), (0.0, 0.0), (-0.0, -0.0)],
    "asinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "atan": [(0.0, 0.0), (-0.0, -0.0), (INF, PI / 2), (-INF, -PI / 2)],
    "atanh": [(-1.5, NAN), (1.5, NAN), (-1.0, -INF), (1.0, INF), (0.0, 0.0), (-0.0, -0.0)],
    "ceil": [(INF, INF), (-INF, -INF), (0.0, 0.0), (-0.0, -0.0), (-0.5, -0.0), (3.0, 3.0)],
    "cos": [(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN)],
    "cosh": [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, INF)],
    "exp": [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1.0)],
    "floor": [(INF, INF), (-INF, -INF), (0.0, 0.0), (-0.0, -0.0), (0.5, 0.0), (-3.0, -3.0)],
    "log": [(-1.0, NAN), (0.0, -INF), (-0.0, -INF), (1.0, 0.0), (INF, INF)],
    "log10": [(-1.0, NAN), (0.0, -INF), (-0.0, -INF), (1.0, 0.0), (INF, INF)],
    "log1p": [(-2.0, NAN), (-1.0, -INF), (-0.0, -0.0), (0.0, 0.0), (INF, INF)],
    "log2": [(-1.0, NAN), (0.0, -INF), (-0.0, -INF), (1.0, 0.0), (INF, INF)],
    "reciprocal": [(INF, 0.0), (-INF, -0.0), (0.0, INF), (-0.0, -INF)],
    "round": [(INF, INF), (-INF, -INF), (-0.0, -0.0), (0.5, 0.0), (2.5, 2.0), (-1.5, -2.0)],
    "sign": [(-3.0, -1.0), (-0.0, 0.0), (0.0, 0.0), (5.0, 1.0), (INF, 1.0), (-INF, -1.0)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "sinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "sqrt": [(-1.0, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, INF)],
    "square": [(-0.0, 0.0), (-INF, INF)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0)],
    "trunc": [(INF, INF), (-INF, -INF), (0.0, 0.0), (-0.0, -0.0), (-0.5, -0.0), (1.5, 1.0)],
    "signbit": [(-0.0, True), (0.0, False), (-INF, True), (INF, False), (-NAN, True)],
    "isfinite": [(NAN, False), (INF, False), (-INF, False), (1.0, True)],
    "isinf": [(NAN, False), (INF, True), (-INF, True), (1.0, False)],
    "isnan": [(NAN, True), (INF, False), (1.0, False)],
}
BINARY_CASES = {
    "add": [
        *[((INF, -INF), NAN), ((-INF, INF), NAN), ((INF, INF), INF), ((-INF, -INF), -INF)],
        *[((INF, 1.0), INF), ((1.0, -INF), -INF), ((-0.0, -0.0), -0.0), ((-0.0, 0.0), 0.0)],
        *[((0.0, -0.0), 0.0), ((-0.0, 2.0), 2.0), ((2.0, -2.0), 0.0), ((NAN, 1.0), NAN)],
    ],
    "subtract": [
        *[((INF, INF), NAN), ((0.0, 0.0), 0.0), ((-0.0, 0.0), -0.0), ((1.0, INF), -INF)],
    ],
    "multiply": [
        *[((INF, 0.0), NAN), ((-0.0, INF), NAN), ((INF, -INF), -INF), ((-INF, -2.0), INF)],
        *[((-0.0, 2.0), -0.0), ((-0.0, -2.0), 0.0), ((NAN, 0.0), NAN)],
    ],
    "divide": [
        *[((INF, INF), NAN), ((0.0, -0.0), NAN), ((0.0, 2.0), 0.0), ((-0.0, 2.0), -0.0)],
        *[((0.0, -2.0), -0.0), ((2.0, 0.0), INF), ((2.0, -0.0), -INF), ((-2.0, 0.0), -INF)],
        *[((INF, 2.0), INF), ((INF, -2.0), -INF), ((2.0, INF), 0.0), ((2.0, -INF), -0.0)],
    ],
    "floor_divide": [
        *[((INF, INF), NAN), ((0.0, 0.0), NAN), ((NAN, 1.0), NAN), ((1.0, NAN), NAN)],
        *[((0.0, 2.0), 0.0), ((-0.0, 2.0), -0.0), ((2.0, INF), 0.0), ((-5.0, 2.0), -3.0)],
    ],
    "remainder": [
        *[((INF, 1.0), NAN), ((-INF, INF), NAN), ((1.0, 0.0), NAN), ((0.0, -0.0), NAN)],
        *[((0.0, 2.0), 0.0), ((-0.0, 2.0), 0.0), ((0.0, -2.0), -0.0), ((-0.0, -2.0), -0.0)],
        *[((2.0, INF), 2.0), ((2.0, -INF), -INF), ((-2.0, INF), INF), ((-2.0, -INF), -2.0)],
        *[((-5.0, 3.0), 1.0), ((5.0, -3.0), -1.0), ((6.0, -3.0), -0.0), ((-6.0, 3.0), 0.0)],
    ],
    "pow": [
        *[((2.0, NAN), NAN), ((NAN, 0.0), 1.0), ((NAN, -0.0), 1.0), ((NAN, 2.0), NAN)],
        *[((2.0, INF), INF), ((-2.0, -INF), 0.0), ((1.0, INF), 1.0), ((1.0, NAN), 1.0)],
        *[((-1.0, INF), 1.0), ((0.5, INF), 0.0), ((-0.5, -INF), INF), ((INF, 2.0), INF)],
        *[((INF, -2.0), 0.0), ((-INF, 3.0), -INF), ((-INF, 2.0), INF), ((-INF, 2.5), INF)],
        *[((-INF, -3.0), -0.0), ((-INF, -2.0), 0.0), ((0.0, 2.0), 0.0), ((0.0, -2.0), INF)],
        *[((-0.0, 3.0), -0.0), ((-0.0, 2.5), 0.0), ((-0.0, -3.0), -INF), ((-0.0, -2.0), INF)],
        *[((-2.0, 0.5), NAN), ((INF, 0.0), 1.0), ((0.0, 0.0), 1.0)],
    ],
    "atan2": [
        *[((2.0, 0.0), PI / 2), ((2.0, -0.0), PI / 2), ((0.0, 2.0), 0.0), ((0.0, 0.0), 0.0)],
        *[((0.0, -0.0), PI), ((0.0, -2.0), PI), ((-0.0, 2.0), -0.0), ((-0.0, 0.0), -0.0)],
        *[((-0.0, -0.0), -PI), ((-0.0, -2.0), -PI), ((-2.0, 0.0), -PI / 2), ((2.0, INF), 0.0)],
        *[((2.0, -INF), PI), ((-2.0, INF), -0.0), ((-2.0, -INF), -PI), ((INF, 2.0), PI / 2)],
        *[((-INF, 2.0), -PI / 2), ((INF, INF), PI / 4), ((INF, -INF), 3 * PI / 4)],
        *[((-INF, INF), -PI / 4), ((-INF, -INF), -3 * PI / 4), ((NAN, 1.0), NAN)],
    ],
    "copysign": [((2.0, -0.0), -2.0), ((-2.0, 0.0), 2.0), ((0.0, -1.0), -0.0), ((2.0, -NAN), -2.0)],
    "hypot": [((INF, NAN), INF), ((NAN, -INF), INF), ((0.0, -3.0), 3.0), ((NAN, 1.0), NAN)],
    "logaddexp": [((NAN, 1.0), NAN), ((INF, -INF), INF), ((INF, INF), INF), ((-INF, 2.0), 2.0)],
    "maximum": [((NAN, 1.0), NAN), ((1.0, NAN), NAN), ((INF, -INF), INF)],
    "minimum": [((NAN, 1.0), NAN), ((1.0, NAN), NAN), ((INF, -INF), -INF)],
    "logical_and": [((NAN, 0.0), False), ((NAN, -1.0), True), ((-0.0, 1.0), False)],
    "logical_xor": [((NAN, 0.0), True), ((NAN, INF), False), ((-0.0, 0.0), False)],
    "equal": [((NAN, NAN), False), ((-0.0, 0.0), True), ((INF, INF), True), ((INF, -INF), False)],
    "not_equal": [((NAN, NAN), True), ((-0.0, 0.0), False)],
    "less": [((NAN, 1.0), False), ((1.0, NAN), False), ((-0.0, 0.0), False), ((-INF, INF), True)],
    "greater_equal": [((NAN, 1.0), False), ((-0.0, 0.0), True), ((INF, INF), True)],
}


def is_same(found, wanted, tolerance):
    if math.isnan(wanted):
        return math.isnan(found)
    return math.isclose(found, wanted, rel_tol=tolerance) and (
        math.copysign(1, found) == math.copysign(1, wanted)
    )


def call_of_two(function, pair):
    return function(pair[0], pair[1])


@pytest.mark.thorough(but="float64")
@pytest.mark.parametrize("dtype", FLOATS)
def test_special_cases_of_the_kernels(dtype):
    """All of them in one program of compiled kernels, with the input as run-time values."""
    inputs, wanted, calls = [], [], []
    for name, cases in UNARY_CASES.items():
        nans = [] if name in ("isnan", "isfinite", "isinf", "signbit") else [(NAN, NAN)]
        cases = cases + nans
        inputs.append(np.array([x for x, _ in cases], dtype))
        calls.append(getattr(ng, name))
        wanted.append((name, cases))
    for name, cases in BINARY_CASES.items():
        inputs.append(np.array([x for x, _ in cases], dtype).T.copy())
        calls.append(functools.partial(call_of_two, getattr(ng, name)))
        wanted.append((name, cases))

    def program(inputs):
        return [call(x) for call, x in zip(calls, inputs, strict=True)]

    with ng.configure(engine="native"):
        results = ng.jit(program)(inputs)
    tolerance = 4 * float(np.finfo(dtype).eps)
    wrong = [
        f"{name}{x} is {found}, not {expected}"
        for (name, cases), result in zip(wanted, results, strict=True)
        for (x, expected), found in zip(cases, result.tolist(), strict=True)
        if not is_same(found, expected, tolerance)
    ]
    assert not wrong, "\n".join(wrong)


COMPLEX_FUNCTIONS = [*UNARY["floating"].split(), "sign", "square", "abs", "conj", "negative"]
# Where NumPy's values are not the standard's.
NOT_NUMPYS = {"expm1": lambda z: (z.real == 0) | ~np.isfinite(z.real), "sign": np.isnan}


def test_complex_special_cases_of_the_kernels():
    """On both sides of all branch cuts, at signed zeros, infinities and nan: what NumPy gives."""
    z = complex_grid(np.dtype(complex), [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, INF, -INF, NAN])
    with ng.configure(engine="native"):
        results = ng.jit(lambda z: [getattr(ng, name)(z) for name in COMPLEX_FUNCTIONS])(z)
    wrong = []
    for name, result in zip(COMPLEX_FUNCTIONS, results, strict=True):
        expected = values_by_numpy(name, z)
        is_numpys = ~NOT_NUMPYS[name](z) if name in NOT_NUMPYS else np.full(z.shape, True)
        different = different_numbers(z[is_numpys].tolist(), result[is_numpys], expected[is_numpys])
        wrong += [f"{name}: {text}" for text in different]
    assert not wrong, "\n".join(wrong)


def test_special_cases_of_reductions_and_empty_arrays():
    empty = ng.zeros((0, 3))
    assert ng.sum(empty, axis=0).tolist() == [0.0] * 3 and ng.prod(empty).item() == 1.0
    assert ng.all(empty).item() is True and ng.any(empty).item() is False
    for function in (ng.max, ng.min, ng.argmax, ng.argmin):
        with pytest.raises(ValueError, match=r"no identity|empty"):
            function(empty)
    x = ng.asarray([1.0, NAN, 3.0])
    for function in (ng.sum, ng.prod, ng.max, ng.min, ng.mean, ng.var, ng.std):
        assert math.isnan(function(x).item()), function
    assert ng.argmax(x).item() == 1
    assert ng.clip(x, 0.0, 2.0).tolist()[::2] == [1.0, 2.0] and ng.isnan(ng.clip(x, 0, 2))[1]


def test_reshape_copies_as_it_is_told():
    x = ng.zeros((2, 2))
    ng.reshape(x, (4,), copy=False)[0] = 1.0
    ng.reshape(x, (4,), copy=True)[1] = 1.0
    assert x.tolist() == [[1.0, 0.0], [0.0, 0.0]]
    with pytest.raises(ValueError, match="a copy is needed"):
        ng.reshape(x.T, (4,), copy=False)


def test_gradients_by_what_is_put_before_a_difference():
    x, end = ng.tensor([1.0, 3.0], requires_grad=True), ng.tensor(0.5, requires_grad=True)
    (ng.diff(x, prepend=end) ** 2).sum().backward()
    assert end.grad.item() == -1.0 and x.grad.tolist() == [1.0 - 4.0, 4.0]
