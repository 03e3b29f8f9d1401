"""Transforms as operations: exact adjoints, what they refuse, and how work is cut."""

import ctypes

import numpy as np
import pytest

from numba_grad.compiler.evaluate import evaluate
from numba_grad.errors import AxisError, DTypeError, ShapeError
from numba_grad.graph.node import leaf
from numba_grad.ops.fourier import ADJOINT_NORM, fft, irfft, rfft, scale_of
from numba_grad.runtime import library

# Programs that were made with its address keep it, so it must not go.
NOTHING = ctypes.CFUNCTYPE(None, *(ctypes.c_int64,) * 4)(lambda *_: None)


def complex_of(rng, *shape):
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


@pytest.mark.parametrize("norm", ADJOINT_NORM)
@pytest.mark.parametrize("n", [1, 2, 3, 8, 11])
def test_adjoints_are_exact(check_adjoint, norm, n):
    """As linear maps of real vectors: parts of complex numbers count separately."""
    rng = np.random.default_rng(n)
    for inverse in (False, True):
        check_adjoint(
            lambda x, inverse=inverse: fft(x, axis=1, inverse=inverse, norm=norm),
            complex_of(rng, 2, n),
            rng=rng,
        )


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("norm", ADJOINT_NORM)
@pytest.mark.parametrize("n", [1, 2, 3, 8, 11])
def test_adjoints_between_real_lines_and_half_spectra(norm, n):
    """<g, A x> == <A* g, x>, with the real inner product of complex numbers."""
    rng = np.random.default_rng(n)
    x, spectrum = rng.standard_normal((3, n)), complex_of(rng, 3, n // 2 + 1)
    forward = rfft(leaf(x), axis=1, norm=norm)
    adjoint = rfft.vjp(0, leaf(spectrum), forward, leaf(x), axis=1, norm=norm)
    evaluate([forward, adjoint])
    pairing = np.vdot(spectrum, forward.value).real
    np.testing.assert_allclose(np.vdot(adjoint.value, x), pairing, rtol=1e-12, atol=1e-12)

    backward = irfft(leaf(spectrum), axis=1, n=n, norm=norm)
    adjoint = irfft.vjp(0, leaf(x), backward, leaf(spectrum), axis=1, n=n, norm=norm)
    evaluate([backward, adjoint])
    pairing = np.vdot(x, backward.value)
    found = np.vdot(adjoint.value, spectrum).real
    np.testing.assert_allclose(found, pairing, rtol=1e-12, atol=1e-12)


@pytest.mark.thorough(every=5)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((5, 70000), 1),  # lines too long for more than two in a call
        ((3000, 24), 1),  # several calls of many lines
        ((3, 24, 5000), 1),  # columns where they are
        ((2, 300, 50), 1),  # columns, copied
        ((2, 1031, 9), 1),  # of a prime length
        ((70, 20, 3), 1),  # few columns, copied across groups
    ],
)
def test_however_work_is_cut(shape, axis, dtype):
    rng = np.random.default_rng(0)
    x = complex_of(rng, *shape).astype(dtype)
    half = x[(slice(None),) * axis + (slice(shape[axis] // 2 + 1),)]
    nodes = [
        fft(leaf(x.copy()), axis=axis, inverse=True, norm="ortho"),
        rfft(leaf(x.real.copy()), axis=axis, norm="forward"),
        irfft(leaf(half.copy()), axis=axis, n=shape[axis], norm="backward"),
    ]
    evaluate(nodes)
    expected = [
        np.fft.ifft(x, axis=axis, norm="ortho"),
        np.fft.rfft(x.real, axis=axis, norm="forward"),
        np.fft.irfft(half, shape[axis], axis=axis),
    ]
    for node, wanted in zip(nodes, expected, strict=True):
        assert node.value.dtype == wanted.dtype
        tolerance = 8 * np.finfo(wanted.dtype).eps * np.abs(wanted).max()
        np.testing.assert_allclose(node.value, wanted, rtol=0, atol=tolerance)


@pytest.mark.parametrize("shape", [(37,), (6, 5003), (53, 9), (301, 7)])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_a_loop_without_memory_is_reported(monkeypatch, shape, dtype):
    """It writes nothing, on whatever thread: here one that does nothing at all."""
    address = ctypes.cast(NOTHING, ctypes.c_void_p).value
    monkeypatch.setattr(library, "symbol_address", lambda name: address)
    x = np.ones(shape, dtype)
    last = shape[-1] // 2 + 1
    nodes = [
        fft(leaf(x), axis=0, inverse=False, norm="ortho"),
        rfft(leaf(x.real.copy()), axis=0, norm="ortho"),
        irfft(leaf(x[..., :last].copy()), axis=len(shape) - 1, n=shape[-1], norm="ortho"),
    ]
    for node in nodes:
        with pytest.raises(MemoryError, match=f"{node.op.name}.*: no memory to transform"):
            evaluate([node])


def test_scales():
    assert scale_of(4, "backward", inverse=False) == scale_of(4, "forward", inverse=True) == 1
    assert scale_of(4, "backward", inverse=True) == scale_of(4, "forward", inverse=False) == 0.25
    assert scale_of(4, "ortho", inverse=False) == scale_of(4, "ortho", inverse=True) == 0.5


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: fft(x, axis=2, inverse=False, norm="ortho"), AxisError, "fft: axis out of"),
        (lambda x: fft(x, axis=0, inverse=True, norm="no"), ValueError, "ifft: no such norm"),
        (lambda x: rfft(x, axis=0, norm="ortho"), DTypeError, "rfft: not defined for this dtype"),
        (lambda x: irfft(x, axis=1, n=9, norm="ortho"), ShapeError, "not half a spectrum of n"),
        (lambda x: irfft(x, axis=1, n=0, norm="ortho"), ValueError, "of 0 points is not defined"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call(leaf(np.ones((2, 3), complex)))
