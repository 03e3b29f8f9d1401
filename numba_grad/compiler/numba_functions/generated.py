"""Generated kernels by name: from memory, from the disk cache, or derived now.

Numba is imported only where one is in neither of them.

    primal    order 0: the function; order k: its k-th derivative in k directions
    adjoint   order 0: cotangents of parameters; order k: the k-th derivative of these
    tape      the bytes that the adjoint keeps

All are functions of the parameters, then of the cotangents of the results (adjoint), then of the
directions: for each order, a tangent of each parameter in `sources`.
"""

import ast
import functools
import itertools
import json
import linecache
from collections.abc import Sequence
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from numba_grad.compiler.building import cache
from numba_grad.compiler.building.build import compiling
from numba_grad.compiler.building.function_identity import identity_of
from numba_grad.compiler.kernel_language.statements import every_statement
from numba_grad.compiler.numba_functions.source_functions import exception_named
from numba_grad.immutable import immutable
from numba_grad.locks import LocksByKey
from numba_grad.ops.custom_kernels import CpuKernel, CustomKernel
from numba_grad.syntax_trees import syntax_tree

_making = LocksByKey()
_next_number = itertools.count().__next__


@immutable
class Parameter:
    """An argument of a call, or a part of one that has parts. Numbers are known when it is
    recorded; arrays of rank 0 are scalars of the function."""

    name: str
    dtype: str
    rank: int
    is_number: bool
    path: tuple[int | str, ...] = ()  # where it is in a tuple or a record, in a part of that
    part: str = ""  # "real" or "imag": a complex argument is two parameters, one after the other

    @property
    def text(self) -> str:
        """What it is in Python."""
        return self.name + "".join(f"[{k!r}]" for k in self.path)


@immutable
class Fixed:
    """An argument that the code is made for: None, a bool, a string, another Numba function."""

    value: Any


@immutable
class ArgumentParts:
    """An argument that is a tuple, a named one, or a record, of whose type `names` are fields."""

    kind: type
    names: tuple[str, ...]
    forms: tuple["Form", ...]


Form: TypeAlias = ArgumentParts | Fixed | None  # None: an array or a number


def arguments_of(forms: Sequence[Form], parts: Sequence[Any]) -> list[Any]:
    """The arguments of a call, tuples among them, from something for each parameter. Records are
    dictionaries."""
    following = iter(parts)

    def of(form: Form) -> Any:
        if form is None:
            return next(following)
        if isinstance(form, Fixed):
            return form.value
        found = list(map(of, form.forms))
        if form.kind is dict:
            return dict(zip(form.names, found, strict=True))
        return tuple(found) if form.kind is tuple else form.kind(*found)

    return list(map(of, forms))


@immutable
class DerivedKernel:
    """A kernel of a function for arguments of some types."""

    kind: str  # "primal", "adjoint" or "tape", which CUDA kernels do not have
    order: int
    sources: tuple[int, ...]  # the parameters that have derivatives
    memory: int = 0  # bytes for the tape of a loop, beyond which it is done again; 0: no limit
    are_large: bool = False  # arrays, so that threads share what loops they can
    has_atomics: bool = False  # whether threads may add to elements in any order where others can
    counted: tuple[str, ...] = ()  # in a grid, what tells threads apart: "block_x", "thread_x", ...


@immutable
class Generated:
    """What was generated: JSON holds it."""

    name: str
    source: str
    shapes_source: str
    inputs: list[tuple[str, bool]]  # names, and whether it is a number
    output_dtypes: list[str]
    result_count: int  # of the outputs, those that are results; the others are working memory
    returned_count: int  # of the results of the function
    written: list[int]  # parameters
    outline: list[Any] | None  # of an adjoint: what is kept on tapes
    # Those of the function's results that are the real parts of complex ones; the others follow.
    complex_results: list[int] = field(default_factory=list)
    result: Any = True  # how it is made of what the function returns: `numba_ir/function_tree.py`
    bool_results: list[int] = field(default_factory=list)  # that are stored as integers
    # Of CUDA kernels. For each output: the array input that it begins as a copy of, -1 for zeros,
    # None where it is written before it is read; outputs that have a number for each thread, of
    # which the result is the sum; results and outputs that are added to them; tapes, which follow
    # the outputs, and what is kept on them.
    beginnings: list[int | None] = field(default_factory=list)
    of_threads: list[int] = field(default_factory=list)
    added: list[tuple[int, int]] = field(default_factory=list)
    tapes: list[tuple[str, list[Any]]] = field(default_factory=list)

    def function(self) -> "GeneratedFunction":
        """The function that Numba is to compile."""
        return GeneratedFunction(self.name, self.source)

    def shapes(self) -> Any:
        return _executed(self.shapes_source, "shapes")


@immutable
class GeneratedFunction:
    """A function whose text is all that there is to know of it."""

    name: str
    generated_source: str

    @property
    def py_func(self) -> Any:
        """The function in Python."""
        function = _executed(self.generated_source, self.name)
        return getattr(function, "py_func", function)  # Kernels of CUDA have a decorator.


