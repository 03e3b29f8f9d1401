"""What a thread of a grid does as source of a kernel for `numba.cuda`.

Parameters are the inputs and the outputs, then tapes, then numbers. A variable that is an output
has a number for each thread, which are added afterwards: so the sum has one order. So have tapes:
neighbouring threads keep neighbouring numbers.
"""

from collections.abc import Collection
from dataclasses import replace

from numba_grad.compiler.numba_functions.numba_words import WORDS
from numba_grad.compiler.numba_functions.own_elements import OwnElements
from numba_grad.compiler.numba_functions.regions import (
    Allocate,
    Check,
    Memory,
    Pop,
    Push,
    RegionKernel,
    Statement,
    Store,
    Value,
    walk,
)
from numba_grad.compiler.numba_functions.source_writer import (
    SourceWriter,
    cast,
    form_of,
    numpy_name,
)
from numba_grad.compiler.numba_functions.tapes import dtype_on
from numba_grad.compiler.scalar_expressions import (
    Call,
    Name,
    Operand,
    Printed,
    Term,
    parsed,
    with_functions,
)
from numba_grad.errors import KernelError, explain

_X = Operand("x")
_ROUNDED = {name: Call(f"math.{name}", (_X,)) for name in ("floor", "ceil", "trunc")}
_SIGN = parsed("{x} if {x} == 0 or {x} != {x} else copysign(1.0, {x})")
# Operations that numba.cuda has by other names, or with results of other types.
_TERMS: dict[str, Term] = {
    "sign": with_functions(_SIGN, WORDS),
    **{name: Call("np.int64", (term,)) for name, term in _ROUNDED.items()},
    **{f"np_{name}": term for name, term in _ROUNDED.items()},
    "log2": Call("math.log2", (_X,)),
    "cbrt": Call("cuda.cbrt", (_X,)),
    "exp2": Call("cuda.libdevice.exp2", (_X,)),
    "rint": Call("cuda.libdevice.rint", (_X,)),
    **{
        f"{name}_{axis}": Name(f"cuda.{word}.{axis}")
        for name, word in (
            *(("thread", "threadIdx"), ("block", "blockIdx")),
            *(("block_size", "blockDim"), ("grid_size", "gridDim")),
        )
        for axis in "xyz"
    },
}
_MISSING = {"logaddexp", "digamma", "trigamma", "zeta"}


def tapes_of(kernel: RegionKernel) -> list[str]:
    return list(dict.fromkeys(s.tape for s in walk(kernel.body) if isinstance(s, Push)))


def kernel_source(kernel: RegionKernel, numbers: Collection[str], counted: tuple[str, ...]) -> str:
    """The text of the kernel; `counted`: what tells its threads apart ("block_x", "thread_x")."""
    return _Writer(kernel, counted).kernel(numbers)


class _Writer(SourceWriter):
    def __init__(self, kernel: RegionKernel, counted: tuple[str, ...]) -> None:
        super().__init__(kernel.body, kernel.builder.copy())
        self._kernel = kernel
        self._own = OwnElements(kernel, counted)
        self._counted = counted

    def kernel(self, numbers: Collection[str]) -> str:
        kernel, tapes = self._kernel, tapes_of(self._kernel)
        values = [m for m in kernel.inputs if m.name not in numbers]
        parameters = [m.name if m.rank else f"{m.name}_array" for m in values]
        parameters += [m.name if m.rank else f"{m.name}_of_threads" for m in kernel.outputs]
        parameters += [f"{tape}_tape" for tape in tapes]
        parameters += [m.name for m in kernel.inputs if m.name in numbers]
        self.line("@cuda.jit")
        self.line(f"def {kernel.name}({', '.join(parameters)}):")
        self.indent += 1
        variables = [m for m in kernel.outputs if not m.rank]
        if tapes or variables:
            self._number_threads()
        for m in values:
            if not m.rank:
                self.line(f"{m.name} = {m.name}_array[()]")
        for m in kernel.inputs:
            if m.name in numbers and m.dtype == "bool":
                self.line(f"{m.name} = {m.name} != 0")
        for tape in tapes:
            self.line(f"{tape}_top = 0")
        self.region(kernel.body)
        for m in variables:
            self.line(f"{m.name}_of_threads[thread] = {m.name}")
        if len(self.lines) == 2:
            self.line("pass")
        head = "import math\n\nimport numpy as np\nfrom numba import cuda\n\n\n"
        return head + "\n".join(self.lines) + "\n"

    def _number_threads(self) -> None:
        """`thread`, and how many there are."""
        if all(name.endswith("x") for name in self._counted):
            self.line("thread, threads = cuda.grid(1), cuda.gridsize(1)")
            return
        self.line("place, extent = cuda.grid(3), cuda.gridsize(3)")
        self.line("thread = (place[2] * extent[1] + place[1]) * extent[0] + place[0]")
        self.line("threads = extent[0] * extent[1] * extent[2]")

    # What differs from code for the CPU.

    def form(self, operation: str, bindings: tuple[int, ...]) -> Printed:
        if operation in _MISSING:
            problem = f"np.{operation} is nothing that numba.cuda compiles"
            raise KernelError(explain(self._kernel.name, problem, fix="a device function for it"))
        term = _TERMS.get(operation)
        if term is None:
            return super().form(operation, bindings)
        return form_of(term, "x"[: len(bindings)], bindings)

    def store(self, s: Store, place: str, value: str) -> None:
        if not s.is_added or not s.memory.rank or s.memory in self._own:
            super().store(replace(s, in_any_order=False), place, value)
            return
        index = place.removeprefix(f"{s.memory.name}[").removesuffix("]")
        index = f"({index})" if s.memory.rank > 1 else index
        self.line(f"cuda.atomic.add({s.memory.name}, {index}, {value})")

    def index(self, memory: Memory, axis: int, index: Value) -> str:
        """Arrays of `numba.cuda` take negative ones."""
        return self.text(index)

    def place_on(self, tape: str, number: int) -> str:
        top = f"({tape}_top + {number})" if number else f"{tape}_top"
        return f"{tape}_tape[{top} * threads + thread]"

    def room(self, tape: str, count: str) -> None:
        """It is made before the launch."""

    def check(self, s: Check) -> None:
        """It is made before the launch."""

    def allocate(self, s: Allocate) -> None:
        memory = s.memory
        if not memory.rank:
            super().allocate(s)
            return
        shape = "".join(f"{n}, " for n in s.shape).rstrip()
        self.line(f"{memory.name} = cuda.local.array(({shape}), {numpy_name(memory.dtype)})")
        if s.fill is not None:
            self.fill(memory, s.fill)

    def free(self, memory: Memory) -> None:
        """It ends with the thread."""

    def statement(self, s: Statement) -> None:
        if isinstance(s, Pop) and dtype_on(s.tape) == "bool":
            self.flush(only_loads=True)
            self.line(f"{s.tape}_top -= 1")
            self.line(f"{s.target.name} = {cast(Printed(self.place_on(s.tape, 0)), 'bool').text}")
            return
        super().statement(s)
