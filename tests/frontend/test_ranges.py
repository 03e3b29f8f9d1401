"""Evenly spaced values against NumPy, and their gradients by both ends."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.errors import AxisError, ShapeError
from numba_grad.testing import check_gradients
from tests.frontend.agreement import same

pytestmark = pytest.mark.usefixtures("numpy_engine")

RANGES = [
    (5,),
    (2, 7),
    (7, 2, -2),
    (0,),
    (3, 3),
    (5, 2),
    (2.5,),
    (0.1, 1.0, 0.1),
    (1, 10, 2.5),
    (10, 0, -3),
    (True,),
    (np.int32(4),),
    (np.float32(4),),
]


@pytest.mark.parametrize("arguments", RANGES)
def test_arange(arguments):
    expected = np.arange(*[a.item() if isinstance(a, np.generic) else a for a in arguments])
    same(ng.arange(*arguments), expected)
    for dtype in ("f4", float, int):
        same(ng.arange(*arguments, dtype=dtype), np.arange(*arguments, dtype=dtype))


def test_arange_takes_plain_numbers():
    same(ng.arange(ng.tensor(3)), np.arange(3))
    with pytest.raises(ValueError, match="step is 0"):
        ng.arange(1, 2, 0)
    with pytest.raises(TypeError, match="gradient"):
        ng.arange(ng.tensor(3.0, requires_grad=True))


ENDS = [
    (0, 1),
    (2, -1),
    (1.5, 1.5),
    (np.array([1.0, 2.0]), np.array([[3.0], [2.0]])),
    (np.float32([1, 2]), np.float32(8)),
    (1 + 2j, np.array([3.0, -1j])),
    (np.zeros((2, 0)) + 1, 2.0),
]
FORMS = [
    {},
    {"num": 7},
    {"num": 1},
    {"num": 0},
    {"num": 4, "endpoint": False},
    {"num": 1, "endpoint": False},
    {"num": 5, "axis": -1},
    {"num": 5, "dtype": np.float32},
    {"num": 6, "dtype": int},
]


@pytest.mark.parametrize("name", ["linspace", "logspace", "geomspace"])
@pytest.mark.parametrize("ends", ENDS, ids=str)
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_ranges_of_numbers_and_of_tensors_are_numpys(name, ends, form):
    if name == "geomspace":
        ends = tuple([np.where(end, end, 3).astype(np.asarray(end).dtype)[()] for end in ends])
    wanted = np.dtype(form.get("dtype", complex))
    if np.result_type(*ends).kind == "c" and wanted.kind != "c":
        form = {**form, "dtype": np.complex64}
    elif wanted.kind == "i" and name == "geomspace":
        return  # truncating what is nearly an integer: no two computations agree
    expected = getattr(np, name)(*ends, **form)
    same(getattr(ng, name)(*ends, **form), expected)
    tolerance = 1e-5 if expected.dtype in (np.float32, np.complex64) else 1e-13
    tensors = [ng.tensor(end) for end in ends]
    same(
        getattr(np, name)(*tensors, **form),
        expected,
        tolerance * max(1, np.abs(ends[0]).max(initial=0)),
    )


def test_the_distance_of_neighbours():
    for ends, num, endpoint in (((0, 1), 5, True), ((2.0, 7.0), 5, False), ((0.0, 1.0), 1, True)):
        values, step = np.linspace(*ends, num, endpoint, retstep=True)
        for given in (ends, [ng.tensor(float(end)) for end in ends]):
            ours, distance = ng.linspace(*given, num, endpoint, retstep=True)
            same(ours, values)
            same(distance, np.asarray(step))


def test_ends_are_exact():
    start, stop = ng.tensor(0.1), ng.tensor(0.7)
    for function in (ng.linspace, ng.geomspace):
        values = function(start, stop, 11)
        assert values[0].item() == 0.1 and values[-1].item() == 0.7


@pytest.mark.parametrize("name", ["linspace", "logspace", "geomspace"])
@pytest.mark.parametrize("endpoint", [True, False])
def test_gradients_by_both_ends(name, endpoint):
    def function(start, stop):
        return getattr(ng, name)(start, stop, 5, endpoint, axis=-1)

    check_gradients(function, np.array([0.5, 1.0]), np.array([[2.0], [1.25]]))
    negative = -np.array([0.5, 1.0]), -np.array([1.5, 2.5])
    if name != "logspace":
        check_gradients(function, *negative)


def test_gradients_by_the_base_and_of_few_values():
    check_gradients(lambda base: ng.logspace(0.5, 2, 4, base=base), np.array([2.0, 3.0]))
    for num in (1, 2):
        for name in ("linspace", "geomspace"):
            grad = ng.grad(lambda x, f=name, n=num: getattr(ng, f)(x, 2 * x, n).sum())
            assert grad(3.0).item() == (1.0 if num == 1 else 3.0)


def test_ranges_inside_of_transformed_functions():
    x = np.array([1.0, 2.0, 3.0])
    found = ng.vmap(lambda x: ng.linspace(0.0, x, 4))(x)
    same(found, np.linspace(0.0, x, 4, axis=1))
    with ng.configure(engine="native"):
        found = ng.jit(ng.grad(lambda x: (ng.geomspace(1.0, x, 5) ** 2).sum()))(x[2])
    k = np.arange(5) / 4
    assert found.item() == pytest.approx((2 * k * 3.0 ** (2 * k - 1)).sum(), rel=1e-12)


def test_ranges_that_are_not():
    with pytest.raises(ValueError, match="linspace: negative number"):
        ng.linspace(0, 1, -1)
    with pytest.raises(TypeError):
        ng.linspace(0, 1, 2.5)
    with pytest.raises(ValueError, match="zero"):
        ng.geomspace(0, 1)
    with pytest.raises(ShapeError, match="do not broadcast"):
        ng.linspace(ng.ones(2), np.ones(3))
    with pytest.raises(AxisError):
        ng.linspace(ng.ones(2), 1, axis=2)
    assert not np.isfinite(ng.geomspace(ng.tensor(0.0), 1.0, 3)[1].numpy())


def test_functions_of_indices():
    same(ng.fromfunction(lambda i, j: i == j, (3, 3), dtype=int), np.eye(3, dtype=bool))
    v = ng.tensor(2.0, requires_grad=True)
    ng.fromfunction(lambda i, j, *, scale: scale * (i + j), (2, 3), scale=v).sum().backward()
    assert v.grad.item() == 9.0


def test_windows():
    for size in (0, 1, 2, 7):
        for name in ("bartlett", "blackman", "hamming", "hanning"):
            same(getattr(ng, name)(size), getattr(np, name)(size))
        same(ng.kaiser(size, 8.5), np.kaiser(size, 8.5))
    with pytest.raises(TypeError, match="kaiser: its numbers have no gradient"):
        ng.kaiser(3, ng.tensor(1.0, requires_grad=True))
