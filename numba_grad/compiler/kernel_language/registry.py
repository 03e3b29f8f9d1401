"""What kernel source means to Numba, in registries of our own: a user's `@njit` sees none of it.

`intrinsic`, `typed`, `lowered` and `represented` are Numba's `intrinsic`, `infer_global`,
`lower_builtin` and `register_default`, which register for everybody. The contexts of `front_end.py`
alone install these registries, next to Numba's.

Private parts of Numba live here, in `kernel_*.py` and in `front_end.py`; tested with Numba 0.68.
"""

from collections.abc import Callable
from typing import Any

from numba.core import types
from numba.core.datamodel import registry
from numba.core.datamodel.manager import DataModelManager
from numba.core.extending import _Intrinsic
from numba.core.imputils import Registry as LoweringRegistry
from numba.core.typing.templates import Registry as TypingRegistry
from numba.core.typing.templates import _IntrinsicTemplate

TYPING = TypingRegistry()
LOWERING = LoweringRegistry("numba_grad")
MODELS = DataModelManager().chain(registry.default_manager)

typed = TYPING.register_global
lowered = LOWERING.lower


def represented(kind: type[types.Type]) -> Callable[[Any], Any]:
    """Decorates the data model of a type."""
    return registry.register(MODELS, kind)


class _Template(_IntrinsicTemplate):
    def _get_target_registry(self, reason: str) -> LoweringRegistry:
        return LOWERING


def intrinsic(definition: Callable[..., Any]) -> _Intrinsic:
    """Decorates `typing(typing_context, *types)`, which gives a signature and what writes code."""
    return _registered(definition, prefer_literal=False)


def literal_intrinsic(definition: Callable[..., Any]) -> _Intrinsic:
    """As `intrinsic`, of a function that looks at the values of constants."""
    return _registered(definition, prefer_literal=True)


def _registered(definition: Callable[..., Any], *, prefer_literal: bool) -> _Intrinsic:
    name = definition.__name__
    result = _Intrinsic(name, definition, prefer_literal=prefer_literal)
    members = {
        "key": result,
        "_definition_func": staticmethod(definition),
        "_impl_cache": {},
        "_overload_cache": {},
        "prefer_literal": prefer_literal,
        "metadata": {},
    }
    template = type(name, (_Template,), members)
    TYPING.register(template)
    TYPING.register_global(result, types.Function(template))
    return result
