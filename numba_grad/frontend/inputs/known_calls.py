"""Functions that remember what they have recorded, by the types of their operands.

    @by_types(operands=1)
    def stack(arrays, axis=0): ...

What most functions record depends on shapes and dtypes, and on numbers and names that are written
down, not on values. To find out what takes Python 5 to 100 us, and to record it 1 to 5: so the same
operations are recorded again where a function meets the same types once more, as in the steps of a
loop. From the third call on, as most functions are called once or twice. Within a trace functions
are run each time, as what they make of constants is known to the trace.

Not for functions that look at values, at how an operand was computed, or at its place in memory.
"""

import functools
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from numba_grad.autograd import tensor_class
from numba_grad.autograd.tensor_class import new_tensor
from numba_grad.autograd.views import Step, note_view
from numba_grad.frontend.inputs.tracing import current
from numba_grad.graph.node import HOLDING, Inferred, Node, Op, inferred_of, recorded
from numba_grad.graph.types import CPU
from numba_grad.graph.walk import toposort

F = TypeVar("F", bound=Callable[..., Any])

# Arguments that stand for themselves. Of equal ones of different classes, as 1, 1.0 and True are,
# each has its own recording; a float is known by its bits.
_BY_VALUE = frozenset({int, bool, str, type(None), type(...), type})
_MOST_CALLS = 1 << 10  # that a function remembers
_MOST_BYTES = 256  # of an array of indices

_MET = object()  # once
_NEVER = object()  # what cannot be recorded again


# One operation of a recording: where its inputs are among operands, constants, and operations
# before it, and what is known of the result.
_Operation = tuple[Op, Sequence[int], dict[str, Any], Inferred]


class _Recording:
    """What a call has recorded."""

    __slots__ = ("constants", "operations", "shown", "steps")

    constants: Sequence[Node]
    operations: Sequence[_Operation]
    shown: int  # which of the operands the result is a view of; -1 for none
    steps: Sequence[Step]  # how it is one

    def again(self, nodes: list[Node], tensors: Sequence[Any]) -> Any:
        """The result for other operands of the same types."""
        nodes += self.constants
        for op, places, params, inferred in self.operations:
            inputs = tuple([nodes[place] for place in places])
            nodes.append(recorded(op, inputs, params, inferred))
        result = new_tensor(nodes[-1])
        if self.shown >= 0:
            note_view(tensors[self.shown], result, self.steps, is_copy=None)
        return result


def by_types(operands: int, reads_history: bool = False) -> Callable[[F], F]:
    """A function whose first so many arguments are operands, tensors or lists of them, and the
    others say what to do: it records the same for all operands of the same types, see above.

    With `reads_history` it looks at how operands were computed, if they are elements of others.
    """

    def decorate(function: F) -> F:
        known: dict[tuple[Any, ...], Any] = {}

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if current.trace is not None:
                return function(*args, **kwargs)
            key: list[Any] = []
            tensors: list[Any] = []
            if not (
                _describe(args[:operands], key, tensors)
                and tensors
                and _describe(args[operands:], key, None)
            ):
                return function(*args, **kwargs)
            if kwargs:
                key += kwargs
                if not _describe(kwargs.values(), key, None):
                    return function(*args, **kwargs)
            nodes = [x._node for x in tensors]
            if reads_history and any(x.op.family == "movement" for x in nodes):
                return function(*args, **kwargs)
            name = tuple(key)
            found = known.get(name)
            if found.__class__ is _Recording:
                return found.again(nodes, tensors)
            given = _given_warnings
            result = function(*args, **kwargs)
            if found is None:
                if len(known) >= _MOST_CALLS:
                    known.clear()
                known[name] = _MET
            elif found is _MET and len(set(nodes)) == len(nodes):
                is_told = _given_warnings != given
                known[name] = (not is_told and _recording(result, nodes, tensors)) or _NEVER
            return result

        return cast(F, call)

    return decorate


_given_warnings = 0


def warn(message: str, stacklevel: int) -> None:
    """NumPy's RuntimeWarning about the shape of an operand, which each call of a function gives
    again; `stacklevel` as if the function were not `by_types`."""
    global _given_warnings
    _given_warnings += 1
    warnings.warn(message, RuntimeWarning, stacklevel=stacklevel + 2)


def _describe(values: Iterable[Any], key: list[Any], tensors: list[Any] | None) -> bool:
    """Append to `key` what says all that matters of these arguments, and to `tensors` those among
    them. False where an argument is something else, or a tensor and there is no such list."""
    for x in values:
        kind = x.__class__
        if kind is tensor_class.registered:
            if tensors is None:
                return False
            key.append(x._node.type)
            tensors.append(x)
        elif kind in _BY_VALUE:
            key.append(kind)
            key.append(x)
        elif kind is tuple or kind is list:
            key.append(kind)
            key.append(len(x))
            if not _describe(x, key, tensors):
                return False
        elif kind is float or kind is np.float64:
            key.append(kind)
            key.append(x.hex())
        elif kind is slice:
            key.append(kind)
            if not _describe((x.start, x.stop, x.step), key, tensors):
                return False
        elif kind is np.ndarray and x.dtype.kind in "iub" and x.nbytes <= _MOST_BYTES:
            key += (x.dtype, x.shape, x.tobytes())
        elif isinstance(x, np.dtype):
            key.append(x)
        else:
            return False
    return True


def _recording(result: Any, operands: list[Node], tensors: list[Any]) -> _Recording | None:
    """What made `result` of these operands, of which no two are the same; None where it is nothing
    that can be recorded again."""
    if result.__class__ is not tensor_class.registered:
        return None
    known = set(operands)
    before = max(x.serial for x in operands)
    fresh = [x for x in toposort([result._node], stop=known.__contains__) if x not in known]
    constants = [x for x in fresh if x.op in HOLDING]
    fresh = sorted([x for x in fresh if x.op not in HOLDING], key=lambda x: x.serial)
    places = {x: k for k, x in enumerate([*operands, *constants])}
    operations = []
    for node in fresh:
        if node.serial < before or node.value is not None or node.type.device is not CPU:
            return None
        operations.append(_operation(node, places))
        places[node] = len(places)
    if not fresh or fresh[-1] is not result._node:
        return None
    # What an operand was made of is no constant.
    if (constants and not known.isdisjoint(constants)) or any(
        x in constants for operand in operands for x in operand.inputs
    ):
        return None
    recording = _Recording()
    recording.constants, recording.operations = constants, operations
    recording.shown, recording.steps = -1, ()
    view = result._view
    if view is not None:
        shown = [k for k, x in enumerate(tensors) if x._view is view.parent]
        if view.parent is None or not shown:
            return None
        if any(x not in places or x in known for _, inputs, _ in view.steps for x in inputs):
            return None
        recording.shown, recording.steps = shown[0], view.steps
    return recording


def _operation(node: Node, places: dict[Node, int]) -> _Operation:
    inferred = inferred_of(node.op, [x.type for x in node.inputs], node.params)
    return node.op, [places[x] for x in node.inputs], node.params, inferred
