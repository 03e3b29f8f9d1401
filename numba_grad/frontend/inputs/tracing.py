"""What a trace meets that is not its own: arrays of the user's, and values that are asked for.

An array that is there before and after the trace, unchanged, is one that the function closes over:
its memory is read at each call. One that the function makes, or writes to, while it is traced is
a constant of the trace. Where values themselves decide about the trace (an index array, whose
elements are checked; the counts of `repeat`), they are compared at each call.

Exceptions that values decide about are booleans, which say whether there is one. Whoever calls the
compiled function then has Python run it, and raise it.
"""

import contextlib
import functools
import operator
import threading
import weakref
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from numba_grad.autograd.tensor_class import is_tensor
from numba_grad.errors import TracingError, explain
from numba_grad.fresh_thread import carried
from numba_grad.graph import traced_bodies
from numba_grad.graph.node import OPS, Node, leaf, next_serial
from numba_grad.graph.placement import LITERALS
from numba_grad.graph.traced_bodies import tensor_that_was
from numba_grad.graph.walk import toposort
from numba_grad.immutable import NamedTuple
from numba_grad.ops.families import literal

T = TypeVar("T")

_FEW_BYTES = 1 << 15

Check = Callable[[], bool]  # whether something is as it was


class _Current(threading.local):
    trace: "Trace | None" = None


current = carried(_Current())  # the innermost trace that this thread is in


@dataclass(slots=True, eq=False)
class _Met:
    """One array, of which only the place is remembered: what nobody else holds goes at once."""

    owner: Callable[[], np.ndarray | None]  # of the memory
    offset: int  # of the first element
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype
    node: Node  # with a copy of what was in it
    is_written: bool = False  # while tracing
    decides: bool = False  # its elements are part of the trace

    def array(self) -> np.ndarray | None:
        """A view of the memory; None if that is gone."""
        owner = self.owner()
        if owner is None:
            return None
        layout = (self.shape, self.strides, self.dtype, self.offset)
        if layout == (owner.shape, owner.strides, owner.dtype, 0):
            return owner.view(np.ndarray)
        memory = owner.T if owner.flags.f_contiguous else owner
        return np.ndarray(self.shape, self.dtype, memory, self.offset, self.strides)


class ClosedOver(NamedTuple):
    """An array that a traced function closes over: what it was while tracing, and where it is."""

    node: Node
    array: np.ndarray
    is_ready: bool  # to be read by a plan, without a copy

    def is_unchanged(self) -> bool:
        return _same_bytes(self.array, self.node.value)


