"""`Function`: a user's own forward and backward, as one operation of the graph.

`forward` runs at once, without recording history, on tensors that are as lazy as any others. What
it recorded gives the values; the history of the results is one `custom` operation (ops/control.py)
whose inputs are the tensors that the user passed.
"""

import functools
import inspect
import sys
import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from numba_grad.autograd import forward_ad
from numba_grad.autograd.state import state_of
from numba_grad.autograd.tensor_class import is_tensor, new_tensor, tensor_of
from numba_grad.dtypes import is_inexact
from numba_grad.errors import GradientError, called, explain
from numba_grad.graph.node import OPS, Node, grad_mode, record, recording
from numba_grad.ops.control import custom_node, item
from numba_grad.ops.families import cast, full, sum_to
from numba_grad.transforms.vjp import released_error


@dataclass(slots=True, eq=False)
class _Kept:
    """What a context was told, apart from the user's own attributes."""

    function: "type[Function]"
    to_save: tuple[Any, ...] = ()
    to_save_for_forward: tuple[Any, ...] | None = None
    # Nodes, results as _SavedResult, None; None itself once freed.
    saved: list[Any] | None = field(default_factory=list)
    saved_for_forward: list[Any] | None = None
    runs_forward: bool = False  # `jvp` is running
    non_differentiable: tuple[Any, ...] = ()
    materialize_grads: bool = True
    call: weakref.ref[Node] | None = (
        None  # the operation, while `backward` runs; it holds this record
    )


@dataclass(slots=True, eq=False)
class _SavedResult:
    """A saved result. By number: its node would hold the context, which would hold it."""

    number: int
    node: weakref.ref[Node]


class Context:
    """`ctx`: what `forward` and `backward` of one call share. Any attribute may be set on it."""

    needs_input_grad: tuple[bool, ...]  # for each argument

    def __init__(self, kept: _Kept, needs_input_grad: tuple[bool, ...]) -> None:
        self._kept = kept
        self.needs_input_grad = needs_input_grad

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors (or None) for `backward`, which finds them in `saved_tensors`.

        They are freed with the history. Anything else goes on attributes of `ctx`.
        """
        self._kept.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep tensors (or None) for `jvp`, which finds them in `saved_tensors`.

        Without it, `jvp` finds there what `save_for_backward` kept.
        """
        self._kept.to_save_for_forward = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Say that these results have no gradient; `backward` still gets one for each, of zeros."""
        self._kept.non_differentiable = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        """Not supported: values never change, so `forward` cannot have written to its inputs."""
        raise NotImplementedError(
            explain(
                f"{self._kept.function.__name__}.forward",
                "ctx.mark_dirty is not supported: what is assigned to an input in `forward` is "
                "its new value, and not a result of this Function",
                fix="return the new value as a result",
            )
        )

    def set_materialize_grads(self, value: bool) -> None:
        """Whether `backward` gets zeros (the default) or None where no gradient arrived."""
        self._kept.materialize_grads = bool(value)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` kept; in `jvp`, what `save_for_forward` did."""
        kept = self._kept
        saved = kept.saved
        if kept.runs_forward and kept.saved_for_forward is not None:
            saved = kept.saved_for_forward
        if saved is None:
            raise released_error(None)
        return tuple([None if x is None else tensor_of(self._node_of(x)) for x in saved])

    def _node_of(self, saved: Node | _SavedResult) -> Node:
        if isinstance(saved, Node):
            return saved
        node = saved.node()
        if node is not None:
            return node
        call = None if self._kept.call is None else self._kept.call()
        if call is None:
            raise released_error(None)
        with recording(True):
            return record(item, (call,), {"number": saved.number})


