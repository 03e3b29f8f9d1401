"""Which device an operation runs on: that of its operands.

What has the device "cpu" goes along with operands on another one if it is 0-d, as in torch, or if
it is computed from literals alone (the zeros of a derivative) and from lists of numbers: such
values are made wherever they are needed. Everything else is moved by `to_device`, on the user's own
line.

Arguments that stand for such values go along as well, while a body is traced of which nobody knows
yet where it will run (`undecided`).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from numba_grad.errors import DeviceError, explain
from numba_grad.graph.types import CPU, TupleType, Type, devices

# Operations that take no part in computing: their types are as they say, devices included.
KEEPS_DEVICES = ("control", "call", "transfer")

# Families of operations without operands.
LITERALS = ("literal", "iota")
# The operation of leaves that are on no device yet: lists of numbers.
NUMBERS_NAME = "numbers"

_undecided: set[Any] = set()


def is_in_use() -> bool:
    """Whether this process has had arrays on another device than the CPU."""
    return len(devices) > 1


def infer(op: Any, types: list[Any], params: dict[str, Any]) -> Type | TupleType:
    """The type of `op` on operands of these types, on the device of those that are not on the
    CPU."""
    device = next((t.device for t in types if t.device != CPU), CPU)
    if device == CPU or op.family in KEEPS_DEVICES:
        return op.infer(*types, **params)
    # Shape rules know nothing of devices.
    return op.infer(*[t.on(CPU) for t in types], **params).on(device)


def settled(
    op: Any, inputs: tuple[Any, ...], device: str, place: Callable[[Any, str], Any]
) -> tuple[Any, ...]:
    """The operands of an operation on `device`, as they are to be recorded.

    A number that is still to be computed on the CPU is moved; `place(node, device)` does that.

    Raises
    ------
    DeviceError
        If one is elsewhere.
    """
    if op.family in KEEPS_DEVICES:
        return inputs
    result = list(inputs)
    for k, x in enumerate(inputs):
        if x.type.device == device:
            continue
        if not goes_along(x):
            raise _mixed(op, inputs, device)
        if x.value is None and not is_made_of_literals(x):
            result[k] = place(x, device)
    return tuple(result)


def goes_along(node: Any) -> bool:
    """Whether this may be an operand beside others on a GPU, though it is on none."""
    return node.type.device == CPU and (node.shape == () or is_made_of_literals(node))


@contextmanager
def undecided(arguments: Sequence[Any], values: Sequence[Any]) -> Iterator[None]:
    """While the body of a loop or a branch is traced on the CPU: those of its arguments that go
    along, as their first values do."""
    own: list[Any] = []
    if is_in_use():  # where all is on the CPU nobody asks: histories are long
        own = [x for x, value in zip(arguments, values, strict=True) if goes_along(value)]
    _undecided.update(own)
    try:
        yield
    finally:
        _undecided.difference_update(own)


def is_made_of_literals(node: Any) -> bool:
    """Whether nothing in memory is needed to compute `node`, but numbers: 0-d values, and lists."""
    stack = [node]
    seen = set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        # Also what was computed from more than literals, of which no inputs are left.
        is_leaf = not node.inputs and node.op.family not in LITERALS
        if node.type.device != CPU:
            return False
        if is_leaf and node.shape != () and not _is_on_no_device(node):
            return False
        if not is_leaf:
            stack += node.inputs
    return True


def _is_on_no_device(leaf: Any) -> bool:
    if leaf.op.name == NUMBERS_NAME:
        return not leaf.requires_grad  # or a gradient would have to be somewhere
    return leaf in _undecided


def _mixed(op: Any, inputs: tuple[Any, ...], device: str) -> DeviceError:
    names = [*op.input_names, *op.input_names[-1:] * len(inputs)]
    elsewhere = next(x.type.device for x in inputs if x.type.device != device and x.shape != ())
    return DeviceError(
        explain(
            op.name,
            f"tensors on different devices, {elsewhere} and {device}",
            got={
                f"{name} (on {x.type.device})": x.type.on(CPU)
                for name, x in zip(names, inputs, strict=False)
            },
            expected="all on one device; a 0-d tensor or a Python number may be on the CPU",
            fix=f"x.to({device!r}) of what is on {elsewhere}",
        )
    )
