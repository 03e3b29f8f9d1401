"""What names, operators and functions of a kernel mean for given types: asked of Numba."""

# pyright: reportAttributeAccessIssue=false, reportGeneralTypeIssues=false

import inspect
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numba.core import types
from numba.core.extending import _Intrinsic


@dataclass(frozen=True, slots=True)
class _Call:
    """What a function is for arguments of given types."""

    signature: Any
    argument_types: tuple[Any, ...]
    packed_from: int | None  # from this argument on they are passed as one tuple
    implementation: Callable[..., Any]


class Meanings:
    """What names, operators and casts are for given types: asked of Numba once a process."""

    def __init__(self, typing_context: Any, target_context: Any) -> None:
        self.typing_context = typing_context
        self.target_context = target_context
        self._types: dict[Any, Any] = {}
        self._intrinsics: dict[Any, Any] = {}
        self._sees_literals: dict[Any, bool] = {}
        self._calls: dict[tuple[Any, tuple[Any, ...]], _Call | None] = {}

    def type_of_global(self, value: Any) -> Any:
        found = self._types.get(value)
        if found is None:
            found = self._types[value] = self.typing_context.resolve_value_type(value)
            if isinstance(value, _Intrinsic):
                self._intrinsics[found] = value
        return found

    def of_call(self, function: Any, argument_types: tuple[Any, ...]) -> _Call | None:
        """A call of a Numba type, or of an operator; None if there is no such thing."""
        sees_literals = self._sees_literals.get(function)
        if sees_literals is None:
            sees_literals = _sees_literals(self._type_of(function))
            self._sees_literals[function] = sees_literals
        if not sees_literals:  # so that x[7] means what x[8] does
            argument_types = tuple([types.unliteral(kind) for kind in argument_types])
        key = (function, argument_types)
        try:
            return self._calls[key]
        except KeyError:
            found = self._calls[key] = self._resolved(self._type_of(function), argument_types)
            return found

    def _type_of(self, function: Any) -> Any:
        return function if isinstance(function, types.Type) else self.type_of_global(function)

    def _resolved(self, function: Any, argument_types: tuple[Any, ...]) -> _Call | None:
        intrinsic = self._intrinsics.get(function)
        found = (
            self._of_function(function, argument_types)
            if intrinsic is None
            else self._of_intrinsic(intrinsic._defn, argument_types)
        )
        if found is None:
            return None
        signature, implementation = found
        implementation = _instruction(function, signature) or implementation
        packed_from = None
        wanted = tuple(signature.args)
        if wanted and isinstance(wanted[-1], types.BaseTuple):
            packed_from = len(wanted) - 1
            wanted = (*wanted[:-1], *wanted[-1])
        return _Call(signature, wanted, packed_from, implementation)

    def _of_function(
        self, function: Any, argument_types: tuple[Any, ...]
    ) -> tuple[Any, Callable[..., Any]] | None:
        signature = self.typing_context.resolve_function_type(function, argument_types, {})
        if signature is None:
            return None
        return signature, self.target_context.get_function(function, signature)

    def _of_intrinsic(
        self, definition: Callable[..., Any], argument_types: tuple[Any, ...]
    ) -> tuple[Any, Callable[..., Any]] | None:
        """As Numba has it, without templates and overloads: a tenth of the time."""
        code = definition.__code__
        takes_any_number = bool(code.co_flags & inspect.CO_VARARGS)
        if not takes_any_number and code.co_argcount != 1 + len(argument_types):
            return None
        found = definition(self.typing_context, *argument_types)
        if found is None:
            without_values = tuple([types.unliteral(kind) for kind in argument_types])
            found = definition(self.typing_context, *without_values)
        if found is None:
            return None
        signature, write = found
        context = self.target_context

        def implementation(builder: Any, values: Any) -> Any:
            return write(context, builder, signature, values)

        return signature, implementation


_INTEGER_INSTRUCTIONS = {operator.add: "add", operator.sub: "sub", operator.mul: "mul"}
_FLOAT_INSTRUCTIONS = {operator.add: "fadd", operator.sub: "fsub", operator.mul: "fmul"}


def _instruction(function: Any, signature: Any) -> Callable[..., Any] | None:
    """What Numba comes to as well, for the operators that kernels have most of, if it is one
    instruction."""
    kinds = {*signature.args, signature.return_type}
    kind = kinds.pop()
    if kinds:
        return None
    if kind == types.int64 and function in _INTEGER_INSTRUCTIONS:
        name = _INTEGER_INSTRUCTIONS[function]
        return lambda builder, values: getattr(builder, name)(*values, flags=("nsw",))
    if isinstance(kind, types.Float) and function in _FLOAT_INSTRUCTIONS:
        name = _FLOAT_INSTRUCTIONS[function]
        return lambda builder, values: getattr(builder, name)(*values)
    return None


def _sees_literals(function: Any) -> bool:
    return any(template.prefer_literal for template in getattr(function, "templates", ()))
