"""What names, operators and functions of a kernel mean for given types: asked of Numba."""

# pyright: reportAttributeAccessIssue=false, reportGeneralTypeIssues=false

import inspect
from collections.abc import Callable
from typing import Any

from numba.core import types

from numba_grad.compiler.kernel_language.registry import OPERATORS, Intrinsic
from numba_grad.immutable import immutable


@immutable
class _Call:
    """What a function is for arguments of given types."""

    signature: Any
    argument_types: tuple[Any, ...]
    implementation: Callable[..., Any]


class Meanings:
    """What names, operators and casts are for given types: asked of Numba once a process."""

    def __init__(self, typing_context: Any, target_context: Any) -> None:
        self.typing_context = typing_context
        self.target_context = target_context
        self._types: dict[Any, Any] = {}
        self._sees_literals: dict[Any, bool] = {}
        self._calls: dict[tuple[Any, tuple[Any, ...]], _Call | None] = {}

    def type_of_global(self, value: Any) -> Any:
        """What a name stands for: a function of ours, or Numba's type."""
        if isinstance(value, Intrinsic):
            return value
        found = self._types.get(value)
        if found is None:
            found = self._types[value] = self.typing_context.resolve_value_type(value)
        return found

    def of_call(self, function: Any, argument_types: tuple[Any, ...]) -> _Call | None:
        """A call of what a name stands for, or of an operator; None if there is no such thing."""
        sees_literals = self._sees_literals.get(function)
        if sees_literals is None:
            sees_literals = _sees_literals(OPERATORS.get(function) or self._type_of(function))
            self._sees_literals[function] = sees_literals
        if not sees_literals:  # so that x[7] means what x[8] does
            argument_types = tuple([types.unliteral(kind) for kind in argument_types])
        key = (function, argument_types)
        try:
            return self._calls[key]
        except KeyError:
            found = self._calls[key] = self._resolved(function, argument_types)
            return found

    def _type_of(self, function: Any) -> Any:
        return function if isinstance(function, types.Type) else self.type_of_global(function)

    def _resolved(self, function: Any, argument_types: tuple[Any, ...]) -> _Call | None:
        own = function if isinstance(function, Intrinsic) else OPERATORS.get(function)
        found = None if own is None else self._of_intrinsic(own, argument_types)
        if found is None and own is not function:
            found = self._of_function(function, own, argument_types)
        if found is None:
            return None
        signature, implementation = found
        return _Call(signature, tuple(signature.args), implementation)

    def _of_function(
        self, function: Any, own: Intrinsic | None, argument_types: tuple[Any, ...]
    ) -> tuple[Any, Callable[..., Any]] | None:
        """By Numba's types; what is `own` for these, by that."""
        kind = self._type_of(function)
        signature = self.typing_context.resolve_function_type(kind, argument_types, {})
        if signature is None:
            return None
        found = None if own is None else self._of_intrinsic(own, tuple(signature.args))
        if found is not None:
            return found
        return signature, self.target_context.get_function(kind, signature)

    def _of_intrinsic(
        self, own: Intrinsic, argument_types: tuple[Any, ...]
    ) -> tuple[Any, Callable[..., Any]] | None:
        definition = own.definition
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


def _sees_literals(function: Any) -> bool:
    if isinstance(function, Intrinsic):
        return function.sees_literals
    return any(template.prefer_literal for template in getattr(function, "templates", ()))
