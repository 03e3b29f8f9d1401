"""Loops whose points never meet as one kernel: a thread does all steps of a point.

What is carried is in registers from the first step to the last one. A launch for each step takes as
long as 10,000 operations of a thread, and moves all that is carried through memory.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from numba_grad.compiler.cuda.expressions import KernelExpressions, storage_name
from numba_grad.compiler.cuda.kernel_text import KernelText, decorator, stored
from numba_grad.compiler.cuda.launch import THREADS_PER_BLOCK, WARP
from numba_grad.compiler.emission.text import SourceText
from numba_grad.compiler.loop_nests.kernel_ir import Body, Load, Store
from numba_grad.compiler.loop_nests.point_loops import (
    KernelOfLoop,
    Member,
    PointElement,
    PointLoop,
    varying_lets,
)
from numba_grad.compiler.loop_nests.renaming import with_suffix
from numba_grad.graph.types import Type
from numba_grad.runtime.plan import Grid

# Threads of a block are as few as they may be until there are so many blocks: steps wait for each
# other, so that warps should be spread over all multiprocessors, of which an H200 has 132, with
# four schedulers each.
_ENOUGH_BLOCKS = 4 * 132


def emit_point_loop(loop: PointLoop) -> KernelOfLoop:
    """The kernel of a loop that `can_be_done`."""
    return _Writer(loop).written()


def _grid(points: int) -> Grid:
    warps = -(-points // WARP)
    threads = min(THREADS_PER_BLOCK, WARP * max(1, warps // _ENOUGH_BLOCKS))
    return Grid(1, 1) if points == 1 else Grid(-(-points // threads), threads)


class _Writer:
    def __init__(self, loop: PointLoop) -> None:
        self.loop = loop
        self.source, expressions = SourceText(), KernelExpressions()
        members = loop.members
        if len(members) > 1:
            members = [
                Member(with_suffix(member.nest, f"_{number}"), member.pointees)
                for number, member in enumerate(members)
            ]
        self.texts = [_MemberText(self, member, expressions) for member in members]
        self.main = max(self.texts, key=lambda text: len(text.kernel.axes))
        self.expressions = expressions
        self.variables: dict[PointElement, str] = {}  # that hold elements of memory
        self.carried = [
            (element, text, store)
            for text in self.texts
            for store in text.member.body.stores
            if (element := text.member.element(store)) and element.kind == "next"
        ]
        self.words: list[Any] = []
        self.parameters: list[str] = []
        self.types: list[str] = []

    def written(self) -> KernelOfLoop:
        main = self.main
        self.declare()
        with self.block(f"def kernel({', '.join(self.parameters)}):"):
            for text in self.texts:
                for comment in text.kernel.comment:
                    text.line(f"# all steps of {comment}")
                text.narrow_integers()
            with main.tasks(main.product(main.kernel.axes)):
                main.decode("task", main.kernel.axes)
                self.point()
        definitions = [text.rstrip("\n") + "\n\n\n" for text in self.expressions.definitions()]
        source = "".join(definitions) + decorator(self.types) + str(self.source)
        return KernelOfLoop(source, _grid(self.loop.points), self.words)

    # Parameters

    def declare(self) -> None:
        loop = self.loop
        self.parameter("steps", ("steps",))
        for k, type in enumerate(loop.carried):
            self.parameter(f"in{k}", ("in", k), type)
            if k in loop.read_out:
                self.parameter(f"out{k}", ("out", k), type)
            if k in loop.read_entries:
                self.moving_parameter("entry", k, type)
        for k, type in enumerate(loop.rows):
            self.moving_parameter("row", k, type)
        for k, type in enumerate(loop.results):
            if k in loop.read_results:
                self.moving_parameter("result", k, type)
        for number, text in enumerate(self.texts):
            for k, (word, type) in enumerate(
                zip(text.kernel.words, text.types_of_words, strict=True)
            ):
                if k not in text.member.pointees:
                    self.words.append(("word", number, k))
                    self.parameters.append(word.name)
                    self.types.append(type)

    def parameter(self, name: str, meaning: tuple[Any, ...], type: Type | None = None) -> None:
        self.words.append(meaning)
        self.parameters.append(name)
        self.types.append("int64" if type is None else f"CPointer({storage_name(type.dtype)})")

    def moving_parameter(self, kind: str, number: int, type: Type) -> None:
        """A pointer to a row, and elements from that of a step to that of the next one."""
        self.parameter(f"{kind}{number}", (kind, number), type)
        self.parameter(f"{kind}{number}_stride", (f"{kind} stride", number))

    @property
    def moving(self) -> list[str]:
        return [name.removesuffix("_stride") for name in self.parameters if "_stride" in name]

    # Text

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        with ExitStack() as blocks:
            for text in self.texts:
                if text is not self.main:
                    blocks.enter_context(text.scope())
            blocks.enter_context(self.main.block(header))
            yield

    def point(self) -> None:
        """All steps of one point."""
        for text in self.texts:
            text.lets([let for let in text.member.lets if let.name not in text.varying])
        for number, (element, text, store) in enumerate(self.carried):
            name = f"carried{number}"
            self.variables[element._replace(kind="carried")] = name
            text.line(f"{name} = in{element.number}[{text.place(store)}]")
        for name in self.moving:
            # From the first row in memory: steps go backwards where the stride is negative.
            self.source.line(f"{name}_at = max(int64(0), (1 - steps) * {name}_stride)")
        with self.block("for _ in range(steps):"):
            for element, text, store in self.carried:
                if element.number in self.loop.read_entries:
                    text.write(f"entry{element.number}", store, self.carried_in(element))
            for text in self.texts:
                text.lets([let for let in text.member.lets if let.name in text.varying])
                text.stores(text.member.body)
            for element, _, _ in self.carried:
                self.source.line(f"{self.carried_in(element)} = {self.variables[element]}")
            for name in self.moving:
                self.source.line(f"{name}_at += {name}_stride")
        for element, text, store in self.carried:
            if element.number in self.loop.read_out:
                text.write(f"out{element.number}", store, self.carried_in(element))

    def carried_in(self, element: PointElement) -> str:
        return self.variables[element._replace(kind="carried")]


class _MemberText(KernelText):
    """What a nest of the body does at a point, in a step."""

    def __init__(self, writer: _Writer, member: Member, expressions: KernelExpressions) -> None:
        super().__init__(member.nest, expressions)
        self.source = writer.source
        self.writer = writer
        self.member = member
        self.varying = varying_lets(member)

    @contextmanager
    def scope(self) -> Iterator[None]:
        self.positions.append({})
        yield
        self.positions.pop()

    def element(self, load: Load) -> str:
        pointee = self.member.pointee(load.buffer)
        if pointee is None:
            return super().element(load)
        if pointee.kind == "row":
            name = f"row{pointee.number}"
            return f"{name}[{name}_at + {self.place(load)}]"
        element = self.member.element(load)
        assert element is not None
        return self.writer.variables[element]

    def stores(self, body: Body) -> None:
        loop, variables = self.writer.loop, self.writer.variables
        for store in body.stores:
            element = self.member.element(store)
            assert element is not None
            dtype = store.buffer.dtype
            # In the type of memory: Numba computes in wider integers.
            name = variables[element] = f"next{len(variables)}"
            self.line(f"{name} = {storage_name(dtype)}({stored(dtype, store.value)})")
            if element.kind == "result" and element.number in loop.read_results:
                self.write(f"result{element.number}", store, name)

    def write(self, pointer: str, store: Store, value: str) -> None:
        at = f"{pointer}_at + " if f"{pointer}_stride" in self.writer.parameters else ""
        line = f"{pointer}[{at}{self.place(store)}] = {value}"
        if self.kernel.axes or not self.writer.main.kernel.axes:
            self.line(line)
            return
        with self.block("if task == 0:"):
            self.line(line)

    def place(self, access: Load | Store) -> str:
        """Where that is in an array of the loop's own."""
        pointee = self.member.pointees[access.buffer.word]
        where = self.position(access.position)
        return f"{where} + {pointee.first}" if pointee.first else where