class Trace:
    """What one trace has met; `current.trace` while it lasts."""

    def __init__(self, copied: Callable[[np.ndarray], Node], first_serial: int) -> None:
        self._first_serial = first_serial  # of the nodes that are its own
        # How many traces of functions that call each other this is in, with itself.
        self.depth = 1 if current.trace is None else current.trace.depth + 1
        self._copied = copied  # a leaf with a copy of an array
        self._met: dict[tuple[Any, ...], _Met] = {}  # by place; the last one
        self._of_node: dict[Node, _Met] = {}  # all
        self._tensors: dict[Node, Any] = {}  # whose values were asked for
        self._constants: dict[int, tuple[np.ndarray, Node]] = {}  # by `id`, with their leaves
        self._made_of_constants: WeakKeyDictionary[Node, bool] = WeakKeyDictionary()
        # Whether what the jitted functions that were called inside stand for is as it was.
        self.inner_checks: list[Check] = []
        self.arguments: Sequence[Any] = ()  # the tensors that stand for these
        # Attributes of tensors from before it that were asked for, by `id` of these and name.
        self._attributes: dict[tuple[int, str], tuple[Any, str, Any] | None] = {}
        # Of the last function that was differentiated, what was looked through for loops, and the
        # serial numbers of its derivative.
        self._looked_through: set[Node] = set()
        self._derivative = range(0)
        # What errors said that there is no value yet: if it goes on, somebody has caught them.
        self.refused: list[str] = []

    def node_of(self, array: np.ndarray) -> Node:
        """The leaf that stands for `array`: the same one, as long as nobody writes to it."""
        own = self._constants.get(id(array))
        if own is not None and own[0] is array:
            return own[1]
        owner = owner_of(array)
        key = (id(owner), _address(array), array.shape, array.strides, array.dtype)
        found = self._met.get(key)
        is_written = False
        if found is not None and found.owner() is owner:
            if _same_bytes(array, found.node.value):
                return found.node
            is_written = found.is_written = True
        node = self._copied(array)
        reference: Callable[[], np.ndarray | None] = weakref.ref(owner)
        offset = _address(array) - _address(owner)
        layout = (array.shape, array.strides, array.dtype)
        if array is not owner and not (owner.flags.c_contiguous or owner.flags.f_contiguous):
            kept = array.view(np.ndarray)  # memory in pieces, of others: there is no other way
            reference, offset = lambda: kept, 0
        met = _Met(reference, offset, *layout, node, is_written)
        self._met[key] = self._of_node[node] = met
        return node

    def place_of(self, node: Node) -> tuple[Hashable, int] | None:
        """Where the array of the user's is that `node` stands for, if it is still there: see
        `ReadAtCalls`, which this is. A tensor of the user's has a place of its own."""
        met = self._of_node.get(node)
        if met is None:
            return None if self._tensor_before(node) is None else (node, 0)
        owner = met.owner()
        return None if owner is None else ((id(owner), met.strides, met.dtype), met.offset)

    def stride_of(self, node: Node, axis: int) -> int:
        met = self._of_node.get(node)
        return 0 if met is None else met.strides[axis]

    def array_of(self, rows: Sequence[Node]) -> Node | None:
        """The leaf for an array that has these arrays as rows: read at each call in one piece."""
        if any(x not in self._of_node for x in rows):
            return None
        first, second = (self._of_node[x] for x in rows[:2])
        move = second.offset - first.offset
        for k, x in enumerate(rows):
            met = self._of_node[x]
            layout = (met.shape, met.strides, met.dtype, met.offset)
            if layout != (first.shape, first.strides, first.dtype, first.offset + k * move):
                return None
            if met.owner() is not first.owner():
                return None
        shape, strides = (len(rows), *first.shape), (move, *first.strides)
        array = replace(first, shape=shape, strides=strides).array()
        if array is None:
            return None
        node = self.node_of(array)
        is_as_it_was = np.array([x.value for x in rows]).tobytes() == node.value.tobytes()
        return node if is_as_it_was else None

    def has_differentiated(self, nodes: Collection[Node], since: int) -> None:
        """Say that these were looked through for loops, and all since then is their derivative."""
        self._looked_through, self._derivative = set(nodes), range(since, next_serial())

    def not_looked_through(self, nodes: Iterable[Node]) -> list[Node]:
        """Those of `nodes` that are neither of that function nor of its derivative."""
        looked, derivative = self._looked_through, self._derivative
        return [x for x in nodes if x.serial not in derivative and x not in looked]

    def asked_for(self, nodes: Iterable[Node]) -> None:
        """Say that the trace depends on the values of these nodes."""
        for node in toposort(nodes, stop=self._is_older):
            met = self._of_node.get(node)
            if met is not None:
                met.decides = True
            tensor = self._tensor_before(node)
            if tensor is not None:
                self._tensors[node] = tensor

    def tensors_asked_for(self) -> set[Node]:
        """What tensors were, from before the trace, whose values were asked for."""
        return set(self._tensors)

    def attribute_asked_for(self, tensor: Any, name: str, found: Any) -> None:
        """Say that the trace depends on what an attribute of a tensor is, if that was there before
        the trace, as what is found.

        Raises
        ------
        TracingError
            If it is the gradient of an argument, which is another tensor in each call.
        """
        is_none = name == "grad" and found is None and tensor._node.requires_grad
        if is_none and any(x is tensor for x in self.arguments):
            raise gradient_of_argument("the `.grad` of an argument is asked for", tensor._node)
        is_before = self._is_older(tensor._node) or _is_assigned_to(tensor)
        if is_before and not (is_tensor(found) and not self._is_older(found._node)):
            self._attributes.setdefault((id(tensor), name), (tensor, name, found))

    def gradients_asked_for(self) -> list[tuple[Any, Any]]:
        """Tensors whose `.grad` was asked for, with what it was, where that is a tensor."""
        asked = [x for x in self._attributes.values() if x is not None and x[1] == "grad"]
        return [(tensor, found) for tensor, _, found in asked if found is not None]

    def gradient_is_read_at_calls(self, tensor: Any) -> None:
        """Say that it does not matter which tensor it is, if there is one."""
        self._attributes[(id(tensor), "grad")] = None
        self.inner_checks.append(lambda: tensor.grad is not None)

    def attribute_assigned(self, tensor: Any, name: str) -> None:
        """Say that from now on the function finds there what it has put there itself."""
        self._attributes.setdefault((id(tensor), name), None)

    def constant(self, value: np.ndarray) -> np.ndarray:
        """`value`, which nobody writes to: no call looks whether somebody has."""
        self._constants.setdefault(id(value), (value, leaf(value)))
        return value

    def is_constant(self, node: Node) -> bool:
        """Whether a node with a value has it at each call: it stands for no array and no tensor of
        the user's."""
        return node not in self._of_node and self._tensor_before(node) is None

    def is_made_of_constants(self, node: Node) -> bool:
        """Whether what `node` is computed of is the same at each call, numbers above all.

        Steps of a loop that index by what they compute ask in turn. So what was found is kept: each
        of them would go through all of those before it.
        """
        found = self._made_of_constants
        stack = [node]
        while stack:
            x = stack[-1]
            if x.value is not None:
                found[x] = self.is_constant(x)
            elif not x.inputs:
                found[x] = x.op.family in LITERALS
            elif x not in found:
                answers = [found.get(y) for y in x.inputs]
                if False not in answers and None in answers:
                    stack.append(x.inputs[answers.index(None)])
                    continue
                found[x] = False not in answers
            stack.pop()
        return found[node]

    def _tensor_before(self, node: Node) -> Any:
        """The tensor that `node` was before the trace, which may have assigned to it since."""
        if not self._is_older(node):
            return None
        return tensor_that_was(node) if node.handle is None else node.handle()

    def _is_older(self, node: Node) -> bool:
        return node.serial < self._first_serial

    def owners_met(self) -> set[int]:
        """The ids of the owners of what any operation has read."""
        return {id(owner) for met in self._of_node.values() if (owner := met.owner()) is not None}

    def closed_over(self) -> list[ClosedOver]:
        """The arrays that are still there, as they were, to be read at each call."""
        return [x for x, _ in self._unchanged(decides=False)]

    def check(self, guard: Check | None) -> Check:
        """What says whether the values that decided about the trace are the same, and `guard`."""
        checks = [] if guard is None else [guard]
        checks += self._checks_of_arrays()
        checks += [_stays(tensor, node) for node, tensor in self._tensors.items()]
        checks += [_keeps(*asked) for asked in self._attributes.values() if asked is not None]
        return _all([*checks, *dict.fromkeys(self.inner_checks)])

    def _checks_of_arrays(self) -> list[Check]:
        """One for each array; for rows of an array, where that is not much larger, one for it."""
        rows: dict[int, list[ClosedOver]] = {}
        owners: dict[int, np.ndarray] = {}
        for x, owner in self._unchanged(decides=True):
            owners[id(owner)] = owner
            rows.setdefault(id(owner), []).append(x)
        checks: list[Check] = []
        for key, parts in rows.items():
            owner = owners[key]
            is_compact = owner.nbytes <= 4 * sum([x.array.nbytes for x in parts])
            if len(parts) > 1 and is_compact:
                checks.append(_stays_equal(owner.view(np.ndarray)))
            else:
                checks += [_stays_equal(x.array) for x in parts]
        return checks

    def _unchanged(self, *, decides: bool) -> list[tuple[ClosedOver, np.ndarray]]:
        """Those that decide about the trace, or the others, with the owners of their memory."""
        result = []
        for met in self._of_node.values():
            if met.decides is not decides or met.is_written:
                continue
            array = met.array()
            if array is not None and _same_bytes(array, met.node.value):
                is_ready = array.flags.c_contiguous and array.dtype == met.node.dtype
                result.append((ClosedOver(met.node, array, is_ready), owner_of(array)))
        return result


