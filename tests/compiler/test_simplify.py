"""Rules of `simplify.py` for arrays that are assigned to and read in parts: the same values, in
fewer operations."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.compiler.passes.simplify import simplify
from numba_grad.config import configure
from numba_grad.graph.node import OPS, argument
from numba_grad.graph.types import array_type
from numba_grad.graph.walk import toposort

F8 = np.dtype(np.float64)
rng = np.random.default_rng(0)


def operations(output):
    (result,) = simplify([output])
    return [node.op.name for node in toposort([result]) if node.inputs]


def region(x, v, start, op, *, on_the_left=True):
    """`x[start:] = x[start:] op v`, as it is recorded."""
    own = OPS["slice"](x, starts=(start,), sizes=v.shape, steps=(1,))
    new = OPS[op](own, v) if on_the_left else OPS[op](v, own)
    return OPS["update_slice"](x, new, starts=(start,), steps=(1,))


def vectors(*sizes):
    return [argument(array_type((n,), F8)) for n in sizes]


def test_a_sum_that_is_assigned_to_a_slice_of_its_own_is_added_there():
    x, v = vectors(40, 30)
    assert operations(region(x, v, 5, "add")) == ["add_slice"]
    assert operations(region(x, v, 5, "add", on_the_left=False)) == ["add_slice"]
    assert operations(region(x, v, 5, "subtract")) == ["negative", "add_slice"]
    assert "update_slice" in operations(region(x, v, 5, "subtract", on_the_left=False))
    assert "update_slice" in operations(region(x, v, 5, "multiply"))


def test_a_sum_with_another_slice_is_still_assigned():
    x, v = vectors(40, 30)
    other = OPS["slice"](x, starts=(4,), sizes=(30,), steps=(1,))
    assigned = OPS["update_slice"](x, OPS["add"](other, v), starts=(5,), steps=(1,))
    assert operations(assigned) == ["slice", "add", "update_slice"]


@pytest.mark.parametrize("shift", [1, 13, 39])
def test_the_adjoint_of_a_roll_is_a_roll(shift):
    (x,) = vectors(40)
    low = OPS["slice"](x, starts=(0,), sizes=(shift,), steps=(1,))
    high = OPS["slice"](x, starts=(shift,), sizes=(40 - shift,), steps=(1,))
    for first, second, start, rest in ((high, low, 0, 40 - shift), (low, high, 40 - shift, 0)):
        above = 40 - start - first.shape[0]
        padded = OPS["pad"](first, low=(start,), high=(above,), interior=(0,))
        whole = OPS["add_slice"](padded, second, starts=(rest,), steps=(1,))
        assert sorted(operations(whole)) == ["concatenate", "slice", "slice"]


def test_halves_that_overlap_or_leave_a_gap_are_added_one_by_one():
    x, u, v = vectors(40, 20, 19)
    first = OPS["add_slice"](x, u, starts=(0,), steps=(1,))
    gap = OPS["add_slice"](first, v, starts=(21,), steps=(1,))
    overlap = OPS["add_slice"](first, v, starts=(19,), steps=(1,))
    assert operations(gap) == operations(overlap) == ["add_slice", "add_slice"]


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("op", ["add_slice", "update_slice"])
def test_what_is_put_at_even_and_at_odd_places_is_one_array_of_pairs(start, op):
    x, u, v = vectors(40, 20, 20)
    first = OPS[op](x, u, starts=(start,), steps=(2,))
    both = OPS[op](first, v, starts=(1 - start,), steps=(2,))
    pairs = ["concatenate", "reshape", "reshape", "reshape"]
    assert sorted(operations(both)) == (["add"] if op == "add_slice" else []) + pairs
    padded = OPS["pad"](u, low=(start,), high=(1 - start,), interior=(1,))
    around = OPS["add_slice"](padded, v, starts=(1 - start,), steps=(2,))
    assert sorted(operations(around)) == pairs
    same_places = OPS[op](first, v, starts=(start,), steps=(2,))
    assert "concatenate" not in operations(same_places)


def test_what_is_put_at_every_third_place_stays():
    x, u = vectors(41, 14)
    first = OPS["add_slice"](x, u, starts=(0,), steps=(3,))
    assert operations(OPS["add_slice"](first, u, starts=(1,), steps=(3,))) == ["add_slice"] * 2


def in_place(u, a):
    new = u.copy()
    new[:, :-1] += a
    new[:, 1:] -= a
    new[:-1] += 0.5 * u[1:]
    new[3, :] -= 2.0
    return new


def rolled(u, a):
    around = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 7, 1) + np.roll(u, -1, 1)
    return np.where(a[:1, :1] > 0, 0.25 * around, u)


def split(u, a):
    left, right = u[:, :9], u[:, 9:]
    return np.concatenate([right * right, a, left], axis=1)


def added_in_halves(u, a):
    new = u * 2.0
    new[:20] += u[:20]
    between = new * new
    new[20:] += u[20:]
    return np.concatenate([new, between])


def even_and_odd(u, a):
    new = np.concatenate([u[:, 1:] * np.cos(a), u[:, :1]], axis=1)[:, :32]
    even, odd = np.sin(new[:, ::2]), new[:, 1::2] * 0.5
    new[:, 1::2] = even - odd
    new[:, ::2] = odd + even * even
    rows = 0.25 * new[:32]
    mixed = rows[::2, ::2] * rows[1::2, 1::2] + rows[1::2, ::2] * rows[::2, 1::2]
    return np.concatenate([np.concatenate([new, new[:, :1]], axis=1), u], axis=0) + mixed[0, 0]


@pytest.mark.thorough(but="in_place|split|added_in_halves|even_and_odd")
@pytest.mark.parametrize("f", [in_place, rolled, split, added_in_halves, even_and_odd])
def test_parts_that_are_assigned_and_read_have_the_values_of_numpy(f):
    def several(u, a):
        for _ in range(3):
            u = f(u, a)[:33, :33]
        return u

    def loss(u, a):
        return np.sum(np.sin(several(u, a)))

    u, a = rng.normal(size=(33, 33)), rng.normal(size=(33, 32))
    value, values = ng.jit(several)(u, a), several(u.copy(), a)
    if f is even_and_odd:  # sines, and sums of products
        np.testing.assert_allclose(value, values, rtol=0, atol=1e-13 * np.abs(values).max())
    else:
        np.testing.assert_array_equal(value, values)
    with configure(engine="reference"):
        expected = ng.grad(loss, argnums=(0, 1))(u, a)
    for got, wanted in zip(ng.jit(ng.grad(loss, argnums=(0, 1)))(u, a), expected, strict=True):
        scale = max(1.0, np.abs(wanted).max())
        np.testing.assert_allclose(got, wanted, rtol=1e-13, atol=1e-13 * scale)
