"""Matplotlib draws tensors as it draws arrays."""

import io

import numpy as np
import pytest

import numba_grad as ng

X = np.array([1.0, 2.0, 4.0])
Y = np.array([0.5, 1.5, 1.0])
GRID = np.outer(X, Y)

DRAWINGS = {
    "plot": lambda axes, x, y, grid: axes.plot(x, y),
    "bar": lambda axes, x, y, grid: axes.bar(x, y),
    "scatter": lambda axes, x, y, grid: axes.scatter(x, y, c=y),
    "errorbar": lambda axes, x, y, grid: axes.errorbar(x, y, yerr=y),
    "fill_between": lambda axes, x, y, grid: axes.fill_between(x, y, -y),
    "step": lambda axes, x, y, grid: axes.step(x, y),
    "stem": lambda axes, x, y, grid: axes.stem(x, y),
    "hist": lambda axes, x, y, grid: axes.hist(y),
    "imshow": lambda axes, x, y, grid: axes.imshow(grid),
    "contourf": lambda axes, x, y, grid: axes.contourf(x, y, grid),
    "pcolormesh": lambda axes, x, y, grid: axes.pcolormesh(grid),
    "quiver": lambda axes, x, y, grid: axes.quiver(x, y, y, x),
    "plot_surface": lambda axes, x, y, grid: axes.plot_surface(*np.meshgrid(x, y), grid),
    "numbers": lambda axes, x, y, grid: axes.plot(list(y), label=f"{y[0]:.1f}"),
}


def picture(name, *values):
    figure = pytest.importorskip("matplotlib.figure").Figure(figsize=(2, 2))
    in_space = {"projection": "3d"} if name == "plot_surface" else {}
    DRAWINGS[name](figure.subplots(subplot_kw=in_space), *values)
    file = io.BytesIO()
    figure.savefig(file, format="raw", dpi=40)
    return file.getvalue()


@pytest.mark.parametrize("name", DRAWINGS)
def test_tensors_are_drawn_as_arrays(name):
    tensors = [ng.tensor(x) for x in (X, Y, GRID)]
    assert picture(name, *tensors) == picture(name, X, Y, GRID)


def test_what_is_no_number_is_broadcast_as_numpy_does():
    x = ng.tensor(X)
    found = np.broadcast_arrays(x, None, np.array([["a"], ["b"]]), 2.0)
    for mine, theirs in zip(found, np.broadcast_arrays(X, None, [["a"], ["b"]], 2.0), strict=True):
        np.testing.assert_array_equal(np.asarray(mine), theirs)
    assert isinstance(found[0], ng.Tensor) and isinstance(found[1], np.ndarray)
    slope = ng.grad(lambda x: np.sum(np.broadcast_arrays(x, None, Y[:, None])[0] ** 2))(X)
    np.testing.assert_allclose(slope, 6 * X)
