"""Reverse mode: a graph and cotangents of its roots give the cotangents of any of its nodes, as a
graph.

Rules of ops are written graph to graph, so the result can be differentiated again, batched, and
compiled together with the forward computation.
"""

import functools
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Sequence
from typing import Any

from numba_grad.errors import GradientError, InternalError, explain
from numba_grad.graph import streams
from numba_grad.graph.collection import without_collection
from numba_grad.graph.node import OPS, Node, SharedParams, record
from numba_grad.graph.walk import history_of, leading_to
from numba_grad.ops.control import item, pullback_of, several_results
from numba_grad.ops.families import placed
from numba_grad.ops.movement import add_slice, pad, slice_
from numba_grad.transforms.loop_sizes import LARGEST_VALUE

# Of an array, that is, parts of it at least so many times smaller: as many become an assembly.
MANY_PARTS = 16

# The cotangent of a node; of one with several results, a list with None where nothing arrived.
Cotangent = Any

# (node, its complete cotangent) -> what it contributes to each input, or None to go no further
Differentiate = Callable[[Node, Cotangent], Sequence[Cotangent] | None]


def cotangents(
    roots: Sequence[Node],
    seeds: Sequence[Node],
    order: Sequence[Node],
    inside: Container[Node] | None = None,
    differentiate: Differentiate | None = None,
) -> dict[Node, Cotangent]:
    """Cotangents of the nodes of `order`, those that some cotangent reaches.

    Parameters
    ----------
    seeds : a cotangent for each root, of its type; a root given twice gets the sum
    order : the nodes to differentiate through, inputs before users: usually `reached(...)`
    inside : nothing flows to nodes that are not in it; by default, `order`
    differentiate : takes the place of `contributions` for the nodes with a record in `.autograd`,
        called once for each that is reached, after its cotangent is complete: hooks
    """
    inside = set(order) if inside is None else inside
    return without_collection(_cotangents, roots, seeds, order, inside, differentiate)


def _cotangents(
    roots: Sequence[Node],
    seeds: Sequence[Node],
    order: Sequence[Node],
    inside: Container[Node],
    differentiate: Differentiate | None,
) -> dict[Node, Cotangent]:
    result: dict[Node, Cotangent] = {}
    for root, seed in zip(roots, seeds, strict=True):
        _add(result, root, seed)
    if streams.are_in_use():
        with streams.followed() as block:
            return _pull_back(result, order, inside, differentiate, block.follow)
    return _pull_back(result, order, inside, differentiate)


def _pull_back(
    result: dict[Node, Cotangent],
    order: Sequence[Node],
    inside: Container[Node],
    differentiate: Differentiate | None,
    follow: Callable[[Node], None] | None = None,
) -> dict[Node, Cotangent]:
    """`result` has the seeds, and gets the rest. `follow` is told whose derivative comes next."""
    many_parts = _read_in_many_parts(order)
    parts: dict[Node, Node] = {}  # of their cotangents, what comes through such parts
    # The loop runs once per recorded operation, so the common case is written out: 1 us matters
    # here.
    for node in reversed(order):
        if parts and node in parts:
            _add(result, node, parts.pop(node))
        g = result.get(node)
        rule = node.op.vjp
        if g is None or rule is None:
            continue
        if follow is not None:
            follow(node)
        inputs = node.inputs
        if g.__class__ is list or (differentiate is not None and node.autograd is not None):
            if differentiate is not None and node.autograd is not None:
                pulled = differentiate(node, g)
            else:
                pulled = contributions(node, g, inside)
            for x, contribution in zip(inputs, pulled or (), strict=False):
                if contribution is not None and x.requires_grad and x in inside:
                    _add(result, x, contribution)
            continue
        if node.op is item:
            if inputs[0] in inside:
                _add_item(result, node, g)
            continue
        params = node.params
        for k, x in enumerate(inputs):
            if x.requires_grad and x in inside:
                if node.released:
                    raise released_error(node)
                try:
                    contribution = rule(k, g, node, *inputs, **params)
                except Exception as error:
                    error.add_note(_where(node, k))
                    raise
                if contribution is None:
                    continue
                if contribution.type is not x.type:
                    contribution = _of_type(node, k, contribution)
                so_far = result
                if x in many_parts and _is_small_part(contribution):
                    so_far = parts
                previous = so_far.get(x)
                so_far[x] = (
                    contribution if previous is None else add_cotangents(previous, contribution)
                )
    for x, contribution in parts.items():
        _add(result, x, contribution)
    return result


def _read_in_many_parts(order: Sequence[Node]) -> set[Node]:
    """Arrays of which a loop reads small parts, `x[i]`, and maybe all, `x - x[i]`. What comes
    through the parts is added up by itself: among sums of whole arrays it would make another step
    of each, with another place that it is added at."""
    counts = Counter([node.inputs[0] for node in order if node.op is slice_])
    return {x for x, count in counts.items() if count > MANY_PARTS}


def _is_small_part(contribution: Node) -> bool:
    """Whether it is zero but for a small part, the adjoint of a slice."""
    if contribution.op is not pad:
        return False
    return MANY_PARTS * contribution.inputs[0].type.size <= contribution.type.size


