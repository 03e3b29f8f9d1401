"""The gradient contract on a GPU: the scenarios that the CPU's tests compare with torch."""

import pytest

from numba_grad.config import configure
from tests.autograd.libraries import assert_same, ours, outcome
from tests.autograd.torch_contract import SCENARIOS


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("run", SCENARIOS, ids=lambda function: function.__name__)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_as_on_the_cpu(last_gpu, run):
    with configure(engine="reference"):
        expected = outcome(run, ours())
    assert_same(outcome(run, ours(last_gpu)), expected)
