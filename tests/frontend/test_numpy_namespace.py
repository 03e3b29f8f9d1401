"""`numba_grad.numpy` and the other public modules: every name of NumPy, and what it stands for."""

import importlib
import inspect
import math
import pickle
import re
import warnings
from types import ModuleType

import numpy
import pytest
import scipy.fftpack
import scipy.linalg

import numba_grad as ng
import numba_grad.numpy as np
import numba_grad.numpy.random as npr
from numba_grad.errors import DTypeError, GradientError, ShapeError, TracingError
from numba_grad.frontend.namespaces import NAMESPACES
from numba_grad.frontend.numpy_namespace import Ufunc
from numba_grad.frontend.tensors import protocols
from numba_grad.frontend.tensors.numpy_functions import of_function, of_ufunc
from tests.processes import run_python

PUBLIC = [name for name in dir(numpy) if not name.startswith("_")]
# NumPy's own functions of arrays that have no counterpart here, and no way to hear of tensors. Of
# tensors without a gradient they make arrays; of others they are refused where NumPy converts them.
CONVERTED_BY_NUMPY = {"asmatrix", "bmat", "frompyfunc", "isfortran", "nested_iters"}


def test_every_public_name_of_numpy_is_there():
    assert set(PUBLIC) <= set(dir(np))
    for name in numpy.__all__:
        assert hasattr(np, name), name
    with pytest.raises(AttributeError, match=r"numba_grad\.numpy.*no attribute 'in1d_or_so'"):
        np.in1d_or_so  # noqa: B018


def test_a_name_is_ours_where_there_is_a_counterpart_and_numpys_elsewhere():
    for name in PUBLIC:
        assert is_whose_it_should_be(name), name


def is_whose_it_should_be(name: str) -> bool:
    theirs, ours = getattr(numpy, name), getattr(np, name)
    if isinstance(theirs, ModuleType):
        is_own = name in ("fft", "linalg", "random")
        return ours.__name__ == (f"numba_grad.numpy.{name}" if is_own else theirs.__name__)
    if isinstance(theirs, numpy.ufunc):
        return isinstance(ours, Ufunc) if theirs in of_ufunc else ours is theirs
    if isinstance(theirs, type) or not callable(theirs):
        own = ("broadcast", "ndarray", "ndenumerate", "vectorize")
        return ours is theirs or name in own or name in ng.__all__
    if theirs in of_function:
        is_reader = name in ("fromfile", "fromstring", "frombuffer")
        return (ours is theirs) == is_reader
    return ours is theirs or name in ng.__all__ or name == "asarray_chkfinite"


@pytest.mark.parametrize("module", ["fft", "linalg", "random"])
def test_submodules_have_every_name_of_numpys(module):
    theirs = importlib.import_module(f"numpy.{module}")
    ours = importlib.import_module(f"numba_grad.numpy.{module}")
    assert set(theirs.__all__) <= set(dir(ours))


@pytest.mark.parametrize("name", sorted(NAMESPACES))
def test_namespaces_are_modules_to_import(name):
    module = importlib.import_module(f"numba_grad.{name}")
    inner = importlib.import_module(f"numba_grad.frontend.{name}")
    assert getattr(ng, name) is module
    assert module.__doc__ == inner.__doc__
    assert [getattr(module, key) for key in inner.__all__] == [
        getattr(inner, key) for key in inner.__all__
    ]


def test_importing_the_package_imports_none_of_them():
    code = """
import sys
import numba_grad
names = [name for name in sys.modules if name.startswith("numba_grad.")]
assert "numba_grad.frontend.numpy_namespace" not in names
assert not {"numba_grad.numpy", "numba_grad.linalg", "numba_grad.special"} & set(names)
from numba_grad.special import erf
import numba_grad.linalg as la
import numba_grad.numpy as np
assert "numba_grad.random" not in sys.modules
assert numba_grad.numpy is np and numba_grad.linalg is la
"""
    run_python(code)


def test_dir_shows_public_names_only():
    names = dir(ng)
    assert set(ng.__all__) <= set(names)
    assert not {"TYPE_CHECKING", "ModuleType", "NAMESPACES", "annotations"} & set(names)
    for name in names:
        if name not in ("bfloat16", "numpy", "__doc__", "__version__"):
            assert name in ng.__all__, name


def test_allocate_then_fill_has_a_gradient():
    def squares(x):
        y = np.zeros(3, order="F")
        for i in range(3):
            y[i] = x[i] ** 2
        y[0] += x[1]
        return np.sum(y)

    slope = ng.grad(squares)(np.arange(3.0))
    assert slope.tolist() == [0, 3, 4]


