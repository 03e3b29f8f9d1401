"""Forward mode: a graph and tangents of some of its nodes give those of its roots, as a graph.

    tangents        of the roots; their values stay the nodes they are
    pushed_forward  values and tangents, both recorded again, one after the other for each
                    operation: computed in that order, a long loop keeps nothing of its past

Rules of ops (`Op.jvp`) are written graph to graph, so a tangent can be differentiated again in both
modes, batched and compiled. None stands for a tangent of 0, which nothing is computed with:
integers, bools and what does not depend on the inputs have no other.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from numba_grad.dtypes import is_inexact
from numba_grad.errors import GradientError, InternalError, explain
from numba_grad.graph import streams
from numba_grad.graph.collection import without_collection
from numba_grad.graph.node import OPS, Node, grad_mode
from numba_grad.graph.types import Type
from numba_grad.graph.walk import in_order_of_recording, rebuilt
from numba_grad.ops.control import item, pullback_of, several_results
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
                t = tangent_of(node, own)
                if t is not None:
                    found[node] = t
    return [found.get(root) for root in roots]


def pushed_forward(
    roots: Sequence[Node],
    given: Mapping[Node, Tangent],
    order: Sequence[Node],
    *,
    is_recorded: bool,
) -> tuple[list[Node], list[Tangent]]:
    """`roots` recorded again, and their tangents.

    Parameters
    ----------
    given : as in `tangents`; these nodes stay
    order : what to record again, inputs before users: nodes without values that nobody hooks
    is_recorded : whether the tangents get a history. The values have that of the originals.

    Notes
    -----
    An op may have a rule for both at once, `op.extras["with_tangents"](tangents, *inputs, **params)`
    -> a node that takes the place of the original (items have their numbers in it), and its
    tangent.
    """
    return without_collection(_pushed_forward, roots, given, order, is_recorded)


def _pushed_forward(
    roots: Sequence[Node],
    given: Mapping[Node, Tangent],
    order: Sequence[Node],
    is_recorded: bool,
) -> tuple[list[Node], list[Tangent]]:
    again: dict[Node, Node] = {}
    found = {node: t for node, t in given.items() if t is not None}
    recording = grad_mode.enabled
    try:
        with _on_streams() as block:
            for node in order:
                if node in given:
                    continue
                if block is not None:
                    block.follow(node)
                inputs = tuple([again.get(x, x) for x in node.inputs])
                own = [found.get(x) for x in inputs]
                flows = node.requires_grad and any(t is not None for t in own)
                grad_mode.enabled = True
                with_tangents = node.op.extras.get("with_tangents") if flows else None
                if with_tangents is not None:
                    copy, t = with_tangents(own, *inputs, **node.params)
                else:
                    copy = rebuilt(node, inputs, again)
                    grad_mode.enabled = is_recorded
                    t = tangent_of(copy, own) if flows else None
                again[node] = copy
                if t is not None:
                    found[copy] = t
    finally:
        grad_mode.enabled = recording
    values = [again.get(root, root) for root in roots]
    return values, [found.get(value) for value in values]


def _on_streams() -> AbstractContextManager[streams.followed | None]:
    """A block that puts what is recorded on the stream of its operation, if there are streams."""
    return streams.followed() if streams.are_in_use() else nullcontext()


def tangent_of(node: Node, own: Sequence[Tangent]) -> Tangent:
    """The tangent of `node`; `own` has those of its inputs."""
    if node.released:
        raise released_error(node)
    if node.op is item:
        (several,) = own
        return several[node.params["number"]]
    rule = node.op.jvp
    t: Any = NotImplemented
    try:
        if rule is not None:
            t = rule(own, node, *node.inputs, **node.params)
        if t is NotImplemented:
            t = _transposed(own, node, *node.inputs, **node.params)
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
    recording = grad_mode.enabled
    grad_mode.enabled = True
    try:
        types = node.type.items if is_several else (node.type,)
        points = [_point(type) for type in types]
        if is_several:
            pulled = list(pullback_of(node.op)(points, node, *inputs, **params))
            pulled = [None if t is None else c for c, t in zip(pulled, own, strict=True)]
        else:
            rule: Any = node.op.vjp
            pulled = [
                None if t is None else rule(k, points[0], node, *inputs, **params)
                for k, t in enumerate(own)
            ]
    finally:
        grad_mode.enabled = recording
    pairs = [(c, t) for c, t in zip(pulled, own, strict=True) if c is not None and t is not None]
    order = _through(points, [c for c, _ in pairs], node)
    flowing = [(c, t) for c, t in pairs if c.requires_grad]
    found = cotangents([c for c, _ in flowing], [t for _, t in flowing], order)
    result = [found.get(point) for point in points]
    return result if is_several else result[0]


def _point(type: Type) -> Node:
    """Where the rule is differentiated: it is linear, so 0 is as good as any cotangent."""
    point = OPS["identity"](full(0, type.shape, type.dtype, type.device))
    point.requires_grad = is_inexact(type.dtype)
    return point


def _through(points: Sequence[Node], ends: Sequence[Node], operation: Node) -> list[Node]:
    """What a rule has recorded from `points` to `ends`, inputs before users.

    Raises
    ------
    GradientError
        If some of that has no derivative.
    """
    recorded = list(dict.fromkeys(ends))
    seen = set(recorded)
    for node in recorded:  # grows while it is walked
        for x in node.inputs:
            if x not in seen and x.serial >= points[0].serial:
                seen.add(x)
                recorded.append(x)
    depends = set(points)
    for node in in_order_of_recording(recorded):
        if node not in depends and any(x in depends for x in node.inputs):
            depends.add(node)
            if not node.requires_grad and (several_results(node) or is_inexact(node.dtype)):
                raise _no_tangent(operation, node)
    return [node for node in in_order_of_recording(depends) if node.requires_grad]


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