def gradient_of_argument(problem: str, node: Node) -> TracingError:
    return TracingError(
        explain(
            "jit",
            f"{problem}, which a compiled function does not have",
            got={"argument": node.type},
            fix="(g,) = ng.autograd.grad(loss, [x]) inside, and g returned; or a tensor that the "
            "function closes over, in place of the argument",
        )
    )


def is_tracing() -> bool:
    return current.trace is not None


def is_known(node: Node) -> bool:
    """Whether `node` has a value that is the same in all calls of what is being traced, if anything
    is."""
    return node.value is not None and (current.trace is None or current.trace.is_constant(node))


def values_asked_for(*nodes: Node) -> None:
    """Say that what is being traced, if anything is, depends on the values of these nodes."""
    if current.trace is not None:
        current.trace.asked_for(nodes)


def _stays(tensor: Any, node: Node) -> Check:
    return lambda: tensor._node is node


def _keeps(tensor: Any, name: str, found: Any) -> Check:
    return lambda: getattr(tensor, name) is found


def _is_assigned_to(tensor: Any) -> bool:
    """Whether the function that is traced assigns to `tensor`, which it has not made."""
    function = traced_bodies.current.compiled
    return function is not None and any(x is tensor for x, _ in function.assigned)


def _stays_equal(array: np.ndarray) -> Check:
    """Whether `array` holds what is in it now."""
    in_memory = array if array.flags.c_contiguous else array.T
    if is_compared_in_place(in_memory):
        memory = in_memory.data
        return functools.partial(operator.eq, bytearray(memory), memory)
    copy = np.array(array, order="C")
    return lambda: _same_bytes(array, copy)


