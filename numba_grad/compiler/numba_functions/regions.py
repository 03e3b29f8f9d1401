"""A function as a tree of regions: statements, loops and branches, on scalars and arrays.

    Scalar      a name that is given a value by one statement; used after it, in its sequence or in
                what is nested there. An argument of a statement is a Scalar or a number.
    Memory      what can be written more than once: an array, or a variable of the function, which
                is an array without axes. Two names are never the same memory.
    statements  Define, Load, Store, Size, Allocate; For, While, If, Parallel, with lists of
                statements; Swap; Check

There is no jump: who leaves a loop sets a flag, and what would be jumped over stands in a branch.
Names are unique in a function, over all regions. `Builder` (`builder.py`) writes statements and
makes the names.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Union, get_args

from numba_grad.immutable import immutable

if TYPE_CHECKING:
    from numba_grad.compiler.numba_functions.builder import Builder

FLOATS = ("float32", "float64")
# In trees of users' code only: `complex_numbers.py` writes them as pairs of floats.
COMPLEX = ("complex64", "complex128")


@immutable
class Scalar:
    """A value that one statement computes."""

    name: str
    dtype: str  # a name of NumPy: "float64", "float32", "int64", "bool", ...

    def __repr__(self) -> str:
        return self.name


Value = Scalar | int | float | bool
Shape = Union["Memory", tuple[Value, ...]]


@immutable
class Memory:
    """An array, C-contiguous; with rank 0 a variable."""

    name: str
    dtype: str
    rank: int = 0

    def __repr__(self) -> str:
        return self.name


@dataclass(slots=True)
class Define:
    """A scalar operation without effects: of `scalar_operations.OPERATIONS`."""

    target: Scalar
    operation: str
    arguments: tuple[Value, ...]


@dataclass(slots=True)
class Size:
    """The length of an axis of an array."""

    target: Scalar
    memory: Memory
    axis: int


@dataclass(slots=True)
class Load:
    target: Scalar
    memory: Memory
    indices: tuple[Value, ...] = ()  # one for each axis; negative ones count from the end


@dataclass(slots=True)
class Store:
    """`memory[indices] = value`, or with `is_added` `+=`; of cotangents, in any order."""

    memory: Memory
    indices: tuple[Value, ...]
    value: Value
    is_added: bool = False
    in_any_order: bool = False


@dataclass(slots=True)
class Allocate:
    """A new array, or a variable, that this statement alone makes; elements are `fill`.

    It may stand in a loop: then it is a new one in each pass. With `fill` None, its elements are
    written before they are read (a read of another one has no meaning in the user's code either).
    """

    memory: Memory
    shape: tuple[Value, ...] = ()
    fill: float | None = None


@dataclass(slots=True)
class For:
    """`for index in range(start, stop, step)`. `leave` is a bool variable: if it is true after a
    pass, there is no other. `step` is not 0. `is_parallel`: the user says so, with `prange`.
    `is_independent`: no pass touches an element that another one writes."""

    index: Scalar
    start: Value
    stop: Value
    step: Value
    body: "list[Statement]"
    leave: Memory | None = None
    is_parallel: bool = False
    is_independent: bool = False


@dataclass(slots=True)
class While:
    """A pass of `body`, as long as the bool variable `leave` is false. It is looked at before the
    first pass, too."""

    leave: Memory
    body: "list[Statement]"


@dataclass(slots=True)
class If:
    condition: Value
    then: "list[Statement]"
    otherwise: "list[Statement]" = field(default_factory=list)


@dataclass(slots=True)
class Swap:
    """The names `memories` are given the arrays that `others`, the same in another order, had.

    All of them have one shape.
    """

    memories: tuple[Memory, ...]
    others: tuple[Memory, ...]


@dataclass(slots=True)
class Check:
    """Raise an exception unless `condition` is true: what the user's code raises, or shapes that do
    not fit. What follows may rely on it. It has no derivative, and no derivative leaves it out."""

    condition: Value
    error: str  # a built-in exception, or np.linalg.LinAlgError
    arguments: tuple[str | int | float | bool, ...]
    shapes: tuple[tuple[Value, ...], ...] = ()  # that the message shows, where they are known


@dataclass(slots=True)
class Push:
    """Keep a value on a tape, a stack of numbers of one dtype; the `Pop` of the same pair, and of
    the same pass of its loops, takes it from there. Only derivatives have these."""

    tape: str
    value: Value
    pair: str
    has_room: bool = False  # made before: see `tape_rooms.py`


@dataclass(slots=True)
class Room:
    """Make room for so many numbers on a tape."""

    tape: str
    count: Value


@dataclass(slots=True)
class Pop:
    target: Scalar
    tape: str
    pair: str


@dataclass(slots=True)
class Mark:
    """Remember how high a tape is, by a name."""

    tape: str
    name: str


@dataclass(slots=True)
class Rewind:
    """Forget what was kept on a tape after a mark."""

    tape: str
    name: str


@dataclass(slots=True)
class Height:
    """How many numbers are on a tape above a mark."""

    target: Scalar
    tape: str
    name: str


@dataclass(slots=True)
class Top:
    """How many numbers are on a tape."""

    target: Scalar
    tape: str


@dataclass(slots=True)
class Seek:
    """Go on with a tape where it has so many numbers."""

    tape: str
    place: Value


@dataclass(slots=True)
class Parallel:
    """`body`, which does the tasks from `first` to before `last`; threads do a part of them each.

    Tasks touch no element that another of them writes. Variables of outside are only read. There
    are no swaps or checks in it. Where it keeps or takes something on a tape, it says by a `Seek`
    at which place; there is room. `grain` tasks are worth a thread.
    """

    first: Scalar
    last: Scalar
    tasks: Value
    grain: Value
    body: "list[Statement]"


Statement = (
    Define
    | Size
    | Load
    | Store
    | Allocate
    | For
    | While
    | If
    | Parallel
    | Swap
    | Check
    | Push
    | Room
    | Pop
    | Mark
    | Rewind
    | Height
    | Top
    | Seek
)


@dataclass(slots=True)
class Function:
    """A function of arrays and scalars, which writes to some of its arrays.

    Parameters that are numbers are memories of rank 0, as any variable. Results are what it
    returns, memories that nothing is written to later; scalars are in variables.
    """

    name: str
    parameters: list[Memory]
    body: list[Statement]
    written: list[Memory]  # those of the parameters, in their order
    returned: list[Memory]
    result: Any = True  # how it is made of `returned`: `function_tree.py`
    builder: "Builder | None" = None  # knows the names
    # Of complex parameters and results: an imaginary part comes after each of these.
    real_parts: frozenset[Memory] = frozenset()
    of_bools: frozenset[Memory] = frozenset()  # results that are integers, and bools for the user


@dataclass(slots=True)
class RegionKernel:
    """Code that reads `inputs` and writes all elements of `outputs`; numbers are of rank 0."""

    name: str
    inputs: list[Memory]
    outputs: list[Memory]
    body: list[Statement]
    builder: "Builder"
    shapes: "dict[Memory, Shape]"  # of outputs: that of an input, or the lengths


def lengths(outputs: list[Memory], shapes: "dict[Memory, Shape]") -> list[Scalar]:
    """The scalars that shapes of outputs are made of."""
    own = [shapes[m] for m in outputs if m.rank]
    return [x for shape in own if isinstance(shape, tuple) for x in shape if isinstance(x, Scalar)]


@immutable
class Axis:
    """What a view takes of an axis of its array: one index, or `start + step * j` where j is the
    view's index along its axis `dimension`."""

    start: Value
    step: Value = 0
    dimension: int | None = None


@immutable
class View:
    """Some elements of an array: a slice, a row, a transpose. An array itself is a view of all."""

    memory: Memory
    axes: tuple[Axis, ...]  # for each axis of the memory
    shape: tuple[Value, ...]

    @property
    def dtype(self) -> str:
        return self.memory.dtype

    @property
    def rank(self) -> int:
        return len(self.shape)


_WITH_A_BODY = (For, While, Parallel)
_WITH_REGIONS = {*_WITH_A_BODY, If}


def nested(statement: Statement) -> tuple[list[Statement], ...]:
    """The regions inside a statement."""
    if isinstance(statement, _WITH_A_BODY):
        return (statement.body,)
    if isinstance(statement, If):
        return (statement.then, statement.otherwise)
    return ()


def with_regions(
    statement: Statement, change: Callable[[list[Statement]], list[Statement]]
) -> Statement:
    """The statement with its regions changed; itself if it has none."""
    if isinstance(statement, _WITH_A_BODY):
        return replace(statement, body=change(statement.body))
    if isinstance(statement, If):
        return replace(
            statement, then=change(statement.then), otherwise=change(statement.otherwise)
        )
    return statement


def rewritten(
    statements: list[Statement], change: Callable[[Statement], Statement | None]
) -> list[Statement]:
    """The statements as `change` has them, those in regions before what they are in; None leaves
    one out."""
    made = [change(with_regions(s, lambda part: rewritten(part, change))) for s in statements]
    return [s for s in made if s is not None]


def walk(statements: list[Statement]) -> list[Statement]:
    """All statements, those inside others too, in the order of the text."""
    found: list[Statement] = []
    _add_all(statements, found)
    return found


def _add_all(statements: list[Statement], found: list[Statement]) -> None:
    # A generator in a generator, asking each statement for its regions, took a quarter of the time
    # of all that is done with a tree.
    for statement in statements:
        found.append(statement)
        if type(statement) in _WITH_REGIONS:
            for region in nested(statement):
                _add_all(region, found)


# How the values that a statement itself reads are found, by its class; others read none.
_OPERANDS: dict[type, Callable[[Any], tuple[Value, ...]]] = {
    Define: attrgetter("arguments"),
    Load: attrgetter("indices"),
    Store: lambda s: (*s.indices, s.value),
    Push: lambda s: (s.value,),
    Room: lambda s: (s.count,),
    Seek: lambda s: (s.place,),
    Allocate: attrgetter("shape"),
    For: attrgetter("start", "stop", "step"),
    Parallel: attrgetter("tasks", "grain"),
    If: lambda s: (s.condition,),
    Check: lambda s: (s.condition, *itertools.chain(*s.shapes)),
}


def operands(statement: Statement) -> tuple[Value, ...]:
    """The values that a statement itself reads, without the regions in it."""
    found = _OPERANDS.get(type(statement))
    return () if found is None else found(statement)


_WITH_A_TARGET = (Define, Load, Size, Pop, Height, Top)


def defined(statement: Statement) -> Scalar | None:
    """The scalar that a statement gives its value; of a loop, its index."""
    if isinstance(statement, _WITH_A_TARGET):
        return statement.target
    return statement.index if isinstance(statement, For) else None


_values_of = {kind: attrgetter(*[f.name for f in fields(kind)]) for kind in get_args(Statement)}


def substituted(statements: list[Statement], names: dict[Scalar, Value]) -> list[Statement]:
    """The statements with other scalars in place of some, wherever they are used or defined."""

    def of(x: Any) -> Any:
        if isinstance(x, Scalar):
            return names.get(x, x)
        if isinstance(x, tuple):
            return tuple(map(of, x))
        return substituted(x, names) if isinstance(x, list) else x

    return [type(s)(*map(of, _values_of[type(s)](s))) for s in statements]
