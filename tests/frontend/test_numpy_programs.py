"""Short programs of NumPy compute the same with tensors: views, assignments, dtypes, special cases.

They are in `numpy_programs.txt`. What differs, and why, is below.
"""

import operator
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import numba_grad as ng
import numba_grad.numpy
from numba_grad.errors import DTypeError, GradientError
from numba_grad.frontend.tensors.absent_attributes import FUNCTIONS_INSTEAD, INSTEAD

LINES = [
    line
    for line in (Path(__file__).parent / "numpy_programs.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
pytestmark = [
    pytest.mark.usefixtures("numpy_engine"),
    pytest.mark.filterwarnings("ignore"),  # NumPy's of nan, of nothing, of complex parts left out
]

# What tensors give where NumPy gives something else; an error's class where we refuse.
DIFFERENT = {
    "r = A([1.0, 2]) == None": False,  # one answer, as of PyTorch's tensors
    "r = A([1.0, 2]) == 'a'": False,
    "r = A([[1, 2], [3, 4]]).T.flatten('A')": [1, 3, 2, 4],  # in memory, a tensor is in row order
    "a = A([[1, 2], [3, 4]]); a[0] = [[5, 6]]; r = a": [[5, 6], [3, 4]],
    # NumPy converts without a word
    "a = A([1.0, 2]); a[0] = '3.5'": DTypeError,
    "a = A([1.0, 2]); a[0] = None": DTypeError,
    "a = A([1.0, 2]); a[0] = A(1j)": DTypeError,
    "r = np.where(True, A([1, 2], 'i1'), 1000)": OverflowError,
    "r = np.round(A([True]))": DTypeError,
    # what is recorded has no memory
    "a = A([1, 2, 3, 4]); a.shape = 2, 2": AttributeError,
    "a = A([1, 2, 3, 4]); a.resize(2)": AttributeError,
}


def result(code: str, numpy_namespace: Any, make: Any) -> Any:
    names = {"np": numpy_namespace, "A": make}
    exec(code, names)
    return names.get("r")


def tensor(*arguments: Any, **more: Any) -> ng.Tensor:
    return ng.tensor(np.array(*arguments, **more))


def assert_same(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs)
        for x, y in zip(ours, theirs, strict=True):
            assert_same(x, y)
        return
    x, y = np.asarray(ours), np.asarray(theirs)
    assert (x.dtype, x.shape) == (y.dtype, y.shape)
    np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-14)
    is_number = ~np.isnan(y)
    if y.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(x)[is_number], np.signbit(y)[is_number])


@pytest.mark.thorough(but=r"^numpy-|0$")  # ours has other names for the same functions
@pytest.mark.parametrize("code", LINES)
@pytest.mark.parametrize("namespace", [np, ng.numpy], ids=["numpy", "numba_grad.numpy"])
def test_the_result_is_numpys(code, namespace):
    try:
        expected = result(code, np, np.array)
    except Exception as error:
        with pytest.raises(_class_of_python(error)):
            np.asarray(result(code, namespace, tensor))
    else:
        assert_same(result(code, namespace, tensor), expected)


def _class_of_python(error: Exception) -> type[Exception]:
    """Of NumPy's own errors that of Python which they are derived from: code catches that."""
    return next(x for x in type(error).__mro__ if x.__module__ == "builtins")  # pyright: ignore


@pytest.mark.parametrize("code", DIFFERENT)
def test_what_differs(code):
    expected = DIFFERENT[code]
    if isinstance(expected, type):
        with pytest.raises(expected):
            np.asarray(result(code, np, tensor))
    else:
        found = result(code, np, tensor)
        assert (found if isinstance(found, bool) else found.tolist()) == expected


def test_gradients_flow_through_out_and_not_through_what_a_mask_leaves_out():
    def total(x: Any) -> Any:
        y = np.divide(1.0, x, out=np.zeros_like(x), where=x != 0)
        rows: Any = ng.zeros((2, 3))
        np.sin(x, out=rows[1])
        np.multiply(rows, 2, out=rows)
        return (y + rows.sum(0)).sum()

    x = np.array([1.0, 0.0, 2.0])
    slope = np.array([-1.0, 0.0, -0.25]) + 2 * np.cos(x)
    np.testing.assert_allclose(ng.grad(total)(x), slope, rtol=1e-14)
    np.testing.assert_allclose(ng.jacfwd(total)(x), slope, rtol=1e-14)
    with pytest.raises(GradientError, match="a leaf Variable that requires grad"):
        w: Any = ng.ones(3, requires_grad=True)
        np.add(w, 1, out=w)


def test_sorting_in_place_has_a_gradient():
    def weighted(x: Any) -> Any:
        y = x * 2
        y[1:].sort()
        return (y * np.arange(3.0)).sum()

    assert ng.grad(weighted)(np.array([5.0, 2.0, 1.0])).tolist() == [0, 4, 2]


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("view", "x.reshape(shape)"),
        ("unsqueeze", "x[:, None]"),
        ("sqrt", "np.sqrt(x)"),
        ("det", "np.linalg.det(x)"),
        ("relu", "ng.relu(x)"),
        ("ctypes", "x.detach().numpy().ctypes"),
    ],
)
def test_an_attribute_of_other_arrays_is_an_error_that_says_what_to_type(name, advice):
    with pytest.raises(AttributeError, match=f"no attribute '{name}'") as caught:
        getattr(ng.ones(3), name)
    assert advice in str(caught.value)


def is_code(text: str) -> bool:
    try:
        compile(text, "", "exec")
    except SyntaxError:
        return False
    return "..." not in text.replace("x[...]", "")


@pytest.mark.parametrize("name", [name for name, text in INSTEAD.items() if is_code(text)])
def test_what_is_said_to_type_in_place_of_an_attribute_works(name):
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes", reason="the dtype bfloat16 of NumPy")
    x, y, z = ng.ones((2, 2)), ng.ones((2, 2)), ng.ones((2, 2))
    names = {"np": np, "ng": ng, "x": x, "y": y, "z": z, "mask": x > 0, "value": 1.0, "k": 1}
    names |= {"lowest": 0, "highest": 1, "dtype": "f4", "axis": 0, "axes": (1, 0), "count": 2}
    names |= {"shape": (2, 2), "indices": np.zeros((2, 2), int), "values": y}
    names |= {"start": 0, "length": 1}
    exec(INSTEAD[name], names)


def test_what_is_said_to_type_in_place_of_pytorchs_data_works():
    x = ng.ones(2, requires_grad=True)
    with pytest.raises(AttributeError, match=r"with ng.no_grad\(\): x -= step"):
        x.data -= 1.0
    with pytest.raises(AttributeError, match=r"x\[\.\.\.\] = y"):
        x.data = ng.zeros(2)
    with ng.no_grad():
        x -= 0.5
        x[1] = 0.0
    (x * x).sum().backward()
    np.testing.assert_array_equal(x.grad, [1.0, 0.0])


@pytest.mark.parametrize("name", sorted(FUNCTIONS_INSTEAD))
def test_what_is_said_to_type_in_place_of_functions_of_others_is_there(name):
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'") as refused:
        getattr(ng, name)
    assert FUNCTIONS_INSTEAD[name] in str(refused.value)
    for found in re.findall(r"ng\.([\w.]+)", FUNCTIONS_INSTEAD[name]):
        assert callable(operator.attrgetter(found)(ng))
