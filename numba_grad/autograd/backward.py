"""`backward()` and `grad()`: torch's contract on recorded graphs.

A call that is refused changes nothing.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from numba_grad.autograd.backward_arguments import Tensors, as_sequence, roots_of, targets_of
from numba_grad.autograd.backward_pass import Pass
from numba_grad.autograd.graph import GradientEdge
from numba_grad.autograd.state import state_of
from numba_grad.autograd.tensor_class import new_tensor
from numba_grad.errors import GradientError, explain
from numba_grad.fresh_thread import on_fresh_stack
from numba_grad.graph.collection import without_collection
from numba_grad.graph.node import OPS, Node
from numba_grad.ops.families import zeros_like

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def backward(
    tensors: Tensors,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensors | None = None,
) -> None:
    """Add the gradients of `tensors` to the `.grad` of the leaves they were computed from.

    Parameters
    ----------
    tensors : Tensor, GradientEdge, or a sequence of them, each requiring grad
    grad_tensors : what to multiply the derivatives of each with: a tensor of its shape, or None for
        1, which takes a real tensor with one element
    retain_graph : keep the history for another pass; by default as `create_graph`
    create_graph : record the computation of the gradients, so that they can be differentiated
    inputs : add to the `.grad` of these only, leaves or not

    Raises
    ------
    GradientError (a RuntimeError)
        As torch: an output that does not require grad, a gradient of another shape, a history
        already freed, ...
    """
    _within_depth(
        _backward, tensors, grad_tensors, retain_graph, create_graph=create_graph, inputs=inputs
    )


def _backward(
    tensors: Tensors,
    grad_tensors: Any,
    retain_graph: bool | None,
    *,
    create_graph: bool,
    inputs: Tensors | None,
) -> None:
    operation = "backward"
    sources = None if inputs is None else as_sequence(inputs)
    targets = None if sources is None else targets_of(operation, sources)
    roots = roots_of(operation, as_sequence(tensors), grad_tensors, False)
    for source, target in zip(sources or (), targets or (), strict=True):
        # Of an edge torch sets a `.grad` only if its tensor is a leaf, or retains it.
        if target.op.vjp is not None and not isinstance(source, GradientEdge):
            state_of(target).retains_grad = True
    retains = _retains(retain_graph, create_graph)
    run = Pass(roots, create_graph, retains, targets, accumulates=True)
    run.differentiate()
    run.finish()


def grad(
    outputs: Tensors,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """The gradients of `outputs` with respect to `inputs`, added to no `.grad`.

    Parameters
    ----------
    outputs, grad_outputs, retain_graph, create_graph : as `tensors`, `grad_tensors`, ... of
        `backward`
    inputs : Tensor, GradientEdge, a sequence of them, or a dict of them; leaves or not, each
        requiring grad
    allow_unused : give None for inputs that no output depends on, instead of an error; by default
        as `materialize_grads`
    is_grads_batched : the first axis of each of `grad_outputs` is a batch: the same as a call for
        each member and stacking the results, in one batched program
    materialize_grads : give zeros instead of None

    Returns
    -------
    tuple of Tensor or None; for a dict of inputs, a dict

    Notes
    -----
    As in torch, the hooks of an input are applied to its gradient, unless another input is below
    it.
    """
    operation = "grad"
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "grad: expected allow_unused to be True or not passed when materialize_grads=True, "
            "but got allow_unused=False"
        )
    if allow_unused is None:
        allow_unused = materialize_grads
    sources = as_sequence(inputs)
    targets = targets_of(operation, sources)
    roots = roots_of(operation, as_sequence(outputs), grad_outputs, is_grads_batched)
    run = Pass(roots, create_graph, _retains(retain_graph, create_graph), targets)
    results = _within_depth(_gradients, run, sources, targets, allow_unused, materialize_grads)
    if type(inputs) is dict:
        return dict(zip(inputs, results, strict=True))
    return tuple(results)


def _gradients(
    run: Pass,
    sources: Sequence[Any],
    targets: Sequence[Node],
    allow_unused: bool,
    materialize_grads: bool,
) -> list[Any]:
    operation = "grad"
    run.differentiate()
    found = run.captured()
    for number, g in enumerate(found):
        if g is None and not allow_unused:
            raise GradientError(
                explain(
                    operation,
                    "One of the differentiated Tensors appears to not have been used in the graph",
                    got={f"inputs[{number}]": targets[number]},
                    fix="Set allow_unused=True if this is desired, or materialize_grads=True for "
                    "zeros",
                )
            )
        if g is None and materialize_grads and isinstance(sources[number], GradientEdge):
            raise GradientError(
                "grad: materialize_grads cannot be used when the given input is a GradientEdge"
            )
    results = run.finish(found)
    if materialize_grads:
        results = [
            _zeros(target, run.create_graph) if result is None else result
            for result, target in zip(results, targets, strict=True)
        ]
    return results


class _Nesting(threading.local):
    depth = 0  # of passes in the hooks and derivatives of passes, on the stack of this thread


_nesting = _Nesting()
# A pass and a user's hook that starts the next one take 15 frames and more, of which Python allows
# a thread 1000. torch, whose own frames are not Python's, goes on in another thread from 60 on.
_DEEPEST = 10


def _within_depth(
    run: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    """`run(*args, **kwargs)`, on a stack of its own if too many passes are on this one."""
    depth = _nesting.depth
    if depth == _DEEPEST:
        return on_fresh_stack(lambda: _within_depth(run, *args, **kwargs))
    _nesting.depth = depth + 1
    try:
        # To the end, when the nodes of the pass are gone: before it, one collection more looks at
        # all of them.
        return without_collection(run, *args, **kwargs)
    finally:
        _nesting.depth = depth


def _retains(retain_graph: bool | None, create_graph: bool) -> bool:
    return create_graph if retain_graph is None else retain_graph


def _zeros(target: Node, create_graph: bool) -> Any:
    node = OPS["detach"](zeros_like(target))
    node.requires_grad = create_graph
    return new_tensor(node)
