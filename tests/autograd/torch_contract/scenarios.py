"""The list of scenarios: functions of a library, torch or ours, that return what is compared."""

import numpy as np

SCENARIOS = []
# A scenario that raises in both libraries is named here, so that none raises by a mistake of its
# own.
EXPECTED_ERRORS = {}


def scenario(function):
    SCENARIOS.append(function)
    return function


def raises(kind):
    def mark(function):
        EXPECTED_ERRORS[function.__name__] = kind
        return scenario(function)

    return mark


def expressions(kind, **functions):
    """Scenarios of one expression each, by name, that raise an error of this kind, or none."""
    for name, function in functions.items():
        function.__name__ = name
        (scenario if kind is None else raises(kind))(function)


def variable(lib, *values):
    return lib.tensor(list(values) or [1.0, 2.0, -0.5], requires_grad=True)


def ones(lib, *shape, dtype="float64"):
    return lib.tensor(np.ones(shape), dtype=dtype)
