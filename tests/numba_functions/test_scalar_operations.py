"""Scalar operations of users' functions: their slopes are those of the package's own operations."""

import math
from functools import partial

import numpy as np
import pytest

from numba_grad.compiler.numba_functions import source_functions
from numba_grad.compiler.numba_functions.builder import Builder
from numba_grad.compiler.numba_functions.derivative_rules import slope
from numba_grad.compiler.numba_functions.regions import Define, Scalar
from numba_grad.compiler.numba_functions.scalar_operations import OPERATIONS
from numba_grad.compiler.numba_functions.source_writer import SourceWriter
from numba_grad.compiler.reference_engine import evaluate_with_numpy
from numba_grad.graph.node import OPS, leaf

# Where formulas that are as good elsewhere have few digits, or none.
PLACES = {
    "arcsin": (1 - 1e-12,),
    "arccos": (1 - 1e-12,),
    "arctanh": (1 - 1e-12,),
    "arccosh": (1 + 1e-12,),
    "expm1": (-40.0,),
    "hypot": (0.0, 0.0),
}
OF_RECORDS = [
    (name, rule.args)
    for name, operation in OPERATIONS.items()
    for rule in operation.slopes or ()
    if isinstance(rule, partial) and rule.func is slope
]


def written(name, k, places):
    """What the text of a slope gives."""
    names = "abc"[: len(places)]
    inputs = [Scalar(x, "float64") for x in names]
    g, out = Scalar("g", "float64"), Scalar("out", "float64")
    b = Builder()
    b.body.append(Define(out, name, tuple(inputs)))
    slopes = OPERATIONS[name].slopes
    assert slopes is not None
    rule = slopes[k]
    assert rule is not None
    b.body.append(Define(Scalar("found", "float64"), "positive", (rule(b, g, inputs, out),)))
    writer = SourceWriter(b.body, b.copy(), is_inlined=False)
    writer.region(b.body)
    values = {**vars(source_functions), "math": math, "np": np, "g": np.float64(1.5)}
    values |= dict(zip(names, places, strict=True))
    exec("\n".join(writer.lines), values)
    return values["found"]


def recorded(k, op, places):
    """What the rule of the record gives."""
    inputs = [leaf(np.array(x)) for x in places]
    contribution = op.vjp(k, leaf(np.array(1.5)), op(*inputs), *inputs)
    (found,) = evaluate_with_numpy([contribution])
    return found


@pytest.mark.parametrize("group", range(4))
def test_slopes_are_those_of_the_records(group):
    for name, (record, k) in OF_RECORDS[group::4]:
        op = OPS[record]
        places = PLACES.get(name) or tuple([a + 0.7 * (b - a) for a, b in op.samples])
        places = tuple(map(np.float64, places))
        with np.errstate(all="ignore"):
            found, expected = written(name, k, places), recorded(k, op, places)
        np.testing.assert_allclose(found, expected, rtol=1e-14, err_msg=f"{name}, {k}")


def test_most_slopes_are_of_records():
    assert len(OF_RECORDS) > 30
