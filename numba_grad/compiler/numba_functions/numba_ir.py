"""Numba's typed intermediate representation to a tree of regions; nothing else here knows of it.

Private parts of Numba: the pipeline up to type inference, its statements and types; tested with
Numba 0.68. What is not named in this module is refused, with its line. This module imports Numba,
so only code that compiles imports it.

A variable of the function that is given values in several places is a memory of rank 0; one that is
given its value once is a scalar. Branches end where their ways meet; if one leaves a loop or the
function, what follows stands in the other. Whoever leaves a loop sets its flag.
"""

# Numba's annotations are few, and wrong where they come from class attributes set at run time.
# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

import builtins
import cmath
import inspect
import linecache
import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numba.core import bytecode, compiler, errors, ir, types
from numba.core.analysis import compute_cfg_from_blocks
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target
from numba.core.typed_passes import NopythonTypeInference
from numba.core.untyped_passes import TranslateByteCode
from numba.np.numpy_support import from_dtype

from numba_grad.compiler.numba_functions import (
    array_expressions,
    complex_numbers,
    kernel_names,
    numpy_in_loops,
)
from numba_grad.compiler.numba_functions.analyses import swapped_together, written
from numba_grad.compiler.numba_functions.builder import Builder, NotOfComplexNumbers
from numba_grad.compiler.numba_functions.regions import (
    Allocate,
    Check,
    For,
    Function,
    If,
    Load,
    Memory,
    Scalar,
    Statement,
    Store,
    Swap,
    Value,
    View,
    While,
    nested,
    walk,
)
from numba_grad.compiler.numba_functions.scalar_operations import OPERATIONS, dtype_of
from numba_grad.errors import KernelError, explain

_MOST_STATEMENTS = 20_000
_MOST_CONSTANTS = 1000  # elements of a global array
_MOST_PARTS = 32  # of a tuple with an index that is data
_RAISES = ir.Raise | ir.StaticRaise | ir.DynamicRaise
# Expressions that write nothing.
_HARMLESS = {
    *("binop", "unary", "getattr", "getitem", "static_getitem", "typed_getitem", "cast"),
    *("build_tuple", "build_list", "exhaust_iter"),
}

# Expressions whose value may be an array that is there already; so may that of a call.
_PARTS = {"static_getitem", "getitem", "typed_getitem", "exhaust_iter", "cast", "inplace_binop"}

_BINARY = {
    operator.add: "add",
    operator.sub: "subtract",
    operator.mul: "multiply",
    operator.truediv: "divide",
    operator.floordiv: "floor_divide",
    operator.mod: "mod",
    operator.pow: "power",
    operator.lt: "less",
    operator.le: "less_equal",
    operator.gt: "greater",
    operator.ge: "greater_equal",
    operator.eq: "equal",
    operator.ne: "not_equal",
    operator.and_: "bitwise_and",
    operator.or_: "bitwise_or",
    operator.xor: "bitwise_xor",
    operator.lshift: "left_shift",
    operator.rshift: "right_shift",
}
_UNARY = {operator.neg: "negative", operator.pos: "positive", operator.not_: "not"}
_FUNCTIONS: dict[Any, str] = {abs: "absolute", bool: "bool", math.floor: "floor", math.ceil: "ceil"}
for _name in ("sin", "cos", "tan", "exp", "expm1", "log", "log1p", "log10", "sqrt", "sinh", "cosh"):
    _FUNCTIONS[getattr(math, _name)] = _FUNCTIONS[getattr(np, _name)] = _name
_FUNCTIONS |= {
    **{math.tanh: "tanh", np.tanh: "tanh", math.log2: "log2", np.log2: "log2"},
    **{math.asin: "arcsin", np.arcsin: "arcsin", math.acos: "arccos", np.arccos: "arccos"},
    **{math.atan: "arctan", np.arctan: "arctan", math.atan2: "arctan2", np.arctan2: "arctan2"},
    **{math.hypot: "hypot", np.hypot: "hypot", math.erf: "erf", math.fabs: "absolute"},
    **{np.abs: "absolute", np.fabs: "absolute", np.sign: "sign", np.power: "power"},
    **{math.pow: "power", pow: "power", np.floor: "np_floor", np.ceil: "np_ceil"},
    **{np.add: "add", np.subtract: "subtract", np.multiply: "multiply", np.divide: "divide"},
    **{np.negative: "negative", np.maximum: "maximum", np.minimum: "minimum"},
    **{math.isnan: "isnan", np.isnan: "isnan", math.isinf: "isinf", np.isinf: "isinf"},
    **{math.isfinite: "isfinite", np.isfinite: "isfinite"},
    **{math.asinh: "arcsinh", np.arcsinh: "arcsinh", math.acosh: "arccosh", np.arccosh: "arccosh"},
    **{math.atanh: "arctanh", np.arctanh: "arctanh", np.exp2: "exp2", np.cbrt: "cbrt"},
    **{math.erfc: "erfc", np.logaddexp: "logaddexp"},
    **{math.copysign: "copysign", np.copysign: "copysign", math.trunc: "trunc"},
    **{math.degrees: "degrees", np.degrees: "degrees", np.rad2deg: "degrees"},
    **{math.radians: "radians", np.radians: "radians", np.deg2rad: "radians"},
    **{np.trunc: "np_trunc", np.rint: "rint", np.positive: "positive", np.mod: "mod"},
    **{np.remainder: "mod", np.floor_divide: "floor_divide", np.true_divide: "divide"},
    **{np.less: "less", np.less_equal: "less_equal", np.greater: "greater"},
    **{np.greater_equal: "greater_equal", np.equal: "equal", np.not_equal: "not_equal"},
    **{np.logical_not: "not", round: "round", np.round: "rint", np.around: "rint"},
    **{np.real: "real", np.imag: "imag", np.conjugate: "conjugate", np.angle: "angle"},
    cmath.phase: "angle",
}
for _name in ("exp", "log", "sqrt", "sin", "cos", "sinh", "cosh"):
    _FUNCTIONS[getattr(cmath, _name)] = _name


@dataclass(frozen=True, slots=True)
class Range:
    start: Value
    stop: Value
    step: Value
    is_parallel: bool = False


@dataclass(frozen=True, slots=True)
class Elements:
    """`zip` or `enumerate` of arrays and ranges, or these themselves."""

    kind: str  # "zip", "enumerate", "array", "range"
    parts: tuple[Any, ...]
    start: Value = 0


@dataclass(frozen=True, slots=True)
class Known:
    """What is known while compiling: a function, a module, a type, a string, None, a slice."""

    value: Any


# What a variable stands for in the text that is translated: scalars, arrays, and the others above.
Meaning: TypeAlias = Any


class _Again(Exception):
    """Something was found out, and is in `_Findings`, that the text so far took no account of."""


@dataclass(frozen=True, slots=True)
class _Shared:
    """An array that was copied where Python has one array with two names."""

    copy: Memory
    source: Memory
    statement: Statement
    location: Any
    is_moved: bool  # the source's own name is given another array at once


@dataclass(slots=True)
class _Findings:
    """What is known of all functions before they are translated. Variables are named by the
    function and their name in it."""

    variables: set[tuple[Any, str]] = field(default_factory=set)  # that are to be memories
    # Arrays that have memory of their own, to which other arrays are copied that they are assigned;
    # and those of them whose memory is made where the function begins.
    assigned: set[tuple[Any, str]] = field(default_factory=set)
    early: set[tuple[Any, str]] = field(default_factory=set)
    typed: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    # Of one translation: what was copied, and the `id`s of the statements that did.
    shared: list[_Shared] = field(default_factory=list)
    copies: set[int] = field(default_factory=set)


def refused(ir_location: Any, what: str, got: str = "", instead: str = "") -> KernelError:
    """The error for code that has no derivative here. `instead`: how it can be written."""
    line = linecache.getline(ir_location.filename, ir_location.line).strip()
    found: dict[str, object] = {f"{ir_location.filename}:{ir_location.line}": line or "?"}
    return KernelError(
        explain(
            "differentiable",
            f"{what} cannot be differentiated",
            got=found | ({"in it": got} if got else {}),
            fix=f"{instead}ng.custom_op, with a derivative of your own for this part",
        )
    )


def type_of(dtype: np.dtype, rank: int) -> types.Type:
    """Numba's type of an argument."""
    scalar = from_dtype(dtype)
    return scalar if rank == 0 else types.Array(scalar, rank, "C")


def number_type(kind: str) -> types.Type:
    return {"int64": types.int64, "float64": types.float64, "bool": types.boolean}[kind]


def tuple_type(parts: Any) -> Any:
    """Numba's type of a tuple, from a list of the types of its parts; other types are left."""
    if not isinstance(parts, list):
        return parts
    return types.BaseTuple.from_types(tuple(map(tuple_type, parts)))


@register_pass(mutates_CFG=False, analysis_only=True)
class _RefuseWith(AnalysisPass):
    """Numba would compile the inside of `with objmode` by itself."""

    _name = "numba_grad_refuse_with"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:  # pyright: ignore
        for block in state.func_ir.blocks.values():
            for statement in block.find_insts(ir.EnterWith):
                raise refused(statement.loc, "`with objmode`, or another `with`,")
        return False


class _Typing(CompilerBase):
    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_untyped_pipeline(self.state)
        passes.add_pass_after(_RefuseWith, TranslateByteCode)
        passes.add_pass(NopythonTypeInference, "types of all variables")
        passes.finalize()
        return [passes]


