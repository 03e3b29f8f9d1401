"""Replays plans in native code: no Python between steps, no GIL.

    NativeEngine   the entry points, and the threads
    Program        a plan made ready to run; `run(*inputs)` returns the outputs
    Activation     what one run at a time needs: words, bases, error record, arena

The native code is `compiler/building/engine_functions.py`; it is handed in as addresses. It is
entered as a built-in function of CPython (vectorcall), which costs 0.12 us with six arrays; through
ctypes it was 0.8 us.

A run comes back to Python every 0.1 s at the latest, between two steps, and goes on: that is where
Ctrl-C raises KeyboardInterrupt. An interrupted activation is dropped; everything else stays usable.
"""

import ctypes
import math
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from numba_grad.config import config
from numba_grad.errors import InternalError, KernelError, explain
from numba_grad.immutable import NamedTuple
from numba_grad.runtime import library, mpi, state_files
from numba_grad.runtime.addresses import address_of
from numba_grad.runtime.buffers import allocate, allocator, borrow
from numba_grad.runtime.plan import ERROR_WORDS, Control, ErrorSite, Plan
from numba_grad.runtime.progress import Bars, shown_loops
from numba_grad.runtime.threads import SharedWord, Threads, allocate_words

_BYTE = np.dtype(np.uint8)

# Bytes before the fields of an object: 16, and 32 where Python is built without the GIL.
OBJECT_HEAD = object.__basicsize__
CLOCK_MONOTONIC = 1 if not hasattr(time, "CLOCK_MONOTONIC") else time.CLOCK_MONOTONIC

# How long native code may run before Python looks for signals, in nanoseconds.
_SLICE = 100_000_000
# A plan that took less keeps the GIL: getting it back from a busy thread takes up to 5 ms. One that
# runs a user's code never does: how long that takes may depend on the data, and nothing bounds it.
# What data can do to our own kernels is bounded. So one run in 16 looks whether they are still
# short, which costs 4 ns a run; looking at each would cost 90.
_SHORT = 10_000
RUNS_BETWEEN_LOOKS = 16

# Larger arenas are borrowed from the pool for each run, so that many plans share the memory.
_KEPT_ARENA_BYTES = 1 << 16


class RecordWord:
    """The words of an activation's record, which the native code reads."""

    STATUS = 0
    NEXT = 1  # the step to go on with
    RESUMES = 2  # 1 after an unfinished run
    STEPS = 3
    STEP_COUNT = 4
    FUNCTIONS = 5
    WORDS = 6
    RELOCATIONS = 7  # (word, byte offset) pairs, by base
    RELOCATION_STARTS = 8
    BASES = 9
    LAST_BASES = 10  # what the words were filled in with
    BASE_COUNT = 11
    OBJECT_COUNT = 12  # inputs and outputs: the first bases
    ERRORS = 13
    SHARED = 14
    USES_BLAS = 15
    TIMES = 16  # nanoseconds per step are added here, or 0
    CLOCK = 17  # clock_gettime, or 0
    SLICE = 18
    SHORT = 19
    MAY_KEEP_LOCK = 20
    KEEPS_LOCK = 21  # for how many runs now, or 0
    SAVE_THREAD = 22
    RESTORE_THREAD = 23
    INCREASE_REFERENCE = 24
    NONE = 25
    TRUE = 26
    ARRAY_TYPE = 27
    END = 28


class Status:
    """Why a run came back."""

    FINISHED = 0
    UNFINISHED = 1  # time for Python to look for signals
    WANTS_THREADS = 2
    ERROR = 3
    BAD_ARGUMENTS = 4


class EntryPoints(NamedTuple):
    """Addresses of the native code."""

    replay: int
    worker: int
    run_tasks: int


