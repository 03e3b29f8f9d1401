"""Torch's gradient contract, on recorded graphs: `ng.autograd`. Start with `backward.py`.

What is per tensor (`.grad`, hooks, ...) is in a `state.GradientState` on its node.
"""

from typing import TYPE_CHECKING, Any

from numba_grad.autograd import forward_ad, function, graph
from numba_grad.autograd.anomaly import detect_anomaly, set_detect_anomaly
from numba_grad.autograd.backward import backward, grad
from numba_grad.autograd.function import Function
from numba_grad.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from numba_grad.autograd.modes import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from numba_grad.fresh_thread import imported

if TYPE_CHECKING:
    from numba_grad.autograd import functional

__all__ = [
    "Function",
    "GradcheckError",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "function",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "is_grad_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]


def __getattr__(name: str) -> Any:
    if name == "functional":  # few programs need it
        return imported("numba_grad.autograd.functional")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
