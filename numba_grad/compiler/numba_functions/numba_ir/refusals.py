"""The error for code that has no derivative here."""

import linecache
from typing import Any

from numba_grad.errors import KernelError, explain


def refused(ir_location: Any, what: str, got: str = "", instead: str = "") -> KernelError:
    """The error for code that has no derivative here. `instead`: how it can be written."""
    line = linecache.getline(ir_location.filename, ir_location.line).strip()
    found: dict[str, object] = {f"{ir_location.filename}:{ir_location.line}": line or "?"}
    return KernelError(
        explain(
            "differentiable",
            f"{what} cannot be differentiated",
            got=found | ({"in it": got} if got else {}),
            fix=f"{instead}ng.custom_op, with a derivative of your own for this part",
        )
    )