def test_what_makes_arrays_makes_tensors():
    array = numpy.arange(3.0)
    for result in (
        np.zeros(3),
        np.arange(3),
        np.linspace(0, 1, 3),
        np.copy(array),
        np.zeros_like(array),
        np.tril(numpy.eye(2)),
        np.r_[array, 1],
        np.mgrid[:2, :2],
        np.asanyarray(array),
        np.require(array, float, "W"),
        np.asarray_chkfinite(array),
        np.ones(2, like=ng.zeros(1)),
        np.ones(2, like=array),
        np.ndarray((2, 3)),
    ):
        assert isinstance(result, ng.Tensor)
    with pytest.raises(ValueError, match="inf or nan"):
        np.asarray_chkfinite([1.0, np.nan])


def test_functions_of_tensors_and_lists_of_them_give_tensors():
    x = ng.tensor([1.0, 2.0], requires_grad=True)
    for result in (
        np.sin(x),
        np.sin([x, x]),
        np.mean([x, x], axis=0),
        np.linalg.norm([x, x]),
        np.fft.rfft([x[0], 1.0]),
        np.append([1.0], x),
        np.add.reduce([x, x]),
        np.multiply.outer([1.0], [x]),
        np.where(True, 1.0, [x[0], 2.0]),
        np.sum(a=x),
    ):
        assert isinstance(result, ng.Tensor)
        assert result.requires_grad


def test_functions_of_numbers_and_arrays_give_what_numpy_gives():
    """So sizes stay numbers: of `n += np.prod(shape)` nothing else changes."""
    array = numpy.arange(3.0)
    size = start = np.prod((2, 3))
    size += 1
    assert (type(start), start, size) == (numpy.int64, 6, 7)
    assert type(np.sqrt(2.0)) is type(np.log(2 * np.pi)) is numpy.float64
    assert type(np.linalg.norm(array)) is numpy.float64
    for result in (np.sin(array), np.stack([array, array]), np.fft.rfft(array), np.sin([1.0])):
        assert type(result) is numpy.ndarray
    np.exp(array, out=array)
    assert array[0] == 1


def test_ufuncs_have_their_methods():
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert np.add.reduce(x, 1).tolist() == [3, 7]
    assert np.maximum.accumulate([1, 3, 2]).tolist() == [1, 3, 3]
    assert np.multiply.outer([1, 2], [3, 4]).tolist() == [[3, 4], [6, 8]]
    assert np.add.reduceat([1, 2, 3], [0, 2]).tolist() == [3, 3]
    np.add.at(x, ([0, 0], [0, 0]), 1.0)
    assert x[0, 0].item() == 3
    counts = numpy.zeros(2)
    np.add.at(counts, [0, 0], 1.0)  # an array stays one, and is changed
    assert counts.tolist() == [2, 0]
    assert (np.add.nin, np.add.__name__, np.hypot(3, 4)) == (2, "add", 5)
    assert pickle.loads(pickle.dumps(np.add))(1, 2) == 3
    np.negative(x, x)
    np.abs(x[0], out=x[0])
    assert x.tolist() == [[3, 2], [-3, -4]]


def test_ndarray_is_the_class_of_tensors_and_arrays():
    assert isinstance(np.zeros(2), np.ndarray)
    assert isinstance(numpy.zeros(2), np.ndarray)
    assert issubclass(ng.Tensor, np.ndarray)
    assert not isinstance(2.0, np.ndarray)
    assert "ndarray" in str(np.ndarray[int] | None)
    with pytest.raises(TypeError, match=r"class Name\(numpy.ndarray\)"):

        class Labelled(np.ndarray):
            pass

    with pytest.raises(TypeError, match="frombuffer"):
        np.ndarray((1,), buffer=b"12345678")


def test_ndenumerate_gives_indices_and_elements():
    x = ng.tensor([[1.0, 2.0]], requires_grad=True)
    ((index, first), (_, second)) = np.ndenumerate(x)
    assert index == (0, 0)
    (first * second).backward()
    assert x.grad.tolist() == [[2, 1]]


def test_broadcast_gives_the_shape_and_elements_of_several_arrays():
    x, y = ng.tensor([[1.0, 2.0]], requires_grad=True), numpy.ones((3, 1))
    found, expected = np.broadcast(x, y), numpy.broadcast(x.detach().numpy(), y)
    for name in ("shape", "ndim", "nd", "size", "numiter"):
        assert getattr(found, name) == getattr(expected, name)
    sum(a * b for a, b in found).backward()
    assert x.grad.tolist() == [[3, 3]]
    assert np.broadcast().shape == numpy.broadcast().shape
    with pytest.raises(ValueError, match="broadcast"):
        np.broadcast(x, numpy.ones(3))


