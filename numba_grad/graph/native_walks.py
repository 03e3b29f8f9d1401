"""Long graphs are walked in native code, which reads nodes as CPython lays them out in memory.

    NativeWalks    `history`, `survey` and `release`, from the addresses of the code
    WalkWord       what the code is told, and where it finds the parts of an object

The code is `compiler/building/walk_functions.py`; it is handed in as addresses. Where the parts of
an object lie is not written down anywhere here: it is looked up in objects made for the purpose. On
a Python where they are not found, or that runs threads without a common lock, there are no native
walks, and nodes are looked at one by one, with the same outcome.
"""

import ctypes
import sys
import weakref
from collections.abc import Sequence

import numpy as np

from numba_grad.graph.node import SERIALS_A_NODE, Node, Op
from numba_grad.immutable import NamedTuple

OBJECT_HEAD = object.__basicsize__  # bytes before the fields of an object
WORD = ctypes.sizeof(ctypes.c_int64)


class WalkWord:
    """The words of a record."""

    # Where the parts of objects are, in words from their beginning.
    TYPE = 0
    TUPLE_ITEMS = 1
    REFERENT = 2
    OP = 3
    INPUTS = 4
    VALUE = 5
    REQUIRES_GRAD = 6
    RELEASED = 7
    SERIAL = 8
    AUTOGRAD = 9
    HANDLE = 10
    KIND = 11
    VJP = 12
    SAVES = 13
    # Objects, by address, and functions of CPython.
    NODE_TYPE = 14
    TUPLE_TYPE = 15
    REFERENCE_TYPE = 16
    NONE = 17
    TRUE = 18
    FALSE = 19
    APPEND = 20
    INCREASE_REFERENCE = 21
    DECREASE_REFERENCE = 22
    AS_INTEGER = 23
    # A set of addresses, which has MASK + 1 places, and may have MOST.
    TABLE = 24
    MASK = 25
    MOST = 26
    # Of a walk: two tuples, three lists, memory, and what goes from one part to the next.
    ROOTS = 27
    ENDS = 28
    FOUND = 29
    MET = 30
    HELD = 31
    MEMORY = 32
    SINCE = 33
    WITH_PENDING = 34
    FIRST_SERIAL = 35
    LAST_SERIAL = 36
    COUNT = 37
    # Of a survey: two tuples, a list, and arrays of what is found; COUNT inputs, and room for
    # more. Of a release the first tuple, and the list.
    NODES = 38
    FIXED = 39
    OTHERS = 40
    KINDS = 41
    ARITIES = 42
    REQUIRE_GRAD = 43
    ARE_FREE = 44
    INPUT_NUMBERS = 45
    FIXED_NUMBERS = 46
    MOST_READS = 47
    END = 48


class WalkStatus:
    """How native code came back."""

    DONE = 0
    FULL = 1  # not enough room
    UNKNOWN = 2  # an object that it knows nothing about
    FAILED = 3  # Python has no memory left, and says so


class NodeSurvey(NamedTuple):
    """What some nodes are, in arrays."""

    kinds: np.ndarray
    arities: np.ndarray
    require_grad: np.ndarray  # of bool, as the next one
    are_free: np.ndarray  # known to nobody but those that read them
    inputs: np.ndarray  # of all nodes, one after the other: by number, below 0 those of `others`
    others: list[Node]  # the first one is -1
    fixed: np.ndarray  # numbers of nodes that were asked for, below 0 of those that are not there


