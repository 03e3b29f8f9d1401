"""The arguments of one call of a compiled function, and how it is known by them."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any

import numpy as np

from numba_grad.dtypes import kind_of
from numba_grad.errors import explain
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.inputs.arrays import as_node
from numba_grad.frontend.inputs.tracing import is_tracing
from numba_grad.frontend.tensors.python_numbers import Limit, is_number
from numba_grad.frontend.tensors.tensor import Tensor
from numba_grad.graph.types import Type, array_type

ARRAYS = (Tensor, np.ndarray, np.generic, bool, int, float, complex)


@dataclass(slots=True, eq=False)
class CallArguments:
    """The arguments of one call, static ones apart."""

    args: tuple[Any, ...]
    static_numbers: set[int]
    static_named: tuple[tuple[str, Any], ...]
    tree: tuple[tuple[Any, ...], dict[str, Any]]  # the others
    leaves: list[Any]
    structure: trees.Structure

    @property
    def is_plain(self) -> bool:
        """Whether a call with these only computes, and records nothing."""
        return not is_tracing() and not self.has_tensors

    @property
    def has_tensors(self) -> bool:
        return any(isinstance(x, Tensor) for x in self.leaves)

    @property
    def static(self) -> list[Any]:
        """The static arguments."""
        return [*[self.args[k] for k in self.static_numbers], *[x for _, x in self.static_named]]

    @property
    def around(self) -> list[Any]:
        """What code reaches through the arguments beside arrays: it may change."""
        return [*self.static, *trees.beside_leaves(self.tree)]

    @property
    def node_types(self) -> list[Type]:
        return [_type_of(x) for x in self.leaves]

    @property
    def types(self) -> tuple[Type, ...]:
        return tuple(self.node_types)

    @property
    def numbers(self) -> tuple[bool, ...]:
        """Which of the leaves are Python numbers, or stand for some: these are weakly typed."""
        return tuple([is_number(x) for x in self.leaves])

    def direct_key(self, limits: Sequence[Limit]) -> tuple[object, ...] | None:
        """What `Jitted.__call__` looks arguments of this signature up by, if it can: their types,
        and before these their structure, if they are not positional arguments only."""
        key: list[object] = []
        if self.static_numbers or self.static_named or directly(self.leaves, key, []) is None:
            return None
        if any(self.leaves[limit.number].__class__ is int for limit in limits):
            return None  # which are checked at each call
        is_flat = len(self.args) == len(self.leaves) and all(map(is_, self.args, self.leaves))
        return tuple(key) if is_flat else (self.structure, *key)

    def with_static(self, tree: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """args and kwargs, of a tree that is like that of the others."""
        dynamic_args, kwargs = tree
        rest = iter(dynamic_args)
        args = tuple(x if k in self.static_numbers else next(rest) for k, x in enumerate(self.args))
        return args, {**kwargs, **dict(self.static_named)}


def static_parameters(
    f: Callable[..., Any], numbers: Iterable[int], names: Iterable[str]
) -> tuple[frozenset[int], frozenset[str]]:
    """Positions and names of static arguments. What is said in one way holds for the other, as
    arguments may be given by position or by name; a number below 0 stays one only where `f` takes
    any number of arguments."""
    try:
        numbers, names = frozenset(numbers), frozenset(names)
    except TypeError:
        raise TypeError(
            explain(
                "jit",
                "static arguments are named by their positions or by their names",
                got={"static_argnums": repr(numbers), "static_argnames": repr(names)},
                expected="static_argnums: integers; static_argnames: text",
            )
        ) from None
    if not numbers and not names:
        return numbers, names
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):  # as of some functions in C
        return numbers, names
    kinds = {x.kind for x in parameters}
    positional = [x for x in parameters if x.kind in (x.POSITIONAL_ONLY, x.POSITIONAL_OR_KEYWORD)]
    named = {x.name for x in parameters if x.kind in (x.POSITIONAL_OR_KEYWORD, x.KEYWORD_ONLY)}
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        count = len(positional)
        _check_static("static_argnums", numbers - set(range(-count, count)), parameters)
        numbers = frozenset([k % count for k in numbers])
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        _check_static("static_argnames", names - named, parameters)
    by_number = [positional[k].name for k in numbers if 0 <= k < len(positional)]
    by_name = [k for k, x in enumerate(positional) if x.name in names & named]
    return numbers.union(by_name), names.union(named.intersection(by_number))


def _check_static(
    name: str, unknown: Iterable[Any], parameters: Iterable[inspect.Parameter]
) -> None:
    if unknown:
        raise ValueError(
            explain(
                "jit",
                f"{name} means no parameter of the function",
                got={name: ", ".join(map(repr, sorted(unknown)))},
                expected=f"parameters among ({', '.join(map(str, parameters))})",
            )
        )


def directly(leaves: Sequence[Any], key: list[object], values: list[Any]) -> bool | None:
    """Whether results are tensors, of arguments that are looked up as they are; None for others.

    Their types are added to `key`, and what a plan reads to `values`.
    """
    as_tensors = False
    for x in leaves:
        cls = x.__class__
        if cls is Tensor:
            node = x._node
            if node.value is None or node.requires_grad or node.autograd is not None:
                return None
            key.append(node.type)
            values.append(node.value)
            as_tensors = True
        elif cls is np.ndarray:
            dtype = x.dtype
            if not dtype.isnative:
                return None
            key += (x.shape, dtype)
            values.append(x if x.flags.c_contiguous else np.array(x, order="C"))
        elif cls is float:
            key.append(float)
            values.append(np.array(x))
        elif cls is int and -(1 << 63) <= x < 1 << 63:
            key.append(int)
            values.append(np.array(x))
        elif cls is np.float64:
            key += ((), x.dtype)
            values.append(np.array(x))
        else:
            return None
    return as_tensors


def _type_of(x: Any) -> Type:
    if isinstance(x, Tensor):
        return x._node.type
    array = x if isinstance(x, np.ndarray) else np.asarray(x)
    if array.dtype.isnative and kind_of(array.dtype) in "biufc":
        return array_type(array.shape, array.dtype)
    return as_node(x).type
