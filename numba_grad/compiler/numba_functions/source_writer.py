"""A kernel as Numba source: scalar loops, as Numba's array code takes seconds to compile."""

import functools
import math
import re
from collections.abc import Collection, Sequence

from numba_grad.compiler.numba_functions.analyses import (
    checks_of_shapes,
    needed_for,
    swapped_together,
)
from numba_grad.compiler.numba_functions.builder import Builder
from numba_grad.compiler.numba_functions.index_ranges import IndexRanges
from numba_grad.compiler.numba_functions.numba_words import WORDS
from numba_grad.compiler.numba_functions.regions import (
    Allocate,
    Check,
    Define,
    For,
    Height,
    If,
    Load,
    Mark,
    Memory,
    Parallel,
    Pop,
    Push,
    RegionKernel,
    Rewind,
    Room,
    Scalar,
    Seek,
    Size,
    Statement,
    Store,
    Swap,
    Top,
    Value,
    While,
    defined,
    lengths,
    nested,
    operands,
    rewritten,
    walk,
)
from numba_grad.compiler.numba_functions.scalar_operations import (
    OPERATIONS,
    cast_to,
    dtype_of,
)
from numba_grad.compiler.numba_functions.tapes import dtype_on
from numba_grad.compiler.scalar_expressions import (
    ATOM,
    Printed,
    Term,
    number_text,
    parsed,
    printed,
    with_functions,
)
from numba_grad.errors import explain
from numba_grad.immutable import NamedTuple

_SHAPES_HEAD = """\
import math

import numpy as np

from numba_grad.errors import KernelError


"""
# What generated source calls, by the modules that have it.
_PROVIDED = {
    "sums": r"\badded(?=\()",
    "source_functions": r"(?<=@)part\b|\b(?:digamma|exception_named|free|grown|in_parallel|"
    r"independent|new_array|trigamma|wrapped|zeta)(?=\()",
}
_UNKNOWN_SHAPE = "the shape of a result depends on values, not on shapes and Python ints alone"
_FOR_UNKNOWN_SHAPE = "ng.custom_op, with a derivative of your own, for what makes such an array"


def kernel_source(kernel: RegionKernel, numbers: Collection[str]) -> str:
    """The text of a function of the inputs, the outputs, and the inputs in `numbers`, which are
    scalars. Other inputs and outputs of rank 0 are arrays without axes."""
    return SourceWriter(kernel.body, kernel.builder.copy()).function(kernel, numbers)


def shapes_source(kernel: RegionKernel, numbers: Collection[str]) -> str:
    """The text of a Python function `shapes` of the inputs' types, and the numbers: the list of the
    outputs' shapes. It checks what can be checked with these, before the kernel runs."""
    unswapped = _unswapped(kernel.body)
    checks = checks_of_shapes(unswapped, numbers)
    body = needed_for(unswapped, lengths(kernel.outputs, kernel.shapes), checks)
    writer = SourceWriter(body, kernel.builder.copy(), is_inlined=False)
    arrays = [m.name for m in kernel.inputs if m.name not in numbers]
    rest = [m.name for m in kernel.inputs if m.name in numbers]
    writer.line(f"def shapes({', '.join([*arrays, *rest])}):")
    writer.indent += 1
    values = {m for m in kernel.inputs if m.name not in numbers}
    if any(isinstance(s, Load) and s.memory in values for s in walk(body)):
        writer.line(
            f"raise KernelError({explain(kernel.name, _UNKNOWN_SHAPE, fix=_FOR_UNKNOWN_SHAPE)!r})"
        )
        return _with_head(writer.lines)
    # Arrays that are written have the shapes of what they are copies of.
    own = {
        m: shape for m, shape in kernel.shapes.items() if isinstance(shape, Memory) and m != shape
    }
    used = {s.memory for s in walk(body) if isinstance(s, Size)}
    for memory, shape in own.items():
        if memory in used:
            writer.line(f"{memory.name} = {shape.name}")
    swapped = {tuple(sorted(m.name for m in g)) for g in swapped_together(kernel.body).values()}
    for group in sorted(swapped):
        arrays = [own[m].name for m in own if m.name in group]
        if len(arrays) > 1:
            equal = " == ".join(f"{name}.shape" for name in arrays)
            writer.line(f"if not {equal}:")
            problem = f"arrays that are swapped differ in shape: {', '.join(arrays)}"
            writer.line(f"    raise ValueError({problem!r})")
    writer.region(body)
    parts = []
    for memory in kernel.outputs:
        shape = kernel.shapes[memory] if memory.rank else ()
        if isinstance(shape, Memory):
            parts.append(f"{shape.name}.shape")
        else:
            parts.append(f"({''.join(f'int({writer.text(x)}), ' for x in shape)})")
    writer.line(f"return [{', '.join(parts)}]")
    return _with_head(writer.lines)