class FunctionCall:
    """One call of a Function: what its operation carries."""

    __slots__ = (
        "_is_tensor",
        "_is_value",
        "_kept",
        "context",
        "name",
        "result_types",
        "tensor_count",
    )

    def __init__(self, function: "type[Function]", args: Sequence[Any]) -> None:
        self._kept = _Kept(function)
        self._is_tensor = [is_tensor(a) for a in args]
        self._is_value: list[bool] = []  # which of the returned are tensors
        self.name = f"{function.__name__}Backward"
        self.tensor_count = sum(self._is_tensor)
        self.result_types: list[Any] = []
        needs_grad = tuple([is_tensor(a) and a._node.requires_grad for a in args])
        self.context = Context(self._kept, needs_grad)

    def release(self) -> None:
        """Free what was saved, after a backward pass that does not retain the graph."""
        self._kept.saved = None

    @property
    def has_tangent(self) -> bool:
        """Whether the user wrote a `jvp`."""
        return self._kept.function.jvp is not Function.jvp

    def push_forward(self, tangents: Sequence[Node | None], operation: Node) -> list[Node | None]:
        """The user's `jvp`, from tangents of tensor arguments to those of results."""
        kept = self._kept
        kept.call = weakref.ref(operation)
        given = iter(zip(tangents, operation.inputs, strict=False))
        arguments = []
        for is_tensor_argument in self._is_tensor:
            t = None
            if is_tensor_argument:
                t, x = next(given)
                if t is None and kept.materialize_grads and is_inexact(x.dtype):
                    t = full(0, x.shape, x.dtype, x.type.device)
            arguments.append(None if t is None else tensor_of(t))
        before, kept.runs_forward = kept.runs_forward, True
        try:
            returned = kept.function.jvp(self.context, *arguments)
        finally:
            kept.runs_forward = before
        found = returned if isinstance(returned, tuple) else (returned,)
        if len(found) != len(self._is_value):
            raise GradientError(
                explain(
                    self._kept.function.__name__,
                    "jvp returned an incorrect number of tangents",
                    got={"returned": len(found), "results of forward": len(self._is_value)},
                    expected="one for each result; None for 0",
                )
            )
        of_values = [t for t, is_value in zip(found, self._is_value, strict=True) if is_value]
        return [
            None if t is None else self._tangent(number, t, type)
            for number, (t, type) in enumerate(zip(of_values, self.result_types, strict=True))
        ]

    def _tangent(self, number: int, tangent: Any, type: Any) -> Node:
        name = self._kept.function.__name__
        if not is_tensor(tangent):
            raise GradientError(
                f"{name}: expected a Tensor or None for result {number}, but jvp returned "
                f"{tangent.__class__.__name__}"
            )
        t = tangent._node
        if t.shape != type.shape or (t.dtype.kind == "c" and type.dtype.kind != "c"):
            raise GradientError(
                explain(
                    name,
                    f"jvp returned an invalid tangent for result {number}",
                    got={"tangent": t.type},
                    expected=f"{type}, the type of the result",
                )
            )
        return cast(t, type.dtype)

    def pullback(self, cotangents: list[Node | None], operation: Node) -> list[Node | None]:
        """The user's `backward`, from cotangents of results to those of tensor arguments."""
        kept = self._kept
        kept.call = weakref.ref(operation)
        given = iter(zip(cotangents, self.result_types, strict=True))
        arguments = []
        for is_value in self._is_value:
            g = None
            if is_value:
                g, type = next(given)
                if g is None and kept.materialize_grads:
                    g = full(0, type.shape, type.dtype, type.device)
            arguments.append(None if g is None else tensor_of(g))
        returned = _backward_of(kept.function)(self.context, *arguments)
        gradients = returned if isinstance(returned, tuple) else (returned,)
        return self._checked(gradients, operation)

    def _checked(self, gradients: Sequence[Any], operation: Node) -> list[Node | None]:
        """What `backward` returned: a cotangent for each tensor argument, of its type."""
        expected = len(self._is_tensor)
        extra = [g for g in gradients[expected:] if g is not None]
        if len(gradients) < expected or extra:
            raise GradientError(
                explain(
                    self.name,
                    "backward returned an incorrect number of gradients",
                    got={"returned": len(gradients), "arguments of forward": expected},
                    expected=f"{expected}, one for each argument; None for those that need none",
                )
            )
        result: list[Node | None] = []
        for number, (g, is_tensor_argument) in enumerate(
            zip(gradients, self._is_tensor, strict=False)
        ):
            if is_tensor_argument:
                x = operation.inputs[len(result)]
                is_needed = g is not None and x.requires_grad
                result.append(self._cotangent(number, g, x) if is_needed else None)
            elif g is not None:
                raise GradientError(
                    f"{self.name}: backward returned a gradient different from None for argument "
                    f"{number}, but that argument of forward is not a tensor"
                )
        return result

    def _cotangent(self, number: int, gradient: Any, x: Node) -> Node:
        if not is_tensor(gradient):
            raise GradientError(
                f"{self.name}: expected a Tensor or None for argument {number}, but backward "
                "returned "
                f"{type(gradient).__name__}"
            )
        g = gradient._node
        if not _sums_down_to(g.shape, x.shape) or (g.dtype.kind == "c") != (x.dtype.kind == "c"):
            raise GradientError(
                explain(
                    self.name,
                    f"backward returned an invalid gradient at index {number}",
                    got={"gradient": g.type, f"argument {number}": x.type},
                    expected=f"{x.type}, or a shape that summing makes that",
                )
            )
        return cast(sum_to(g, x.shape), x.dtype)

    def results(
        self, args: Sequence[Any], returned: tuple[Any, ...], is_recorded: bool
    ) -> tuple[Any, ...]:
        """What `forward` returned, as the caller gets it."""
        inputs = [a._node for a in args if is_tensor(a)]
        nodes = [value._node if is_tensor(value) else None for value in returned]
        values = [node for node in nodes if node is not None]
        self._is_value = [node is not None for node in nodes]
        self.result_types = [node.type for node in values]
        no_gradient = {t._node for t in self._kept.non_differentiable}
        operation = None
        if is_recorded and any(_is_differentiable(node, no_gradient) for node in values):
            operation = custom_node(self, inputs, values)
            state_of(operation)  # so that a pass notices what `backward` records
        # A tensor that is returned twice counts by its last position, as in torch.
        numbers = {node: number for number, node in enumerate(values)}
        wrapped: dict[Node, Any] = {}
        for node, number in numbers.items():
            if operation is not None and _is_differentiable(node, no_gradient):
                with recording(True):
                    wrapped[node] = new_tensor(record(item, (operation,), {"number": number}))
            elif node in inputs:
                wrapped[node] = new_tensor(OPS["detach"](node))
            else:
                wrapped[node] = tensor_of(node)
        self._save(numbers, wrapped)
        return tuple(
            [
                value if node is None else wrapped[node]
                for value, node in zip(returned, nodes, strict=True)
            ]
        )

    def set_tangents(self, level: Any, args: Sequence[Any], results: Sequence[Any]) -> None:
        """In a level of dual numbers: the tangents of the results, by the user's `jvp`."""
        tensors = [a for a in args if is_tensor(a)]
        own = [level.tangent(x._node) for x in tensors]
        if all(t is None for t in own):
            return
        nodes = [x._node for x in results if is_tensor(x)]
        # A call that is not recorded for gradients has no operation that could be asked.
        operation = custom_node(self, [x._node for x in tensors], nodes)
        operation.requires_grad = False
        with level.paused():
            found = self.push_forward(own, operation)
        for node, t in zip(nodes, found, strict=True):
            if is_inexact(node.dtype):
                level.set_tangent(node, t)

    def _save(self, numbers: dict[Node, int], wrapped: dict[Node, Any]) -> None:
        """Keep what was given to save_for_backward and save_for_forward."""
        kept = self._kept
        kept.saved = self._saved("save_for_backward", kept.to_save, numbers, wrapped)
        if kept.to_save_for_forward is not None:
            kept.saved_for_forward = self._saved(
                "save_for_forward", kept.to_save_for_forward, numbers, wrapped
            )
        kept.to_save = kept.non_differentiable = ()
        kept.to_save_for_forward = None

    def _saved(
        self,
        method: str,
        tensors: Sequence[Any],
        numbers: dict[Node, int],
        wrapped: dict[Node, Any],
    ) -> list[Any]:
        """These as they are kept: results as results, with history."""
        saved: list[Any] = []
        for position, tensor in enumerate(tensors):
            if tensor is None:
                saved.append(None)
                continue
            if not is_tensor(tensor):
                raise TypeError(
                    f"{method} can only save tensors, but argument {position} is of type "
                    f"{type(tensor).__name__}; set others as attributes of ctx"
                )
            node = tensor._node
            result = wrapped.get(node)
            if result is not None and result._node.op is item and not node.requires_grad:
                saved.append(_SavedResult(numbers[node], weakref.ref(result._node)))
            else:
                saved.append(node)
        return saved