def contributions(node: Node, g: Cotangent, inside: Container[Node]) -> list[Cotangent]:
    """What `g`, the cotangent of `node`, contributes to each of its inputs that is `inside`."""
    if node.released:
        raise released_error(node)
    inputs = node.inputs
    if node.op is item:
        cotangent: list[Node | None] = [None] * len(inputs[0].type.items)
        cotangent[node.params["number"]] = g
        return [cotangent]
    result: list[Cotangent]
    if several_results(node):
        pulled = pullback_of(node.op)(g, node, *inputs, **node.params)
        result = [
            c if x.requires_grad and x in inside else None
            for c, x in zip(pulled, inputs, strict=True)
        ]
    else:
        rule: Any = node.op.vjp
        result = [None] * len(inputs)
        for k, x in enumerate(inputs):
            if x.requires_grad and x in inside:
                try:
                    result[k] = rule(k, g, node, *inputs, **node.params)
                except Exception as error:
                    error.add_note(_where(node, k))
                    raise
    for k, contribution in enumerate(result):
        if contribution is not None and contribution.__class__ is not list:
            result[k] = _of_type(node, k, contribution)
    return result


def add_cotangents(a: Node, b: Node) -> Node:
    """The sum of two contributions. One that is zero but for a region, the adjoint of a slice,
    costs what the slice costs; so does a sum of few such in front."""
    if a.op is pad and b.op is not pad:
        a, b = b, a
    if b.op is pad:
        params = _region_params(b.params["low"], b.params["interior"])
        return record(add_slice, (a, b.inputs[0]), params)
    # Of small arrays, which are written out, nothing is gained, and kernels are longer.
    if a.op is add_slice and a.type.size > LARGEST_VALUE:
        total = _with_parts_of_zeros(b, a)
        if total is not None:
            return total
    return record(OPS["add"], (a, b))


def _with_parts_of_zeros(x: Node, parts: Node) -> Node | None:
    """`x + parts`, if these are zero but for few regions: what came through slices of an array,
    before what came through all of it. Of `y = x.copy()`, say, which is recorded first."""
    added: list[Node] = []
    while parts.op is add_slice and len(added) < MANY_PARTS:
        added.append(parts)
        parts = parts.inputs[0]
    if parts.op is not pad:
        return None
    total = add_cotangents(x, parts)
    for node in reversed(added):
        total = record(add_slice, (total, node.inputs[1]), node.params)
    return total


@functools.lru_cache(maxsize=1 << 14)
def _region_params(low: tuple[int, ...], interior: tuple[int, ...]) -> SharedParams:
    """Where an addition to a slice goes, from the params of a pad."""
    return SharedParams(starts=low, steps=tuple(step + 1 for step in interior))


def _add(result: dict[Node, Cotangent], node: Node, g: Cotangent) -> None:
    """Add to a cotangent; for several results, item by item."""
    previous = result.get(node)
    if previous is None:
        result[node] = list(g) if g.__class__ is list else g
    elif g.__class__ is list:
        for number, contribution in enumerate(g):
            if contribution is not None:
                own = previous[number]
                previous[number] = (
                    contribution if own is None else add_cotangents(own, contribution)
                )
    else:
        result[node] = add_cotangents(previous, g)


def _add_item(result: dict[Node, Cotangent], node: Node, g: Node) -> None:
    source = node.inputs[0]
    items = result.get(source)
    if items is None:
        items = result[source] = list[Any]([None]) * len(source.type.items)
    number = node.params["number"]
    items[number] = g if items[number] is None else add_cotangents(items[number], g)


def _of_type(node: Node, k: int, contribution: Node) -> Node:
    """A contribution of exactly the type of input `k`.

    It is on another device where the input is a number on the CPU among arrays elsewhere, or the
    contribution is made of literals.
    """
    type = node.inputs[k].type
    if contribution.type is not type:
        contribution = placed(contribution, type.device)
        if contribution.type is not type:
            raise InternalError(
                f"vjp of {node.op.name}: cotangent {contribution.type} for input {k} of type {type}"
            )
    return contribution


def _where(node: Node, k: int) -> str:
    return f"in the derivative of {node.op.name} for its input {k}, {node.inputs[k].type}"


def released_error(node: Node | None) -> GradientError:
    """The error of going back a second time through what the first pass released."""
    return GradientError(
        explain(
            "backward",
            "Trying to backward through the graph a second time, but what it saved for that was "
            "freed when .backward() or autograd.grad() went through it the first time",
            got={"operation": node} if node is not None else None,
            fix="Specify retain_graph=True in the first call",
        )
    )


def reached(
    roots: Iterable[Node], targets: Iterable[Node] | None = None, walls: Collection[Node] = ()
) -> list[Node]:
    """The nodes that gradients flow through, inputs before users.

    With `targets`, only those on a way from a root to a target, and nothing below a target unless
    another target is there. No way leads through `walls`.
    """
    order = history_of(roots, walls).nodes
    if walls:
        order = [node for node in order if node not in walls]
    if targets is None:
        return order
    leads = leading_to(order, set(targets))
    return [node for node in order if node in leads]