def test_what_takes_no_tensors_is_numpys(tmp_path):
    file = tmp_path / "x.npy"
    numpy.save(file, numpy.array(["a", "b"]))
    assert isinstance(np.load(file), numpy.ndarray)
    assert np.float64 is numpy.float64
    assert np.pi is numpy.pi
    with np.errstate(all="ignore"), np.printoptions(precision=2):
        assert str(np.array([1 / 3])) == "tensor([0.33])"
    assert npr.SeedSequence is numpy.random.SeedSequence


def test_a_refused_function_says_so_when_it_is_used():
    x = ng.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(TypeError, match="min_scalar_type: not supported on tensors"):
        np.min_scalar_type(x)
    with pytest.raises(TypeError, match="isnat"):
        np.isnat(x)


def test_every_function_that_computes_with_arrays_is_ours_or_refuses_tensors():
    """Called with tensors in place of all that it needs, none of NumPy's own gives an array."""
    x = ng.tensor([[1.0, 2.0], [3.0, 4.0]])
    silent = set()
    for name in PUBLIC:
        theirs = getattr(numpy, name)
        if getattr(np, name) is not theirs or isinstance(theirs, type | ModuleType):
            continue
        if not callable(theirs):
            continue
        try:
            needed = [
                parameter
                for parameter in inspect.signature(theirs).parameters.values()
                if parameter.default is parameter.empty
                and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
            ]
        except ValueError:
            continue
        if not needed or name in ("test", "info", "source", "savetxt"):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = theirs(*[x for _ in needed])
        except Exception:
            continue
        if isinstance(result, numpy.ndarray | numpy.generic):
            silent.add(name)
    assert silent <= CONVERTED_BY_NUMPY, silent


def test_functions_take_numpys_arguments_by_name_and_place():
    x = np.arange(6.0).reshape(2, 3)
    assert np.reshape(x, shape=(3, 2)).shape == (3, 2)
    assert np.clip(a=x, a_min=1, a_max=2).max().item() == 2
    assert np.eye(N=2, M=3).shape == (2, 3)
    assert np.sum(x, 0, None, None, True).shape == (1, 3)
    assert np.quantile(x, 0.5, 0, None, False, "linear").tolist() == [1.5, 2.5, 3.5]
    assert np.copy(x, order="K").shape == (2, 3)
    assert np.zeros_like(x, subok=False).shape == (2, 3)
    assert math.isclose(np.trapezoid(y=x[0, 1:], dx=2.0), 3.0)


def test_numpys_scalars_are_made_of_integers_within_gradients():
    def f(x):
        largest = np.int64(np.argmax(x))
        return x[largest] * np.float64(np.sum(x > 1)) * np.int32(np.sum(x > 2))

    assert ng.grad(f)(numpy.array([1.0, 2.0, 3.0])).tolist() == [0, 0, 2]


def test_text_dates_records_and_objects_are_numpys_arrays():
    made = [
        np.array(["a", "b", "a"]),
        np.array([[None] * 2]),
        np.asarray([{}, "x"], dtype=object),
        np.zeros(3, dtype=[("name", "U5"), ("mass", float)]),
        np.empty(2, dtype=object),
        np.full(2, None),
        np.arange("2020-01-01", "2020-01-04", dtype="datetime64[D]"),
        np.zeros_like(numpy.array(["a"])),
    ]
    assert all(isinstance(x, numpy.ndarray) for x in made)
    assert [x.dtype.kind for x in made] == ["U", "O", "O", "V", "O", "O", "M", "U"]
    with pytest.raises(TypeError):
        np.zeros(2, dtype="no dtype")
    with pytest.raises(DTypeError):
        np.array([ng.tensor(1.0), None])
    years, size = np.arange(2000, 2003), np.array([2, 3])
    assert years.astype(str).tolist() == ["2000", "2001", "2002"]
    assert years.astype("O").tolist() == [2000, 2001, 2002]
    assert np.empty(size, dtype="O").shape == (2, 3) and np.zeros(size[1], "S2").shape == (3,)
    of_one_shape = np.array([years[:2], 2 * years[:2]], dtype=object)
    assert of_one_shape.tolist() == [[2000, 2001], [4000, 4002]]
    with pytest.raises(GradientError):
        ng.tensor([1.0], requires_grad=True).astype(str)
    x = ng.tensor([1.0, 2.0], requires_grad=True)
    ragged = np.array([x, x[:1], 3.0], object)
    assert ragged.shape == (3,) and ragged[0] is x and ragged[2] == 3.0
    sum(np.sum(part**2) for part in ragged).backward()
    assert x.grad.tolist() == [4.0, 4.0]
    with pytest.raises(ShapeError):
        np.array([[1.0, 2.0], [3.0]])

    def f(x):
        names, parts = np.array(["a", "b", "a"]), np.empty(2, dtype=object)
        parts[0], parts[1] = x[names == "a"], x[names == "b"]
        return np.sum(parts[0] ** 2) + 3 * np.sum(parts[1])

    x = numpy.array([1.0, 2.0, 3.0])
    assert ng.grad(f)(x).tolist() == [2.0, 3.0, 6.0]
    assert ng.jit(ng.grad(f))(x).tolist() == [2.0, 3.0, 6.0]


