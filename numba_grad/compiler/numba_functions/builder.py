"""`Builder`: writes statements into regions, and makes the names of what they define."""

import keyword
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from numba_grad.compiler.numba_functions.regions import (
    COMPLEX,
    FLOATS,
    Allocate,
    Axis,
    Check,
    Define,
    For,
    If,
    Load,
    Memory,
    Scalar,
    Size,
    Statement,
    Store,
    Value,
    View,
    defined,
)
from numba_grad.compiler.numba_functions.scalar_operations import (
    dtype_of,
    folded,
    result_dtype,
    takes_floats,
)

# What generated text has names for.
_RESERVED = {
    *("np", "math", "range", "abs", "bool", "int", "float", "min", "max", "len"),
    *("free", "grown", "new_array", "wrapped", "part", "in_parallel", "added", "independent"),
    *("cuda", "thread", "threads", "place", "extent"),
    *[f"k{axis}" for axis in range(32)],
}


class NotOfComplexNumbers(Exception):
    """An operation that is not defined for complex numbers."""


class Builder:
    """Appends statements to the region that is open."""

    def __init__(
        self,
        prefix: str = "t",
        *,
        is_numbering: bool = False,
        of_complex: Collection[str] = frozenset(),
    ) -> None:
        """With `is_numbering`, equal operations on integers are written once in a region.
        `of_complex`: the operations that are defined for complex numbers."""
        self._of_complex = of_complex
        self.body: list[Statement] = []
        self._is_numbering = is_numbering
        self._numbered: list[dict[tuple[object, ...], Scalar]] = [{}]
        self._definitions: dict[Scalar, Define] = {}  # of these
        self._regions: list[list[Statement]] = []  # around the one that is open
        self._prefix = prefix
        self._counts: dict[str, int] = {}
        self._taken: set[str] = set()
        self._shapes: dict[Memory, tuple[Value, ...]] = {}  # of arrays that are made here
        self._lengths: set[Value] = set()  # of others

    def name(self, base: str) -> str:
        """A name that is not taken."""
        if base[:1].isdigit():
            base = f"v{base}"  # Numba's own variables are `$12call` and the like
        while True:
            count = self._counts.get(base, 0)
            self._counts[base] = count + 1
            name = f"{base}_{count}" if count or base == self._prefix else base
            if name not in self._taken and not keyword.iskeyword(name) and name not in _RESERVED:
                self._taken.add(name)
                return name

    def copy(self) -> "Builder":
        """One that knows the same names, with an empty region."""
        result = Builder(self._prefix)
        result._counts, result._taken = dict(self._counts), set(self._taken)
        return result

    def scalar(self, dtype: str, base: str | None = None) -> Scalar:
        return Scalar(self.name(base or self._prefix), dtype)

    def memory(self, base: str, dtype: str, rank: int = 0) -> Memory:
        return Memory(self.name(base), dtype, rank)

    def define(self, operation: str, *arguments: Value, dtype: str | None = None) -> Value:
        """The result of a scalar operation; of numbers alone, where it is easy, a number."""
        known = folded(operation, arguments, dtype)
        if known is not None:
            return known
        dtype = dtype or result_dtype(operation, arguments)
        if takes_floats(operation) and dtype in FLOATS:
            arguments = tuple(
                [
                    x if dtype_of(x) in FLOATS else self.define("cast", x, dtype=dtype)
                    for x in arguments
                ]
            )
        dtypes = [*map(dtype_of, arguments), dtype]
        if operation not in self._of_complex and any(d in COMPLEX for d in dtypes):
            raise NotOfComplexNumbers(operation)
        key = None
        if self._is_numbering and not any(d in (*FLOATS, *COMPLEX) for d in dtypes[:-1]):
            key = (operation, dtype, *[(type(x), x) for x in arguments])
            for numbered in self._numbered:
                if key in numbered:
                    return numbered[key]
        target = self.scalar(dtype)
        if key is not None:
            self._numbered[-1][key] = target
            self._definitions[target] = Define(target, operation, arguments)
        self.body.append(Define(target, operation, arguments))
        return target

    def visible(self) -> frozenset[Scalar]:
        """The scalars that may be used here."""
        regions = [*self._regions, self.body]
        found: set[Scalar] = set()
        for region in regions:
            for s in region:
                target = defined(s)
                if target is not None and (
                    not isinstance(s, For) or any(s.body is inner for inner in regions)
                ):
                    found.add(target)
        return frozenset(found)

    def again(
        self,
        values: Sequence[Value],
        visible: Collection[Scalar],
        region: list[Statement],
        given: Mapping[Scalar, Value] | None = None,
    ) -> tuple[Value, ...]:
        """Integers computed once more, where only some scalars are visible; into `region`. What is
        `given` for others stands in their place.

        Raises LookupError where they are not computed from these alone.
        """
        made: dict[Scalar, Value] = dict(given or {})

        def of(value: Value) -> Value:
            if not isinstance(value, Scalar) or value in visible:
                return value
            if value not in made:
                definition = self._definitions[value]
                arguments = tuple(map(of, definition.arguments))
                made[value] = target = self.scalar(value.dtype)
                region.append(Define(target, definition.operation, arguments))
            return made[value]

        return tuple(map(of, values))

    def check(
        self, condition: Value, message: str, shapes: Sequence[tuple[Value, ...]] = ()
    ) -> None:
        """A `ValueError` unless the condition is true."""
        if condition is not True:
            self.body.append(Check(condition, "ValueError", (message,), tuple(shapes)))

    def equal_lengths(self, a: Value, b: Value) -> Value:
        """Whether two lengths are equal; True if that is so without looking."""
        if isinstance(a, int) and isinstance(b, int):
            return a == b
        return a is b or a == b or self.define("equal", a, b)

    def load(self, memory: Memory, *indices: Value) -> Scalar:
        target = self.scalar(memory.dtype)
        self.body.append(Load(target, memory, indices))
        return target

    def store(
        self, memory: Memory, indices: Sequence[Value], value: Value, *, is_added: bool = False
    ) -> None:
        self.body.append(Store(memory, tuple(indices), value, is_added))

    def size(self, memory: Memory, axis: int) -> Value:
        known = self._shapes.get(memory)
        if known is not None:
            return known[axis]
        target = self.scalar("int64")
        self._lengths.add(target)
        self.body.append(Size(target, memory, axis))
        return target

    def is_length(self, value: Value) -> bool:
        """Whether it is one of an array, which is never negative."""
        return value in self._lengths

    def measure(self, memory: Memory) -> None:
        """Write its lengths here, for all that follows."""
        self._shapes[memory] = tuple([self.size(memory, axis) for axis in range(memory.rank)])

    def allocate(
        self, base: str, dtype: str, shape: Sequence[Value] = (), fill: float | None = None
    ) -> Memory:
        memory = self.memory(base, dtype, len(shape))
        self.body.append(Allocate(memory, tuple(shape), fill))
        self._shapes[memory] = tuple(shape)
        return memory

    def resize(self, memory: Memory, shape: Sequence[Value]) -> None:
        """Of an array whose `Allocate` has been given another shape."""
        self._shapes[memory] = tuple(shape)

    @contextmanager
    def region(self, statements: list[Statement]) -> Iterator[None]:
        """What is written inside goes to `statements`."""
        self._regions.append(self.body)
        self.body = statements
        self._numbered.append({})
        try:
            yield
        finally:
            self.body = self._regions.pop()
            self._numbered.pop()

    @contextmanager
    def loop(self, stop: Value, start: Value = 0, step: Value = 1) -> Iterator[Scalar]:
        """`with builder.loop(n) as i:` writes the body of a loop."""
        loop = For(self.scalar("int64", "i"), start, stop, step, [])
        self.body.append(loop)
        with self.region(loop.body):
            yield loop.index

    @contextmanager
    def elements(
        self, shape: Iterable[Value], *, is_backwards: bool = False
    ) -> Iterator[tuple[Scalar, ...]]:
        """`with builder.elements(shape) as at:` writes what is done for each element, with its
        indices, in the loops over all of them."""
        with ExitStack() as loops:
            at: tuple[Scalar, ...] = ()
            for length in shape:
                span: tuple[Value, ...] = (length,)
                if is_backwards:
                    span = (-1, self.define("subtract", length, 1), -1)
                at = (*at, loops.enter_context(self.loop(*span)))
            yield at

    def sizes(self, memory: Memory) -> Iterator[Value]:
        """The lengths of an array's axes, each written where it is asked for."""
        return (self.size(memory, axis) for axis in range(memory.rank))

    @contextmanager
    def branch(self, condition: Value) -> Iterator[If]:
        """`with builder.branch(c) as branch:` writes the statements that are done if it is true;
        `with builder.region(branch.otherwise):` then the others."""
        branch = If(condition, [])
        self.body.append(branch)
        with self.region(branch.then):
            yield branch

    # Views.

    def whole(self, memory: Memory) -> View:
        """All of an array."""
        shape = tuple([self.size(memory, axis) for axis in range(memory.rank)])
        return View(memory, tuple([Axis(0, 1, k) for k in range(memory.rank)]), shape)

    def place(self, view: View, indices: Sequence[Value]) -> tuple[Value, ...]:
        """Where in its array an element of a view is."""
        result: list[Value] = []
        for axis in view.axes:
            if axis.dimension is None:
                result.append(axis.start)
                continue
            index = self.define("multiply", indices[axis.dimension], axis.step)
            result.append(self.define("add", axis.start, index))
        return tuple(result)

    def load_view(self, view: View, *indices: Value) -> Scalar:
        return self.load(view.memory, *self.place(view, indices))

    def store_view(
        self, view: View, indices: Sequence[Value], value: Value, *, is_added: bool = False
    ) -> None:
        self.store(view.memory, self.place(view, indices), value, is_added=is_added)
