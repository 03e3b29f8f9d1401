"""Functions of loops and branches as graphs of their own: traced once, on stand-ins for what they
get in each step.

What a body reads of its surroundings becomes an argument of the graph: tensors and arrays that it
closes over; and of a loop what it computes of these alone, which is so computed once, before it. A
branch that is not taken computes nothing.
"""

from collections.abc import Callable, Sequence
from typing import Any

from numba_grad.compiler.known_bodies import known_body
from numba_grad.compiler.partition.roles import FREE_FAMILIES
from numba_grad.dtypes import is_inexact
from numba_grad.errors import DeviceError, TracingError, called, explain
from numba_grad.fresh_thread import imported
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.inputs.arrays import nodes_of_result, wrap
from numba_grad.frontend.inputs.changed_arguments import numbers_of_changed
from numba_grad.frontend.inputs.tracing import noting_raised
from numba_grad.frontend.tensors.python_numbers import handle_like
from numba_grad.frontend.tensors.tensor import Tensor
from numba_grad.graph import order
from numba_grad.graph.node import ARGUMENT, OPS, Node, argument, next_serial, recording
from numba_grad.graph.placement import goes_along, undecided
from numba_grad.graph.traced_bodies import check_inside, hooks_left, tracing_body
from numba_grad.graph.types import CPU, MOST_WRITTEN_OUT, Type
from numba_grad.graph.walk import (
    in_order_of_recording,
    lets_gradients_through,
    substitute,
    toposort,
)
from numba_grad.immutable import NamedTuple
from numba_grad.ops.families import placed
from numba_grad.transforms.call_target import CallTarget, has_rules
from numba_grad.transforms.loop_sizes import puts_arrays_together
from numba_grad.transforms.rewrites.repeated_views import without_repeated_views


class Traced(NamedTuple):
    """A function as a graph: of its own arguments, then of `captured` nodes."""

    target: CallTarget
    captured: list[Node]
    structure: trees.Structure  # of the result
    leaves: list[Any]  # of the result, as the function has returned them
    communicates: bool  # then this is no graph to use: see `with_token`
    communicators: list[Any]  # by which
    changed: list[int]  # numbers of the arguments that the function has changed in place


def traced(
    operation: str,
    f: Callable[..., Any],
    types: Sequence[Type],
    structure: trees.Structure,
    given: Sequence[Any] = (),
    name: str = "",
    *,
    is_repeated: bool = True,
    device: str = CPU,
    nodes: Sequence[Node] = (),
) -> Traced:
    """`f`, called with the arguments `structure` of arrays of these types.

    `given`: what the first of them stand for; Python numbers are weakly typed inside as well.
    `name`: of the graph, by default that of `f`. `is_repeated`: whether to compute before it what
    does not depend on its arguments. `device`: where what is made of numbers alone is, too.
    `nodes`: the first arguments, or what they are rows of: what goes along with arrays on a GPU
    does so inside.
    """
    check_function(operation, f)
    first_serial = next_serial()
    arguments = [argument(type, is_inexact(type.dtype)) for type in types]
    with recording(True):
        # Not the arguments themselves: a function may assign into what it gets.
        values = [*given, *[None] * (len(arguments) - len(given))]
        inside = [OPS["identity"](node) for node in arguments]
        stand_ins = [handle_like(value, node) for value, node in zip(values, inside, strict=True)]
        with (
            tracing_body(operation, name_of(f), arguments, inside, first_serial) as body,
            order.scope(order.new_argument) as scope,
            noting_raised() as raised,
            undecided(arguments[: len(nodes)], nodes),
        ):
            out = called(operation, f, *trees.unflatten(structure, stand_ins))
            leaves, out_structure = trees.flatten(out)
            outputs = nodes_of_result(operation, leaves)
            changed = numbers_of_changed(stand_ins, inside)
            body.returned(outputs)
        if raised:
            raise _raises_an_exception(operation, name_of(f))
        if hooks_left(body):
            raise _has_hooks(operation)
        if device != CPU:
            outputs = on_device_of_body(operation, outputs, device)
        captured = _captured(outputs, arguments, first_serial, is_repeated)
        # Numbers of the CPU are moved along.
        homes = [x.type if x.type.device != CPU else x.type.on(device) for x in captured]
        own = [argument(type, is_inexact(type.dtype)) for type in homes]
        # Stand-ins as well: what rules of `custom_vjp` have kept of them is rebuilt from this.
        replaced = dict(zip([*captured, *inside], [*own, *arguments], strict=True))
        with undecided([*arguments[: len(nodes)], *own], [*nodes, *captured]):
            outputs = substitute(outputs, replaced, _without_identity)
        recorded = in_order_of_recording(toposort(outputs))
        recorded = without_repeated_views(recorded, outputs)
        if puts_arrays_together(recorded):
            shared = imported("numba_grad.transforms.rewrites.shared_with_neighbours")
            shared.with_shared_with_neighbours(recorded, outputs)
    target = known_body(CallTarget(name or name_of(f), [*arguments, *own], outputs))
    communicators = [communicator for communicator, _ in scope.said.values()]
    return Traced(
        target, captured, out_structure, leaves, scope.communicates, communicators, changed
    )


