"""The gradient contract, as scenarios by topic. Each runs here and in torch: the same, or the same
error."""

from tests.autograd.torch_contract import (
    accumulation,
    anomaly_mode,
    assignment,
    batched_gradients,
    freed_history,
    function,
    functional,
    grad,
    gradcheck,
    hooks,
    inputs_of_backward,
    leaves,
    nodes_and_edges,
    orders_and_modes,
    roots,
    views,
    whole_programs,
)
from tests.autograd.torch_contract.scenarios import EXPECTED_ERRORS, SCENARIOS

__all__ = [
    "EXPECTED_ERRORS",
    "SCENARIOS",
    "accumulation",
    "anomaly_mode",
    "assignment",
    "batched_gradients",
    "freed_history",
    "function",
    "functional",
    "grad",
    "gradcheck",
    "hooks",
    "inputs_of_backward",
    "leaves",
    "nodes_and_edges",
    "orders_and_modes",
    "roots",
    "views",
    "whole_programs",
]
