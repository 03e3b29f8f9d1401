"""Kernels of the CPU for GPUs, where each of their tasks is the work of one thread.

The source is that of `compiler/library_kernels`, in the kernel language; here it is read, typed,
and written again as CUDA Python. The loop over tasks becomes one over the threads of the grid, and
words become parameters. So formulas of special functions, of random numbers and of small matrices
exist once. What calls a library of the host cannot be translated.
"""

import ast
import functools
from collections.abc import Mapping, Sequence
from textwrap import indent

import numpy as np

from numba_grad.compiler.cuda.expressions import (
    BOOL,
    INT64,
    KernelExpressions,
    TypedTerm,
    constant,
    storage_name,
)
from numba_grad.compiler.cuda.library_kernels.kernel_source import (
    THREADS,
    blocks_for,
    each_task,
    kernel_source,
    pointer_to,
)
from numba_grad.compiler.library_kernels import Errors, LibraryCall, Symbol
from numba_grad.compiler.library_kernels.calls import LibraryStep
from numba_grad.compiler.scalar_expressions import (
    Call,
    Name,
    Number,
    Operation,
    Part,
    Subscript,
    Term,
    term_of,
    text_of,
)
from numba_grad.dtypes import is_storage_only
from numba_grad.errors import InternalError
from numba_grad.runtime.plan import Grid, Tasks
from numba_grad.syntax_trees import syntax_tree

FLOAT64 = np.dtype(np.float64)
# Of the scratch memory of a stack.
_BYTES_OF_ROOMS = 1 << 28


def translated(call: LibraryCall) -> LibraryCall:
    """The same steps for a GPU, a thread for each task."""
    steps = []
    for step in call.steps:
        source, repeated = _translated_source(step.source, _kinds(step))
        tasks = step.launch[0]
        words = (*step.words, *(step.words[number] for number in repeated), tasks)
        steps.append(LibraryStep(source, words, Grid(blocks_for(tasks), THREADS)))
    return LibraryCall(tuple(steps), call.scratch_bytes)