def typed(function: Any, arguments: Sequence[types.Type]) -> Any:
    """Numba's state after type inference.

    Raises
    ------
    KernelError
        If Numba finds no types.
    """
    context, target = cpu_target.typing_context, cpu_target.target_context
    context.refresh()
    target.refresh()
    flags = compiler.Flags()
    flags.nrt = True
    pipeline = _Typing(context, target, None, tuple(arguments), None, flags, {})
    state = pipeline.state
    state.func_id = bytecode.FunctionIdentity.from_function(function)
    state.bc = bytecode.ByteCode(state.func_id)
    state.lifted, state.lifted_from = (), None
    try:
        for passes in pipeline.define_pipelines():
            passes.run(state)
    except errors.NumbaError as error:
        described = inspect.signature(function).parameters
        got: dict[str, object] = dict(zip(described, arguments, strict=False))
        problem = "Numba finds no types for this function with these arguments"
        raise KernelError(f"{explain(function.__name__, problem, got=got)}\n\n{error}") from error
    return state


def with_whole_headers(blocks: dict[int, Any]) -> dict[int, Any]:
    """With the block that asks an iterator joined to the one before it, if there is but one.

    Python's compiler writes a jump of more than 255 instructions out of a `for` loop as two, and
    Numba then begins a block between them: a header of the loop that does nothing.
    """
    graph = compute_cfg_from_blocks(blocks)
    for label in list(blocks):
        values = [a.value for a in blocks[label].find_insts(ir.Assign)]
        before = [block for block, _ in graph.predecessors(label)]
        if len(before) != 1 or not any(_is_expression(value, "iternext") for value in values):
            continue
        blocks[before[0]].body[-1:] = blocks.pop(label).body
        for block in blocks.values():
            for phi in block.find_exprs("phi"):
                others = [before[0] if b == label else b for b in phi.incoming_blocks]
                phi.incoming_blocks[:] = others
    return blocks


def _is_expression(value: Any, operation: str) -> bool:
    return isinstance(value, ir.Expr) and value.op == operation


def function_tree(function: Any, arguments: Sequence[types.Type]) -> Function:
    """The tree of a function for arguments of these types.

    Raises
    ------
    KernelError
        If Numba cannot type it, or if it has something that is not differentiated: the message has
        its line.
    """
    plain = getattr(function, "py_func", function)
    findings = _Findings()
    while True:
        findings.shared, findings.copies = [], set()
        try:
            return _whole_function(plain, arguments, findings)
        except _Again:
            continue


def _whole_function(plain: Any, arguments: Sequence[types.Type], findings: _Findings) -> Function:
    builder = Builder(is_numbering=True, of_complex=complex_numbers.OPERATIONS)
    parameters: list[Memory] = []

    def argument(name: str, numba_type: Any) -> Meaning:
        if isinstance(numba_type, types.BaseTuple):
            parts = enumerate(numba_type)  # pyright: ignore
            return tuple([argument(f"{name}_{k}", part) for k, part in parts])
        is_array = isinstance(numba_type, types.Array)
        dtype = str(numba_type.dtype) if is_array else _dtype(numba_type)
        memory = Memory(builder.name(name), dtype, numba_type.ndim if is_array else 0)
        parameters.append(memory)
        if not is_array:
            return builder.load(memory)
        builder.measure(memory)
        return memory

    names = inspect.signature(plain).parameters
    meanings = [argument(*pair) for pair in zip(names, arguments, strict=True)]
    translation = Translation(builder, plain, arguments, findings, ())
    result = translation.run(meanings)
    _check_copies(builder.body, findings, parameters)
    returned, returns_tuple = _results(translation, result)
    written_names = {s.name for s in translation.written_memories(builder.body)}
    return complex_numbers.with_pairs(
        Function(
            plain.__name__ if plain.__name__.isidentifier() else "function",
            parameters,
            builder.body,
            [p for p in parameters if p.rank and p.name in written_names],
            returned,
            returns_tuple,
            builder,
        )
    )


def _results(translation: "Translation", result: Meaning) -> tuple[list[Memory], bool]:
    """Memories that nobody else writes to, with what is returned."""
    builder = translation.builder
    if isinstance(result, Known) and result.value is None:
        return [], False
    parts = result if isinstance(result, tuple) else (result,)
    memories = []
    for part in parts:
        if isinstance(part, Memory | View):
            view = part if isinstance(part, View) else builder.whole(part)
            memory = builder.allocate("returned", view.dtype, view.shape)
            _copy(builder, view, memory)
        elif not isinstance(part, Scalar | bool | int | float):
            raise translation.refused("what is returned here, neither array nor number,")
        else:
            memory = builder.allocate("returned", dtype_of(part))
            builder.store(memory, (), part)
        memories.append(memory)
    return memories, isinstance(result, tuple)


def _copy(builder: Builder, view: View, memory: Memory, indices: tuple[Value, ...] = ()) -> None:
    if len(indices) == view.rank:
        builder.store(memory, indices, builder.load_view(view, *indices))
        return
    with builder.loop(view.shape[len(indices)]) as index:
        _copy(builder, view, memory, (*indices, index))


def _dtype(numba_type: Any) -> str:
    numba_type = types.unliteral(numba_type)
    if isinstance(numba_type, types.Boolean):
        return "bool"
    if isinstance(numba_type, types.Integer | types.Float | types.Complex):
        return str(numba_type)
    raise TypeError(numba_type)


@dataclass(slots=True)
class _Loop:
    """A loop of the control flow graph while its body is translated."""

    blocks: set[int]
    header: int
    leave: Memory | None = None
    exit: Memory | None = None  # which of `targets` comes after it
    targets: list[int] = field(default_factory=list)


