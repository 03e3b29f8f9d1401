"""What a jitted function compiles to, for people: kernels, graph, memory, a profile."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from numba_grad.compiler.backends import backend_of
from numba_grad.compiler.compiled_program import CompiledProgram
from numba_grad.errors import KernelError, explain
from numba_grad.graph.node import Node
from numba_grad.graph.show import as_dot, as_text
from numba_grad.graph.walk import toposort
from numba_grad.immutable import NamedTuple
from numba_grad.runtime.plan import Plan


@dataclass(frozen=True, slots=True)
class LoweredKernel:
    """One distinct kernel of a plan."""

    name: str
    kernel: Any  # of building/build.py, or of cuda/build.py, or a runtime/cuda HostCall
    count: int  # how many steps of the plan run it
    nbytes: int  # memory traffic of all of these together, if every access went to memory
    flops: int  # scalar operations of all of these together, roughly

    @property
    def source(self) -> str:
        """The Numba source. On the CPU self-contained but for the names of the kernel language."""
        return self.kernel.source

    @property
    def llvm(self) -> str:
        """Optimized LLVM text; on the CPU only."""
        return self._form("llvm")

    @property
    def asm(self) -> str:
        """Machine code as assembly; on the CPU only."""
        return self._form("asm")

    @property
    def ptx(self) -> str:
        """On GPUs, as `sass`, `registers` and the rest."""
        return self._form("ptx")

    @property
    def sass(self) -> str:
        """Machine code, by NVIDIA's disassembler."""
        return self._form("sass")

    @property
    def registers(self) -> int:
        """Of each thread."""
        return self._form("registers")

    @property
    def spilled_bytes(self) -> int:
        """Of each thread, that did not fit in registers."""
        return self._form("spilled_bytes")

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block."""
        return self._form("shared_bytes")

    def occupancy(self, threads: int = 256) -> Any:
        """How many threads a multiprocessor runs at once, in blocks of so many, and why no more."""
        return self._form("occupancy")(threads)

    def _form(self, name: str) -> Any:
        form = getattr(self.kernel, name, None)
        if form is None:
            raise KernelError(self._absence(name))
        return form

    def _absence(self, name: str) -> str:
        library = getattr(self.kernel, "library", None)
        if library is not None:
            return explain(
                f"kernel {self.name}",
                f"this step is a call of {library}, whose kernels are its own: there is no {name}",
                got={"call": self.kernel.source.splitlines()[-1]},
                expected="a step of a kernel of ours",
                fix="Nsight Compute, which sees the kernels of libraries",
            )
        is_native = hasattr(self.kernel, "address")
        return explain(
            f"kernel {self.name}",
            f"a kernel for {'the CPU' if is_native else 'GPUs'} has no {name}",
            expected="source, llvm, asm"
            if is_native
            else "source, ptx, sass, registers, spilled_bytes, shared_bytes, occupancy()",
        )

    def __repr__(self) -> str:
        return f"<kernel {self.name}: {self.count} steps, {self.nbytes} bytes, {self.flops} flops>"


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """Time of one kernel in one run of a plan."""

    name: str
    count: int
    seconds: float
    gigabytes_per_second: float
    gigaflops_per_second: float


class Profile(list[ProfileRow]):
    """Rows by time, longest first; prints as a table."""

    def __repr__(self) -> str:
        lines = [f"{'kernel':<40} {'steps':>7} {'ms':>10} {'GB/s':>8} {'GFLOP/s':>8}"]
        lines += [
            f"{row.name[:40]:<40} {row.count:>7} {row.seconds * 1e3:>10.4f} "
            f"{row.gigabytes_per_second:>8.2f} {row.gigaflops_per_second:>8.2f}"
            for row in self
        ]
        total = sum(row.seconds for row in self)
        lines.append(f"{'all':<40} {sum(row.count for row in self):>7} {total * 1e3:>10.4f}")
        return "\n".join(lines)


class Lowered:
    """What `jit(f).lower(*args)` returns."""

    def __init__(
        self,
        name: str,
        inputs: Sequence[Node],
        outputs: Sequence[Node],
        plan: Plan,
        device: str,
        program: Callable[[], CompiledProgram],
        values: Callable[..., list[np.ndarray]],
    ) -> None:
        self.name = name
        self.device = device  # that it is compiled for
        self._inputs = list(inputs)
        self._outputs = list(outputs)
        self._plan = plan
        self._make_program = program
        self._values = values

    @functools.cached_property
    def _program(self) -> CompiledProgram:
        """The program with its segments, which take lowering where the plan was on disk."""
        return self._make_program()

    @property
    def kernels(self) -> list[LoweredKernel]:
        """The distinct kernels, in the order of their first step."""
        totals: dict[str, list[int]] = {}
        for step in self._kernel_steps():
            total = totals.setdefault(step.source, [0, 0, 0])
            total[0] += 1
            total[1] += step.nbytes
            total[2] += step.flops
        return [
            LoweredKernel(name, self._program.kernels[source], *totals[source])
            for source, name in self._names().items()
        ]

    @property
    def graph(self) -> str:
        """The graph before compiling, a line for each operation."""
        return as_text(self._inputs, self._outputs)

    @property
    def functions(self) -> dict[str, str]:
        """The text of what `differentiable` generates for this graph, by name: functions and their
        adjoints, Numba source to read, copy and change. Kernels of the same names call them."""
        kernels = [dict(node.params).get("kernel") for node in toposort(self._outputs)]
        functions = [
            getattr(kernel, place, None) for kernel in kernels for place in ("cpu", "cuda")
        ]
        found = [getattr(of_device, "function", None) for of_device in functions]
        return {
            f.name: f.generated_source
            for f in found
            if f is not None and hasattr(f, "generated_source")
        }

    @property
    def dot(self) -> str:
        """The same for Graphviz."""
        return as_dot(self._inputs, self._outputs)

    @property
    def peak_memory(self) -> int:
        """Bytes of outputs and of intermediate values at a time; the inputs are the caller's."""
        plan = self._plan
        joint = {number for array in plan.joint for number, _ in array.places}
        results = sum(
            int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            for number, (shape, dtype) in enumerate(plan.outputs)
            if number not in joint
        )
        return plan.arena_bytes + results + sum(array.nbytes for array in plan.joint)

    def profile(self, *args: Any, repeats: int = 5, **kwargs: Any) -> Profile:
        """Run each step on its own and measure: a table of time, GB/s and GFLOP/s for each
        kernel."""
        values = self._values(*args, **kwargs)
        backend = backend_of(self.device)
        seconds = backend.profile(self._program, self.device, values, repeats)
        names = self._names()
        rows: dict[str, list[float]] = {}
        runs_kernel = self._plan.steps[:, 0] >= 0
        for step, duration in zip(self._steps(), seconds[runs_kernel], strict=True):
            name = " ".join(names[part.source].partition(" ")[0] for part in step.parts)
            row = rows.setdefault(f"rows of {name}" if name else names[step.source], [0, 0.0, 0, 0])
            row[0] += 1
            row[1] += float(duration)
            row[2] += step.nbytes
            row[3] += step.flops
        return Profile(
            sorted(
                (
                    ProfileRow(
                        name,
                        int(count),
                        time,
                        nbytes / max(time, 1e-12) / 1e9,
                        flops / max(time, 1e-12) / 1e9,
                    )
                    for name, (count, time, nbytes, flops) in rows.items()
                ),
                key=lambda row: -row.seconds,
            )
        )

    def _names(self) -> dict[str, str]:
        """For each distinct source a number, in the order of first steps, and what it computes."""
        sources = dict.fromkeys(step.source for step in self._kernel_steps())
        return {source: f"k{n} {_name(source)}" for n, source in enumerate(sources)}

    def _kernel_steps(self) -> list[Any]:
        """The steps, with the members of chains in the place of those."""
        return [part for step in self._steps() for part in step.parts or [step]]

    def _steps(self) -> list[Any]:
        segments = self._program.segments or ()
        if not segments:
            return _steps_of_operations(self._program)
        return [step for segment in segments for step in segment.steps if not step.control]

    def __repr__(self) -> str:
        kernels = "\n".join(f"  {kernel!r}" for kernel in self.kernels)
        return f"<lowered {self.name}: {self.peak_memory} bytes at the peak>\n{kernels}"


class _OperationStep(NamedTuple):
    """A step of a plan without segments, of a graph that is too much to fuse."""

    source: str
    nbytes: int = 0  # not counted
    flops: int = 0
    parts: tuple[()] = ()


def _steps_of_operations(program: CompiledProgram) -> list[_OperationStep]:
    """The steps of such a plan; of one that takes a kernel through an array, that kernel."""
    plan, sources = program.plan, list(program.kernels)
    functions = plan.relocations[plan.relocations[:, 1] == plan.functions]
    taken = {int(word): int(byte) // 8 for word, _, byte in functions}
    steps: list[tuple[int, int]] = plan.steps[:, :2].tolist()
    return [
        _OperationStep(sources[taken.get(word, kernel)]) for kernel, word in steps if kernel >= 0
    ]


def _name(source: str) -> str:
    """What a kernel computes, from its first comment."""
    comments = [
        line.strip("# ").strip() for line in source.splitlines() if line.lstrip().startswith("#")
    ]
    if not comments:
        last = source.rstrip().rpartition("\n")[2].strip()
        return last if last.startswith("y[0] = ") else "kernel"
    return comments[0] if len(comments) == 1 else f"{comments[0]} and {len(comments) - 1} more"