class _MethodDefinition(ctypes.Structure):
    """CPython's PyMethodDef, part of its stable ABI."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


_VECTORCALL = 0x80  # METH_FASTCALL


def _clock_address() -> int:
    try:
        return address_of(ctypes.CDLL(None).clock_gettime)
    except (AttributeError, OSError, TypeError):
        return 0  # Windows: no slices, no profile


def _check_array_layout() -> None:
    """Refuse to run where array objects are laid out in a way that this file does not know."""
    probe = np.empty((4, 4))
    part = probe[:, :2]
    fields = (ctypes.c_int64 * 7).from_address(id(probe) + OBJECT_HEAD)
    fields_of_part = (ctypes.c_int64 * 7).from_address(id(part) + OBJECT_HEAD)
    head = ctypes.c_int64.from_address(id(probe) + OBJECT_HEAD - 8)
    is_known = (
        fields[0] == fields_of_part[0] == probe.ctypes.data
        and head.value == id(np.ndarray)
        and fields[6] & 1 == 1
        and fields_of_part[6] & 1 == 0
    )
    if not is_known:
        raise InternalError(f"native engine: unknown array layout in NumPy {np.__version__}")


class NativeEngine:
    """The entry points and the threads of a process. Safe to use from several Python threads."""

    def __init__(self, entry_points: EntryPoints, *, use_futex: bool = True) -> None:
        _check_array_layout()
        self.shared = allocate_words(SharedWord.END)
        self.threads = Threads(entry_points.worker, self.shared, use_futex=use_futex)
        self.threads.shared[SharedWord.RUN_TASKS] = entry_points.run_tasks
        self._definition = _MethodDefinition(b"replay", entry_points.replay, _VECTORCALL, b"")
        self._new_function = ctypes.pythonapi.PyCFunction_NewEx
        self._new_function.restype = ctypes.py_object
        self._new_function.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
        self._template = np.zeros(RecordWord.END, np.int64)
        api = ctypes.pythonapi
        for word, value in (
            (RecordWord.SHARED, self.shared),
            (RecordWord.CLOCK, _clock_address()),
            (RecordWord.SLICE, _SLICE),
            (RecordWord.SHORT, _SHORT),
            (RecordWord.SAVE_THREAD, address_of(api.PyEval_SaveThread)),
            (RecordWord.RESTORE_THREAD, address_of(api.PyEval_RestoreThread)),
            (RecordWord.INCREASE_REFERENCE, address_of(api.Py_IncRef)),
            (RecordWord.NONE, id(None)),
            (RecordWord.TRUE, id(True)),
            (RecordWord.ARRAY_TYPE, id(np.ndarray)),
        ):
            self._template[word] = value

    def record(self) -> np.ndarray:
        """A record with what all activations have in common."""
        return self._template.copy()

    def entry(self, record: np.ndarray) -> Any:
        """The native function for one record; it keeps the record alive."""
        return self._new_function(ctypes.addressof(self._definition), record, None)

    def program(self, plan: Plan) -> "Program":
        """The plan, made ready to run; the same one each time."""
        if plan.program is None:
            plan.program = Program(self, plan)
        return plan.program

    def run(self, plan: Plan, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run a plan on C-contiguous arrays of the shapes and dtypes it was made for."""
        return self.program(plan).run(*inputs)

    def profile(self, plan: Plan, inputs: Sequence[np.ndarray], *, repeats: int = 1) -> np.ndarray:
        """Mean seconds of each step, over several runs."""
        return self.program(plan).profile(*inputs, repeats=repeats)


# What an activation says of itself and its program, in the order in which it does.
_WORDS_OF_A_RUN = [
    int(word)  # a member of an Enum takes 0.4 us to name
    for word in (
        RecordWord.STEPS,
        RecordWord.STEP_COUNT,
        RecordWord.FUNCTIONS,
        RecordWord.WORDS,
        RecordWord.RELOCATIONS,
        RecordWord.RELOCATION_STARTS,
        RecordWord.BASES,
        RecordWord.LAST_BASES,
        RecordWord.BASE_COUNT,
        RecordWord.OBJECT_COUNT,
        RecordWord.ERRORS,
        RecordWord.USES_BLAS,
        RecordWord.MAY_KEEP_LOCK,
    )
]


class Activation:
    """What one run of a plan at a time needs."""

    __slots__ = (
        "bases",
        "entry",
        "error_record",
        "keep",
        "last_bases",
        "record",
        "status",
        "words",
    )

    def __init__(self, program: "Program") -> None:
        plan = program.plan
        self.words = plan.words.copy()
        self.bases = np.zeros(plan.base_count, np.int64)
        # No base is at -1, so the first run fills in all words.
        self.last_bases = np.full(plan.base_count, -1, np.int64)
        self.error_record = np.zeros(ERROR_WORDS, np.int64)
        self.record = program.engine.record()
        self.keep: np.ndarray | None = None
        self.record[_WORDS_OF_A_RUN] = (
            plan.steps.ctypes.data,
            len(plan.steps),
            program.functions.ctypes.data,
            self.words.ctypes.data,
            program.targets.ctypes.data,
            program.starts.ctypes.data,
            self.bases.ctypes.data,
            self.last_bases.ctypes.data,
            plan.base_count,
            plan.input_count + len(plan.outputs),
            self.error_record.ctypes.data,
            program.uses_blas,
            program.may_keep_lock,
        )
        first = plan.input_count + len(plan.outputs)
        if 0 < plan.arena_bytes <= _KEPT_ARENA_BYTES:
            self.keep = allocate((plan.arena_bytes,), np.dtype(np.uint8))
            self.bases[first] = self.keep.ctypes.data
        self.bases[first + 1] = self.error_record.ctypes.data
        self.bases[first + 2] = program.functions.ctypes.data
        self.bases[first + 3] = self.words.ctypes.data
        self.bases[first + 4 :] = program.symbol_addresses
        self.status = self.record.data
        self.entry = program.engine.entry(self.record)