def test_vectorize_takes_tensors():
    @np.vectorize
    def clipped(x, low=0.0):
        return x * x if x > low else low

    x = numpy.array([[1.0, -2.0, 3.0]])
    assert isinstance(clipped(x), numpy.ndarray)
    assert ng.grad(lambda x: np.sum(clipped(x)))(x).tolist() == [[2.0, 0.0, 6.0]]
    of_both = ng.grad(lambda x, y: np.sum(clipped(x, low=y) * x), argnums=(0, 1))
    by_x, by_y = of_both(x, numpy.array([[0.5], [2.0]]))
    assert by_x.tolist() == [[3.0 + 2.0, 0.5 + 2.0, 27.0 * 2]]
    assert by_y.tolist() == [[-2.0], [1.0 - 2.0]]

    several = np.vectorize(lambda x, table: (x * table[1], x > 0), excluded={1})
    product, is_positive = several(ng.tensor([1.0, -1.0]), [5.0, 7.0])
    assert product.tolist() == [7.0, -7.0] and is_positive.tolist() == [True, False]
    assert np.vectorize(lambda x: x, otypes="f")(ng.tensor([1.0])).dtype == "f4"
    double = ng.jit(ng.grad(lambda x: np.sum(np.vectorize(lambda v: v * v)(x))))
    assert double(x).tolist() == [[2.0, -4.0, 6.0]]
    with pytest.raises(ValueError, match="no elements"):
        clipped(ng.tensor([]))


def test_vectorize_takes_functions_and_objects_beside_tensors():
    """As fields by integrals of functions that are an argument are written."""

    def field(x, y, f, scale):
        return f(x, y) * scale["by"]

    x, y = np.meshgrid(np.linspace(0.0, 1.0, 3), np.linspace(0.0, 1.0, 2))
    found = np.vectorize(field)(x, y, lambda x, y: x + 2 * y, {"by": 3.0})
    np.testing.assert_allclose(found, 3 * (x + 2 * y))
    shapes = numpy.array([[str.upper], [str.lower]], dtype=object)
    lengths = np.vectorize(lambda v, f: v * len(f("ab")))(ng.tensor([1.0, 2.0]), shapes)
    assert lengths.tolist() == [[2.0, 4.0], [2.0, 4.0]]


def test_vectorize_with_a_signature_takes_parts_of_tensors():
    def quadratic(a, x, power):
        return (x @ a @ x) ** power, x / x.sum()

    rng = numpy.random.default_rng(3)
    a, x = rng.random((2, 1, 3, 3)), rng.random((4, 3))
    arguments = {"signature": "(n,n),(n),()->(),(n)"}
    expected = numpy.vectorize(quadratic, **arguments)(a, x, 2.0)
    found = np.vectorize(quadratic, **arguments)(ng.tensor(a), x, 2.0)
    assert [y.shape for y in found] == [(2, 4), (2, 4, 3)]
    for mine, numpys in zip(found, expected, strict=True):
        numpy.testing.assert_allclose(mine, numpys, rtol=1e-13)
    norms = np.vectorize(lambda v: np.sqrt(v @ v), signature="(n)->()")
    slopes = ng.grad(lambda x: np.sum(norms(x)))(x)
    numpy.testing.assert_allclose(slopes, x / numpy.linalg.norm(x, axis=1, keepdims=True))


