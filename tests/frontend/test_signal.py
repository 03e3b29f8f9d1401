"""numba_grad.signal, against scipy.signal and HIPS's definition by sums."""

import numpy as np
import pytest
import scipy.signal

from numba_grad import signal
from numba_grad.errors import ShapeError
from numba_grad.testing import check_gradients

RNG = np.random.default_rng(0)
IMAGE, WINDOW = RNG.standard_normal((5, 6)), RNG.standard_normal((3, 2))


@pytest.mark.thorough(every=5)
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("method", ["auto", "fft"])
@pytest.mark.parametrize("function", ["convolve", "correlate"])
def test_values_are_scipys(function, method, mode):
    ours, theirs = getattr(signal, function), getattr(scipy.signal, function)
    for x, y in ((IMAGE, WINDOW), (WINDOW, IMAGE), (IMAGE + 1j, WINDOW * 2j)):
        found = ours(x, y, mode, method)
        expected = theirs(x, y, mode, "direct")
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, atol=1e-13)


def test_integers_are_exact_and_numbers_are_multiplied():
    x, y = np.arange(6).reshape(2, 3), np.array([[1, 2]])
    for method in ("auto", "fft"):
        result = signal.convolve(x, y, method=method)
        assert result.dtype == np.int64
        assert result.tolist() == scipy.signal.convolve(x, y).tolist()
    assert signal.convolve(2.0, 3.0).item() == 6


def test_long_ones_go_by_transforms():
    x, y = RNG.standard_normal(700), RNG.standard_normal(300)
    np.testing.assert_allclose(signal.convolve(x, y), np.convolve(x, y), atol=1e-11)


@pytest.mark.thorough(but="direct")
@pytest.mark.parametrize("method", ["direct", "fft"])
def test_axes_are_chosen_and_products_summed(method):
    """Images of 2 by 3 channels, with 4 filters of 3 channels."""
    images, filters = RNG.standard_normal((2, 3, 4, 5)), RNG.standard_normal((3, 4, 2, 3))
    found = signal.convolve(
        images, filters, "valid", method, axes=([2, 3], [2, 3]), dot_axes=([1], [0])
    )
    expected = np.zeros((2, 4, 3, 3))
    for n, f, c in np.ndindex(2, 4, 3):
        expected[n, f] += scipy.signal.convolve(images[n, c], filters[c, f], "valid", "direct")
    np.testing.assert_allclose(found, expected, atol=1e-13)
    turned = signal.convolve(
        filters, images, "valid", method, axes=([2, 3], [2, 3]), dot_axes=([0], [1])
    )
    np.testing.assert_allclose(turned, expected.transpose(1, 0, 2, 3), atol=1e-13)


@pytest.mark.thorough(but="direct")
@pytest.mark.parametrize("method", ["direct", "fft"])
def test_gradients(method):
    check_gradients(lambda x, y: signal.convolve(x, y, "same", method), IMAGE[:3, :3], WINDOW[:2])


def test_what_is_refused():
    with pytest.raises(ShapeError, match="inside the other"):
        signal.convolve(np.ones((3, 1)), np.ones((1, 3)), "valid")
    with pytest.raises(ShapeError, match="axes"):
        signal.convolve(np.ones((3, 1)), np.ones(3))
    with pytest.raises(ShapeError, match="repeated"):
        signal.convolve(np.ones((3, 1)), np.ones((3, 1)), axes=([0, 0], [0, 1]))
    with pytest.raises(ValueError, match="no such mode"):
        signal.convolve(np.ones(3), np.ones(3), "wrap")