class Translation:
    """Of one function, or of one call of one. The arrays' module gets it as its first argument:
    `builder` writes statements, `meaning(variable)` is what a variable stands for."""

    def __init__(
        self,
        builder: Builder,
        function: Any,
        arguments: Sequence[types.Type],
        findings: _Findings,
        callers: tuple[Any, ...],
    ) -> None:
        self.builder = builder
        self.function = function
        self.findings = findings
        key = function, tuple(arguments)
        if key not in findings.typed:
            findings.typed[key] = typed(function, arguments)
        self.state = findings.typed[key]
        self.blocks: dict[int, Any] = with_whole_headers(self.state.func_ir.blocks)
        self.typemap: dict[str, Any] = self.state.typemap
        self.callers = (*callers, function)
        self.graph = compute_cfg_from_blocks(self.blocks)
        self.loops = self.graph.loops()
        self._raising = self._blocks_that_raise()
        self.scopes: list[dict[str, Meaning]] = [{}]
        self.location: Any = self.state.func_ir.loc
        self._arguments: Sequence[Meaning] = ()
        self._variables: dict[str, Memory] = {}  # by the names of all versions
        self._tuples: dict[str, tuple[str, ...]] = {}  # names of the parts of those that are tuples
        self._array_groups: dict[str, str] = {}  # arrays that have several: versions to a group
        self._arrays: dict[str, Memory] = {}  # by group
        self._array_scopes: dict[str, dict[str, Meaning]] = {}  # where these are seen
        self._current: dict[str, str] = {}  # by variable: the version that it holds, in a block
        self._open_loops: list[_Loop] = []
        self._made_in: dict[str, tuple[int, ...]] = {}  # names of views: the loops they are made in
        self._returned: list[Memory] | None = None
        self._result: Meaning = None
        self._returns = 0
        self._count = 0
        self._constants: dict[int, Memory] = {}  # by `id` of global arrays
        self._block: Sequence[Any] = ()
        self._start: tuple[list[Statement], int] = ([], 0)  # where the function begins
        self._visible: frozenset[Scalar] = frozenset()  # the scalars that are known there
        # Names of arrays that a block has given other arrays: by group, the version and the array.
        self._pending: dict[str, tuple[str, Memory | View]] = {}
        self._immediate: dict[int, dict[int, frozenset[int]]] = {}

    # What there is.

    def run(self, arguments: Sequence[Meaning]) -> Meaning:
        """Write the statements; what the function returns."""
        self._arguments = arguments
        self._find_variables()
        returns = [b for b in self.blocks.values() if isinstance(b.body[-1], ir.Return)]
        self._returns = len(returns)
        self._declare()
        self._start = self.builder.body, len(self.builder.body)
        self._visible = self.builder.visible()
        self.emit(min(self.blocks), None, None)
        if self._returned is not None:
            loaded = tuple(
                [memory if memory.rank else self.builder.load(memory) for memory in self._returned]
            )
            return loaded if isinstance(self._result, tuple) else loaded[0]
        return self._result

    def refused(self, what: str, got: str = "", instead: str = "") -> KernelError:
        return refused(self.location, what, got, instead)

    def problem(self, what: str) -> str:
        """The message of an error that the function raises when it runs, with its line: the text,
        not the number, as the code is kept where other lines of the file change."""
        line = linecache.getline(self.location.filename, self.location.line).strip()
        return f"{what}, in `{line}` of {self.function.__name__}"

    def type_of(self, variable: Any) -> Any:
        return types.unliteral(self.typemap[variable.name])

    def _find_variables(self) -> None:
        """Versions of a variable that meet are one memory, as they are never alive together."""
        group: dict[str, str] = {}

        def root(name: str) -> str:
            while group.get(name, name) != name:
                name = group[name]
            return name

        self._casts: dict[int, list[tuple[str, Any]]] = {}
        for block in self.blocks.values():
            for phi in block.find_exprs("phi"):
                target = next(a.target for a in block.find_insts(ir.Assign) if a.value is phi)
                if isinstance(self.type_of(target), types.RangeIteratorType):
                    continue
                group.setdefault(target.name, target.name)
                pairs = zip(phi.incoming_values, phi.incoming_blocks, strict=True)
                for value, label in pairs:
                    if value is ir.UNDEFINED:
                        continue
                    if not self._is_same_type(value, target):
                        self._casts.setdefault(label, []).append((target.name, value))
                        continue
                    group.setdefault(value.name, value.name)
                    group[root(value.name)] = root(target.name)
        for name in self.typemap:
            if (self.function, name) in self.findings.variables:
                group.setdefault(name, name)
        self._group_swaps(group, root)
        self._find_assigned(group, root)
        roots: dict[str, Memory] = {}
        for name in group:
            self._declare_variable(name, root(name), types.unliteral(self.typemap[name]), roots)

    def _find_assigned(self, group: dict[str, str], root: Callable[[str], str]) -> None:
        """Arrays that are not only swapped: a new one is assigned to a variable that has one."""
        seen: set[str] = set()
        values: dict[str, Any] = {}
        for label in sorted(self.blocks):
            for assignment in self.blocks[label].find_insts(ir.Assign):
                name, value = assignment.target.name, assignment.value
                while isinstance(value, ir.Var) and value.name.startswith("$"):
                    value = values.get(value.name)
                values[name] = value
                is_array = isinstance(self.type_of(assignment.target), types.Array)
                is_phi = isinstance(value, ir.Expr) and value.op == "phi"
                if not is_array or is_phi or name not in group:
                    continue
                is_new = False
                if isinstance(value, ir.Expr) and value.op not in _PARTS:
                    is_new = value.op != "call" or self._makes_array(value.func)
                if is_new and root(name) in seen:
                    self.findings.assigned.add((self.function, root(name)))
                seen.add(root(name))

    def _makes_array(self, function: ir.Var) -> bool:
        """Whether a called function of NumPy's, or method, has a new array as its result."""
        is_method = isinstance(self.typemap[function.name], types.BoundFunction)
        return is_method or self._is_numpy(function)

    def _declare_variable(
        self, name: str, group: str, numba_type: Any, roots: dict[str, Memory]
    ) -> None:
        """A version of a variable: which memory it is. Of a tuple, each part is a variable."""
        if isinstance(numba_type, types.Array):
            self._array_groups[name] = group
            return
        if isinstance(numba_type, types.BaseTuple):
            parts = []
            for number, part in enumerate(numba_type):  # pyright: ignore
                parts.append(f"{name}[{number}]")
                if parts[-1] not in self.typemap:
                    self.typemap[parts[-1]] = part
                self._declare_variable(parts[-1], f"{group}[{number}]", part, roots)
            self._tuples[name] = tuple(parts)
            return
        if isinstance(numba_type, types.NoneType):
            return
        try:
            dtype = _dtype(numba_type)
        except TypeError:
            what = f"a variable of type {numba_type} that several lines give a value to"
            raise refused(self._location_of(name), what) from None
        if group not in roots:
            base = re.sub(r"\W.*", "", group.strip("$")) or "v"
            roots[group] = self.builder.memory(base, dtype)
        self._variables[name] = roots[group]

    def _is_same_type(self, a: Any, b: Any) -> bool:
        """Of arrays, dtype and number of axes."""
        first, second = self.type_of(a), self.type_of(b)
        if isinstance(first, types.Array) and isinstance(second, types.Array):
            return (first.dtype, first.ndim) == (second.dtype, second.ndim)
        return first == second

    def _group_swaps(self, group: dict[str, str], root: Callable[[str], str]) -> None:
        """Of arrays that are swapped, versions of one that meet nowhere are still one name."""
        versions: dict[str, list[str]] = {}
        moved: list[set[str]] = []  # by block: variables that are given other variables' arrays
        for block in self.blocks.values():
            own = set()
            for assignment in block.find_insts(ir.Assign):
                target, value = assignment.target, assignment.value
                is_array = isinstance(self.type_of(target), types.Array)
                if not is_array or target.name.startswith("$"):
                    continue
                versions.setdefault(target.unversioned_name, []).append(target.name)
                if isinstance(value, ir.Var):
                    own.add(target.unversioned_name)
            moved.append(own)
        while True:
            size = len(group)
            for own in moved:
                names = [name for variable in own for name in versions[variable]]
                if len(own) < 2 or not any(name in group for name in names):
                    continue
                for variable in own:
                    first, *others = versions[variable]
                    group.setdefault(first, first)
                    for name in others:
                        group.setdefault(name, name)
                        group[root(name)] = root(first)
            if size == len(group):
                return

    def _location_of(self, name: str) -> Any:
        for block in self.blocks.values():
            for assignment in block.find_insts(ir.Assign):
                if assignment.target.name == name:
                    return assignment.loc
        return self.location

    def _declare(self) -> None:
        for memory in dict.fromkeys(self._variables.values()):
            self.builder.body.append(Allocate(memory, (), 0.0))

    # Scopes.

    def meaning(self, variable: Any) -> Meaning:
        """What a variable stands for, here."""
        name = variable.name if isinstance(variable, ir.Var) else variable
        group = self._array_groups.get(name)
        for scope in reversed(self.scopes):
            if name in scope:
                found = scope[name]
                if isinstance(found, _Stale):
                    raise self.refused(*_ANOTHER_NAME)
                if isinstance(found, Known) and found.value is kernel_names.FORMER_SUM:
                    raise self.refused("what `cuda.atomic.add` returns")
                if group is None:
                    self._check_alias(name, found)
                return found
        if group is not None and group in self._arrays:
            return self._array_of(group)
        if name in self._tuples:
            return tuple([self.meaning(part) for part in self._tuples[name]])
        memory = self._variables.get(name)
        if memory is None:
            if isinstance(self.typemap.get(name), types.Array):
                if group is not None:
                    raise self.refused(f"the array `{name}`, which may have no value here,")
                self.findings.assigned.add((self.function, name))
                self.findings.early.add((self.function, name))
            self._found(self.findings.variables, name)
        current = self._current.get(memory.name)
        if current is not None and current != name:
            raise self.refused(f"the former value of `{name}`")
        scalar = self.builder.load(memory)
        self.scopes[-1][name] = scalar
        return scalar

    def value(self, variable: Any) -> Value:
        found = self.meaning(variable)
        if not isinstance(found, Scalar | bool | int | float):
            raise self.refused(f"a value of type {self.typemap[variable.name]} here")
        return found

    def bind(self, name: str, meaning: Meaning) -> None:
        self.scopes[-1][name] = meaning
        memory = self._variables.get(name)
        if memory is not None:
            if not isinstance(meaning, Scalar | bool | int | float):
                raise self.refused(f"`{name}`, a variable that several lines give a value to,")
            self.builder.store(memory, (), meaning)
            self._current[memory.name] = name
        elif _memories_of(meaning):
            self._made_in[name] = tuple([loop.header for loop in self._open_loops])

    def _check_alias(self, name: str, found: Meaning) -> None:
        """Names of an array that is swapped are that array only until it is."""
        if name not in self._made_in:
            return
        memories = _memories_of(found)
        for loop in self._open_loops:
            if loop.header in self._made_in[name]:
                continue
            if any(self._is_swapped_in(memory, loop) for memory in memories):
                raise self.refused(*_ANOTHER_NAME)

    def _is_swapped_in(self, memory: Memory, loop: _Loop) -> bool:
        groups = [g for g, array in self._arrays.items() if array == memory]
        if not groups:
            return False
        for label in loop.blocks:
            for assignment in self.blocks[label].find_insts(ir.Assign):
                is_phi = isinstance(assignment.value, ir.Expr) and assignment.value.op == "phi"
                if self._array_groups.get(assignment.target.name) in groups and not is_phi:
                    return True
        return False

    # Control flow.

    def _blocks_that_raise(self) -> frozenset[int]:
        """The blocks from which all ways end in an exception: nothing comes after them."""
        found: set[int] = set()
        while True:
            size = len(found)
            for label, block in self.blocks.items():
                targets = [target for target, _ in self.graph.successors(label)]
                raises = isinstance(block.body[-1], _RAISES)
                if raises or (targets and found.issuperset(targets)):
                    found.add(label)
            if size == len(found):
                return frozenset(found)

    def successors(self, label: int, loop: _Loop | None) -> list[int]:
        """Where the ways lead from a block, an inner loop being one block; -1 where they leave."""
        inner = self._inner_loop(label, loop)
        blocks = inner.body if inner is not None else {label}
        found = []
        for block in sorted(blocks):
            for target, _ in self.graph.successors(block):
                if inner is not None and target in inner.body:
                    continue
                if target in self._raising and label not in self._raising:
                    continue
                outside = loop is not None and (target not in loop.blocks or target == loop.header)
                found.append(-1 if outside else target)
        return list(dict.fromkeys(found)) or [-1]

    def _inner_loop(self, label: int, loop: _Loop | None) -> Any:
        if loop is not None and label == loop.header:
            return None
        return self.loops.get(label)

    def _meets(self, label: int, loop: _Loop | None) -> frozenset[int]:
        """The blocks that all ways from a block lead through, itself among them."""
        known = self._immediate.setdefault(-1 if loop is None else loop.header, {-1: frozenset()})
        stack = [label]
        while stack:
            block = stack[-1]
            if block in known:
                stack.pop()
                continue
            targets = self.successors(block, loop)
            missing = [t for t in targets if t not in known]
            if missing:
                if len(stack) > len(self.blocks) + 1:
                    raise self.refused("a loop that is entered in two places")
                stack += missing
                continue
            common = frozenset.intersection(*[known[t] for t in targets])
            known[block] = common | {block}
            stack.pop()
        return known[label]

    def _join(self, targets: list[int], loop: _Loop | None) -> int | None:
        """Where the ways from these blocks meet first."""
        sets = [self._meets(t, loop) if t != -1 else frozenset() for t in targets]
        common = frozenset.intersection(*sets)
        return max(common, key=lambda block: len(self._meets(block, loop)), default=None)

    def emit(self, label: int | None, stop: int | None, loop: _Loop | None) -> None:
        """Write what is done from a block up to another one, or to the end of the loop's pass."""
        while label is not None and label != stop:
            inner = self._inner_loop(label, loop)
            if inner is not None:
                label = self._emit_loop(label, inner, stop, loop)
                continue
            label = self._emit_block(label, stop, loop)

    def _way(self, target: int, stop: int | None, loop: _Loop | None) -> int | None:
        """Take the way to a block: where to go on, None where a pass or the function ends."""
        if loop is None or (target in loop.blocks and target != loop.header):
            return target
        if target in self._raising:
            return target
        if target != loop.header:
            assert loop.leave is not None
            self.builder.store(loop.leave, (), True)
            if loop.exit is not None:
                self.builder.store(loop.exit, (), loop.targets.index(target))
        return None

    def _emit_block(self, label: int, stop: int | None, loop: _Loop | None) -> int | None:
        self._current = {}
        self._block = self.blocks[label].body
        for statement in self._block[:-1]:
            self.location = statement.loc
            self.statement(statement)
        for target, value in self._casts.get(label, ()):
            self._give_cast(target, self.meaning(value))
        self._swap()
        self._current = {}
        last = self.blocks[label].body[-1]
        self.location = last.loc
        if isinstance(last, ir.Jump):
            return self._way(last.target, stop, loop)
        if isinstance(last, ir.Return):
            self._return(self.meaning(last.value))
            return None
        if isinstance(last, ir.Branch):
            return self._emit_branch(last, stop, loop)
        if isinstance(last, _RAISES):
            self._raise(last)
            return None
        raise self.refused(f"`{last}`")

    def _raise(self, statement: Any) -> None:
        """What the user's code raises: a built-in exception, with constants."""
        error = getattr(statement, "exc_class", None)
        arguments = statement.exc_args or () if isinstance(statement, ir.StaticRaise) else None
        name = getattr(error, "__name__", "")
        if error is np.linalg.LinAlgError:
            name = "np.linalg.LinAlgError"
        elif error is None or getattr(builtins, name, None) is not error:
            raise self.refused("`raise` of an exception that is not built in", got=str(error))
        if arguments is None or not all(isinstance(a, str | int | float) for a in arguments):
            advice = "a message that is a constant; or "
            raise self.refused("`raise` with a message that is computed", instead=advice)
        self.builder.body.append(Check(False, name, tuple(arguments)))

    def _emit_branch(self, branch: Any, stop: int | None, loop: _Loop | None) -> int | None:
        condition = self.value(branch.cond)
        if isinstance(condition, bool | int | float):
            return self._way(branch.truebr if condition else branch.falsebr, stop, loop)
        targets = [branch.truebr, branch.falsebr]
        if targets[0] == targets[1]:
            return self._way(targets[0], stop, loop)
        ends = [
            -1 if loop is not None and (t not in loop.blocks or t == loop.header) else t
            for t in targets
            if t not in self._raising
        ]
        join = self._join(ends, loop) if ends else None
        if join is None:
            join = stop if stop in ends else None
        statement = If(condition, [], [])
        self.builder.body.append(statement)
        for target, region in zip(targets, (statement.then, statement.otherwise), strict=True):
            with self.builder.region(region):
                self.scopes.append({})
                self.emit(self._way(target, join, loop), join, loop)
                self.scopes.pop()
        self._count_statements()
        return join

    def _count_statements(self) -> None:
        self._count += 1
        if self._count > _MOST_STATEMENTS:
            raise self.refused("a function with so many ways through its branches")

    def _emit_loop(
        self, header: int, inner: Any, stop: int | None, loop: _Loop | None
    ) -> int | None:
        """Write a loop; where to go on."""
        blocks = set(inner.body)
        targets = []
        for block in sorted(blocks):
            targets += [t for t, _ in self.graph.successors(block) if t not in blocks]
        targets = [t for t in dict.fromkeys(targets) if t not in self._raising]
        iterator = self._iterator(header)
        inside = _Loop(blocks, header, targets=targets)
        has_break = iterator is None or any(
            t not in blocks and t not in self._raising
            for block in blocks - {header}
            for t, _ in self.graph.successors(block)
        )
        if has_break:
            inside.leave = self.builder.allocate("leave", "bool", (), 0.0)
        body: list[Statement] = []
        at = self.blocks[header].body
        if iterator is not None:
            end = at[-1]
            # Without a break, the way out of a `for` loop is that of its header.
            assert isinstance(end, ir.Branch)
            inside.targets = targets = [end.falsebr, *[t for t in targets if t != end.falsebr]]
        if len(targets) > 1:
            inside.exit = self.builder.allocate("way", "int64", (), 0.0)
        self._open_loops.append(inside)
        if iterator is None:
            assert inside.leave is not None
            self.builder.body.append(While(inside.leave, body))
            with self.builder.region(body):
                self.scopes.append({})
                self.emit(self._emit_block(header, None, inside), None, inside)
                self.scopes.pop()
        else:
            self._emit_for(iterator, header, inside, body)
        self._open_loops.pop()
        self._count_statements()
        return self._after_loop(inside, stop, loop)

    def _after_loop(self, inside: _Loop, stop: int | None, loop: _Loop | None) -> int | None:
        targets = inside.targets
        if not targets:
            raise self.refused("a loop without an end")
        if inside.exit is None:
            return self._way(targets[0], stop, loop)
        ends = [
            -1 if loop is not None and (t not in loop.blocks or t == loop.header) else t
            for t in targets
        ]
        join = self._join(ends, loop)
        if join is None:
            join = stop if stop in ends else None
        way = self.builder.load(inside.exit)

        def write(number: int) -> None:
            if number == len(targets) - 1:
                self.emit(self._way(targets[number], join, loop), join, loop)
                return
            statement = If(self.builder.define("equal", way, number), [], [])
            self.builder.body.append(statement)
            rest = (
                lambda: self.emit(self._way(targets[number], join, loop), join, loop),
                lambda: write(number + 1),
            )
            for region, work in zip((statement.then, statement.otherwise), rest, strict=True):
                with self.builder.region(region):
                    self.scopes.append({})
                    work()
                    self.scopes.pop()

        write(0)
        return join

    def _iterator(self, header: int) -> Elements | None:
        for assignment in self.blocks[header].find_insts(ir.Assign):
            value = assignment.value
            if isinstance(value, ir.Expr) and value.op == "iternext":
                self.location = assignment.loc
                found = self.meaning(value.value)
                if not isinstance(found, Elements):
                    raise self.refused("a loop over this")
                return found
        return None

    def _emit_for(
        self, iterator: Elements, header: int, inside: _Loop, body: list[Statement]
    ) -> None:
        builder = self.builder
        index = builder.scalar("int64", "i")
        if iterator.kind == "range":
            span = iterator.parts[0]
            if span.step == 0 and not isinstance(span.step, Scalar):
                raise self.refused("range with a step of 0")
            ends = span.start, span.stop, span.step
            loop = For(index, *ends, body, inside.leave, span.is_parallel)
            element: Callable[[], Meaning] = lambda: index  # noqa: E731
        else:
            loop = For(index, 0, self._length(iterator), 1, body, inside.leave)
            element = lambda: self._element(iterator, index)  # noqa: E731
        builder.body.append(loop)
        block = self.blocks[header]
        first = next(
            a.target.name
            for a in block.find_insts(ir.Assign)
            if isinstance(a.value, ir.Expr) and a.value.op == "pair_first"
        )
        end = block.body[-1]
        with builder.region(body):
            self.scopes.append({})
            self._current = {}
            self._block = block.body
            for statement in block.body[:-1]:
                self.location = statement.loc
                value = statement.value if isinstance(statement, ir.Assign) else None
                if isinstance(value, ir.Expr) and value.op in ("iternext", "pair_second"):
                    continue
                if isinstance(value, ir.Expr) and value.op == "pair_first":
                    self.bind(first, element())
                    continue
                self.statement(statement)
            self._swap()
            self._current = {}
            self.emit(self._way(end.truebr, None, inside), None, inside)
            self.scopes.pop()

    # A `for` loop whose body always leaves it has at most one pass, and is no loop for Numba.

    def _on_iternext(self, target: Any, expression: Any) -> Meaning:
        iterator = self.meaning(expression.value)
        if not isinstance(iterator, Elements) or iterator.kind != "range":
            raise self.refused("a loop of one pass over this")
        span = iterator.parts[0]
        if isinstance(span.step, Scalar):
            raise self.refused("a loop of one pass with a step that is not a constant")
        has_pass = self.builder.define(
            "less" if span.step > 0 else "greater", span.start, span.stop
        )
        return (span.start, has_pass)

    def _on_pair_first(self, target: Any, expression: Any) -> Meaning:
        return self.meaning(expression.value)[0]

    def _on_pair_second(self, target: Any, expression: Any) -> Meaning:
        return self.meaning(expression.value)[1]

    def _length(self, iterator: Elements) -> Value:
        builder = self.builder
        if iterator.kind == "array":
            (array,) = iterator.parts
            return array.shape[0] if isinstance(array, View) else builder.size(array, 0)
        if iterator.kind == "range":
            span = iterator.parts[0]
            distance = builder.define("subtract", span.stop, span.start)
            ahead = builder.define("subtract", builder.define("add", distance, span.step), 1)
            if span.step != 1 or isinstance(span.step, Scalar):
                if isinstance(span.step, Scalar) or span.step < 0:
                    raise self.refused("zip or enumerate of a range with such a step")
                return builder.define("floor_divide", ahead, span.step, dtype="int64")
            return distance
        if iterator.kind == "enumerate":
            return self._length(iterator.parts[0])
        lengths = [self._length(part) for part in iterator.parts]
        result = lengths[0]
        for length in lengths[1:]:
            result = builder.define("minimum", result, length, dtype="int64")
        return result

    def _element(self, iterator: Elements, index: Scalar) -> Meaning:
        builder = self.builder
        if iterator.kind == "array":
            (array,) = iterator.parts
            memory = array.memory if isinstance(array, View) else array
            if self._is_swapped_in(memory, self._open_loops[-1]):
                raise self.refused("a loop over an array that is swapped in it")
            if array.rank > 1:
                return self.item(array, (index,))
            return self._load(array, (index,))
        if iterator.kind == "range":
            span = iterator.parts[0]
            return builder.define("add", span.start, builder.define("multiply", index, span.step))
        if iterator.kind == "enumerate":
            count = builder.define("add", index, iterator.start)
            return (count, self._element(iterator.parts[0], index))
        return tuple([self._element(part, index) for part in iterator.parts])

    def _return(self, result: Meaning) -> None:
        result = self._stored(result)
        if self._returns == 1 and len(self.scopes) == 1:
            self._result = result
            return
        if isinstance(result, Known) and result.value is None:
            self._result = result
            return
        parts = result if isinstance(result, tuple) else (result,)
        if self._returned is None:
            declared = self.state.return_type
            is_tuple = isinstance(declared, types.BaseTuple)
            given: list[Any] = [*declared] if is_tuple else [declared]  # pyright: ignore
            self._returned = [
                self._returned_memory(numba_type, part)
                for numba_type, part in zip(given, parts, strict=True)
            ]
            self._result = result
        for memory, part in zip(self._returned, parts, strict=True):
            if isinstance(part, Memory | View):
                self._copy(memory, part)
                continue
            cast = self.builder.define("cast", part, dtype=memory.dtype)  # pyright: ignore
            self.builder.store(memory, (), cast)

    def _returned_memory(self, numba_type: Any, part: Meaning) -> Memory:
        """Where a result is that is returned in several places."""
        if isinstance(part, Memory | View):
            return self._early_array("result", part)
        if not isinstance(part, Scalar | bool | int | float):
            raise self.refused("what is returned here")
        memory = self.builder.memory("result", _dtype(numba_type))
        body, start = self._start
        body.insert(start, Allocate(memory, (), 0.0))
        return memory

    # Statements.

    def statement(self, statement: Any) -> None:
        try:
            self._written(statement)
        except NotOfComplexNumbers as operation:
            raise self.refused(f"`{operation}` of complex numbers") from None

    def _written(self, statement: Any) -> None:
        if isinstance(statement, ir.Assign):
            self._assign(statement.target, statement.value)
        elif isinstance(statement, ir.SetItem):
            self.set_item(statement.target, self.meaning(statement.index), statement.value)
        elif isinstance(statement, ir.StaticSetItem):
            index = self._static_index(statement)
            self.set_item(statement.target, index, statement.value)
        elif not isinstance(statement, ir.Del):
            raise self.refused(f"`{statement}`")

    def _assign(self, target: Any, value: Any) -> None:
        if isinstance(value, ir.Expr) and value.op == "phi":
            return
        meaning = self._meaning_of(target, value)
        is_name = isinstance(value, ir.Var) and not target.name.startswith("$")
        is_copied = target.name in self._array_groups or target.name in self._tuples
        memories = _memories_of(meaning)
        if is_name and not is_copied and any(map(self._is_assigned, memories)):
            meaning = self._kept(meaning)
        self._give(target.name, meaning)

    def _give(self, name: str, meaning: Meaning) -> None:
        """Give a variable, or a part of one that is a tuple, its value."""
        if name in self._tuples:
            parts = self._tuples[name]
            if not isinstance(meaning, tuple) or len(meaning) != len(parts):
                raise self.refused("a variable that is a tuple")
            for part, value in zip(parts, meaning, strict=True):
                self._give(part, value)
            return
        group = self._array_groups.get(name)
        if group is None:
            self.bind(name, meaning)
            return
        if not isinstance(meaning, Memory | View):
            raise self.refused(f"`{name}`, which is one array here and another there,")
        if group in self._arrays:
            self._array_of(group)
            self.scopes[-1][name] = meaning
            self._pending[group] = (name, meaning)
        elif (self.function, group) in self.findings.assigned:
            self._arrays[group] = self._own_array(group, meaning)
            self._copy(self._arrays[group], meaning)
        elif isinstance(meaning, Memory):
            self._arrays[group] = meaning
            self._array_scopes[group] = self.scopes[-1]
        else:
            self._found(self.findings.assigned, group)

    def _give_cast(self, name: str, meaning: Meaning) -> None:
        """Give a variable a value of another type."""
        if isinstance(meaning, tuple):
            for part, value in zip(self._tuples[name], meaning, strict=True):
                self._give_cast(part, value)
        elif name in self._variables and isinstance(meaning, Scalar | bool | int | float):
            memory = self._variables[name]
            cast = self.builder.define("cast", meaning, dtype=memory.dtype)
            self.builder.store(memory, (), cast)
        else:
            self._give(name, meaning)

    def _found(self, findings: set[tuple[Any, str]], *names: str) -> NoReturn:
        findings |= {(self.function, name) for name in names}
        raise _Again

    # Variables that are given other arrays have memory of their own, to which these are copied.
    # Where Python would then have two names of one array, nobody may write to it: `_check_copies`.

    def _array_of(self, group: str) -> Memory:
        """The array of several versions of a variable."""
        if not any(scope is self._array_scopes[group] for scope in self.scopes):
            # It was made in a branch or loop, and is used outside.
            self.findings.assigned.add((self.function, group))
            self._found(self.findings.early, group)
        return self._arrays[group]

    def _is_assigned(self, memory: Memory) -> bool:
        return any(
            (self.function, group) in self.findings.assigned and array == memory
            for group, array in self._arrays.items()
        )

    def _own_array(self, group: str, like: Memory | View) -> Memory:
        builder = self.builder
        base, shape = re.sub(r"\W.*", "", group.strip("$")) or "values", self.shape(like)
        if (self.function, group) not in self.findings.early:
            self._array_scopes[group] = self.scopes[-1]
            return builder.allocate(base, like.dtype, shape)
        self._array_scopes[group] = self.scopes[0]
        return self._early_array(base, like)

    def _early_array(self, base: str, like: Memory | View) -> Memory:
        """An array where the function begins, of the shape that another one has here."""
        region: list[Statement] = []
        try:
            early = self.builder.again(self.shape(like), self._visible, region)
        except LookupError:
            what = "an array that is made in a loop or branch and used outside"
            advice = "np.empty of its shape before that; or "
            raise self.refused(what, got=base, instead=advice) from None
        with self.builder.region(region):
            memory = self.builder.allocate(base, like.dtype, early, 0.0)
        body, start = self._start
        body[start:start] = region
        return memory

    def _kept(self, array: Meaning) -> Meaning:
        """An array that stays what it is where the variable is given another."""
        if isinstance(array, tuple):
            return tuple([self._kept(part) for part in array])
        if not isinstance(array, Memory | View):
            return array
        memory = self.builder.allocate("kept", array.dtype, self.shape(array))
        self._copy(memory, array)
        return memory

    def _copy(self, memory: Memory, source: Memory | View, *, is_moved: bool = False) -> None:
        builder = self.builder
        for length, other in zip(self.shape(source), self.shape(memory), strict=True):
            what = self.problem("a variable that is given arrays of several shapes")
            builder.check(
                builder.equal_lengths(length, other), what, [self.shape(memory), self.shape(source)]
            )
        view = source if isinstance(source, View) else builder.whole(source)

        def store(at: tuple[Value, ...]) -> None:
            builder.store(memory, at, builder.load_view(view, *at))

        array_expressions.loops(builder, view.shape, store)
        self.share(memory, view.memory, is_moved=is_moved)

    def share(self, memory: Memory, source: Memory, *, is_moved: bool = False) -> None:
        """The statement that was written last copies what Python has no copy of."""
        statement = self.builder.body[-1]
        self.findings.copies |= {id(s) for s in walk([statement])}
        self.findings.shared.append(_Shared(memory, source, statement, self.location, is_moved))

    def _swap(self) -> None:
        """At the end of a block: names of arrays that are given other arrays."""
        pending = self._pending
        self._pending = {}
        moved = {g: new for g, (_, new) in pending.items() if new != self._arrays[g]}
        for name, _ in pending.values():
            self.scopes[-1].pop(name, None)
        if not moved:
            return
        names = [self._arrays[g] for g in moved]
        sources = [m.memory if isinstance(m, View) else m for m in moved.values()]
        is_swap = set(names) == set(moved.values()) and len(set(names)) == len(names)
        others = [g for g in moved if (self.function, g) not in self.findings.assigned]
        if others and not (is_swap and len(others) == len(moved)):
            self._found(self.findings.assigned, *others)
        for group, memory in self._arrays.items():
            if memory in names and group not in moved:
                self._found(self.findings.assigned, *moved, group)
        for scope in self.scopes:
            for name, found in scope.items():
                if not _memories_of(found).isdisjoint(names):
                    scope[name] = _Stale()
        if is_swap:
            given = frozenset().union(*map(_memories_of, self._arguments))
            if len(self.callers) > 1 and not given.isdisjoint(names):
                # Who calls would find them swapped.
                raise self.refused(
                    "a swap of arguments in a function that another one calls",
                    instead="the swap where that function is called, or a .copy() of these; or ",
                )
            self._check_swapped(names)
            arrays = [m for m in moved.values() if isinstance(m, Memory)]
            self.builder.body.append(Swap(tuple(names), tuple(arrays)))
            return
        # All are read before one is written.
        arrays = []
        for source, array in zip(sources, moved.values(), strict=True):
            if source not in names:
                arrays.append(array)
                continue
            between = self.builder.allocate("kept", array.dtype, self.shape(array))
            self._copy(between, array, is_moved=True)
            arrays.append(between)
        for memory, array in zip(names, arrays, strict=True):
            self._copy(memory, array)

    def _check_swapped(self, names: Sequence[Memory]) -> None:
        builder, shapes = self.builder, [self.shape(memory) for memory in names]
        for shape in shapes[1:]:
            for length, other in zip(shape, shapes[0], strict=True):
                what = self.problem("arrays of several shapes that are swapped")
                builder.check(builder.equal_lengths(length, other), what, shapes)

    def _meaning_of(self, target: Any, value: Any) -> Meaning:
        if isinstance(value, ir.Arg):
            return self._argument(target, value)
        if isinstance(value, ir.Const):
            return self._constant(value.value)
        if isinstance(value, ir.Global | ir.FreeVar):
            return self._constant(value.value)
        if isinstance(value, ir.Var):
            return self.meaning(value)
        if isinstance(value, ir.Expr):
            return self._expression(target, value)
        raise self.refused(f"`{value}`")

    def _argument(self, target: Any, value: Any) -> Meaning:
        meaning = self._arguments[value.index]
        numba_type = self.type_of(target)
        if isinstance(meaning, Scalar | bool | int | float):
            return self.builder.define("cast", meaning, dtype=_dtype(numba_type))
        return meaning

    def _constant(self, value: Any) -> Meaning:
        if isinstance(value, bool | int | float):
            return value
        if isinstance(value, np.bool_ | np.integer | np.floating):
            if isinstance(value, np.float32):  # pyright: ignore
                return self.builder.define("cast", float(value), dtype="float32")
            return value.item()
        if isinstance(value, complex | np.generic) and np.iscomplexobj(value):
            dtype = str(getattr(value, "dtype", "complex128"))
            parts = float(value.real), float(value.imag)
            return self.builder.define("complex", *parts, dtype=dtype)
        if type(value) is tuple:
            return tuple(map(self._constant, value))
        if isinstance(value, np.ndarray):
            return self._constant_array(value)
        return Known(value)

    def _constant_array(self, array: np.ndarray) -> Memory:
        """A global array: its elements are a part of the text, as in Numba."""
        if array.size > _MOST_CONSTANTS or array.dtype.kind not in "biufc" or not array.ndim:
            what = f"a global array of {array.dtype} and shape {array.shape}"
            raise self.refused(what, instead="an argument in its place; or ")
        key = id(array)
        if key not in self._constants:
            region: list[Statement] = []
            with self.builder.region(region):
                memory = self.builder.allocate("constant", str(array.dtype), array.shape)
                for place in np.ndindex(array.shape):
                    self.builder.store(memory, place, self._constant(array[place].item()))
            body, start = self._start
            body[start:start] = region
            self._constants[key] = memory
        return self._constants[key]

    def _expression(self, target: Any, expression: Any) -> Meaning:
        operation = expression.op
        handler = getattr(self, f"_on_{operation}", None)
        if handler is None:
            raise self.refused(f"`{operation}`")
        return handler(target, expression)

    def _on_cast(self, target: Any, expression: Any) -> Meaning:
        meaning: Any = self.meaning(expression.value)
        if isinstance(meaning, Scalar | bool | int | float):
            return self.builder.define("cast", meaning, dtype=_dtype(self.type_of(target)))
        return meaning

    def _on_binop(self, target: Any, expression: Any) -> Meaning:
        return self._operation(target, expression.fn, [expression.lhs, expression.rhs])

    def _on_inplace_binop(self, target: Any, expression: Any) -> Meaning:
        left = self.meaning(expression.lhs)
        if isinstance(left, Memory | View | array_expressions.Expression):
            return self.array("inplace", target, (expression.immutable_fn, left, expression.rhs))
        return self._operation(target, expression.immutable_fn, [expression.lhs, expression.rhs])

    def _on_unary(self, target: Any, expression: Any) -> Meaning:
        return self._operation(target, expression.fn, [expression.value])

    def _operation(self, target: Any, function: Any, variables: Sequence[Any]) -> Meaning:
        meanings = [self.meaning(v) for v in variables]
        if any(isinstance(m, Memory | View | array_expressions.Expression) for m in meanings):
            return self.array("operation", target, (function, meanings))
        if all(isinstance(m, tuple) for m in meanings) and function is operator.add:
            return meanings[0] + meanings[1]
        for m in meanings:
            if not isinstance(m, Scalar | bool | int | float):
                raise self.refused(f"`{getattr(function, '__name__', function)}` of this")
        name = _BINARY.get(function) or _UNARY.get(function)
        if function is operator.invert and dtype_of(meanings[0]) == "bool":
            name = "not"
        if name is None:
            raise self.refused(f"`{getattr(function, '__name__', function)}`")
        return self.scalar_operation(name, meanings, self.type_of(target))

    def scalar_operation(self, name: str, values: Sequence[Value], numba_type: Any) -> Value:
        """Of scalars, with a result of this type."""
        try:
            dtype = _dtype(numba_type)
        except TypeError:
            raise self.refused(f"a value of type {numba_type}") from None
        result = self.builder.define(name, *values, dtype=dtype)
        return result

    def _on_build_tuple(self, target: Any, expression: Any) -> Meaning:
        return tuple([self._stored(self.meaning(item)) for item in expression.items])

    def _on_build_list(self, target: Any, expression: Any) -> Meaning:
        if not self._is_used_at_once(target):
            instead = "an array, or a tuple; or "
            raise self.refused("a list that is more than the argument of a call", instead=instead)
        items = [self._stored(self.meaning(item)) for item in expression.items]
        return array_expressions.Listed(tuple(items))

    def _stored(self, meaning: Meaning) -> Meaning:
        """What may be looked at later: an expression is computed now."""
        if isinstance(meaning, array_expressions.Expression):
            return array_expressions.stored(self, meaning)
        return meaning

    def _on_exhaust_iter(self, target: Any, expression: Any) -> Meaning:
        found = self._stored(self.meaning(expression.value))
        count = expression.count
        if isinstance(found, Memory | View):
            length = self.shape(found)[0]
            problem = self.problem(f"not {count} values to unpack")
            self.builder.check(self.builder.equal_lengths(length, count), problem, [(length,)])
            return tuple([self.item(found, (k,)) for k in range(count)])
        if not isinstance(found, tuple) or len(found) != count:
            raise self.refused("what is unpacked here")
        return found

    def _on_getattr(self, target: Any, expression: Any) -> Meaning:
        found, name = self.meaning(expression.value), expression.attr
        if isinstance(found, Memory | View | array_expressions.Expression):
            if name == "shape":
                return self.shape(found)
            if name == "ndim":
                return found.rank
            if name == "size":
                result: Value = 1
                for length in self.shape(found):
                    result = self.builder.define("multiply", result, length)
                return result
            return self.array("attribute", target, (name, found))
        if isinstance(found, Scalar | bool | int | float):
            return self._attribute_of_number(target, name, found)
        if isinstance(found, tuple):
            fields = getattr(self.type_of(expression.value), "fields", ())
            if name in fields:
                return found[fields.index(name)]
        if isinstance(found, Known):
            if isinstance(found.value, kernel_names.Dim3):
                return self.builder.define(found.value.operation(name))
            if inspect.ismodule(found.value) or isinstance(found.value, type):
                return self._constant(getattr(found.value, name))
            raise self.refused(f"the attribute `{name}`")
        raise self.refused(f"the attribute `{name}`")

    def _attribute_of_number(self, target: Any, name: str, number: Value) -> Meaning:
        if name in ("real", "imag"):
            return self.scalar_operation(name, [number], self.type_of(target))
        if name in ("conjugate", "conj"):
            return array_expressions.Method("conjugate", number)
        raise self.refused(f"the attribute `{name}`")

    def shape(self, array: array_expressions.Array) -> tuple[Value, ...]:
        if not isinstance(array, Memory):
            return array.shape
        return tuple([self.builder.size(array, axis) for axis in range(array.rank)])

    def _static_index(self, expression: Any) -> Meaning:
        if expression.index_var is not None:
            return self.meaning(expression.index_var)
        return self._constant(expression.index)

    def _on_static_getitem(self, target: Any, expression: Any) -> Meaning:
        found = self.meaning(expression.value)
        if isinstance(found, tuple):
            if isinstance(expression.index, int):
                return found[expression.index]
            if isinstance(expression.index, slice):
                return found[expression.index]
        return self.item(found, self._static_index(expression), target)

    def _on_typed_getitem(self, target: Any, expression: Any) -> Meaning:
        return self._on_getitem(target, expression)

    def _on_getitem(self, target: Any, expression: Any) -> Meaning:
        found, index = self.meaning(expression.value), self.meaning(expression.index)
        if isinstance(found, tuple):
            if isinstance(index, int):
                return found[index]
            return self._one_of(found, index)
        return self.item(found, index, target)

    def _one_of(self, parts: tuple[Meaning, ...], index: Meaning) -> Meaning:
        """The part of a tuple that an integer says."""
        if all(isinstance(part, tuple) and len(part) == len(parts[0]) for part in parts):
            return tuple([self._one_of(inner, index) for inner in zip(*parts, strict=True)])
        numbers = [part for part in parts if isinstance(part, Scalar | bool | int | float)]
        dtypes = {dtype_of(part) for part in numbers}
        is_one = len(numbers) == len(parts) and len(dtypes) == 1 and len(parts) <= _MOST_PARTS
        if not is_one or not isinstance(index, Scalar):
            raise self.refused("a tuple with an index that is not a constant")
        place, result = self.wrapped(index, len(parts)), numbers[-1]
        for k, part in enumerate(numbers[:-1]):
            is_here = self.builder.define("equal", place, k)
            result = self.builder.define("select", is_here, part, result, dtype=dtypes.copy().pop())
        return result

    def item(self, found: Meaning, index: Meaning, target: Any = None) -> Meaning:
        """An element of an array, or a view."""
        if not isinstance(found, Memory | View | array_expressions.Expression):
            raise self.refused("an index of this")
        indices = index if isinstance(index, tuple) else (index,)
        if self._is_element(found, indices):
            return self._load(self._stored(found), indices)
        return self.array("item", target, (found, indices))

    def _is_element(self, array: array_expressions.Array, indices: tuple[Meaning, ...]) -> bool:
        return len(indices) == array.rank and all(
            isinstance(i, bool | int) or (isinstance(i, Scalar) and i.dtype[0] in "iu")
            for i in indices
        )

    def wrapped(self, index: Value, length: Value) -> Value:
        """An index of a view: a negative one counts from its end."""
        if isinstance(index, int):
            return index if index >= 0 else self.builder.define("add", length, index)
        is_negative = self.builder.define("less", index, 0)
        from_end = self.builder.define("add", index, length)
        return self.builder.define("select", is_negative, from_end, index, dtype="int64")

    def _load(self, array: Memory | View, indices: Sequence[Value]) -> Scalar:
        if isinstance(array, Memory):
            return self.builder.load(array, *indices)
        indices = [self.wrapped(i, n) for i, n in zip(indices, array.shape, strict=True)]
        return self.builder.load_view(array, *indices)

    def set_item(self, target: Any, index: Meaning, value: Any) -> None:
        array, meaning = self.meaning(target), self.meaning(value)
        indices = index if isinstance(index, tuple) else (index,)
        if not isinstance(array, Memory | View):
            raise self.refused("an assignment to an element of this")
        is_scalar = isinstance(meaning, Scalar | bool | int | float)
        if not self._is_element(array, indices) or not is_scalar:
            self.array("set_item", None, (array, indices, meaning))
            return
        self._store(array, indices, meaning)

    def _store(
        self,
        array: Memory | View,
        indices: Sequence[Value],
        value: Value,
        *,
        is_added: bool = False,
    ) -> None:
        if isinstance(array, Memory):
            self.builder.store(array, indices, value, is_added=is_added)
            return
        indices = [self.wrapped(i, n) for i, n in zip(indices, array.shape, strict=True)]
        self.builder.store_view(array, indices, value, is_added=is_added)

    def add_to_item(self, array: Meaning, index: Meaning, value: Meaning) -> None:
        """`array[index] += value`, which no other thread comes between."""
        indices = index if isinstance(index, tuple) else (index,)
        is_scalar = isinstance(value, Scalar | bool | int | float)
        is_array = isinstance(array, Memory | View)
        if not is_array or not is_scalar or not self._is_element(array, indices):
            raise self.refused("an atomic sum of this")
        self._store(array, indices, value, is_added=True)

    def _on_getiter(self, target: Any, expression: Any) -> Meaning:
        return self._elements(self.meaning(expression.value))

    def _elements(self, found: Meaning) -> Elements:
        if isinstance(found, Elements):
            return found
        if isinstance(found, Range):
            return Elements("range", (found,))
        found = self._stored(found)
        if isinstance(found, Memory | View):
            return Elements("array", (found,))
        raise self.refused("a loop over this")

    def _on_call(self, target: Any, expression: Any) -> Meaning:
        function = self.meaning(expression.func)
        arguments = [self.meaning(a) for a in expression.args]
        keywords = {name: self.meaning(a) for name, a in expression.kws}
        if expression.vararg is not None:
            raise self.refused("a call with *")
        is_method = isinstance(function, array_expressions.Method)
        called = function.value if isinstance(function, Known) else function
        found = self._in_loops(called, target, arguments, keywords)
        if found is not None:
            return found
        if is_method:
            return self.array("call", target, (function, arguments, keywords))
        if not isinstance(function, Known):
            raise self.refused("a call of this")
        if inspect.isfunction(called) and called in kernel_names.CALLS:
            return kernel_names.CALLS[called](self, arguments)
        if isinstance(called, Dispatcher) or inspect.isfunction(getattr(called, "py_func", None)):
            return self._inlined(called, expression, arguments, keywords)
        if isinstance(called, type) and issubclass(called, BaseException):
            return Known(called)  # What is raised has it, too.
        if isinstance(called, type) and hasattr(called, "_fields"):
            named = inspect.signature(called).bind(*arguments, **keywords)
            return named.args  # of a named tuple
        is_scalar = all(isinstance(a, Scalar | bool | int | float) for a in arguments)
        name = getattr(called, "__name__", str(called))
        if called in (enumerate, zip) and not (called is zip and keywords):
            start = keywords.get(
                "start", arguments[1] if called is enumerate and arguments[1:] else 0
            )
            parts = arguments[:1] if called is enumerate else arguments
            return Elements(called.__name__, tuple(map(self._elements, parts)), start)
        is_parallel = getattr(called, "__name__", "") == "prange"
        if called is range or is_parallel:
            return replace(self._range(arguments), is_parallel=is_parallel)
        if called is tuple and arguments and isinstance(arguments[0], tuple):
            return arguments[0]
        if called is len:
            if isinstance(arguments[0], tuple):
                return len(arguments[0])
            if isinstance(arguments[0], Memory | View | array_expressions.Expression):
                return self.shape(arguments[0])[0]
        if called is slice or called is types.SliceType:
            return slice(*arguments)
        if is_scalar and not keywords:
            found = self._scalar_call(called, target, arguments)
            if found is not None:
                return found
        if not is_scalar or _is_of_numpy(called):
            return self.array("call", target, (function, arguments, keywords))
        raise self.refused(f"a call of `{name}`")

    def _scalar_call(self, called: Any, target: Any, arguments: list[Value]) -> Meaning | None:
        numba_type = self.type_of(target)
        try:
            name = _FUNCTIONS.get(called)
        except TypeError:
            return None
        if name is not None and len(arguments) == OPERATIONS[name].template.count("{"):
            return self.scalar_operation(name, arguments, numba_type)
        if called in (max, min):
            # Python's max is the first of equals; the second is taken only if it is larger.
            result = arguments[0]
            for argument in arguments[1:]:
                dtype = _dtype(numba_type)
                larger = (argument, result) if called is max else (result, argument)
                condition = self.builder.define("greater", *larger)
                result = self.builder.define("select", condition, argument, result, dtype=dtype)
            return result
        if called is complex and len(arguments) == 2:
            return self.scalar_operation("complex", arguments, numba_type)
        is_type = called in (float, int, complex) or (
            isinstance(called, type) and issubclass(called, np.generic)
        )
        if is_type and len(arguments) == 1:
            return self.builder.define("cast", arguments[0], dtype=_dtype(numba_type))
        if called is round or called is np.round:
            return None
        return None

    def _range(self, arguments: list[Value]) -> Range:
        if not all(isinstance(a, Scalar | bool | int) for a in arguments):
            raise self.refused("range of this")
        if len(arguments) == 1:
            return Range(0, arguments[0], 1)
        start, stop, *step = arguments
        return Range(start, stop, step[0] if step else 1)

    def _inlined(
        self, called: Any, expression: Any, arguments: list[Meaning], keywords: dict[str, Meaning]
    ) -> Meaning:
        plain = called.py_func
        if plain in self.callers:
            raise self.refused(f"recursion: `{plain.__name__}` calls itself")
        signature = inspect.signature(plain)
        bound = signature.bind(*range(len(arguments)), **{k: k for k in keywords})
        kinds = {a: self.type_of(v) for a, v in enumerate(expression.args)}
        kinds |= {name: self.type_of(v) for name, v in expression.kws}
        values: list[Meaning] = []
        numba_types: list[Any] = []
        for name, parameter in signature.parameters.items():
            if name in bound.arguments:
                key = bound.arguments[name]
                values.append(keywords[key] if isinstance(key, str) else arguments[key])
                numba_types.append(kinds[key])  # pyright: ignore
            else:
                values.append(self._constant(parameter.default))
                numba_types.append(types.unliteral(_typeof(parameter.default)))
        values = list(map(self._stored, values))
        return self._inline(plain, values, numba_types)

    def _inline(
        self, plain: Any, values: Sequence[Meaning], numba_types: Sequence[types.Type]
    ) -> Meaning:
        inner = Translation(self.builder, plain, numba_types, self.findings, self.callers)
        return inner.run(values)

    def inline(self, functions: Any, key: tuple[int | str, ...], *values: Meaning) -> Meaning:
        """One of `numpy_in_loops`, by numbers of axes."""
        if key not in functions:
            return None
        function = functions[key]
        given = list(map(self._stored, values))
        rest = list(inspect.signature(function).parameters.values())[len(given) :]
        given += [parameter.default for parameter in rest]
        return self._inline(function, given, list(map(self._type_of_meaning, given)))

    def _type_of_meaning(self, meaning: Meaning) -> types.Type:
        if isinstance(meaning, Memory | View):
            layout = "C" if isinstance(meaning, Memory) else "A"
            return types.Array(from_dtype(np.dtype(meaning.dtype)), meaning.rank, layout)
        if not isinstance(meaning, Scalar | bool | int | float):
            raise self.refused("an argument like this")
        return from_dtype(np.dtype(dtype_of(meaning)))

    def _in_loops(
        self, called: Any, target: Any, arguments: list[Meaning], keywords: dict[str, Meaning]
    ) -> Meaning | None:
        """A call of a function of NumPy that `numpy_in_loops` has; None of another."""
        if isinstance(called, array_expressions.Method):
            arguments = [called.array, *arguments]
            called = numpy_in_loops.METHODS.get(called.name)
        try:
            functions = numpy_in_loops.FUNCTIONS.get(called)
        except TypeError:
            return None
        if functions is None:
            return None
        values = list(inspect.signature(called).bind(*arguments, **keywords).arguments.values())
        strings = [v.value for v in values if isinstance(v, Known) and isinstance(v.value, str)]
        values = [v for v in values if not isinstance(v, Known)]
        ranks = [0 if isinstance(v, bool | int | float) else getattr(v, "rank", 0) for v in values]
        key = *ranks, *strings
        if key not in functions:
            return None
        has_complex = any(map(array_expressions.is_complex, values))
        if has_complex and called not in numpy_in_loops.OF_COMPLEX:
            raise self.refused(f"`{called.__name__}` of complex numbers")
        result = self.inline(functions, key, *values)
        expected = self.type_of(target)
        if isinstance(result, tuple):
            return result
        if isinstance(result, Scalar | bool | int | float):
            return self.builder.define("cast", result, dtype=_dtype(expected))
        is_expected = isinstance(expected, types.Array) and isinstance(result, Memory | View)
        if not is_expected or result.dtype != str(expected.dtype):
            raise self.refused(f"a call of `{called.__name__}` with these arguments")
        return result

    def array(self, what: str, target: Any, request: tuple[Any, ...]) -> Meaning:
        """What code with arrays stands for: by `array_expressions`."""
        numba_type = None if target is None else self.type_of(target)
        result = array_expressions.lowered(self, what, numba_type, request)
        if isinstance(result, array_expressions.Expression) and not self._is_used_at_once(target):
            return array_expressions.stored(self, result)
        return result

    def _is_used_at_once(self, target: Any) -> bool:
        """Whether a value is used once, in its block, before anything is written."""
        if target is None or not target.name.startswith("$"):
            return False
        uses = 0
        for block in self.blocks.values():
            for statement in block.body:
                names = [v.name for v in statement.list_vars()]
                is_own = isinstance(statement, ir.Assign) and statement.target.name == target.name
                uses += target.name in names and not is_own
        if uses != 1:
            return False
        following = iter(self._block)
        for statement in following:
            if isinstance(statement, ir.Assign) and statement.target.name == target.name:
                break
        for statement in following:
            if any(v.name == target.name for v in statement.list_vars()):
                return not (
                    isinstance(statement, ir.Assign) and isinstance(statement.value, ir.Var)
                ) and not isinstance(statement, ir.Return)
            if not isinstance(statement, ir.Assign):
                return False
            value = statement.value
            if not isinstance(value, ir.Expr) or value.op in _HARMLESS:
                continue
            if value.op != "call" or not self._is_numpy(value.func):
                return False
        return False

    def _is_numpy(self, function: Any) -> bool:
        kind = self.typemap[function.name]
        key = getattr(kind, "typing_key", None)
        return (getattr(key, "__module__", None) or "").split(".")[0] in (
            "numpy",
            "builtins",
            "math",
        )

    def operation_name(self, function: Any) -> str | None:
        """The scalar operation of a function of Python or NumPy."""
        try:
            return _BINARY.get(function) or _UNARY.get(function) or _FUNCTIONS.get(function)
        except TypeError:
            return None

    def dtype_of(self, numba_type: Any) -> str:
        return _dtype(numba_type)

    def known(self, value: Any) -> Meaning:
        return Known(value)

    def written_memories(self, body: list[Statement]) -> set[Memory]:
        """Those that are written to; swapped ones are written if one of them is."""
        return written(body)