def test_checks_of_numpys_compare_values_without_their_gradients():
    def f(x):
        numpy.testing.assert_allclose(x * 2, [2.0, 4.0])
        np.testing.assert_array_less(0, x)
        with pytest.raises(AssertionError, match="Mismatched elements: 1 / 2"):
            numpy.testing.assert_array_equal(x, [1.0, 3.0])
        return np.sum(x**2)

    assert ng.grad(f)(numpy.array([1.0, 2.0])).tolist() == [2.0, 4.0]


INSTEAD_OF_CLASSES = {
    "x[k] for k in np.ndindex(x.shape)": lambda x: sum(v for _, v in numpy.ndenumerate(x)),
    "numba_grad.numpy.vectorize(...)": lambda x: numpy.vectorize(lambda v: v * v)(x).sum(),
    "np.where(mask, 0.0, x)": lambda x: numpy.ma.masked_array(x, [True, False]).sum(),
    "np.polyval(c[::-1], x)": lambda x: numpy.polynomial.Polynomial(x)(0.5),
}


@pytest.mark.parametrize("fix", INSTEAD_OF_CLASSES)
def test_classes_of_numpys_that_take_no_tensors(fix):
    with pytest.raises(GradientError, match=re.escape(f"try: {fix}, which has a gradient")):
        ng.grad(INSTEAD_OF_CLASSES[fix])(numpy.array([1.0, 2.0]))


def test_other_functions_of_the_same_name_are_not_recommended():
    def f(coefficients):
        return numpy.polynomial.polynomial.polyval(2.0, coefficients)

    for transformed in (ng.grad(f), ng.jit(f)):
        with pytest.raises((GradientError, TracingError)) as caught:
            transformed(numpy.array([1.0, 2.0]))
        assert "ng.polyval" not in str(caught.value)
        assert "np.polyval(c[::-1], x)" in str(caught.value)
    # SciPy's triangle is another one than NumPy's by default.
    fixes = {"cholesky": "cholesky(..., upper=True)", "qr": "qr(..., mode='complete')"}
    for name, fix in fixes.items():
        theirs = getattr(scipy.linalg, name)
        with pytest.raises(GradientError, match=re.escape(f"ng.linalg.{fix}")):
            ng.grad(lambda x, theirs=theirs: np.sum(theirs(x)[0]))(numpy.eye(2))
    x = ng.ones(3, requires_grad=True)
    with pytest.raises(GradientError, match=re.escape("ng.fft.fft(...)")):
        scipy.fftpack.fft(x)
    with pytest.raises(GradientError) as caught:  # real and imaginary parts in one array
        scipy.fftpack.rfft(x)
    assert "ng.fft" not in str(caught.value)


def test_text_of_what_is_traced_says_so():
    seen = []
    ng.jit(lambda x: seen.append(np.array2string(x, precision=2)) or x)(numpy.ones(2))
    assert seen == ["tensor(<traced>, shape=(2,), dtype=float64)"]


def test_windows_by_strides_are_those_of_the_values():
    """As images are cut into blocks; a tensor is in row order, whatever it is a part of."""
    x = np.arange(24.0).reshape(4, 6)
    for part in (x, x.T, x[::2, 1:]):
        shape = (part.shape[0] - 1, part.shape[1] - 1, 2, 2)
        blocks = np.lib.stride_tricks.as_strided(part, shape, part.strides * 2)
        expected = numpy.lib.stride_tricks.sliding_window_view(numpy.asarray(part), (2, 2))
        numpy.testing.assert_array_equal(blocks, expected)
    assert x.T.strides == (32, 8) and np.ones(2, np.float32).strides == (4,)
    assert x.flags.writeable and x.T.flags["C_CONTIGUOUS"]


def test_windows_by_strides_are_answered_with_windows():
    def windows(x):
        return np.lib.stride_tricks.as_strided(x, (4, 3), (8, 8)).sum()

    for wrap in (ng.jit, ng.grad):
        with pytest.raises(
            (GradientError, TracingError), match=r"sliding_window_view\(x, window\)"
        ):
            wrap(windows)(numpy.arange(6.0))


def test_kinds_of_parameters_are_those_of_signatures():
    count = 0
    for module in (numpy, numpy.linalg, numpy.fft, np, np.linalg, ng):
        for name in dir(module):
            if name == "bfloat16":  # a class, of a package that may be absent
                continue
            function = getattr(module, name)
            if not callable(function) or isinstance(function, type | numpy.ufunc):
                continue
            try:
                parameters = protocols._parameters(function)
            except (ValueError, TypeError):  # NumPy does not tell
                continue
            expected = [(key, parameter.kind) for key, parameter in parameters.items()]
            assert [*protocols._kinds(function).items()] == expected, name
            count += 1
    assert count > 500