@functools.cache
def _executed(source: str, name: str) -> Any:
    file_name = f"<numba_grad {name} {_next_number()}>"
    # So that tracebacks and Numba's messages show lines.
    linecache.cache[file_name] = len(source), None, source.splitlines(keepends=True), file_name
    namespace: dict[str, Any] = {"__name__": "numba_grad_generated"}
    exec(compile(source, file_name, "exec"), namespace)
    return namespace[name]


# Why a kernel ended early: the number of one of its `raise` statements, or this.
NO_MEMORY = -1


def raises(tree: ast.AST) -> list[ast.Raise]:
    """The `raise` statements of a source, as they stand there."""
    return [node for node in every_statement(tree) if isinstance(node, ast.Raise)]


def exception_of(source: str, code: int, number: int) -> BaseException:
    """The exception that a kernel of this source ended with."""
    if number == NO_MEMORY:
        return MemoryError("no memory for the arrays or the tape of a differentiated function")
    raised = raises(syntax_tree(source))[number].exc
    assert raised is not None
    names = {"np": np, "exception_named": exception_named}
    return eval(compile(ast.Expression(raised), "<numba_grad>", "eval"), names)


class TypedFunction:
    """The kernels of one function for arguments of one signature."""

    def __init__(
        self, function: Any, parameters: tuple[Parameter, ...], forms: tuple[Form, ...]
    ) -> None:
        self.function = function
        self.parameters = parameters
        self.forms = forms
        self._found: dict[DerivedKernel, Generated] = {}
        self._tree: Any = None

    def generated(self, request: DerivedKernel) -> Generated:
        """The kernel.

        Raises
        ------
        KernelError
            If the function has something that is not differentiated; the message has its line.
        """
        if request.kind != "adjoint" and request.memory:
            request = replace(request, memory=0)
        found = self._found.get(request)
        if found is not None:
            return found
        with _making.lock_of((id(self), request)):
            if request not in self._found:
                self._found[request] = self._stored_or_derived(request)
        return self._found[request]

    def _stored_or_derived(self, request: DerivedKernel) -> Generated:
        identity = identity_of(self.function, is_translated=True)
        described = described_forms(self.forms)
        key = None
        if identity is not None and described is not None:
            described = repr((self.parameters, described, request))
            key = cache.key_of("differentiable", _sources(), identity, described)
            stored = cache.peek(key)
            if stored is not None:
                fields = json.loads(stored)
                fields["inputs"] = [(name, number) for name, number in fields["inputs"]]
                return Generated(**fields)
        result = compiling((id(self), request), lambda: self._derived(request))
        if key is not None:
            cache.write(key, json.dumps(asdict(result)).encode())
        return result

    def _derived(self, request: DerivedKernel) -> Generated:
        if self._tree is None:
            self._tree = self._tree_of()
        return Generated(**self._fields_of(request))

    def _tree_of(self) -> Any:
        from numba_grad.compiler.numba_functions import derivation

        return derivation.tree(self.function, self.parameters, self.forms)

    def _fields_of(self, request: DerivedKernel) -> dict[str, Any]:
        from numba_grad.compiler.numba_functions import derivation

        return derivation.fields(self._tree, self.parameters, request)

    def custom_kernel(self, request: DerivedKernel) -> CustomKernel:
        """The kernel as an operation has it."""
        made = self.generated(request)
        return CustomKernel(
            made.name,
            tuple([name for name, is_number in made.inputs if not is_number]),
            tuple([name for name, is_number in made.inputs if is_number]),
            made.shapes(),
            list(map(np.dtype, made.output_dtypes)),
            CpuKernel(made.function()),
            None,
        )


def described_forms(forms: Sequence[Form]) -> str | None:
    """As text; None if there is a function that has none."""
    texts: list[str | None] = []
    for form in forms:
        if isinstance(form, ArgumentParts):
            text = described_forms(form.forms)
            texts.append(text and f"{form.kind.__name__} {form.names} {text}")
        elif isinstance(form, Fixed) and hasattr(form.value, "py_func"):
            texts.append(identity_of(form.value, is_translated=True))
        else:
            texts.append(repr(form))
    return None if None in texts else repr(texts)


@functools.cache
def _sources() -> str:
    """What derives the kernels, as text."""
    digest = cache.new_digest()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@functools.lru_cache(maxsize=1 << 12)
def typed_function(
    function: Any, parameters: tuple[Parameter, ...], forms: tuple[Form, ...]
) -> TypedFunction:
    """The program of a function for arguments of these types."""
    return TypedFunction(function, parameters, forms)


def shared_memory(arrays: Sequence[Any]) -> tuple[int, int] | None:
    """Two of the arrays that have elements in common, None if there are none."""
    for a, b in itertools.combinations(range(len(arrays)), 2):
        x, y = arrays[a], arrays[b]
        if x is None or y is None:
            continue
        if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
            if x.size and y.size and np.may_share_memory(x, y):
                try:
                    if np.shares_memory(x, y, max_work=100_000):  # type: ignore[arg-type]
                        return a, b
                except np.exceptions.TooHardError:
                    return a, b
        elif x is y:
            return a, b
    return None
