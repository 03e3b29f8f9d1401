"""Movement primitives: adjoints exactly, batching against a loop, and what they refuse."""

import re

import numpy as np
import pytest

from numba_grad.errors import AxisError, DTypeError, ShapeError
from numba_grad.graph.node import leaf
from numba_grad.ops import elementwise, leaves, reductions  # noqa: F401
from numba_grad.ops.movement import (
    add_slice,
    broadcast_to_op,
    concatenate,
    flip,
    pad,
    reshape,
    slice_,
    transpose,
    update_slice,
)

RECORDS = (
    reshape,
    transpose,
    broadcast_to_op,
    slice_,
    flip,
    pad,
    concatenate,
    update_slice,
    add_slice,
)


def cases():
    for op in RECORDS:
        for k, (arrays, params) in enumerate(op.example(np.random.default_rng(0))):
            yield pytest.param(op, arrays, params, id=f"{op.name}-{k}")


@pytest.mark.parametrize(("op", "arrays", "params"), list(cases()))
def test_adjoint_and_its_adjoint(op, arrays, params, check_adjoint):
    check_adjoint(lambda *x: op(*x, **params), *arrays, rng=np.random.default_rng(1))


@pytest.mark.parametrize(("op", "arrays", "params"), list(cases()))
def test_complex_adjoint(op, arrays, params, check_adjoint):
    arrays = [a + 1j * a[::-1] if a.ndim else a + 2j for a in arrays]
    check_adjoint(lambda *x: op(*x, **params), *arrays, rng=np.random.default_rng(2))


@pytest.mark.parametrize(("op", "arrays", "params"), list(cases()))
def test_batching_matches_a_loop(op, arrays, params, check_batching):
    check_batching(op, arrays, params)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "complex64"])
def test_dtypes_stay(dtype, value):
    x = leaf(np.ones((2, 3), dtype))
    for node in (
        reshape(x, shape=(3, 2)),
        transpose(x, axes=(1, 0)),
        broadcast_to_op(x, shape=(2, 2, 3)),
        slice_(x, starts=(0, 1), sizes=(2, 2), steps=(1, 1)),
        flip(x, axes=(0,)),
        pad(x, low=(1, 0), high=(0, 1), interior=(1, 0)),
        concatenate(x, x, axis=1),
    ):
        assert node.dtype == value(node).dtype == np.dtype(dtype)


def test_axes_that_a_slice_drops_have_one_element():
    x = leaf(np.ones((2, 3)))
    with pytest.raises(ShapeError, match="an axis that is left out has more than one element"):
        slice_(x, starts=(0, 1), sizes=(1, 2), steps=(1, 1), dropped=(0, 1))


def test_pad_places_zeros_between_elements(value):
    x = leaf(np.arange(1.0, 4.0))
    np.testing.assert_array_equal(
        value(pad(x, low=(2,), high=(1,), interior=(1,))), [0, 0, 1, 0, 2, 0, 3, 0]
    )


def test_update_slice_leaves_its_operand_alone(value):
    x = leaf(np.zeros(5))
    written = value(update_slice(x, leaf(np.ones(2)), starts=(1,), steps=(2,)))
    np.testing.assert_array_equal(written, [0, 1, 0, 1, 0])
    np.testing.assert_array_equal(x.value, np.zeros(5))


def test_add_slice_keeps_signed_zeros_outside(value):
    x = leaf(np.full(3, -0.0))
    added = value(add_slice(x, leaf(np.ones(1)), starts=(1,), steps=(1,)))
    assert np.signbit(added).tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("record", "error", "text"),
    [
        (
            lambda x, v: reshape(x, shape=(5, 3)),
            ShapeError,
            "reshape: 12 elements do not fill the shape (5, 3)\n  x     : float64[3, 4]",
        ),
        (
            lambda x, v: broadcast_to_op(x, shape=(3, 5)),
            ShapeError,
            "broadcast_to: x does not broadcast to the shape (3, 5)",
        ),
        (lambda x, v: broadcast_to_op(x, shape=(4,)), ShapeError, "broadcast_to: x does not"),
        (lambda x, v: transpose(x, axes=(0, 0)), AxisError, "transpose: axes are not a permut"),
        (
            lambda x, v: slice_(x, starts=(0, 2), sizes=(3, 2), steps=(1, 2)),
            ShapeError,
            "slice: the region is not inside x",
        ),
        (lambda x, v: flip(x, axes=(2,)), AxisError, "flip: axis out of range or repeated"),
        (
            lambda x, v: pad(x, low=(0, -1), high=(0, 0), interior=(0, 0)),
            ShapeError,
            "pad: padding does not fit x",
        ),
        (
            lambda x, v: concatenate(x, v, axis=0),
            ShapeError,
            "concatenate: shapes differ on another axis than the one to join\n"
            "  array 0 : float64[3, 4]\n  array 1 : float32[2, 2]",
        ),
        (lambda x, v: concatenate(x, x, axis=2), AxisError, "concatenate: axis out of range"),
        (
            lambda x, v: concatenate(v, leaf(np.ones((2, 2))), axis=0),
            DTypeError,
            "concatenate: different dtypes",
        ),
        (
            lambda x, v: update_slice(x, v, starts=(2, 0), steps=(1, 1)),
            ShapeError,
            "update_slice: the region is not inside x",
        ),
        (
            lambda x, v: add_slice(x, v, starts=(0, 0), steps=(1, 1)),
            DTypeError,
            "add_slice: different dtypes",
        ),
    ],
)
def test_refusals_name_the_arguments(record, error, text):
    x, v = leaf(np.ones((3, 4))), leaf(np.ones((2, 2), np.float32))
    with pytest.raises(error, match=re.escape(text)):
        record(x, v)
