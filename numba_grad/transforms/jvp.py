"""Forward mode: a graph and tangents of some of its nodes give those of its roots, as a graph.

    tangents        of the roots; their values stay the nodes they are
    pushed_forward  values and tangents, both recorded again, one after the other for each
                    operation: computed in that order, a long loop keeps nothing of its past

Rules of ops (`Op.jvp`) are written graph to graph, so a tangent can be differentiated again in both
modes, batched and compiled. None stands for a tangent of 0, which nothing is computed with:
integers, bools and what does not depend on the inputs have no other.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from numba_grad.dtypes import is_inexact
from numba_grad.errors import GradientError, InternalError, explain
from numba_grad.graph import order, streams
from numba_grad.graph.collection import without_collection
from numba_grad.graph.node import OPS, Node, recording
from numba_grad.graph.types import Type
from numba_grad.graph.walk import history_of, in_order_of_recording, rebuilt, toposort
from numba_grad.ops.control import custom, item, pullback_of, several_results
from numba_grad.ops.families import full, placed
from numba_grad.transforms.vjp import cotangents, reached, released_error

# The tangent of a node, None for 0; of a node with several results a list of such.
Tangent = Any


def tangents(
    roots: Sequence[Node],
    given: Mapping[Node, Tangent],
    order: Sequence[Node] | None = None,
) -> list[Tangent]:
    """The tangents of `roots`; None where none of `given` reaches one.

    Parameters
    ----------
    given : nodes, and a tangent for each: of the node's type, or None for 0. Tangents flow to their
        users through nodes that require grad, as gradients flow back.
    order : the nodes to differentiate through, inputs before users; by default, all on the ways
        from `given` to the roots
    """
    if order is None:
        order = reached(roots, given)
    return without_collection(_tangents, roots, given, order)


def _tangents(
    roots: Sequence[Node], given: Mapping[Node, Tangent], order: Sequence[Node]
) -> list[Tangent]:
    found = {node: t for node, t in given.items() if t is not None}
    with _on_streams() as block:
        for node in order:
            if node in given or not node.requires_grad:
                continue
            own = [found.get(x) for x in node.inputs]
            if any(t is not None for t in own):
                if block is not None:
                    block.follow(node)
                t = tangent_of(node, node.inputs, own)
                if t is not None:
                    found[node] = t
    return [found.get(root) for root in roots]


def pushed_forward(
    roots: Sequence[Node], given: Mapping[Node, Tangent], *, since: int, is_recorded: bool
) -> tuple[list[Node], list[Tangent]]:
    """The values of `roots`, recorded again, and their tangents.

    Where a tensor was hooked on the way, the values stay the nodes that have the hooks.

    Parameters
    ----------
    given : as in `tangents`; these nodes stay
    since : the serial of a node: what was recorded before it stays, too, and has no tangents
    is_recorded : whether the tangents get a history. The values have that of the originals.

    Notes
    -----
    An op may have a rule for both, `op.extras["with_tangents"](tangents, *inputs, **params)` -> a
    node that takes the place of the original, where items have their numbers, and its tangent.
    """
    order = _recorded(roots, given, since)
    if any(node.autograd is not None and node.autograd.hooks for node in order):
        with recording(is_recorded):
            return list(roots), tangents(roots, given, order)
    return without_collection(_pushed_forward, roots, given, order, is_recorded)


def _recorded(roots: Sequence[Node], given: Collection[Node], since: int) -> list[Node]:
    """The operations behind `roots`, inputs before users."""
    behind = history_of(roots, given, since=since, with_pending=True)
    return [x for x in behind.nodes if x.inputs and x.serial >= since and x not in given]


def _pushed_forward(
    roots: Sequence[Node],
    given: Mapping[Node, Tangent],
    order: Sequence[Node],
    is_recorded: bool,
) -> tuple[list[Node], list[Tangent]]:
    again: dict[Node, Node] = {}
    found = {node: t for node, t in given.items() if t is not None}
    with _on_streams() as block:
        for node in order:
            if node in given:
                continue
            if block is not None:
                block.follow(node)
            inputs = tuple([again.get(x, x) for x in node.inputs])
            own = [found.get(x) for x in inputs]
            flows = node.requires_grad and any(t is not None for t in own)
            with_tangents = node.op.extras.get("with_tangents") if flows else None
            if node.value is not None and not _came_with_tangents(node, again):
                copy = node
            else:
                with recording(True):
                    if with_tangents is not None:
                        copy, found[copy] = with_tangents(own, *inputs, **node.params)
                        flows = False
                    else:
                        copy = rebuilt(node, inputs, again)
            again[node] = copy
            if flows:
                with recording(is_recorded):
                    t = tangent_of(copy, inputs, own)
                if t is not None:
                    found[copy] = t
    values = [again.get(root, root) for root in roots]
    return values, [found.get(value) for value in values]


def _came_with_tangents(node: Node, again: Mapping[Node, Node]) -> bool:
    """Whether this is a result of a communication, which has happened again with its tangents: then
    its token is that of both."""
    return node.op is item and node.inputs[0] in again and order.communicates(node.inputs[0])


def _on_streams() -> AbstractContextManager[streams.followed | None]:
    """A block that puts what is recorded on the stream of its operation, if there are streams."""
    return streams.followed() if streams.are_in_use() else nullcontext()


def tangent_of(node: Node, inputs: Sequence[Node], own: Sequence[Tangent]) -> Tangent:
    """The tangent of `node`, from its inputs, or others of the same values, and their tangents."""
    if node.released:
        raise released_error(node)
    if node.op is item:
        (several,) = own
        return several[node.params["number"]]
    rule = node.op.jvp
    t: Any = NotImplemented
    try:
        if rule is not None:
            t = rule(own, node, *inputs, **node.params)
        if t is NotImplemented:
            t = _transposed(own, node, *inputs, **node.params)
    except Exception as error:
        error.add_note(f"in the tangent of {node.op.name}, recorded as {node.type}")
        raise
    if not several_results(node):
        return None if t is None else _of_type(node, node.type, t)
    if t is None or all(each is None for each in t):
        return None
    return [
        None if each is None or not is_inexact(type.dtype) else _of_type(node, type, each)
        for type, each in zip(node.type.items, t, strict=True)
    ]


def _of_type(node: Node, type: Type, t: Node) -> Node:
    """A tangent of exactly this type; numbers made of literals may be on another device."""
    if t.type is not type:
        t = placed(t, type.device)
        if t.type is not type:
            raise InternalError(f"jvp of {node.op.name}: tangent {t.type} for a result {type}")
    return t


# Without a rule for tangents: what `vjp` does is linear in the cotangent, so that its own adjoint,
# found by reverse mode through this one operation, is the derivative.


def _transposed(own: Sequence[Tangent], node: Node, *inputs: Node, **params: Any) -> Tangent:
    is_several = several_results(node)
    with recording(True):
        types = node.type.items if is_several else (node.type,)
        points = [zero_point(type) for type in types]
        if is_several:
            pulled = list(pullback_of(node.op)(points, node, *inputs, **params))
            pulled = [None if t is None else c for c, t in zip(pulled, own, strict=True)]
        else:
            rule: Any = node.op.vjp
            pulled = [
                None if t is None else rule(k, points[0], node, *inputs, **params)
                for k, t in enumerate(own)
            ]
    pairs = [(c, t) for c, t in zip(pulled, own, strict=True) if c is not None and t is not None]
    # Rules of ours are linear, whatever they read; one of the user's may be no derivative.
    not_linear = (lambda: _not_linear(node)) if node.op is custom else None
    result = adjoint_of_linear(points, pairs, lambda other: _no_tangent(node, other), not_linear)
    return result if is_several else result[0]


def adjoint_of_linear(
    points: Sequence[Node],
    ends: Sequence[tuple[Node, Node]],
    no_derivative: Callable[[Node], GradientError],
    not_linear: Callable[[], GradientError] | None = None,
) -> list[Node | None]:
    """The cotangents of `points`, made by `zero_point`, of what is linear in them: of ends with a
    cotangent each.

    Raises
    ------
    GradientError
        `no_derivative(node)`, for what has none on the way from `points` to an end;
        `not_linear()`, if that is given, where a cotangent is computed from a point's value.
    """
    order = _through(points, [end for end, _ in ends], no_derivative)
    flowing = [(end, g) for end, g in ends if end.requires_grad]
    found = cotangents([end for end, _ in flowing], [g for _, g in flowing], order)
    pulled = [found.get(point) for point in points]
    if not_linear is not None and _reads(pulled, points):
        raise not_linear()
    return _anywhere(pulled, points)


def _reads(roots: Sequence[Node | None], points: Sequence[Node]) -> bool:
    """Whether `roots` are computed from the values of `points`. Operations with several results,
    such as loops, have all of their inputs, also those that they do not need for this."""
    first = points[0].serial
    given = [g for g in roots if g is not None]
    behind = toposort(given, stop=lambda x: x.serial <= first or several_results(x))
    return not set(points).isdisjoint(behind)


def _anywhere(found: Sequence[Node | None], points: Sequence[Node]) -> list[Node | None]:
    """The same, without a history that leads to `points`: an operation with several results, such
    as a loop, has all its inputs in its own. Who differentiates further would take these for
    variables of somebody else."""
    first = points[0].serial
    roots = [g for g in found if g is not None]
    if set(points).isdisjoint(history_of(roots, points, since=first).ends):
        return [*found]
    done = {x: full(0, x.shape, x.dtype, x.type.device) for x in points}
    for node in toposort(roots, stop=lambda x: x.serial <= first or x.value is not None):
        inputs = tuple([done.get(x, x) for x in node.inputs])
        if node not in done and node.value is None and inputs != node.inputs:
            done[node] = rebuilt(node, inputs, done)
    return [None if g is None else done.get(g, g) for g in found]


def zero_point(type: Type) -> Node:
    """Where a rule is differentiated: it is linear, so 0 is as good as any cotangent."""
    point = OPS["identity"](full(0, type.shape, type.dtype, type.device))
    point.requires_grad = is_inexact(type.dtype)
    return point


def _through(
    points: Sequence[Node],
    ends: Sequence[Node],
    no_derivative: Callable[[Node], GradientError],
) -> list[Node]:
    """What a rule has recorded from `points` to `ends`, inputs before users."""
    depends = set(points)
    for node in toposort(ends, stop=lambda node: node.serial < points[0].serial):
        if any(x in depends for x in node.inputs):
            depends.add(node)
    order = list({end for end in ends if end in depends})
    seen = set(order)
    for node in order:  # grows while it is walked
        if not node.requires_grad:
            if several_results(node) or is_inexact(node.dtype):
                raise no_derivative(node)
            continue
        inputs = node.inputs
        if node.op is custom:
            inputs = inputs[: node.params["context"].tensor_count]  # the others are its values
        for x in inputs:
            if x in depends and x not in seen:
                seen.add(x)
                order.append(x)
    return in_order_of_recording([node for node in order if node.requires_grad])


def _not_linear(operation: Node) -> GradientError:
    return GradientError(
        explain(
            operation.params["context"].name,
            "there is no tangent: it has no rule for that, and its derivative, of which one would "
            "be made, is not linear in the cotangents that it gets",
            fix="a rule for forward mode; or reverse mode, ng.vjp and ng.grad",
        )
    )


def _no_tangent(operation: Node, node: Node) -> GradientError:
    name = getattr(operation.params.get("context"), "name", operation.op.name)
    return GradientError(
        explain(
            name,
            "there is no tangent: it has no rule for that, and its derivative, of which one would "
            "be made, cannot be differentiated",
            got={"recorded by the derivative": node},
            fix="a static method jvp(ctx, *tangents) of the Function; a derivative written with "
            "operations that have one themselves; or reverse mode, ng.vjp and ng.grad",
        )
    )
