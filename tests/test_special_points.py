"""Kinks, ties, nan and ends of domains: each point of the table in docs/numerics.md."""

from typing import Any

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.config import configure
from tests import special_points
from tests.special_points import ALL, Point, value_here

SHARES = 6

# What NumPy and torch say about nan, infinities and nothing.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::UserWarning")


def value_and_gradient(point: Point, *arguments: Any) -> tuple[Any, Any]:
    def total(*arguments: Any) -> tuple[Any, Any]:
        value = value_here(point, *arguments)
        return ng.real(ng.sum(value)), value

    by_all = tuple(range(len(arguments)))
    (_, value), gradient = ng.value_and_grad(total, by_all, has_aux=True)(*arguments)
    return value, gradient


def assert_same(found: Any, expected: Any, point: Point) -> None:
    expected = np.asarray(expected)
    assert np.shape(found) == expected.shape, str(point)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14, err_msg=str(point))


def assert_as_in_table(point: Point, value: Any, gradient: Any) -> None:
    assert_same(value, point.value, point)
    for found, expected in zip(gradient, point.gradient, strict=True):
        assert_same(found, expected, point)


@pytest.mark.parametrize("point", ALL, ids=str)
def test_value_and_gradient(point):
    with configure(engine="reference"), np.errstate(all="ignore"):
        assert_as_in_table(point, *value_and_gradient(point, *point.arguments()))


@pytest.mark.thorough
@pytest.mark.parametrize("share", range(SHARES))
def test_kernels_have_the_same(share):
    """Many points in one program."""
    points = ALL[share::SHARES]

    def everything(arguments: list[list[Any]]) -> list[Any]:
        return [value_and_gradient(p, *own) for p, own in zip(points, arguments, strict=True)]

    found = ng.jit(everything)([point.arguments() for point in points])
    for point, result in zip(points, found, strict=True):
        assert_as_in_table(point, *result)


@pytest.mark.parametrize("point", [p for p in ALL if p.function.startswith("np.")], ids=str)
def test_values_are_those_of_numpy(point):
    with np.errstate(all="ignore"):
        assert_same(value_here(point, *point.arguments()), point.value, point)


def test_gradients_are_those_of_torch_where_nothing_is_said():
    pytest.importorskip("torch", reason="torch is not installed: not compared with it")
    for point in ALL:
        if point.torch:
            expected = point.gradient if point.torch_gradient is None else point.torch_gradient
            found = special_points.gradient_in_torch(point)
            for g, e in zip(found, expected, strict=True):
                assert_same(g, e, point)
        assert bool(point.why) == (point.torch_gradient is not None), point


@pytest.mark.thorough
def test_gradients_of_jax_are_as_recorded():
    jax = pytest.importorskip("jax", reason="JAX is not installed: recorded values not compared")
    if jax.__version__ != special_points.JAX_VERSION:
        pytest.skip(f"the table is of JAX {special_points.JAX_VERSION}, not {jax.__version__}")
    for point in ALL:
        if point.jax is not None:
            expected = point.gradient if point.jax_gradient is None else point.jax_gradient
            for g, e in zip(special_points.gradient_in_jax(point), expected, strict=True):
                assert_same(g, e, point)


def test_the_table_of_the_page_is_that_of_the_points():
    assert special_points.PAGE.read_text() == special_points.page(), (
        "docs/numerics.md is not what the points say: python -m tests.special_points"
    )