def _with_head(lines: Sequence[str]) -> str:
    text = "\n".join(lines) + "\n"
    return _imports(text) + _SHAPES_HEAD + text


def _unswapped(statements: list[Statement]) -> list[Statement]:
    """The statements without swaps, which change no shapes."""
    return rewritten(statements, lambda s: None if isinstance(s, Swap) else s)


_LONG = 52  # a text that has a line of its own
_NAN, _INFINITY = Printed("np.nan"), Printed("np.inf")
_MINUS_INFINITY = printed(parsed("-{a}"), {"a": _INFINITY})
_NOT = parsed("not {a}")


class _Pending(NamedTuple):
    """What a scalar is that has not been written yet."""

    value: Printed
    reads_memory: bool


class SourceWriter:
    """Of code for the CPU; a writer for another target says what differs."""

    def __init__(self, body: list[Statement], builder: Builder, *, is_inlined: bool = True) -> None:
        self.lines: list[str] = []
        self.indent = 0
        self._is_inlined = is_inlined
        self._parts: list[str] = []  # lines of functions that are defined before
        self._tapes: set[str] = set()
        self._swapped = swapped_together(body)
        self._names = builder
        self._ranges = IndexRanges(body)
        self._owners: dict[Memory, str] = {}  # the names that arrays are given back by
        self._open: list[str] = []  # what is given back if an exception is raised
        # Scalars that are used once, beside where they are defined.
        self._pending: dict[Scalar, _Pending] = {}
        self._uses: dict[Scalar, int] = {}
        for s in walk(body):
            for x in operands(s):
                if isinstance(x, Scalar):
                    self._uses[x] = self._uses.get(x, 0) + 1

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def function(self, kernel: RegionKernel, numbers: Collection[str]) -> str:
        body = kernel.body
        parameters, first, last = [], [], []
        for memory in kernel.inputs:
            if memory.name in numbers:
                continue
            if memory.rank:
                parameters.append(memory.name)
                continue
            parameters.append(f"{memory.name}_array")
            first.append(f"{memory.name} = {memory.name}_array[()]")
        for memory in kernel.outputs:
            if memory.rank:
                parameters.append(memory.name)
                continue
            parameters.append(f"{memory.name}_result")
            last.append(f"{memory.name}_result[()] = {memory.name}")
        for memory in kernel.inputs:
            if memory.name in numbers:
                parameters.append(memory.name)
                if memory.dtype == "bool":
                    first.append(f"{memory.name} = {memory.name} != 0")
        self.line(f"def {kernel.name}({', '.join(parameters)}):")
        self.indent += 1
        tapes = list(dict.fromkeys(s.tape for s in walk(body) if isinstance(s, Push)))
        for text in first:
            self.line(text)
        for tape in tapes:
            kind = numpy_name(dtype_on(tape))
            self.line(f"{tape}_tape, {tape}_top = new_array((1000,), {kind}), 0")
            self._tapes.add(tape)
            self._open.append(f"{tape}_tape")
        self.region(body)
        for tape in tapes:
            self.line(f"free({tape}_tape)")
        for text in last:
            self.line(text)
        if len(self.lines) == 1:
            self.line("pass")
        head = "import math\n\nimport numpy as np\n\n"
        text = "\n".join([*self._parts, *self.lines]) + "\n"
        imports = _imports(text)
        if imports:
            head += imports + "\n"
        return head + "\n" + text

    # Values.

    def printed(self, value: Value) -> Printed:
        if isinstance(value, Scalar):
            pending = self._pending.pop(value, None)
            return Printed(value.name) if pending is None else pending.value
        if isinstance(value, float) and not math.isfinite(value):
            return _NAN if math.isnan(value) else _INFINITY if value > 0 else _MINUS_INFINITY
        return number_text(value)

    def text(self, value: Value) -> str:
        return self.printed(value).text

    def opposite(self, condition: Value) -> str:
        return printed(_NOT, {"a": self.printed(condition)}).text

    def _place(self, memory: Memory, indices: Sequence[Value]) -> str:
        if not memory.rank:
            return memory.name
        places = [self.index(memory, axis, index) for axis, index in enumerate(indices)]
        return f"{memory.name}[{', '.join(places)}]"

    def index(self, memory: Memory, axis: int, index: Value) -> str:
        """An index that is not negative: to look whether it is keeps code from being vector code,
        so the arrays of generated code take no others (`array_lowering.py`)."""
        length = f"{memory.name}.shape[{axis}]"
        if type(index) is int and index < 0:
            return f"{length} - {-index}"
        is_place = not self._is_inlined or self._ranges.is_never_negative(index)
        text = self.text(index)
        return text if is_place else f"wrapped({text}, {length})"

    def _reads_memory(self, values: Sequence[Value]) -> bool:
        pending = [self._pending.get(x) for x in values if isinstance(x, Scalar)]
        return any(x is not None and x.reads_memory for x in pending)

    def _cast(self, value: Value, dtype: str) -> str:
        return (
            self.text(value) if dtype_of(value) == dtype else cast(self.printed(value), dtype).text
        )

    def _define(self, target: Scalar, value: Printed, *, reads_memory: bool) -> None:
        if self._is_inlined and self._uses.get(target, 0) == 1 and len(value.text) < _LONG:
            self._pending[target] = _Pending(value, reads_memory)
        else:
            self.line(f"{target.name} = {value.text}")

    def flush(self, *, only_loads: bool = False) -> None:
        """Write what is pending as statements of its own."""
        for scalar, pending in list(self._pending.items()):
            if pending.reads_memory or not only_loads:
                self.line(f"{scalar.name} = {pending.value.text}")
                del self._pending[scalar]

    # Statements.

    def region(self, statements: list[Statement]) -> None:
        if self._is_inlined:
            own = {x for s in statements for x in operands(s)}
            defined_here = {
                s.target for s in statements if isinstance(s, Define | Size | Load | Pop)
            }
            # What is used in inner regions only is written where it is defined.
            for scalar in defined_here - own:
                self._uses[scalar] = 0
        position = 0
        while position < len(statements):
            s = statements[position]
            position += 1
            if position < len(statements) and _is_overwritten(s, statements[position]):
                continue
            if isinstance(s, Push):
                group = [s]
                while position < len(statements):
                    other = statements[position]
                    if not isinstance(other, Push) or other.tape != s.tape:
                        break
                    group.append(other)
                    position += 1
                self._push(s.tape, group)
                continue
            self.statement(s)
        self.flush()
        for s in statements:
            if isinstance(s, Allocate) and s.memory.rank:
                self.free(s.memory)

    def free(self, memory: Memory) -> None:
        """At the end of the region that makes an array."""
        self.line(f"free({self._owners[memory]})")
        self._open.remove(self._owners[memory])

    def _push(self, tape: str, group: list[Push]) -> None:
        values = [self._cast(s.value, dtype_on(tape)) for s in group]
        count = len(group)
        if not all(s.has_room for s in group):
            self.room(tape, str(count))
        for k, value in enumerate(values):
            self.line(f"{self.place_on(tape, k)} = {value}")
        self.line(f"{tape}_top += {count}")

    def place_on(self, tape: str, number: int) -> str:
        """A number above the top of a tape."""
        return f"{tape}_tape[{tape}_top{f' + {number}' if number else ''}]"

    def room(self, tape: str, count: str) -> None:
        self.line(f"if {tape}_top + {count} > {tape}_tape.shape[0]:")
        self.line(f"    {tape}_tape = grown({tape}_tape, {tape}_top, {count})")

    def statement(self, s: Statement) -> None:
        if isinstance(s, Define):
            reads = self._reads_memory(s.arguments)
            values = [self.printed(x) for x in s.arguments]
            if s.operation == "cast":
                value = cast(values[0], s.target.dtype)
            else:
                form = self.form(s.operation, tuple([x.binding for x in values]))
                value = Printed(form.text.format(*[x.text for x in values]), form.binding)
            self._define(s.target, value, reads_memory=reads)
        elif isinstance(s, Size):
            length = Printed(f"{s.memory.name}.shape[{s.axis}]")
            self._define(s.target, length, reads_memory=True)
        elif isinstance(s, Load):
            place = Printed(self._place(s.memory, s.indices))
            self._define(s.target, place, reads_memory=True)
        elif isinstance(s, Store):
            place = self._place(s.memory, s.indices)
            value = self.text(s.value) if s.memory.rank else self._cast(s.value, s.memory.dtype)
            self.flush(only_loads=True)
            self.store(s, place, value)
        elif isinstance(s, Pop):
            self.flush(only_loads=True)
            value = self.place_on(s.tape, 0)
            if s.target.dtype != dtype_on(s.tape):
                value = cast(Printed(value), s.target.dtype).text
            self.line(f"{s.tape}_top -= 1")
            self.line(f"{s.target.name} = {value}")
        elif isinstance(s, Room):
            if s.tape in self._tapes:
                self.room(s.tape, self.printed(s.count).within(ATOM))
        elif isinstance(s, Top):
            top = f"{s.tape}_top" if s.tape in self._tapes else "0"
            self.line(f"{s.target.name} = {top}")
        elif isinstance(s, Seek):
            if s.tape in self._tapes:
                self.line(f"{s.tape}_top = {self.text(s.place)}")
        elif isinstance(s, Height):
            is_there = s.tape in self._tapes
            text = f"{s.tape}_top - {s.tape}_{s.name}" if is_there else "0"
            self.line(f"{s.target.name} = {text}")
        elif isinstance(s, Mark | Rewind):
            if s.tape in self._tapes:
                top, mark = f"{s.tape}_top", f"{s.tape}_{s.name}"
                self.line(f"{mark} = {top}" if isinstance(s, Mark) else f"{top} = {mark}")
        elif isinstance(s, Allocate):
            self.allocate(s)
        elif isinstance(s, Swap):
            self.flush(only_loads=True)
            names, others = (", ".join(m.name for m in part) for part in (s.memories, s.others))
            self.line(f"{names} = {others}")
        elif isinstance(s, Check):
            self.check(s)
        else:
            self._nested(s)

    def form(self, operation: str, bindings: tuple[int, ...]) -> Printed:
        """The text of a scalar operation of {0}, {1}, ..., which bind so tightly."""
        return _form(operation, bindings)

    def store(self, s: Store, place: str, value: str) -> None:
        if s.in_any_order and not s.memory.rank:
            self.line(f"{place} = added({place}, {value})")
        else:
            self.line(f"{place} {'+=' if s.is_added else '='} {value}")

    def check(self, s: Check) -> None:
        if s.condition is not False:
            condition = self.opposite(s.condition)
            self.flush()
            self.line(f"if {condition}:")
        self.indent += s.condition is not False
        for name in self._open:
            self.line(f"free({name})")
        arguments = ", ".join(map(repr, s.arguments))
        if s.shapes and not self._is_inlined:  # Compiled code raises constants only.
            shapes = [f"({''.join(f'{self.text(x)}, ' for x in shape)})" for shape in s.shapes]
            arguments += f" + ': ' + str([{', '.join(shapes)}])[1:-1]"
        self.line(f"raise {s.error}({arguments})")
        self.indent -= s.condition is not False

    def allocate(self, s: Allocate) -> None:
        if not s.memory.rank:
            fill = 0.0 if s.fill is None else s.fill
            self.flush(only_loads=True)
            self.line(f"{s.memory.name} = {literal_of(fill, s.memory.dtype)}")
            return
        shape = ", ".join(self.text(n) for n in s.shape)
        self.line(f"{s.memory.name} = new_array(({shape},), {numpy_name(s.memory.dtype)})")
        owner = s.memory.name
        if s.memory in self._swapped:
            # By then the name may be another array's.
            owner = self._owners.get(s.memory) or self._names.name(f"{owner}_memory")
            self.line(f"{owner} = {s.memory.name}")
        self._owners[s.memory] = owner
        self._open.append(owner)
        if s.fill is not None:
            self.fill(s.memory, s.fill)

    def fill(self, memory: Memory, value: float) -> None:
        names = [f"k{axis}" for axis in range(memory.rank)]
        for axis, name in enumerate(names):
            self.line(f"for {name} in range({memory.name}.shape[{axis}]):")
            self.indent += 1
        self.line(f"{memory.name}[{', '.join(names)}] = {literal_of(value, memory.dtype)}")
        self.indent -= memory.rank

    def _shared(self, s: Parallel) -> None:
        """A function of what the tasks use from outside, and a call of it."""
        count, grain = self.text(s.tasks), self.text(s.grain)
        self.flush()
        inside = walk(s.body)
        own: set[Scalar | Memory] = {s.first, s.last}
        own |= {x for inner in inside if (x := defined(inner)) is not None}
        own |= {inner.memory for inner in inside if isinstance(inner, Allocate)}
        used: dict[Scalar | Memory, None] = {}
        for inner in inside:
            used |= dict.fromkeys(x for x in operands(inner) if isinstance(x, Scalar))
            if isinstance(inner, Load | Store | Size):
                used[inner.memory] = None
            elif isinstance(inner, While):
                used[inner.leave] = None
        outside = [x.name for x in used if x not in own]
        tapes = dict.fromkeys(inner.tape for inner in inside if isinstance(inner, Seek))
        outside += [f"{tape}_tape" for tape in tapes if tape in self._tapes]
        name = self._names.name("tasks")
        part = SourceWriter(s.body, self._names)
        part._ranges = self._ranges
        part._tapes = self._tapes
        part.line("@part")
        part.line(f"def {name}({', '.join([s.first.name, s.last.name, *outside])}):")
        part.indent += 1
        part.region(s.body)
        self._parts += [*part._parts, *part.lines, "", ""]
        given = "".join(f"{x}, " for x in outside)
        self.line(f"in_parallel({name}, {count}, {grain}, ({given.strip()}))")

    def _nested(self, s: Statement) -> None:
        if isinstance(s, Parallel):
            return self._shared(s)
        if isinstance(s, For):
            start, stop, step = (self.text(x) for x in (s.start, s.stop, s.step))
            span = stop if (start, step) == ("0", "1") else f"{start}, {stop}"
            if step != "1":
                span = f"{start}, {stop}, {step}"
            called = "independent" if s.is_independent else "range"
            head = f"for {s.index.name} in {called}({span}):"
        elif isinstance(s, While):
            head = f"while not {s.leave.name}:"
        else:
            assert isinstance(s, If)
            condition = self.text(s.condition) if s.then else self.opposite(s.condition)
            head = f"if {condition}:"
        self.flush()
        if isinstance(s, For) and s.leave is not None:
            self.line(f"# Until {s.leave.name}.")
        self.line(head)
        regions = [region for region in nested(s) if region]
        for number, region in enumerate(regions):
            if number:
                self.line("else:")
            self.indent += 1
            self.region(region)
            self.indent -= 1
        if not regions:
            self.line("    pass")
        if isinstance(s, For) and s.leave is not None:
            self.line(f"    if {s.leave.name}:")
            self.line("        break")


