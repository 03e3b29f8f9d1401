"""Powers of a number by Python's counter, `beta**t`, are data of the steps of a loop."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy
import pytest

import numba_grad as ng
import numba_grad.numpy as np
from tests.transforms.loop_programs import by_jit, step_by_step


def with_powers(x: Any, decay: Any, exponents: Sequence[int]) -> Any:
    """By Adam, whose corrections are powers by a counter; and a polynomial of each state."""
    first, second = 0 * x, 0 * x
    for k in exponents:
        slope = 0.3 * x - 0.1 * x**3 + 0.01 * x**4 - np.sin(x) ** 2 + decay**3
        first = decay * first + (1 - decay) * slope
        second = 0.5 * second + 0.5 * slope**2
        x = x - 0.05 * first / (1.7 - decay**k) / np.sqrt(second + 1 + decay ** (k + 1))
    return np.sum(x)


@pytest.mark.thorough(but="a number-from 1|a number-again and again-0.9")
@pytest.mark.parametrize("decay", [0.9, -0.7, 0.0])
@pytest.mark.parametrize(
    "exponents",
    [range(20), range(1, 21), range(60, 0, -3), [3, 1, 2, 0] * 5],
    ids=["from 0", "from 1", "back", "again and again"],
)
@pytest.mark.parametrize("size", [(), (3,)], ids=["a number", "an array"])
def test_powers_by_a_counter_are_data_of_the_steps(
    size: tuple[int, ...], exponents: Sequence[int], decay: float, loops: list[int]
) -> None:
    x = numpy.random.default_rng(0).uniform(0.5, 1.5, size)

    def f(x: Any, decay: Any) -> Any:
        return with_powers(x, decay, exponents)

    def bent(x: Any, decay: Any) -> Any:
        return np.sum(ng.grad(f)(x, decay)) + ng.grad(f, argnums=1)(x, decay)

    for g in (bent, f):
        expected = step_by_step(g, x, decay)
        loops.clear()
        for a, b in zip(by_jit(g, x, decay), expected, strict=True):
            numpy.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
    assert loops == [20]


def test_kernels_of_powers_do_not_depend_on_the_number_of_steps() -> None:
    def sources(steps: int) -> list[str]:
        f = functools.partial(with_powers, exponents=range(1, steps + 1))
        lowered = ng.jit(ng.value_and_grad(f, argnums=(0, 1))).lower(numpy.ones(3), 0.9)
        return [kernel.source for kernel in lowered.kernels]

    assert sources(20) == sources(50)
