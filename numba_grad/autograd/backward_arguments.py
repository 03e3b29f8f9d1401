"""What a backward pass is asked: outputs, their gradients and inputs, checked as torch does."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from numba_grad.autograd.graph import GradientEdge, node_of_edge
from numba_grad.autograd.tensor_class import is_tensor
from numba_grad.dtypes import is_floating
from numba_grad.errors import GradientError, explain
from numba_grad.graph.node import Node, argument
from numba_grad.ops.families import cast, ones_like

Tensors = Any  # a Tensor, a GradientEdge, or a sequence of them


def as_sequence(values: Any) -> tuple[Any, ...]:
    if is_tensor(values) or isinstance(values, GradientEdge):
        return (values,)
    return tuple(values.values()) if type(values) is dict else tuple(values)


@dataclass(slots=True, eq=False)
class SeededRoots:
    """Where a pass starts. With a batch, `seeds` are arguments that `batched` has the values of."""

    nodes: list[Node] = field(default_factory=list)
    seeds: list[Node] = field(default_factory=list)
    batched: dict[Node, Node] = field(default_factory=dict)
    size: int = 0  # of the batch


def roots_of(
    operation: str, outputs: Sequence[Any], gradients: Any, is_batched: bool
) -> SeededRoots:
    """Outputs and their gradients, checked."""
    if gradients is None:
        given: Sequence[Any] = (None,) * len(outputs)
    else:
        is_sequence = isinstance(gradients, Sequence) and not is_tensor(gradients)
        given = tuple(gradients) if is_sequence else (gradients,)
    names = ("tensors", "grad_tensors") if operation == "backward" else ("outputs", "grad_outputs")
    result = SeededRoots()
    for number, (output, gradient) in enumerate(zip(outputs, given, strict=False)):
        node = _node(operation, f"{names[0]}[{number}]", output)
        result.nodes.append(node)
        label = f"{names[1]}[{number}]"
        seed = _seed(operation, label, node, gradient, is_batched)
        if is_batched and seed is not None:
            placeholder = argument(node.type, seed.requires_grad)
            result.batched[placeholder] = cast(seed, node.dtype)
            result.size = _batch_size(operation, result.size, seed)
            seed = placeholder
        result.seeds.append(seed)  # type: ignore[arg-type]
    if len(given) < len(outputs):
        raise GradientError(f"{operation}: got {len(outputs)} tensors and {len(given)} gradients")
    for number, node in enumerate(result.nodes):
        if not node.requires_grad:
            raise GradientError(
                explain(
                    operation,
                    f"element {number} of tensors does not require grad and does not have a "
                    "grad_fn",
                    got={f"{names[0]}[{number}]": node},
                    fix="ng.tensor(..., requires_grad=True) for what it is computed from, outside "
                    "of no_grad(); create_graph=True for gradients that it is made of",
                )
            )
    return result


def _batch_size(operation: str, size: int, seed: Node) -> int:
    if size not in (0, seed.shape[0]):
        raise ValueError(
            f"{operation}: is_grads_batched=True takes gradients with equal first axes, not "
            f"{size} and {seed.shape[0]}"
        )
    return seed.shape[0]


def _node(operation: str, label: str, value: Any) -> Node:
    if isinstance(value, GradientEdge):
        return node_of_edge(value)
    if not is_tensor(value):
        raise TypeError(
            explain(
                operation,
                "takes Tensors or GradientEdges",
                got={label: f"{value!r} ({type(value).__name__})"},
            )
        )
    return value._node


def targets_of(operation: str, sources: Sequence[Any]) -> list[Node]:
    if not sources:
        raise GradientError(f"{operation}: `inputs` argument to `{operation}()` cannot be empty")
    return [_target(operation, number, source) for number, source in enumerate(sources)]


def _target(operation: str, number: int, source: Any) -> Node:
    node = _node(operation, f"inputs[{number}]", source)
    if not node.requires_grad:
        raise GradientError(
            explain(
                operation,
                "One of the differentiated Tensors does not require grad",
                got={f"inputs[{number}]": node},
                fix="requires_grad_() on it, before it is used",
            )
        )
    return node


def _seed(operation: str, label: str, node: Node, gradient: Any, is_batched: bool) -> Node | None:
    """The cotangent that a pass starts with; None where there is none to make."""
    if gradient is None:
        return _implicit_seed(operation, label, node, is_batched)
    if not is_tensor(gradient):
        raise TypeError(
            explain(
                operation,
                f"gradients can be either Tensors or None, but got {type(gradient).__name__}",
                got={"output": node.type},
                fix="ng.tensor(gradient)",
            )
        )
    seed = gradient._node
    shape = seed.shape
    if is_batched and not shape:
        raise ValueError(
            f"{operation}: is_grads_batched=True takes gradients with a batch axis, not {seed.type}"
        )
    shape = shape[1:] if is_batched else shape
    if shape != node.shape:
        raise GradientError(
            explain(
                operation,
                f"Mismatch in shape: {label} has a shape of {shape} and its output one of "
                f"{node.shape}",
                got={label: seed.type, "output": node.type},
                expected="the shape of the output, with a batch axis first"
                if is_batched
                else "the shape of the output",
            )
        )
    if (seed.dtype.kind == "c") != (node.dtype.kind == "c"):
        raise GradientError(
            explain(
                operation,
                "Mismatch in dtype: for complex tensors, the gradient has the dtype of the output",
                got={label: seed.type, "output": node.type},
            )
        )
    return seed


def _implicit_seed(operation: str, label: str, node: Node, is_batched: bool) -> Node | None:
    if not node.requires_grad:
        return None
    if is_batched:
        raise ValueError(
            f"{operation}: is_grads_batched=True takes a gradient for each output, not None "
            f"({label})"
        )
    if node.type.size != 1:
        raise GradientError(
            explain(
                operation,
                "grad can be implicitly created only for scalar outputs",
                got={"output": node.type},
                fix="the gradient of its sum, x.sum().backward(), or a gradient of the output's "
                "shape",
            )
        )
    if not is_floating(node.dtype):
        raise GradientError(
            explain(
                operation,
                f"grad can be implicitly created only for real scalar outputs but got {node.dtype}",
                got={"output": node.type},
            )
        )
    return ones_like(node)