def _is_overwritten(s: Statement, follower: Statement) -> bool:
    """Whether a variable is given another value at once."""
    return (
        isinstance(s, Allocate)
        and not s.memory.rank
        and isinstance(follower, Store)
        and follower.memory == s.memory
        and not follower.is_added
    )


def _imports(text: str) -> str:
    """The imports of what a text calls of this folder."""
    lines = []
    for module, calls in _PROVIDED.items():
        if used := sorted(set(re.findall(calls, text))):
            names = ", ".join(used)
            lines.append(f"from numba_grad.compiler.numba_functions.{module} import {names}\n")
    return "".join(lines)


def numpy_name(dtype: str) -> str:
    return "np.bool_" if dtype == "bool" else f"np.{dtype}"


def cast(value: Printed, dtype: str) -> Printed:
    return printed(cast_to(dtype), {"a": value})


@functools.cache
def _form(operation: str, bindings: tuple[int, ...]) -> Printed:
    record = OPERATIONS[operation]
    own = record.expression
    term = with_functions(parsed(own) if isinstance(own, str) else own, WORDS)
    return form_of(term, record.operands, bindings)


def form_of(term: Term, operands: Sequence[str], bindings: Sequence[int]) -> Printed:
    """A term printed with {0}, {1}, ... for its operands."""
    fields = [Printed(f"{{{k}}}", binding) for k, binding in enumerate(bindings)]
    return printed(term, dict(zip(operands, fields, strict=True)))


def literal_of(value: float, dtype: str) -> str:
    if dtype == "bool":
        return str(bool(value))
    if dtype == "int64":
        return str(int(value))
    if dtype == "float64":
        return repr(float(value))
    return f"np.{dtype}({value!r})"