def _raises_an_exception(operation: str, name: str) -> TracingError:
    return TracingError(
        explain(
            operation,
            f"values decide whether {name} raises an exception",
            fix="np.nan as a result; or return the condition, and raise outside of the jitted "
            "function",
        )
    )


def _has_hooks(operation: str) -> TracingError:
    return TracingError(
        explain(
            operation,
            "a hook inside would not be run: gradients pass all of it as one operation",
            fix="the hook on what the function gets or returns; or a function inside with "
            "ng.custom_vjp, whose rule does what the hook does",
        )
    )


def with_token(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function that communicates, as one of its arguments in a tuple and of a token, that returns
    its result and the token after it."""

    def threaded(args: tuple[Any, ...], token: Tensor) -> tuple[Any, Tensor]:
        with order.scope(lambda: token._node) as scope:
            out = f(*args)
        return out, token if scope.last is None else wrap(scope.last)

    threaded.__name__ = name_of(f)
    return threaded


def first_token() -> Tensor:
    """The token that the next communication reads, to be passed along."""
    return wrap(order.token())


def communicated(result: Any, token: Tensor) -> None:
    """Say that an operation has communicated, which gave `result` and `token`."""
    leaves = [x._node for x in trees.flatten(result)[0] if isinstance(x, Tensor)]
    order.advance(leaves, token._node)


def device_of(nodes: Sequence[Node]) -> str:
    """The GPU that any of these is on, if there is one."""
    return next((x.type.device for x in nodes if x.type.device != CPU), CPU)


def on_device_of_body(operation: str, nodes: Sequence[Node], device: str) -> list[Node]:
    """What a body reads, on the device where it runs: numbers of the CPU go along.

    Raises
    ------
    DeviceError
        If an array is elsewhere.
    """
    for x in nodes:
        if x.type.device != device and not goes_along(x):
            raise DeviceError(
                explain(
                    operation,
                    f"tensors on different devices, {x.type.device} and {device}",
                    got={f"on {x.type.device}": x.type.on(CPU)},
                    expected="all on one device; a 0-d tensor or a Python number may be on the CPU",
                    fix=f"x.to({device!r}) of what is on {x.type.device}",
                )
            )
    return [placed(x, device) for x in nodes]


def check_function(operation: str, f: object) -> None:
    if not callable(f):
        raise TypeError(explain(operation, "not a function", got={"function": repr(f)}))


def name_of(f: Callable[..., Any]) -> str:
    return getattr(f, "__name__", None) or type(f).__name__


def _without_identity(node: Node) -> Node | None:
    is_alias = node.op.name == "identity" and lets_gradients_through(node)
    return node.inputs[0] if is_alias else None


def _captured(
    outputs: Sequence[Node], arguments: Sequence[Node], first_serial: int, is_repeated: bool
) -> list[Node]:
    """What `outputs` are made of besides `arguments`: older nodes, values, and of what is repeated
    the nodes that depend on no argument and are computed to memory."""
    own = set(arguments)
    depends = set(arguments)

    def is_outside(node: Node) -> bool:
        return node.value is not None or (node.serial < first_serial and bool(node.inputs))

    inner = toposort(outputs, stop=is_outside)
    for node in inner:
        if is_outside(node) or not node.inputs:
            continue
        # The rules of a user's function may depend on what its values do not.
        is_own = not is_repeated or has_rules(node)
        if is_own or any(x in depends for x in node.inputs):
            depends.add(node)
    found: dict[Node, None] = {}
    seen: set[Node] = set()
    stack = [*outputs]
    while stack:
        node = stack.pop()
        if node in seen or node in own:
            continue
        seen.add(node)
        if node in depends:
            stack += node.inputs
        elif node.op.family in ("literal", "iota"):
            continue
        elif (
            is_outside(node)
            or node.op is ARGUMENT
            or node.op.family not in FREE_FAMILIES
            or _is_part(node)
        ):
            found[node] = None
        else:
            stack += node.inputs
    for node in found:
        check_inside(node)
    return [node for node in inner if node in found]


def _is_part(node: Node) -> bool:
    """Whether this is a contiguous part of an array, at most half of it: memory as it is."""
    while node.op.name == "reshape":
        node = node.inputs[0]
    if node.op.name != "slice" or node.type.size <= MOST_WRITTEN_OUT:
        return False
    (x,) = node.inputs
    if 2 * node.type.size > x.type.size or any(step != 1 for step in node.params["steps"]):
        return False
    sizes = node.params["sizes"]
    cut = [axis for axis, n in enumerate(x.shape) if sizes[axis] != n]
    return all(n == 1 for n in sizes[: cut[-1]])
