"""Functions that remember what they have recorded, by the types of their operands.

    @by_types(operands=2)
    def cross(a, b, axis=-1): ...

What most functions record depends on shapes and dtypes, and on numbers and names that are written
down, not on values. To find out what takes Python 5 to 100 us, and to record it 1 to 5: so the same
operations are recorded again where a function meets the same types once more, as in the steps of a
loop. From the third call on, as most functions are called once or twice.

Not for functions that look at values, or at an operand's place in memory.
"""

import functools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from numba_grad.autograd import tensor_class
from numba_grad.autograd.tensor_class import is_tensor, new_tensor
from numba_grad.autograd.views import Step, note_view
from numba_grad.frontend.inputs.arrays import as_node
from numba_grad.frontend.inputs.tracing import values_asked_for
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

    def again(self, nodes: list[Node], given: Sequence[Any]) -> Any:
        """The result for other operands of the same types: `given`, and as nodes."""
        nodes += self.constants
        for op, places, params, inferred in self.operations:
            inputs = tuple([nodes[place] for place in places])
            nodes.append(recorded(op, inputs, params, inferred))
        result = new_tensor(nodes[-1])
        if self.shown >= 0 and is_tensor(given[self.shown]):
            note_view(given[self.shown], result, self.steps, is_copy=None)
        return result


def by_types(operands: int, reads_history: bool = False) -> Callable[[F], F]:
    """A function whose first so many arguments are operands, tensors, arrays or lists of
    them, and the others say what to do: it records the same for all operands of the same types.

    With `reads_history` it looks at how operands were computed, if they are elements of others, and
    is run each time for such.
    """

    def decorate(function: F) -> F:
        known: dict[tuple[Any, ...], Any] = {}

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            key: list[Any] = []
            given: list[Any] = []
            places: list[np.ndarray] = []
            if not (
                _describe(args[:operands], key, given, None)
                and given
                and _describe(args[operands:], key, None, places)
            ):
                return function(*args, **kwargs)
            if kwargs:
                key += kwargs
                if not _describe(kwargs.values(), key, None, places):
                    return function(*args, **kwargs)
            name = tuple(key)
            found = known.get(name)
            if found is None or found is _NEVER or (reads_history and _are_moved(given)):
                if found is None:
                    if len(known) >= _MOST_CALLS:
                        known.clear()
                    known[name] = _MET
                return function(*args, **kwargs)
            if found is not _MET:
                if places:
                    values_asked_for(*map(as_node, places))
                return found.again([as_node(x) for x in given], given)
            nodes = [as_node(x) for x in given]
            if len(set(nodes)) < len(nodes):  # nobody could say which of them is read
                return function(*args, **kwargs)
            own = [
                new_tensor(node) if x.__class__ is np.ndarray else x
                for x, node in zip(given, nodes, strict=True)
            ]
            warnings_before = _warnings_given
            result = function(*_with(args[:operands], iter(own)), *args[operands:], **kwargs)
            is_told = _warnings_given != warnings_before
            known[name] = _NEVER if is_told else _recorded(result, nodes, own)
            return result

        return cast(F, call)

    return decorate


_warnings_given = 0


def warn(message: str, stacklevel: int) -> None:
    """NumPy's RuntimeWarning about the shape of an operand, which each call of a function gives
    again; `stacklevel` as if the function were not `by_types`."""
    global _warnings_given
    _warnings_given += 1
    warnings.warn(message, RuntimeWarning, stacklevel=stacklevel + 2)


def _describe(
    values: Iterable[Any], key: list[Any], given: list[Any] | None, places: list[np.ndarray] | None
) -> bool:
    """Append to `key` all that matters of these arguments: of operands, with the list `given`, for
    tensors and arrays; of others with `places`, for arrays that say where. False where one is
    something else."""
    for x in values:
        kind = x.__class__
        if kind is tensor_class.registered:
            if given is None:
                return False
            key.append(x._node.type)
            given.append(x)
        elif kind in _BY_VALUE:
            key += (kind, x)
        elif kind is tuple or kind is list:
            key += (kind, len(x))
            if not _describe(x, key, given, places):
                return False
        elif kind is float or kind is np.float64:
            key += (kind, x.hex())
        elif kind is slice:
            key.append(kind)
            if not _describe((x.start, x.stop, x.step), key, given, places):
                return False
        elif kind is np.ndarray:
            key += (kind, x.dtype, x.shape)
            if given is not None and x.dtype.kind in "biufc":
                given.append(x)
            elif places is not None and x.dtype.kind in "iub" and x.nbytes <= _MOST_BYTES:
                key.append(x.tobytes())
                places.append(x)
            else:
                return False
        elif isinstance(x, np.dtype):
            key.append(x)
        else:
            return False
    return True


def _are_moved(given: Iterable[Any]) -> bool:
    """Whether an operand is parts of others, in whatever order."""
    for value in given:
        if value.__class__ is not np.ndarray:
            x = as_node(value)
            while x.op.name in ("reshape", "transpose") and x.inputs:
                x = x.inputs[0]
            if x.op.family == "movement":
                return True
    return False


def _with(values: Sequence[Any], following: Iterator[Any]) -> Iterator[Any]:
    """Arguments with these in place of the tensors and arrays that `_describe` finds."""
    for x in values:
        kind = x.__class__
        if kind is tuple or kind is list:
            yield kind(_with(x, following))
        elif kind is tensor_class.registered or kind is np.ndarray:
            yield next(following)
        else:
            yield x


def _recorded(result: Any, operands: Sequence[Node], given: Sequence[Any]) -> Any:
    """What made `result` of these operands, no two of which are the same; `_NEVER` where it is
    nothing that can be recorded again."""
    known = set(operands)
    if result.__class__ is not tensor_class.registered:
        return _NEVER
    made = result._node
    fresh = [x for x in toposort([made], stop=known.__contains__) if x not in known]
    constants = [x for x in fresh if x.op in HOLDING]
    fresh = sorted([x for x in fresh if x.op not in HOLDING], key=lambda x: x.serial)
    # What an operand was made of is no constant.
    if any(x in constants for y in operands for x in y.inputs):
        return _NEVER
    places = {x: k for k, x in enumerate([*operands, *constants])}
    operations = []
    oldest = max(x.serial for x in operands)
    for node in fresh:
        if node.serial < oldest or node.value is not None or node.type.device is not CPU:
            return _NEVER
        operations.append(_operation(node, places))
        places[node] = len(places)
    if not fresh or fresh[-1] is not made:
        return _NEVER
    # What is not read has been looked at, as arrays of labels that `einsum` is given.
    if not known.issubset([x for node in fresh for x in node.inputs]):
        return _NEVER
    recording = _Recording()
    recording.constants, recording.operations = constants, operations
    recording.shown, recording.steps = -1, ()
    view = result._view
    if view is not None:
        shown = [k for k, x in enumerate(given) if x._view is view.parent]
        further = {x for _, inputs, _ in view.steps for x in inputs}  # where a diagonal is
        if view.parent is None or not shown or not further.issubset(constants):
            return _NEVER
        recording.shown, recording.steps = shown[0], view.steps
    return recording


def _operation(node: Node, places: dict[Node, int]) -> _Operation:
    inferred = inferred_of(node.op, [x.type for x in node.inputs], node.params)
    return node.op, [places[x] for x in node.inputs], node.params, inferred
