"""Numba kernels as people write them: values, gradients, tangents, second derivatives of some."""

import inspect

import pytest

import numba_grad as ng
from numba_grad.config import configure
from tests.numba_functions.derivatives import (
    Case,
    check_gradient,
    check_second_derivatives,
    check_tangent,
    check_values,
)
from tests.numba_functions.programs import PROGRAMS

pytestmark = pytest.mark.filterwarnings("ignore:.*faster on contiguous arrays")

# Of each kind of program one that compiles fast; the others take minutes in all.
SOON = "^(gauss_seidel|heat_two_buffers|nbody|kepler_newton|cholesky|jacobi_1d|insertion_sort)$"
# Whose differences are too coarse, or meet a kink: the tangent is compared with the adjoint.
WITHOUT_DIFFERENCES = ("cavity_flow", "channel_flow", "van_der_pol_adaptive")
TWICE = (
    "gauss_seidel",
    "kepler_newton",
    "heat_active_coefficient",
    "nbody",
    "cholesky",
    "burgers_limited",
    "soft_time_warping",
    "jacobi_2d",
    "thomas",
)


@pytest.fixture(scope="module", autouse=True)
def _operation_by_operation():
    """The kernels in Python, as text: to compile them takes minutes in all. Some are compiled in
    other tests, and random programs."""
    with configure(engine="reference"):
        yield


@pytest.fixture(scope="module")
def cases():
    made: dict[str, Case] = {}

    def case(name: str) -> Case:
        if name not in made:
            program = PROGRAMS[name]
            parameters = list(inspect.signature(program.function.py_func).parameters)
            made[name] = Case(
                ng.differentiable(program.function),
                program.function.py_func,
                program.arguments(),
                [parameters.index(written) for written in program.writes],
            )
        return made[name]

    return case


@pytest.mark.thorough(but=SOON)
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_values_gradient_and_tangent(name, cases):
    case = cases(name)
    check_values(case)
    if name not in WITHOUT_DIFFERENCES:
        check_gradient(case)
    check_tangent(case)


@pytest.mark.thorough(but="^(gauss_seidel|kepler_newton)$")
@pytest.mark.parametrize("name", TWICE)
def test_second_derivatives(name, cases):
    check_second_derivatives(cases(name))
