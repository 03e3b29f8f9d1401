"""Torch's gradient contract, on recorded graphs: `ng.autograd`. Start with `backward.py`.

What is per tensor (`.grad`, hooks, ...) is in a `state.GradientState` on its node.
"""

from typing import TYPE_CHECKING, Any

from numba_grad.autograd import forward_ad, function, graph
from numba_grad.autograd.anomaly import detect_anomaly, set_detect_anomaly
from numba_grad.autograd.backward import backward, grad
from numba_grad.autograd.function import Function
from numba_grad.autograd.modes import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from numba_grad.fresh_thread import imported

if TYPE_CHECKING:
    from numba_grad.autograd import functional
    from numba_grad.autograd.gradient_checks import GradcheckError, gradcheck, gradgradcheck

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
    # Few programs need these.
    if name == "functional":
        return imported("numba_grad.autograd.functional")
    if name in ("GradcheckError", "gradcheck", "gradgradcheck"):
        return getattr(imported("numba_grad.autograd.gradient_checks"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