class Program:
    """A plan made ready to run. Any number of threads may run it at once."""

    def __init__(self, engine: NativeEngine, plan: Plan) -> None:
        self.engine = engine
        self.plan = plan
        self.functions = np.array([kernel.address for kernel in plan.kernels], np.int64)
        self.targets = np.ascontiguousarray(plan.relocations[:, [0, 2]])
        self.starts = np.searchsorted(
            plan.relocations[:, 1], np.arange(plan.base_count + 1), side="left"
        ).astype(np.int64)
        first = plan.base_count - len(plan.symbols)
        is_file = [name.startswith(state_files.PREFIX) for name in plan.symbols]
        # Those of files are known when they are made, for each run.
        self.symbol_addresses = [
            0 if its_file else library.symbol_address(name)
            for name, its_file in zip(plan.symbols, is_file, strict=True)
        ]
        self.files = [(first + k, name) for k, name in enumerate(plan.symbols) if is_file[k]]
        self.uses_blas = library.prepare_threads(engine.threads, plan.symbols)
        self.has_parallel_steps = bool((plan.steps[:, 2] > plan.steps[:, 3]).any())
        # Others take as long as they like: users' code, and processes that are waited for.
        is_free = any(name.startswith(("user.", "python.", "mpi.")) for name in plan.symbols)
        # Which may share their loops among the threads.
        self.has_users_kernels = any(name.startswith("user.") for name in plan.symbols)
        # Nothing bounds how often a condition holds.
        is_bounded = not (plan.steps[:, 0] == Control.LEAVE).any()
        self.may_keep_lock = is_bounded and not (self.has_parallel_steps or is_free)
        self.shown_loops = shown_loops(plan)
        self._outputs = [(allocator(*output), *output) for output in plan.outputs]
        self._borrows_arena = plan.arena_bytes > _KEPT_ARENA_BYTES
        self._free: list[Activation] = []  # append and pop are atomic

    def run(self, *inputs: np.ndarray) -> list[np.ndarray]:
        """The outputs, in new arrays.

        Raises
        ------
        IndexError, ValueError, numpy.linalg.LinAlgError, and whatever a user's kernel raises
            What a kernel found, see `raise_error`.
        """
        if self.plan.joint:
            outputs = self._outputs_of_joint_memory()
        else:
            outputs = [make(shape, dtype) for make, shape, dtype in self._outputs]
        try:
            activation = self._free.pop()
        except IndexError:
            activation = Activation(self)
        self._run(activation, inputs, outputs)
        # Not in a `finally`: what an exception interrupted is dropped.
        self._free.append(activation)
        return outputs

    def _outputs_of_joint_memory(self) -> list[np.ndarray]:
        """New arrays for all outputs, some of them parts of others."""
        found: dict[int, np.ndarray] = {}
        for joint in self.plan.joint:
            memory = allocate((joint.nbytes,), _BYTE)
            for number, first in joint.places:
                _, shape, dtype = self._outputs[number]
                last = first + math.prod(shape) * dtype.itemsize
                found[number] = memory[first:last].view(dtype).reshape(shape)
        return [
            found[number] if number in found else make(shape, dtype)
            for number, (make, shape, dtype) in enumerate(self._outputs)
        ]

    def _run(
        self,
        activation: Activation,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
    ) -> None:
        if self._borrows_arena:
            # The block must live until the run is over, and no longer.
            arena = self._lend_arena(activation)  # noqa: F841
        if self.has_parallel_steps or self.has_users_kernels:
            threads = self.engine.threads
            if config.threads != threads.requested:
                threads.resize(config.threads)
            if threads.shared[SharedWord.ARE_MISSED]:
                threads.shared[SharedWord.ARE_MISSED] = 0
                threads.start()
        if self.files:
            self._run_with_files(activation, inputs, outputs)
        elif activation.entry(*inputs, *outputs) is not None:
            self._continue(activation, inputs, outputs)

    def _run_with_files(
        self,
        activation: Activation,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
    ) -> None:
        with ExitStack() as files:
            for base, symbol in self.files:
                file = files.enter_context(state_files.StateFile(symbol))
                activation.bases[base] = file.address
            if activation.entry(*inputs, *outputs) is not None:
                self._continue(activation, inputs, outputs)

    def _lend_arena(self, activation: Activation) -> object:
        arena, address = borrow(self.plan.arena_bytes)
        activation.bases[self.plan.input_count + len(self.plan.outputs)] = address
        return arena

    def _continue(
        self,
        activation: Activation,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
    ) -> None:
        """Go on until the plan is finished. Signal handlers run here, between two entries."""
        if not self.shown_loops:
            return self._go_on(activation, inputs, outputs)
        bars = Bars(self.shown_loops)
        is_finished = False
        try:
            self._go_on(activation, inputs, outputs, bars)
            is_finished = True
        finally:
            bars.close(activation.words, is_finished=is_finished)

    def _go_on(
        self,
        activation: Activation,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        bars: Bars | None = None,
    ) -> None:
        while True:
            status = activation.status[RecordWord.STATUS]
            if status == Status.WANTS_THREADS:
                self.engine.threads.start()
            elif status == Status.BAD_ARGUMENTS:
                raise InternalError(self._bad_arguments(inputs, outputs))
            elif status == Status.ERROR or activation.error_record[0] != 0:
                # Of an unfinished run, too: without what failed a loop may never end.
                raise_error(activation.error_record, self.plan.sites)
            if bars is not None:
                bars.show(activation.words, activation.status[RecordWord.NEXT])
            if activation.entry(*inputs, *outputs) is None:
                return

    def _bad_arguments(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> str:
        expected = f"{self.plan.input_count} inputs, {len(self.plan.outputs)} outputs"
        return explain(
            "native engine",
            "these arrays cannot be run on",
            got={
                f"array {k}": f"{type(x).__name__} {getattr(x, 'strides', '')}"
                for k, x in enumerate((*inputs, *outputs))
            },
            expected=f"{expected}, all C-contiguous ndarrays",
        )

    def profile(self, *inputs: np.ndarray, repeats: int = 1) -> np.ndarray:
        """Mean seconds of each step over `repeats` runs, after two that are not counted."""
        if not _clock_address():
            raise KernelError("profile: this platform has no clock that native code can read")
        outputs = self.run(*inputs)
        activation = Activation(self)
        self._run(activation, inputs, outputs)
        times = np.zeros(len(self.plan.steps), np.int64)
        activation.record[RecordWord.TIMES] = times.ctypes.data
        activation.record[RecordWord.KEEPS_LOCK] = 0
        for _ in range(repeats):
            self._run(activation, inputs, outputs)
        return times / (1e9 * repeats)


# What is wrong with a matrix, by the kind of the site, in NumPy's words.
_MATRIX_PROBLEMS = {
    "singular": "Singular matrix",
    "pivots": "A pivot is not the number of a row",
    "not positive definite": "Matrix is not positive definite",
    "not finite": "Array must not contain infs or NaNs",
    "eigenvalues": "Eigenvalues did not converge",
    "singular values": "SVD did not converge",
}


class UnfinishedError(Exception):
    """A loop that ends when values say so was broken off: it is to be compiled as a whole."""


def raise_error(record: np.ndarray, sites: Sequence[ErrorSite]) -> None:
    """Raise what a kernel recorded: (count, site, index, size)."""
    _, number, index, size = (int(word) for word in record[:4])
    site = sites[number]
    if site.exception is not None:
        error = site.exception(index, size)
        what = "callback" if site.kind == "callback" else "kernel of"
        error.add_note(f"in the {what} {site.operation}")
        raise error
    problem = _MATRIX_PROBLEMS.get(site.kind)
    if problem is not None:
        which = f" (number {index} of the batch)" if size > 1 else ""
        raise np.linalg.LinAlgError(f"{site.operation}: {problem}{which}")
    if site.kind == "communication":
        raise mpi.error_of(site.operation, index)
    if site.kind == "unfinished":
        raise UnfinishedError
    if site.kind == "memory":
        raise MemoryError(f"{site.operation}: no memory to transform {index} points")
    if site.kind == "negative power":
        problem = "integers to negative integer powers are not allowed"
        got: dict[str, object] = {"exponent": -abs(index)}
        fix = "x.astype(float) for the base"
        raise ValueError(explain(site.operation, problem, got=got, fix=fix))
    raise IndexError(
        f"{site.operation}: index {index} is out of bounds for axis {site.axis} with size {size}"
    )
