"""`x.flat`, against NumPy's."""

import numpy as np
import pytest

import numba_grad as ng

VALUES = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize("index", [1, -1, slice(1, 5, 2), [0, 5], np.array([1, 1]), ...])
def test_elements_are_read_as_in_numpy(index):
    result = ng.tensor(VALUES).flat[index]
    assert result.tolist() == VALUES.flat[index].tolist()


@pytest.mark.parametrize(
    ("index", "value"),
    [
        (1, 7.0),
        (slice(1, 5), [7.0, 8.0]),
        (slice(None), 7.0),
        ([0, 5], [[7.0], [8.0]]),
        (slice(2), [7.0, 8.0, 9.0]),
    ],
)
def test_elements_are_assigned_as_in_numpy(index, value):
    x, array = ng.tensor(VALUES), VALUES.copy()
    x.flat[index] = value
    array.flat[index] = value
    assert x.tolist() == array.tolist()


def test_all_elements_are_assigned_by_the_attribute():
    x, array = ng.tensor(VALUES), VALUES.copy()
    x.flat = [1.0, 2.0, 3.0, 4.0]
    array.flat = [1.0, 2.0, 3.0, 4.0]
    assert x.tolist() == array.tolist()


def test_it_is_gone_through_and_taken_for_an_array():
    x = ng.tensor(VALUES)
    assert [float(v) for v in x.flat] == VALUES.ravel().tolist()
    assert (len(x.flat), float(next(x.flat)), x.flat.base is x) == (6, 0.0, True)
    elements = x.flat
    assert [float(next(elements)) for _ in range(6)] == VALUES.ravel().tolist()
    with pytest.raises(StopIteration):
        next(elements)
    assert ng.sum(x.flat).item() == np.asarray(x.flat).sum() == VALUES.sum()
    assert x.flat.copy().shape == (6,)


def test_gradients_flow_through_what_is_read_and_assigned():
    def f(x):
        y = ng.zeros((2, 2))
        y.flat[1:3] = x * 2
        y.flat[0] = x.flat[1] ** 2
        return ng.sum(y.flat[:3] * ng.array([1.0, 10.0, 100.0]))

    slope = ng.grad(f)(np.array([1.0, 3.0]))
    assert slope.tolist() == [20, 206]
    assert ng.jit(ng.grad(f))(np.array([1.0, 3.0])).tolist() == [20, 206]


def test_what_is_read_is_a_copy_and_views_are_written_through():
    x, array = ng.tensor(VALUES), VALUES.copy()
    for element in x.flat:
        element *= 2
    x.flat[1:3][...] = 7
    assert x.tolist() == VALUES.tolist()
    for a in (x, array):
        turned = a.T
        turned.flat[1] = 70
        a[1].flat = 5
    assert x.tolist() == array.tolist()
