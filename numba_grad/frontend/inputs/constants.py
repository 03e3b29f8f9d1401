"""What becomes a constant: numbers and copies that have no history.

Inside of a transform such a constant of what it differentiates by would lose a gradient silently.
"""

import numpy as np

from numba_grad.autograd.running import transform_behind
from numba_grad.errors import GradientError, explain
from numba_grad.frontend.inputs.arrays import value_of
from numba_grad.frontend.inputs.calling_lines import calling_line, instead_of_conversion
from numba_grad.graph.node import Node, grad_mode
from numba_grad.graph.walk import is_traced

# What to type where a constant is meant, or in its place.
AS_CONSTANT = {
    "item": "x.detach().item() for a constant",
    "tolist": "x.detach().tolist() for constants",
    "float": "float(x.detach()) for a constant",
    "complex": "complex(x.detach()) for a constant",
    "numpy": "x.detach().numpy() for its values",
    "numpy.asarray": "x.detach().numpy() for its values",
    "pickle": "x.detach(), whose values travel without history",
    "tensor": "ng.array(x) or x.copy(), which have the gradient; x.detach() for a constant",
}


def value_of_constant(node: Node, operation: str) -> np.ndarray:
    """The value, where no running transform differentiates by what `node` depends on, or only text
    is made of it.

    Raises
    ------
    GradientError
        Else, if gradients are recorded.
    """
    transform = _transform_behind(node)
    if transform is not None and not is_traced(node):  # else there is no value, detached or not
        line = calling_line()
        if line is None or not line.is_in_text:
            raise _would_be_constant(node, operation, transform)
    return value_of(node, operation)


def check_constant(node: Node, operation: str) -> None:
    """Raise as `value_of_constant` does; for what needs no value."""
    transform = _transform_behind(node)
    if transform is not None:
        raise _would_be_constant(node, operation, transform)


def _transform_behind(node: Node) -> str | None:
    return transform_behind(node) if node.requires_grad and grad_mode.enabled else None


def _would_be_constant(node: Node, operation: str, transform: str) -> GradientError:
    return GradientError(
        explain(
            operation,
            "the result would be a constant: no gradient would flow through it to the "
            f"arguments of {transform}",
            got={"x": node.type},
            expected="tensors with history, on the way from the arguments to the result",
            fix=instead_of_conversion(AS_CONSTANT[operation]),
        )
    )