def _sums_down_to(shape: tuple[int, ...], smaller: tuple[int, ...]) -> bool:
    """Whether `smaller` broadcasts to `shape`."""
    if len(smaller) > len(shape):
        return False
    own = shape[len(shape) - len(smaller) :]
    return all(a == b or b == 1 for a, b in zip(own, smaller, strict=True))


class Function:
    """A differentiable function with a derivative of the user's own. Subclass it; call `apply`.

    Examples
    --------
    >>> class Square(ng.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (x,) = ctx.saved_tensors
    ...         return 2 * x * grad
    >>> x = ng.tensor(3.0, requires_grad=True)
    >>> Square.apply(x).backward()
    >>> x.grad
    tensor(6.)

    Notes
    -----
    As torch: `forward(ctx, *args)`, or `forward(*args)` with `setup_context(ctx, inputs, output)`.
    It returns a tensor or a tuple of tensors and other values. `backward(ctx, *grads)` returns a
    gradient, or None, for each argument; it is recorded if the pass has `create_graph=True`, so it
    can be differentiated. `jvp(ctx, *tangents)`, which may be left out, returns a tangent, or None,
    for each result.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError(
            f"{type(self).__name__} should not be instantiated: call "
            f"{type(self).__name__}.apply(...)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """The value: to be written by the subclass."""
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function"
        )

    @staticmethod
    def setup_context(ctx: Context, inputs: tuple[Any, ...], output: Any) -> None:
        """Save what `backward` needs, if `forward` takes no `ctx`."""
        raise NotImplementedError("setup_context is not implemented")

    @staticmethod
    def backward(ctx: Context, *grads: Any) -> Any:
        """The gradients of the arguments: to be written by the subclass."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD"
        )

    vjp = backward  # another name for it

    @staticmethod
    def jvp(ctx: Context, *tangents: Any) -> Any:
        """The tangents of the results, from those of the arguments: may be written by the subclass.

        Without it, forward mode makes the tangent of `backward`, by differentiating that.
        """
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with "
            "forward mode AD"
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call the function on tensors and other arguments."""
        has_setup = cls.setup_context is not Function.setup_context
        if has_setup:
            bound = signature_of(cls.forward).bind(*args, **kwargs)
            bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
        call = FunctionCall(cls, args)
        level = forward_ad.current_level()
        with nullcontext() if level is None else level.paused():
            with recording(False):
                if has_setup:
                    returned = cls.forward(*args, **kwargs)
                    cls.setup_context(call.context, args, returned)
                else:
                    by = f"{cls.__name__}.apply, which passes ctx first,"
                    returned = called(by, cls.forward, call.context, *args, **kwargs)
            is_recorded = grad_mode.enabled and any(call.context.needs_input_grad)
            values = returned if isinstance(returned, tuple) else (returned,)
            results = call.results(args, values, is_recorded)
            if level is not None:
                call.set_tangents(level, args, results)
        return results if isinstance(returned, tuple) else results[0]


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a `backward` that cannot be differentiated: to go back through it is an error.

    As in torch, its results have no history, hence no error, if the gradients that it gets have
    none.
    """

    @functools.wraps(backward)
    def without_history(ctx: Context, *grads: Any) -> Any:
        with recording(False):
            returned = backward(ctx, *grads)
        if not grad_mode.enabled or not any(is_tensor(g) and g.requires_grad for g in grads):
            return returned
        if isinstance(returned, tuple):
            return tuple([_undifferentiable(g) for g in returned])
        return _undifferentiable(returned)

    return without_history


