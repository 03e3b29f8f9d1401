"""The gradient contract: scenarios run here and in torch give the same, or the same errors."""

import pytest

from tests.autograd.torch_contract import EXPECTED_ERRORS, SCENARIOS


@pytest.mark.parametrize("run", SCENARIOS, ids=lambda function: function.__name__)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_as_torch(same_as_torch, run):
    result = same_as_torch(run)
    error = result if isinstance(result, str) else None
    assert error == EXPECTED_ERRORS.get(run.__name__)