def translated_stack(call: LibraryCall) -> LibraryCall:
    """The same for a step that `lapack.stack_call` made, a thread for a matrix, or for several if
    each takes much memory."""
    (step,) = call.steps
    words = list(step.words)
    number_of = _named_words(step.source)
    count, room = words[number_of["count"]], words[number_of["room"]]
    assert isinstance(count, int) and isinstance(room, int)
    tasks = min(count, max(1, _BYTES_OF_ROOMS // max(1, room)))
    block = -(-count // max(1, tasks))
    words[number_of["block"]] = block
    tasks = -(-count // max(1, block))
    step = LibraryStep(step.source, tuple(words), Tasks(tasks))
    return translated(LibraryCall((step,), tasks * room))


def calls_library(call: LibraryCall) -> bool:
    """Whether it needs functions of the host."""
    return any(isinstance(word, Symbol) for step in call.steps for word in step.words)


def _kinds(step: LibraryStep) -> tuple[bool, ...]:
    """For each word, whether it is the error record."""
    return tuple([isinstance(word, Errors) for word in step.words])


@functools.cache
def _named_words(source: str) -> dict[str, int]:
    """Names of words: `name = words[5]`."""
    found = {}
    for node in ast.walk(syntax_tree(source)):
        match node:
            case ast.Assign(
                [ast.Name(name)], ast.Subscript(ast.Name("words"), ast.Constant(int() as number))
            ):
                found[name] = number
    return found


@functools.lru_cache(maxsize=1 << 10)
def _translated_source(source: str, are_errors: tuple[bool, ...]) -> tuple[str, tuple[int, ...]]:
    """The source, and the numbers of words that it has twice: once for each dtype in them."""
    translation = _Translation(source, are_errors)
    return translation.source, tuple(translation.repeated)


class _Pointer:
    """A name for elements in memory: a parameter, an array of the thread's own, or the words."""

    def __init__(self, text: str, dtype: np.dtype, first: str = "") -> None:
        self.text, self.dtype, self.first = text, dtype, first

    def element(self, index: str) -> str:
        return f"{self.text}[{self.first} + {index}]" if self.first else f"{self.text}[{index}]"


class _Translation(KernelExpressions):
    def __init__(self, source: str, are_errors: tuple[bool, ...]) -> None:
        super().__init__()
        (function,) = syntax_tree(source).body
        assert isinstance(function, ast.FunctionDef)
        self.names = [f"word{k}" for k in range(len(are_errors))]
        self.types = ["int64"] * len(are_errors)
        for number, is_record in enumerate(are_errors):
            if is_record:
                self.types[number] = pointer_to("int64")
        self.variables: dict[str, np.dtype] = {}
        self.pointers: dict[str, _Pointer] = {}
        self.addresses: dict[str, int] = {}  # variables that hold the address in a word
        self.words_from: dict[str, int] = {}  # pointers to the words from one on
        self.is_record = are_errors
        self.rooms: dict[str, ast.expr] = {}  # variables with an address in scratch memory: bytes
        self.repeated: list[int] = []
        before, body = self.split(function.body)
        head = self.block(before)
        tasks = self.block(body)
        self.source = kernel_source(
            [*zip(self.names, self.types, strict=True), ("tasks", "int64")],
            head + each_task(tasks),
            self.definitions(),
        )

    def split(self, statements: Sequence[ast.stmt]) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """What comes before the loop over tasks, and its body, whose number is `task`."""
        *before, loop = statements
        match loop:
            case ast.For(ast.Name(name), ast.Call(ast.Name("range"), bounds), body, []):
                assert ", ".join(map(ast.unparse, bounds)) in ("lo, hi", "lo, hi, 1")
                self.variables[name] = INT64
                if name != "task":
                    body = [syntax_tree(f"{name} = task").body[0], *body]
                    self.variables["task"] = INT64
                return before, body
        raise InternalError("translation: no loop over tasks at the end of a kernel")

    # Statements

    def block(self, statements: Sequence[ast.stmt]) -> str:
        return "".join(self.statement(statement) for statement in statements)

    def statement(self, node: ast.stmt) -> str:
        match node:
            case ast.Assign([ast.Name(name)], value):
                return self.assignment(name, value)
            case ast.Assign([ast.Subscript(ast.Name(name), index)], value):
                return self.store(name, index, value)
            case ast.AugAssign(ast.Name(name) as target, operator, value):
                read = ast.Name(name, ast.Load())
                return self.assignment(target.id, ast.BinOp(read, operator, value))
            case ast.AugAssign(ast.Subscript(ast.Name(name), index) as target, operator, value):
                return self.store(name, index, ast.BinOp(target, operator, value))
            case ast.If(condition, body, orelse):
                text = f"if {self.condition(condition)}:\n{indent(self.body(body), '    ')}"
                if orelse:
                    text += f"else:\n{indent(self.body(orelse), '    ')}"
                return text
            case ast.While(condition, body, []):
                return f"while {self.condition(condition)}:\n{indent(self.body(body), '    ')}"
            case ast.For(ast.Name(name), ast.Call(ast.Name("range"), bounds), body, []):
                self.variables[name] = INT64
                texts = ", ".join(self.integer(term_of(bound)) for bound in bounds)
                return f"for {name} in range({texts}):\n{indent(self.body(body), '    ')}"
            case ast.Break() | ast.Continue() | ast.Pass():
                return ast.unparse(node) + "\n"
            case ast.Expr(ast.Call(ast.Name("few_points"), [])):
                return ""  # of how the processor's code is compiled
        raise InternalError(f"translation: {ast.unparse(node)}")

    def body(self, statements: Sequence[ast.stmt]) -> str:
        return self.block(statements) or "pass\n"

    def assignment(self, name: str, value: ast.expr) -> str:
        match value:
            case ast.Call(ast.Name("buffer"), [_, ast.Constant(int() as word), dtype]):
                self.parameter(name, word, ast.unparse(dtype))
                return ""
            case ast.Call(ast.Name("pointer"), [place, dtype]):
                return self.point(name, place, ast.unparse(dtype))
            case ast.Call(ast.Name("integer"), [_, ast.Constant(int() as word)]):
                return self.name_word(name, word)
            case ast.Subscript(ast.Name(words), ast.Constant(int() as word)) if (
                words in self.words_from
            ):
                return self.name_word(name, self.words_from[words] + word)
            case ast.Call(ast.Name("local"), [ast.Constant(int() as count), ast.Name(dtype)]):
                self.pointers[name] = _Pointer(name, np.dtype(dtype))
                return f"{name} = cuda.local.array({count}, {dtype})\n"
            case ast.Call(ast.Name("stack_words"), [ast.Constant(int() as count)]):
                self.pointers[name] = _Pointer(name, INT64)
                return f"{name} = cuda.local.array({count}, int64)\n"
            case ast.BinOp(ast.Name("args"), ast.Add(), _):
                return ""  # the address of a word, for libraries
            case ast.BinOp(ast.BinOp(ast.Name("scratch"), ast.Add(), start), ast.Add(), offset):
                self.rooms[name] = ast.BinOp(start, ast.Add(), offset)
                return ""
        typed = self._typed(term_of(value), {})
        known = self.variables.get(name)
        if known is None:
            known = self.variables[name] = typed.dtype or _dtype_of(typed)
        return f"{name} = {self.cast(typed, known).text}\n"

    def parameter(self, name: str, word: int, dtype: str) -> None:
        element = BOOL if dtype == "bool_" else np.dtype(dtype)
        self.names[word] = name
        self.types[word] = pointer_to(storage_name(element))
        self.pointers[name] = _Pointer(name, element)

    def name_word(self, name: str, word: int) -> str:
        """An integer; or an address, which a pointer may be made from."""
        self.addresses[name] = word
        self.variables[name] = INT64
        if self.names[word] == f"word{word}":
            self.names[word] = name
            return ""
        return f"{name} = {self.names[word]}\n"

    def point(self, name: str, place: ast.expr, dtype: str) -> str:
        match place:
            case ast.Name("args"):
                self.words_from[name] = 0
                return ""
            case ast.BinOp(ast.Name("args"), ast.Add(), ast.Constant(int() as nbytes)):
                self.words_from[name] = first = nbytes // 8
                rest = self.names[first:]
                self.pointers[name] = _Pointer(name, INT64)
                lines = [f"{name}[{k}] = {word}\n" for k, word in enumerate(rest)]
                return f"{name} = cuda.local.array({max(1, len(rest))}, int64)\n" + "".join(lines)
            case ast.Name(address) if address in self.rooms:
                element = np.dtype(dtype)
                self.repeated.append(self.addresses["scratch"])
                self.names.append(name)
                self.types.append(pointer_to(dtype))
                self.pointers[name] = _Pointer(name, element, f"{name}_first")
                start = self._typed(term_of(self.rooms[address]), {})
                first = Operation("//", (start.term, Number(element.itemsize)))
                return f"{name}_first = {text_of(first)}\n"
            case ast.Name(address) if address in self.pointers:
                self.pointers[name] = self.pointers[address]
                return ""
            case ast.Name(address) if self.is_record[self.addresses[address]]:
                self.pointers[name] = _Pointer(address, INT64)
                return ""
            case ast.Name(address):
                self.parameter(name, self.addresses[address], dtype)
                return ""
        raise InternalError(f"translation: a pointer to {ast.unparse(place)}")

    def store(self, name: str, index: ast.expr, value: ast.expr) -> str:
        pointer = self.pointers[name]
        place = self.integer(term_of(index))
        typed = self._typed(term_of(value), {})
        if is_storage_only(pointer.dtype):
            text = f"{pointer.dtype.name}({self._cast_to(typed, pointer.dtype).text})"
        else:
            text = self.cast(typed, pointer.dtype).text
            text = f"uint8({text})" if pointer.dtype == BOOL else text
        return f"{pointer.element(place)} = {text}\n"

    def condition(self, node: ast.expr) -> str:
        return self.truth(term_of(node), {}).text

    def truth(self, term: Term, operands: Mapping[str, TypedTerm]) -> TypedTerm:
        return self.cast(self._typed(term, operands), BOOL)

    def integer(self, term: Term) -> str:
        return self.cast(self._typed(term, {}), INT64).text

    # Expressions: what those of operations do not have

    def _typed(self, term: Term, operands: Mapping[str, TypedTerm]) -> TypedTerm:
        match term:
            case Number(bool() as value):
                return TypedTerm(Name(str(value)), BOOL)
            case Name("nan" | "inf" as name):
                return TypedTerm(Name(constant(float(name), FLOAT64)), FLOAT64)
            case Name("hi"):
                return TypedTerm(Name("tasks"), INT64)
            case Name(name):
                if name in self.variables:
                    return TypedTerm(term, self.variables[name])
                raise InternalError(f"translation: {name} has no value")
            case Subscript(Name(name), index):
                return self.load(name, index)
            case Part(value, part):
                return self._of_parts(part, self._typed(value, operands))
            case Operation("<<" | ">>" as symbol, (left, right)):
                x, y = self._alike(self._typed(left, operands), self._typed(right, operands))
                return TypedTerm(Operation(symbol, (x.term, y.term)), x.dtype)
            case Operation("and" | "or" | "not " as symbol, values):
                truths = tuple([self.truth(x, operands).term for x in values])
                return TypedTerm(Operation(symbol, truths), BOOL)
            case Operation("~", (value,)):
                typed = self._typed(value, operands)
                symbol = "not " if typed.dtype == BOOL else "~"
                return TypedTerm(Operation(symbol, (typed.term,)), typed.dtype)
        return super()._typed(term, operands)

    def load(self, name: str, index: Term) -> TypedTerm:
        match index:
            case Number(int() as number) if name in self.words_from:
                return TypedTerm(Name(self.names[self.words_from[name] + number]), INT64)
        pointer = self.pointers[name]
        element = Name(pointer.element(self.integer(index)))
        if pointer.dtype == BOOL:
            return TypedTerm(Operation("!=", (element, Number(0))), BOOL)
        if is_storage_only(pointer.dtype):
            return TypedTerm(Call("float32", (element,)), np.dtype(np.float32))
        return TypedTerm(element, pointer.dtype)

    def _alike(self, *values: TypedTerm) -> list[TypedTerm]:
        """As in Python, a floating literal makes floating numbers of integers, or of another."""
        known = [v.dtype for v in values if v.dtype is not None]
        if all(dtype.kind in "biu" for dtype in known):
            literals = [_dtype_of(v) for v in values if v.dtype is None]
            if FLOAT64 in literals:
                return [self.cast(value, FLOAT64) for value in values]
        return super()._alike(*values)

    def _call(
        self, name: str, arguments: tuple[Term, ...], operands: Mapping[str, TypedTerm]
    ) -> TypedTerm:
        match name, arguments:
            case "integer", (_, Number(int() as number)):
                return TypedTerm(Name(self.names[number]), INT64)
            case "atomic_compare_exchange", (Name() as record, *values):
                words = [self.cast(self._typed(value, operands), INT64).term for value in values]
                return TypedTerm(Call("compare_and_swap", (record, *words)), INT64)
            case "min" | "max", _:
                x, y = self._alike(*[self._typed(x, operands) for x in arguments])
                symbol = "<" if name == "min" else ">"
                return self._select(TypedTerm(Operation(symbol, (y.term, x.term)), BOOL), y, x)
        if name == "bool_" or name in np.sctypeDict:
            (value,) = arguments
            return self._cast_to(self._typed(value, operands), self._dtype_named(Name(name)))
        return super()._call(name, arguments, operands)


def _dtype_of(literal: TypedTerm) -> np.dtype:
    return np.asarray(literal.number).dtype