class _OnceDifferentiable:
    """The context of what a `backward` decorated so returned."""

    name = "OnceDifferentiable"
    tensor_count = 1
    has_tangent = False

    @staticmethod
    def pullback(cotangents: list[Node | None], out: Node) -> list[Node | None]:
        raise GradientError(
            explain(
                "once_differentiable",
                "trying to differentiate twice a function that was marked with "
                "@once_differentiable",
                fix="a backward of operations that have derivatives, without the decorator; for "
                "tangents a static method jvp(ctx, *tangents) of the Function",
            )
        )

    @staticmethod
    def release() -> None:
        """Nothing is kept."""


def _undifferentiable(value: Any) -> Any:
    """A result without history, which raises when somebody goes back through it."""
    if not is_tensor(value) or not is_inexact(value.dtype):
        return value
    # A leaf for an input: without any, nobody would ask the operation.
    leaf = OPS["detach"](full(0, (), value.dtype, value._node.type.device))
    leaf.requires_grad = True
    operation = custom_node(_OnceDifferentiable, [leaf], [value._node])
    return new_tensor(record(item, (operation,), {"number": 0}))


def _backward_of(function: type[Function]) -> Callable[..., Any]:
    has_backward = function.backward is not Function.backward
    has_vjp = function.vjp is not Function.vjp
    if has_backward and has_vjp:
        raise GradientError(
            f"{function.__name__}: implements both 'backward' and 'vjp', which are names for one "
            "function"
        )
    return function.vjp if has_vjp else function.backward


def _is_differentiable(node: Node, non_differentiable: set[Node]) -> bool:
    return is_inexact(node.dtype) and node not in non_differentiable


def signature_of(f: Callable[..., Any]) -> inspect.Signature:
    """As `inspect.signature`, of which Python 3.14 evaluates the annotations: they may name what
    only type checkers import.

    Raises
    ------
    TypeError
        If `f` cannot be called.
    ValueError
        If it does not say.
    """
    if sys.version_info < (3, 14):
        return inspect.signature(f)
    from annotationlib import Format

    return inspect.signature(f, annotation_format=Format.FORWARDREF)
