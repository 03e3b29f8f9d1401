"""The parts of kernel source that all templates share: parameters, values, bodies."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np

from numba_grad.compiler.cuda.expressions import KernelExpressions, constant, storage_name
from numba_grad.compiler.cuda.index_arithmetic import (
    INT64,
    IndexArithmetic,
    in_words_of_kernels,
    index_arithmetic,
    split_position,
)
from numba_grad.compiler.cuda.launch import MOST_REGISTERS_OF_SUMS
from numba_grad.compiler.emission.text import SourceText, index_text
from numba_grad.compiler.loop_nests.iteration_spaces import Index
from numba_grad.compiler.loop_nests.kernel_ir import (
    Accumulator,
    Apply,
    Axis,
    Body,
    Buffer,
    Constant,
    Expression,
    IndexValue,
    Let,
    Load,
    LoopNest,
    Update,
    Variant,
    first_of,
)
from numba_grad.compiler.scalar_expressions import text_of
from numba_grad.compiler.words import Errors
from numba_grad.dtypes import computed_in, is_storage_only

BOOL = np.dtype(bool)


class KernelText:
    """SourceText of one kernel, written from top to bottom.

    Parameters
    ----------
    kernel : what it does
    expressions : collects the device functions that it needs
    group : how many threads share the tasks, of which the variable `lane` is the number of one; 0
        for all of the grid
    """

    def __init__(
        self, kernel: LoopNest, expressions: KernelExpressions | None = None, group: int = 0
    ) -> None:
        self.kernel = kernel
        self.source = SourceText()
        self.expressions = KernelExpressions() if expressions is None else expressions
        self.group = group
        self.indices: IndexArithmetic = index_arithmetic(kernel)
        self.dtypes: dict[str, np.dtype] = {}
        # Positions that have a name, in the blocks around what is being written; and of how many.
        self.positions: list[dict[str, str]] = [{}]
        self.named_positions = 0
        for accumulator in kernel.accumulators:
            self.dtypes[accumulator.name] = computed_in(accumulator.identity.dtype)

    # The whole

    def __str__(self) -> str:
        definitions = [text.rstrip("\n") + "\n\n\n" for text in self.expressions.definitions()]
        most = MOST_REGISTERS_OF_SUMS if self.kernel.accumulators else 0
        return "".join(definitions) + decorator(self.types_of_words, most) + str(self.source)

    @property
    def types_of_words(self) -> list[str]:
        pointers = {buffer.word: buffer for buffer in self.kernel.buffers}
        types = []
        for number, word in enumerate(self.kernel.words):
            if number in pointers:
                types.append(f"CPointer({storage_name(pointers[number].dtype)})")
            elif isinstance(word.memory, Errors):
                types.append("CPointer(int64)")
            else:
                types.append("int64")
        return types

    def line(self, text: str) -> None:
        self.source.line(text)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """A compound statement. What is named in it is forgotten after it."""
        self.positions.append({})
        with self.source.block(header):
            yield
        self.positions.pop()

    @contextmanager
    def definition(self, name: str = "kernel", *parameters: str) -> Iterator[None]:
        """A function of the kernel's words, after other parameters: its comment, its integers, and
        what does not depend on loops."""
        names = ", ".join([*parameters, *[word.name for word in self.kernel.words]])
        with self.block(f"def {name}({names}):"):
            for comment in self.kernel.comment:
                self.line(f"# {comment}")
            self.narrow_integers()
            for variant in self.kernel.variants:
                self.lets(variant.lets[0])
            yield

    def narrow_integers(self) -> None:
        if self.indices.is_narrow:
            for word in self.kernel.words:
                if word.memory is None:
                    self.line(f"{word.name} = int32({word.name})")

    # Threads

    @contextmanager
    def tasks(self, number: str) -> Iterator[None]:
        """A loop over tasks, one for each thread at a time; `task` is unsigned."""
        unsigned = self.indices.unsigned
        self.line(f"tasks = {unsigned}({number})")
        self.line(f"step = {unsigned}({self.tasks_at_once()})")
        self.line(f"task = {self.thread()}")
        with self.block("while task < tasks:"):
            yield
            self.line(f"task = {unsigned}(task + step)")

    def thread(self, points: int = 1) -> str:
        """The number of a thread; the first task of one that has several, `apart` from each
        other."""
        if self.group:
            return f"{self.indices.unsigned}(lane)"
        size = f"{points} * {self.apart}" if points > 1 else self.apart
        return f"{self.indices.unsigned}(cuda.blockIdx.x * {size} + cuda.threadIdx.x)"

    @property
    def apart(self) -> str:
        """The distance of tasks that one thread has at the same time."""
        return str(self.group) if self.group else "cuda.blockDim.x"

    def tasks_at_once(self, points: int = 1) -> str:
        """Of all threads, with as many each."""
        if self.group:
            return str(points * self.group)
        return f"{f'{points} * ' if points > 1 else ''}cuda.gridDim.x * cuda.blockDim.x"

    def decode(self, number: str, axes: list[Axis]) -> None:
        """Indices of `axes` out of an unsigned number that counts them in C order."""
        signed, unsigned = self.indices.signed, self.indices.unsigned
        for k, axis in reversed(list(enumerate(axes))):
            if k == 0:
                self.line(f"{axis.variable} = {signed}({number})")
                continue
            extent = self.divisor(axis.word)
            self.line(f"{axis.variable} = {signed}({number} % {extent})")
            self.line(f"rest{k} = {unsigned}({number} // {extent})")
            number = f"rest{k}"

    def divisor(self, text: str) -> str:
        """What is divided by: known not to be 0, or a kernel would have to ask each time."""
        return f"max({self.indices.unsigned}({text}), {self.indices.unsigned}(1))"

    def product(self, axes: Iterable[Axis]) -> str:
        return " * ".join(axis.word for axis in axes) or "1"

    # Values

    def lets(self, lets: Iterable[Let]) -> None:
        for let in lets:
            if let.name in self.indices.literals:
                continue
            text, self.dtypes[let.name] = self.value(let.name, let.expression)
            self.line(f"{let.name} = {text}")

    def value(self, name: str, expression: Expression) -> tuple[str, np.dtype]:
        """The text of an expression, and the dtype that it has."""
        match expression:
            case Load(buffer, _):
                return loaded(buffer.dtype, self.element(expression)), computed_in(buffer.dtype)
            case Constant():
                return literal(expression), computed_in(expression.dtype)
            case IndexValue(index):
                text = index_text(index)
                if self.indices.is_narrow and not text.isidentifier():
                    text = f"int32({text})"
                return text, INT64
            case Apply():
                if name in self.indices.expressions:
                    return self.index_expression(expression), expression.dtype
                return self.apply(expression), computed_in(expression.dtype)

    def element(self, load: Load) -> str:
        """What a load reads, as memory has it."""
        return f"{load.buffer.name}[{self.position(load.position)}]"

    def take(self, let: Let, element: str) -> None:
        """A load of what was loaded before."""
        assert isinstance(let.expression, Load)
        dtype = let.expression.buffer.dtype
        self.dtypes[let.name] = computed_in(dtype)
        self.line(f"{let.name} = {loaded(dtype, element)}")

    def dtype_of(self, let: Let) -> np.dtype:
        """The dtype of a value that is not yet written."""
        match let.expression:
            case Load(buffer, _):
                return computed_in(buffer.dtype)
            case IndexValue():
                return np.dtype(self.indices.signed)
            case Constant() | Apply():
                if let.name in self.indices.names:
                    return np.dtype(self.indices.signed)
                return computed_in(let.expression.dtype)

    def index_expression(self, expression: Apply) -> str:
        constants = self.indices.constants
        operands = {
            field: f"{self.indices.signed}({constants[name]})" if name in constants else name
            for field, name in expression.operands
        }
        indices = self.indices
        return text_of(
            in_words_of_kernels(expression.term, indices.signed, indices.unsigned), operands
        )

    def apply(self, expression: Apply) -> str:
        operands = {field: self.operand(name) for field, name in expression.operands}
        text = self.expressions.apply(expression.term, operands, expression.dtype, expression.casts)
        if expression.casts and is_storage_only(expression.dtype):
            # A result does not depend on whether it is stored.
            return f"float32({expression.dtype.name}({text}))"
        return text

    def operand(self, name: str) -> tuple[str, np.dtype]:
        """A value as expressions other than of indices see it: an index is an int64 there."""
        if name in self.indices.names and self.indices.is_narrow:
            return f"int64({name})", INT64
        if name in self.dtypes:
            return name, self.dtypes[name]
        # A word, or a number.
        return name, INT64

    def position(self, index: Index) -> str:
        """The text of a place in a buffer. What moves gets a name, which neighbours share; words
        and literals are added to it where it is used."""
        moving, offset = split_position(index)
        if not self.indices.is_narrow or not moving.terms:
            return index_text(index)
        text = index_text(moving)
        if not text.isidentifier():
            text = self.named_position(f"int32({text})")
        return text if offset == Index() else f"{text} + {index_text(offset)}".replace("+ -", "- ")

    def forget_positions(self) -> None:
        """Loop variables of this block are about to change."""
        self.positions[-1].clear()

    def named_position(self, text: str) -> str:
        for known in self.positions:
            if text in known:
                return known[text]
        name = f"p{self.named_positions}"
        self.named_positions += 1
        self.positions[-1][text] = name
        self.line(f"{name} = {text}")
        return name

    # Bodies

    def at_point(self, levels: range) -> None:
        """What every variant does at a point of the loops; `levels` of lets are still to be
        written."""
        *special, general = self.kernel.variants
        keyword = "if"
        for variant in special:
            tests = " and ".join(f"{r.start} <= {r.variable} < {r.stop}" for r in variant.where)
            with self.block(f"{keyword} {tests}:"):
                self.variant(variant, levels)
            keyword = "elif"
        if not special:
            self.variant(general, levels)
            return
        with self.block("else:"):
            self.variant(general, levels)

    def variant(self, variant: Variant, levels: range) -> None:
        for level in levels:
            if level < len(variant.lets):
                self.lets(variant.lets[level])
        *others, last = variant.pieces
        inner = self.kernel.axes[-1].variable if self.kernel.axes else ""
        if variant.has_common_body:
            self.line(f"{first_of(inner)} = {inner}")  # of a piece with one point
            self.body(last.body)
            return
        keyword = "if"
        for piece in others:  # They follow one another from 0.
            with self.block(f"{keyword} {inner} < {piece.stop}:"):
                self.body(piece.body)
            keyword = "elif"
        if not others:
            self.body(last.body)
            return
        with self.block("else:"):
            self.body(last.body)

    def body(self, body: Body) -> None:
        self.lets(body.lets)
        self.updates(body)

    def updates(self, body: Body) -> None:
        """What a body does with its values."""
        for update in body.updates:
            self.update(update)
        self.stores(body)

    def stores(self, body: Body) -> None:
        for store in body.stores:
            self.store(store.buffer, self.position(store.position), store.value)

    def update(self, update: Update) -> None:
        text, dtype = self.value(update.name, update.expression)
        self.dtypes.setdefault(update.name, dtype)
        self.line(f"{update.name} = {text}")

    def store(self, buffer: Buffer, where: str, value: str) -> None:
        self.line(f"{buffer.name}[{where}] = {stored(buffer.dtype, value)}")

    # Accumulators

    def start_accumulators(self) -> None:
        for accumulator in self.kernel.accumulators:
            self.line(f"{accumulator.name} = {literal(accumulator.identity)}")

    def write_results(self) -> None:
        for accumulator in self.kernel.accumulators:
            if accumulator.buffer is not None:
                self.store(accumulator.buffer, self.result_position(accumulator), accumulator.name)

    def result_position(self, accumulator: Accumulator) -> str:
        where = self.position(accumulator.position)
        if accumulator.block_size == "0":
            return where
        block = f"{self.indices.signed}(block * {accumulator.block_size})"
        return block if where == "0" else f"{block} + {where}"


def decorator(types: Iterable[str], most_registers: int = 0) -> str:
    """Of a kernel, with the types of its parameters, and the registers that it may have, if it can
    do with so few (`build.py`)."""
    bound = f", max_registers={most_registers}" if most_registers else ""
    return f'@cuda.jit("void({", ".join(types)})"{bound})\n'


def loaded(dtype: np.dtype, element: str) -> str:
    """An element of memory as a value."""
    if dtype == BOOL:
        return f"{element} != 0"
    return f"float32({element})" if is_storage_only(dtype) else element


def stored(dtype: np.dtype, value: str) -> str:
    """A value as memory holds it."""
    if dtype == BOOL:
        return f"uint8({value})"
    return f"{dtype.name}({value})" if is_storage_only(dtype) else value


def literal(value: Constant) -> str:
    """A constant as text."""
    return constant(np.frombuffer(value.bytes, value.dtype)[0], value.dtype)
