"""What `numba.guvectorize` has made, as an operation with derivatives."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from numba_grad.compiler.numba_functions.ufunc_signatures import core_axes
from numba_grad.errors import explain
from numba_grad.frontend.inputs.arrays import as_node, wrap
from numba_grad.frontend.vmap import vmap
from numba_grad.graph.node import Node
from numba_grad.ops.families import broadcast_to, cast, reshape


class DifferentiableGufunc:
    """A generalized ufunc made by `differentiable`. Call it on the inputs; what axes they have
    before those of the signature are broadcast, and are those of a batch."""

    def __init__(self, ufunc: Any, core: Callable[..., Any]) -> None:
        self.function = ufunc
        self.core = core  # of one member, with its results as the last arguments
        plain = ufunc.gufunc_builder.py_func
        self.__name__ = plain.__name__
        self.__doc__ = plain.__doc__
        self.__module__ = plain.__module__
        axes = core_axes(ufunc.signature)
        self._inputs, self._outputs = axes[: ufunc.nin], axes[ufunc.nin :]
        self._names = list(inspect.signature(plain).parameters)

    def __call__(self, *args: Any) -> Any:
        """The results, recorded: nothing is computed yet."""
        if len(args) != len(self._inputs):
            fix = repr(self)[1:-1].removeprefix("differentiable ")
            raise TypeError(explain(self.__name__, f"takes {len(self._inputs)} inputs", fix=fix))
        nodes, kinds = self._cast([as_node(x) for x in args])
        lengths = self._lengths(nodes)
        ranks = [len(axes) for axes in self._inputs]
        shapes = [x.shape[: len(x.shape) - rank] for x, rank in zip(nodes, ranks, strict=True)]
        outer = np.broadcast_shapes(*shapes)
        count = int(np.prod(outer))
        members: list[Any] = []
        for node, rank, shape, kind in zip(nodes, ranks, shapes, kinds, strict=False):
            core = node.shape[len(shape) :]
            if shape:
                node = reshape(broadcast_to(node, outer + core), (count, *core))
            if kind.is_array and not rank:
                node = reshape(node, (*node.shape, 1))  # of a scalar, an array with one element
            members.append(wrap(node))
        results = self._called(members, [0 if shape else None for shape in shapes], kinds, lengths)
        finals = []
        for result, axes in zip(results, self._outputs, strict=True):
            finals.append(result.reshape((*outer, *[lengths[name] for name in axes])))
        return finals[0] if len(finals) == 1 else tuple(finals)

    def _called(
        self,
        members: Sequence[Any],
        in_axes: list[int | None],
        kinds: Sequence["_Kind"],
        lengths: dict[str, int],
    ) -> tuple[Any, ...]:
        shapes = [tuple([lengths[name] for name in axes]) or (1,) for axes in self._outputs]
        dtypes = [kind.dtype for kind in kinds[len(self._inputs) :]]

        def member(*inputs: Any) -> tuple[Any, ...]:
            new = [np.zeros(*pair) for pair in zip(shapes, dtypes, strict=True)]
            results = self.core(*inputs, *new)
            results = results if isinstance(results, tuple) else (results,)
            return results[-len(new) :]  # before them are inputs that it writes to

        is_batch = any(axis == 0 for axis in in_axes)
        return vmap(member, tuple(in_axes))(*members) if is_batch else member(*members)

    def _cast(self, nodes: list[Node]) -> tuple[list[Node], list["_Kind"]]:
        """The inputs in the dtypes of the first declared types that hold them."""
        given = [x.dtype for x in nodes]
        for signature in self.function.gufunc_builder._sigs:
            kinds = [_Kind(numba_type) for numba_type in signature.args]
            if all(np.can_cast(a, kind.dtype) for a, kind in zip(given, kinds, strict=False)):
                pairs = zip(nodes, kinds, strict=False)
                return [cast(x, kind.dtype) for x, kind in pairs], kinds
        raise TypeError(
            explain(
                self.__name__,
                "has no declared types that hold these inputs",
                got={name: x.type for name, x in zip(self._names, nodes, strict=False)},
                expected="; ".join(map(str, self.function.types)) or "types, in numba.guvectorize",
            )
        )

    def _lengths(self, nodes: Sequence[Node]) -> dict[str, int]:
        """Of the axes in the signature."""
        found: dict[str, int] = {}
        for name, node, axes in zip(self._names, nodes, self._inputs, strict=False):
            last = node.shape[len(node.shape) - len(axes) :]
            fits = len(last) == len(axes)
            pairs = list(zip(axes, last, strict=False))
            if not fits or any(found.setdefault(axis, n) != n for axis, n in pairs):
                got = {name: node.type, **found}
                problem = "an input does not have the axes of the signature"
                signature = self.function.signature
                raise ValueError(explain(self.__name__, problem, got=got, expected=signature))
        return found

    def __repr__(self) -> str:
        inputs = ", ".join(self._names[: len(self._inputs)])
        outputs = ", ".join(self._names[len(self._inputs) :])
        return f"<differentiable {self.__name__}({inputs}) -> {outputs}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return DifferentiableGufunc, (self.function, self.core)


class _Kind:
    """What the function takes for an argument, as declared."""

    def __init__(self, numba_type: Any) -> None:
        self.is_array = hasattr(numba_type, "ndim")
        self.dtype = np.dtype(
            str(getattr(numba_type, "dtype", numba_type)).replace("boolean", "bool")
        )
