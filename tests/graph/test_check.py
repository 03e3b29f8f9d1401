"""The check that runs between compiler passes."""

import numpy as np
import pytest

from numba_grad.errors import InternalError
from numba_grad.graph.check import check
from numba_grad.graph.node import OPS, argument
from numba_grad.graph.types import array_type


def numbers(n, dtype=np.float64):
    return argument(array_type((n,), np.dtype(dtype)))


def test_a_well_formed_graph_passes():
    x = numbers(3)
    before = OPS["add"](x, x)
    check("doubling", [before], [OPS["multiply"](x, x)])


def test_a_lost_result_names_the_pass():
    x = numbers(3)
    with pytest.raises(InternalError, match=r"losing: 2 results became 1"):
        check("losing", [x, x], [x])


@pytest.mark.parametrize("other", [numbers(4), numbers(3, np.float32)])
def test_a_result_of_another_type_is_found(other):
    with pytest.raises(InternalError, match=r"retyping: a result of type"):
        check("retyping", [numbers(3)], [other])


def test_a_type_that_the_operation_does_not_infer_is_found():
    x = numbers(3)
    wrong = OPS["exp"](x)
    wrong.type = array_type((4,), np.dtype(np.float64))
    out = OPS["sum"](wrong, axes=(0,))
    with pytest.raises(InternalError, match=r"mistyping: .* where exp infers"):
        check("mistyping", [out], [out])