class NativeWalks:
    """Walks by native code at these addresses. They give None where it knows too little."""

    def __init__(self, walk: int, survey: int, release: int, layout: dict[int, int]) -> None:
        # As functions of CPython's own: they hold the GIL, and may leave an exception.
        function = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
        self._walk, self._survey = function(walk), function(survey)
        self._release = function(release)
        self._template = np.zeros(WalkWord.END, np.int64)
        for word, value in layout.items():
            self._template[word] = value
        self._most = 1 << 17  # nodes that a walk has room for, at first

    def history(
        self, roots: tuple[Node, ...], ends: tuple[Node, ...], since: int, with_pending: bool
    ) -> tuple[list[Node], list[Node], list[Node]] | None:
        """As `walk.history_of`; `roots` are distinct."""
        # No more than there have been since, if that is not absurd.
        recorded = max([x.serial for x in roots], default=0) - since
        most = min(max(recorded // SERIALS_A_NODE, 0) + len(roots) + len(ends) + 64, self._most)
        while True:
            found: tuple[list[Node], list[Node], list[Node]] = ([], [], [])
            # The way, and twice what is found, with serials.
            table, memory = _set_of(most), np.empty(5 * most, np.int64)
            record = self._record(
                {
                    WalkWord.TABLE: table.ctypes.data,
                    WalkWord.MASK: len(table) // 2 - 1,
                    WalkWord.MOST: most,
                    WalkWord.MEMORY: memory.ctypes.data,
                    WalkWord.ROOTS: id(roots),
                    WalkWord.ENDS: id(ends),
                    WalkWord.FOUND: id(found[0]),
                    WalkWord.MET: id(found[1]),
                    WalkWord.HELD: id(found[2]),
                    WalkWord.SINCE: since,
                    WalkWord.WITH_PENDING: with_pending,
                }
            )
            status = self._walk(record.ctypes.data)
            if status != WalkStatus.FULL:
                self._most = max(most, self._most)  # the next one may be as long
                return found if status == WalkStatus.DONE else None
            most *= 4

    def survey(self, nodes: tuple[Node, ...], fixed: tuple[Node, ...]) -> NodeSurvey | None:
        """As `survey.survey_of`."""
        count = len(nodes)
        numbers, flags = np.empty((2, count), np.int64), np.empty((2, count), np.bool_)
        fixed_numbers = np.empty(len(fixed), np.int64)
        most, most_reads = count + count // 2, 2 * count
        while True:
            others: list[Node] = []
            table, inputs = _set_of(most), np.empty(most_reads, np.int64)
            record = self._record(
                {
                    WalkWord.TABLE: table.ctypes.data,
                    WalkWord.MASK: len(table) // 2 - 1,
                    WalkWord.MOST: most,
                    WalkWord.MOST_READS: most_reads,
                    WalkWord.NODES: id(nodes),
                    WalkWord.FIXED: id(fixed),
                    WalkWord.OTHERS: id(others),
                    WalkWord.KINDS: numbers[0].ctypes.data,
                    WalkWord.ARITIES: numbers[1].ctypes.data,
                    WalkWord.REQUIRE_GRAD: flags[0].ctypes.data,
                    WalkWord.ARE_FREE: flags[1].ctypes.data,
                    WalkWord.INPUT_NUMBERS: inputs.ctypes.data,
                    WalkWord.FIXED_NUMBERS: fixed_numbers.ctypes.data,
                }
            )
            status = self._survey(record.ctypes.data)
            reads = int(record[WalkWord.COUNT])
            if status != WalkStatus.FULL:
                break
            most, most_reads = count + reads, reads
        if status != WalkStatus.DONE:
            return None
        return NodeSurvey(
            numbers[0], numbers[1], flags[0], flags[1], inputs[:reads], others, fixed_numbers
        )

    def release(self, nodes: tuple[Node, ...]) -> list[Node] | None:
        """As `walk.released`; where it gives None, some may be marked already."""
        with_values: list[Node] = []
        record = self._record({WalkWord.NODES: id(nodes), WalkWord.OTHERS: id(with_values)})
        return with_values if self._release(record.ctypes.data) == WalkStatus.DONE else None

    def _record(self, words: dict[int, int]) -> np.ndarray:
        record = self._template.copy()
        for word, value in words.items():
            record[word] = value
        return record


def _set_of(most: int) -> np.ndarray:
    """Memory for a set of so many addresses."""
    return np.zeros(2 << (most + most // 2).bit_length(), np.int64)


# Where the parts of objects lie.

_PARTS_OF_NODES = {
    WalkWord.OP: "op",
    WalkWord.INPUTS: "inputs",
    WalkWord.VALUE: "value",
    WalkWord.REQUIRES_GRAD: "requires_grad",
    WalkWord.RELEASED: "released",
    WalkWord.SERIAL: "serial",
    WalkWord.AUTOGRAD: "autograd",
    WalkWord.HANDLE: "handle",
    WalkWord.KIND: "kind",
}


class _Mark:
    """Something to be found in memory, and to refer to weakly."""


def layout() -> dict[int, int] | None:
    """What native code has to know of this Python; None if that is not found."""
    has_common_lock = getattr(sys, "_is_gil_enabled", lambda: True)()
    if sys.implementation.name != "cpython" or not has_common_lock or tuple.__itemsize__ != WORD:
        return None
    mark = _Mark()
    reference = weakref.ref(mark)
    several = (mark, None, None)
    found: dict[int, int | None] = {
        WalkWord.TYPE: _place_in(_with(Node, "op", mark), Node),
        WalkWord.TUPLE_ITEMS: _place_in(several, mark, tuple.__basicsize__ + len(several) * WORD),
        WalkWord.REFERENT: _place_in(reference, mark),
        WalkWord.VJP: _place_in(_with(Op, "vjp", mark), mark),
        WalkWord.SAVES: _place_in(_with(Op, "saves", mark), mark),
    }
    for word, part in _PARTS_OF_NODES.items():
        found[word] = _place_in(_with(Node, part, mark), mark)
    for word, thing in (
        (WalkWord.NODE_TYPE, Node),
        (WalkWord.TUPLE_TYPE, tuple),
        (WalkWord.REFERENCE_TYPE, weakref.ref),
        (WalkWord.NONE, None),
        (WalkWord.TRUE, True),
        (WalkWord.FALSE, False),
    ):
        found[word] = id(thing)
    for word, function in (
        (WalkWord.APPEND, ctypes.pythonapi.PyList_Append),
        (WalkWord.INCREASE_REFERENCE, ctypes.pythonapi.Py_IncRef),
        (WalkWord.DECREASE_REFERENCE, ctypes.pythonapi.Py_DecRef),
        (WalkWord.AS_INTEGER, ctypes.pythonapi.PyLong_AsLongLong),
    ):
        found[word] = ctypes.cast(function, ctypes.c_void_p).value
    lengths = [_words(x, tuple.__basicsize__)[OBJECT_HEAD // WORD] for x in ((1,), (1, 2, 3))]
    del mark, several
    if None in found.values() or lengths != [1, 3]:
        return None
    places = {word: value for word, value in found.items() if value is not None}
    # What it refers to is gone.
    is_none = _words(reference, weakref.ref.__basicsize__)[places[WalkWord.REFERENT]] == id(None)
    return places if is_none else None


def _with(kind: type, name: str, value: object) -> object:
    """An object of a class with slots, of which one is set."""
    made = object.__new__(kind)
    object.__setattr__(made, name, value)
    return made


def _words(thing: object, size: int) -> Sequence[int]:
    """What is in memory where an object begins, for so many bytes."""
    return (ctypes.c_int64 * (size // WORD)).from_address(id(thing))[:]


def _place_in(thing: object, part: object, size: int = 0) -> int | None:
    """Which word of an object, of the size that its class says, points to another one."""
    words = _words(thing, size or type(thing).__basicsize__)
    places = [number for number, word in enumerate(words) if word == id(part)]
    return places[0] if len(places) == 1 else None