def is_compared_in_place(array: np.ndarray) -> bool:
    """Whether a bytearray of what is in there can be compared with it.

    It does so by `memcmp`, where the array is: 0.1 us, and 0.02 a kilobyte. To copy the bytes first
    takes two to three times that, and so do NumPy's comparisons of elements."""
    return array.flags.c_contiguous and array.dtype.kind in "biufc"


def _all(checks: list[Check]) -> Check:
    if len(checks) == 1:
        return checks[0]  # by far the most common

    def holds() -> bool:
        for check in checks:  # noqa: SIM110 - `all` of a generator takes 0.3 us
            if not check():
                return False
        return True

    return holds


def owner_of(array: np.ndarray) -> np.ndarray:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def _same_bytes(array: np.ndarray, copy: np.ndarray) -> bool:
    """Whether `copy`, contiguous and in native byte order, holds what is in `array`."""
    if array.nbytes <= _FEW_BYTES and array.dtype == copy.dtype:
        return array.tobytes() == copy.tobytes()  # a tenth to all of the time
    own = np.asarray(array, copy.dtype, order="C")
    if own.size != copy.size:
        return False
    words = np.uint64 if own.nbytes % 8 == 0 else np.uint8
    return bool((own.reshape(-1).view(words) == copy.reshape(-1).view(words)).all())


# Exceptions


class RaisesForCertain(BaseException):
    """No error: what is traced comes to a `raise`, whatever the values."""


class _Raised(threading.local):
    scopes: tuple[list[Node], ...] = ()  # of what is traced, and of what that is in
    of_functions: tuple[list[Node], ...] = ()  # those of jitted functions, which Python can run
    is_pythons: bool = False  # whether Python runs a function that comes to a `raise`


_raised = carried(_Raised())


@contextlib.contextmanager
def noting_raised(*, is_function: bool = False) -> Iterator[list[Node]]:
    """While something is traced that is an operation later: when that raises an exception.
    `is_function`: it is a program of its own, which what is around does not belong to."""
    around, functions, found = _raised.scopes, _raised.of_functions, list[Node]()
    _raised.scopes = (found,) if is_function else (*around, found)
    _raised.of_functions = (*functions, found) if is_function else functions
    try:
        yield found
    finally:
        _raised.scopes, _raised.of_functions = around, functions


def result_or_raised(part: Callable[[], T]) -> tuple[T | None, list[Node]]:
    """What a part gives, None if it raises an exception for certain; and when it does."""
    with noting_raised() as raised:
        try:
            return part(), raised
        except RaisesForCertain:
            return None, [literal(True, np.dtype(np.bool_))]


def note_raised(condition: Node) -> bool:
    """Say that an exception is raised where this holds; False if nothing is traced."""
    if not _raised.scopes:
        return False
    # One boolean that is carried on: so steps that may raise an exception are a loop, too.
    scope = _raised.scopes[-1]
    scope[:] = [any_of([*scope, condition])]
    return True


def note_may_fail() -> None:
    """Say that Python is to run the jitted functions that are traced, where they fail when they are
    computed: a `try` in them, or around them, may catch that."""
    for scope in _raised.of_functions:
        scope[:] = [any_of([*scope, literal(False, np.dtype(np.bool_))])]


def raised_so_far() -> list[Node]:
    """When there was an exception before: what comes then must end, and nobody reads it."""
    return [x for scope in _raised.scopes for x in scope]


@contextlib.contextmanager
def run_by_python() -> Iterator[None]:
    """While Python runs what has come to a `raise`."""
    before, _raised.is_pythons = _raised.is_pythons, True
    try:
        yield
    finally:
        _raised.is_pythons = before


def is_run_by_python() -> bool:
    return _raised.is_pythons and not _raised.scopes


def any_of(conditions: list[Node]) -> Node:
    """Whether one of these holds."""
    return functools.reduce(OPS["logical_or"], conditions)