def _is_of_numpy(function: Any) -> bool:
    # Methods of instances, such as `random.random`, have None there.
    return (getattr(function, "__module__", None) or "").startswith("numpy")


_ANOTHER_NAME = (
    "another name, or a view, of an array whose variable has been given another array since,",
    "",
    "a .copy() of it; or ",
)


class _Stale:
    """A name of an array that has been swapped, or overwritten, since."""


def _memories_of(meaning: Meaning) -> frozenset[Memory]:
    """The arrays that something reads."""
    if isinstance(meaning, Memory):
        return frozenset([meaning])
    if isinstance(meaning, View):
        return frozenset([meaning.memory])
    if isinstance(meaning, array_expressions.Expression):
        return frozenset([view.memory for view in meaning.reads])
    if isinstance(meaning, array_expressions.Method):
        return _memories_of(meaning.array)
    if isinstance(meaning, Elements):
        return _memories_of(meaning.parts)
    if isinstance(meaning, array_expressions.Listed):
        return _memories_of(meaning.items)
    if isinstance(meaning, tuple):
        return frozenset([memory for part in meaning for memory in _memories_of(part)])
    return frozenset()


def _check_copies(body: list[Statement], findings: _Findings, parameters: Sequence[Memory]) -> None:
    """Refuse writing to elements of what Python has one array for, and the tree two."""
    places: dict[int, tuple[int, tuple[int, ...]]] = {}  # of statements, with the loops around them
    depths: dict[Memory, int] = {}  # of the places where arrays are made
    uses: list[Load | Store] = []

    def visit(statements: list[Statement], loops: tuple[int, ...]) -> None:
        for s in statements:
            places[id(s)] = len(places), loops
            if isinstance(s, Allocate):
                depths[s.memory] = len(loops)
            elif isinstance(s, Load | Store) and s.memory.rank:
                uses.append(s)
            inner = (*loops, id(s)) if isinstance(s, For | While) else loops
            for region in nested(s):
                visit(region, inner)

    visit(body, ())
    groups = swapped_together(body)
    for shared in findings.shared:
        if shared.is_moved:
            continue
        place, loops = places[id(shared.statement)]
        own = {id(s) for s in walk([shared.statement])}
        depth = depths.get(shared.source, 0)
        later = []
        for s in uses:
            other, around = places[id(s)]
            # In a loop that is inside of the one where the source is made, what stands before comes
            # after it, too.
            common = sum(a == b for a, b in zip(loops, around, strict=False))
            if id(s) not in own and (other > place or common > depth):
                later.append(s)
        same = groups.get(shared.source, frozenset([shared.source]))
        if shared.source not in parameters and not any(s.memory in same for s in later):
            continue
        size = 0
        while size != len(same):
            size = len(same)
            same |= {s.copy for s in findings.shared if s.source in same}
            same |= {name for memory in same for name in groups.get(memory, ())}
        for s in later:
            if isinstance(s, Store) and s.memory in same and id(s) not in findings.copies:
                raise refused(
                    shared.location,
                    "an array that gets a second name or shape here, and is written to later,",
                    instead="a .copy() here, if it is another array; or ",
                )


def _typeof(value: Any) -> Any:
    from numba import typeof

    return typeof(value)
