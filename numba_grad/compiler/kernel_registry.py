"""What kernel source means to Numba, in registries of our own: a user's `@njit` sees none of it.

`intrinsic`, `typed`, `lowered` and `represented` are Numba's `intrinsic`, `infer_global`,
`lower_builtin` and `register_default`, which register for everybody. The contexts of `front_end.py`
alone install these registries, next to Numba's.

Private parts of Numba live here, in `kernel_*.py` and in `front_end.py`; tested with Numba 0.68.
"""

from collections.abc import Callable
from typing import Any

from numba.core import types
from numba.core.datamodel import default_manager, registry
from numba.core.datamodel.manager import DataModelManager
from numba.core.imputils import Registry as LoweringRegistry
from numba.core.typing.templates import Registry as TypingRegistry
from numba.core.typing.templates import _IntrinsicTemplate
from numba.extending import _Intrinsic

TYPING = TypingRegistry()
LOWERING = LoweringRegistry("numba_grad")
MODELS = DataModelManager().chain(default_manager)

typed = TYPING.register_global
lowered = LOWERING.lower


def represented(kind: type[types.Type]) -> Callable[[Any], Any]:
    """Decorates the data model of a type."""
    return registry.register(MODELS, kind)


class _Template(_IntrinsicTemplate):
    def _get_target_registry(self, reason: str) -> LoweringRegistry:
        return LOWERING


class Intrinsic(_Intrinsic):
    """One of the names of kernel source."""

    def _register(self) -> None:
        members = {
            "key": self,
            "_definition_func": staticmethod(self._defn),
            "_impl_cache": {},
            "_overload_cache": {},
            "prefer_literal": self._prefer_literal,
            "metadata": {},
        }
        template = type(self._name, (_Template,), members)
        TYPING.register(template)
        TYPING.register_global(self, types.Function(template))


def intrinsic(definition: Callable[..., Any]) -> Intrinsic:
    """Decorates `typing(typing_context, *types)`, which gives a signature and what writes code."""
    return _intrinsic(definition, prefer_literal=False)


def literal_intrinsic(definition: Callable[..., Any]) -> Intrinsic:
    """As `intrinsic`, of a function that looks at the values of constants."""
    return _intrinsic(definition, prefer_literal=True)


def _intrinsic(definition: Callable[..., Any], *, prefer_literal: bool) -> Intrinsic:
    result = Intrinsic(definition.__name__, definition, prefer_literal=prefer_literal)
    result._register()
    return result
