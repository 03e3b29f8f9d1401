"""Bits as elements, as NumPy packs them."""

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.errors import AxisError, DTypeError
from tests.frontend.agreement import same

BITS = np.random.default_rng(0).integers(0, 3, (3, 11))


@pytest.mark.parametrize("axis", [None, 0, 1, -2])
@pytest.mark.parametrize("bitorder", ["big", "little"])
def test_there_and_back(axis, bitorder, numpy_engine):
    for bits in (BITS, BITS > 0, BITS[:, :0], BITS[:, ::-2].astype(np.uint16)):
        packed = np.packbits(bits, axis, bitorder)
        same(np.packbits(ng.tensor(bits), axis, bitorder), packed)
        if not packed.size:  # NumPy leaves what it adds then undefined
            same(
                np.unpackbits(ng.tensor(packed), axis, 3),
                np.zeros_like(np.unpackbits(packed, axis, 3)),
            )
            continue
        for count in (None, 0, 3, packed.shape[axis or 0] * 8 + 5, -packed.shape[axis or 0]):
            unpacked = np.unpackbits(packed, axis, count, bitorder)
            same(np.unpackbits(ng.tensor(packed), axis, count, bitorder), unpacked)


def test_in_kernels():
    same(ng.jit(ng.packbits)(ng.tensor(BITS)), np.packbits(BITS))
    rows = np.packbits(BITS, 1)
    same(ng.vmap(lambda x: ng.unpackbits(x, count=11))(ng.tensor(rows)), np.unpackbits(rows, 1, 11))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ng.packbits([1.0]), DTypeError, "packbits: not bits"),
        (lambda: ng.packbits([1], 1), AxisError, "packbits"),
        (lambda: ng.packbits([1], bitorder="middle"), ValueError, "(?s)bitorder='middle'.*'big'"),
        (lambda: ng.unpackbits([1]), DTypeError, r"(?s)unpackbits: not uint8.*a.astype"),
        (lambda: ng.unpackbits(np.uint8([1]), count=-9), ValueError, "(?s)fewer bits.*count >= -8"),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
