"""Batching: a graph of one example becomes a graph of many, operation by operation.

One batched program, not a loop. What does not depend on the batched nodes is shared, not copied.
"""

import itertools
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

import numpy as np

from numba_grad.dtypes import is_inexact
from numba_grad.errors import InternalError, explain
from numba_grad.graph.node import OPS, Node, argument, grad_mode, recording
from numba_grad.graph.traced_bodies import rebuilding
from numba_grad.graph.types import TupleType, Type
from numba_grad.graph.walk import rebuilt, toposort
from numba_grad.ops.control import custom, custom_node
from numba_grad.ops.families import broadcast_to, full, placed, reshape
from numba_grad.ops.movement import permuted


def batch(
    outputs: Sequence[Node],
    batched: Mapping[Node, Node],
    size: int,
    since: int | None = None,
) -> list[Node]:
    """`outputs` rebuilt with a batch axis of `size` first.

    Parameters
    ----------
    batched : nodes, and what takes their place: the same type with the batch axis first. A node
        requires grad where its replacement does. Any other node whose value is known is a constant,
        so the replaced nodes should have no value: arguments of a trace, or seeds of a backward
        pass.
    since : a serial. What was recorded from then on and depends on no batched node is recorded
        again beside what reads it, so that a loop need not keep it.

    Notes
    -----
    Results that depend on no batched node are repeated along the batch axis. Gradient recording is
    as it was where each node was recorded: what was made without history has none afterwards.
    """
    done = dict(batched)
    again: dict[Node, Node] = {}
    is_recorded = grad_mode.enabled
    oldest = min([x.serial for x in batched], default=0)
    # What was recorded before these stays as it is: in a loop with a Jacobian in each step, all of
    # the steps before.
    first = oldest if since is None else min(oldest, since)
    for node in toposort(
        outputs, stop=lambda n: n in batched or n.value is not None or n.serial < first
    ):
        if node in done or node.value is not None:
            continue
        is_batched = tuple([x in done for x in node.inputs])
        if any(is_batched) or (node.serial > oldest and rules_read(node, done)):
            with recording(is_recorded and not _was_recorded_without_history(node)):
                done[node] = _batched_node(node, is_batched, batched, done, again, size)
        elif since is not None and node.serial >= since and node.inputs:
            again[node] = rebuilt(node, tuple([again.get(x, x) for x in node.inputs]), again)
    return [done[node] if node in done else repeat(node, size) for node in outputs]


def _was_recorded_without_history(node: Node) -> bool:
    return not node.requires_grad and any(x.requires_grad for x in node.inputs)


def repeat(node: Node, size: int) -> Node:
    """The same value for every member of a batch."""
    return broadcast_to(reshape(node, (1, *node.shape)), (size, *node.shape))


def batched_type(type: Type | TupleType, size: int) -> Type | TupleType:
    """`type` with a batch axis first."""
    if isinstance(type, TupleType):
        return TupleType(tuple(t.of_shape((size, *t.shape)) for t in type.items))
    return type.of_shape((size, *type.shape))


def _batched_node(
    node: Node,
    is_batched: tuple[bool, ...],
    given: Mapping[Node, Node],
    done: dict[Node, Node],
    again: dict[Node, Node],
    size: int,
) -> Node:
    if node.op is custom and node.requires_grad:
        return _batched_custom(node, done, size)
    if node.op.batch is None:
        raise NotImplementedError(
            explain(
                "batch",
                f"{node.op.name} has no batching rule",
                got={"operation": node},
                fix="a loop over the batch, for this part of the computation",
            )
        )
    inputs = [done[x] if x in done else again.get(x, x) for x in node.inputs]
    within = node.op.extras.get("within")
    params = node.params if within is None else within(node.params, given)
    if not any(is_batched):  # only a rule needs the batch
        is_batched = (*is_batched[:-1], True)
        inputs[-1] = repeat(inputs[-1], size)
    try:
        result = node.op.batch(is_batched, *inputs, **params)
    except Exception as error:
        error.add_note(f"in the batching rule of {node.op.name}, recorded as {node.type}")
        raise
    if result.type != batched_type(node.type, size):
        raise InternalError(
            f"batch of {node.op.name}: {result.type} for a batch of {size} {node.type}"
        )
    return result


def rules_read(node: Node, nodes: Container[Node]) -> bool:
    """Whether the derivative of `node` depends on any of `nodes` by the rule of a user's function:
    of its own, or of one that a graph in its params calls. The rule is asked, since what it closes
    over is in no graph."""
    if not node.requires_grad:
        return False
    if node.op is not custom:
        inner = node.op.extras.get("nodes_with_rules")
        return inner is not None and any(rules_read(x, nodes) for x in inner(**node.params))
    context = node.params["context"]
    asked = [(context.pullback, node.type.items)]
    if context.has_tangent:
        asked.append((context.push_forward, [x.type for x in node.inputs[: context.tensor_count]]))
    found: list[Node] = []
    for rule, types in asked:
        seeds = [argument(type, is_inexact(type.dtype)) for type in types]
        try:
            with recording(True), rebuilding():
                found += [g for g in rule(seeds, node) if g is not None]
        except Exception:
            continue  # which who differentiates is told
    return any(x in nodes for x in toposort(found))


def _batched_custom(node: Node, done: dict[Node, Node], size: int) -> Node:
    """A user's Function: the values that its `forward` recorded, and its `backward`, batched."""
    count = node.params["context"].tensor_count
    results = [done[x] if x in done else repeat(x, size) for x in node.inputs[count:]]
    tensors = [done.get(x, x) for x in node.inputs[:count]]
    return custom_node(_BatchedContext(count, node, done, size), tensors, results)


class _BatchedContext:
    """Takes the place of a Function's context: its rules, for the whole batch at once."""

    def __init__(self, count: int, node: Node, done: dict[Node, Node], size: int) -> None:
        self.tensor_count = count
        self._node = node  # the call for one member
        self._done = done  # what `backward` may have saved, batched
        self._is_batched = [x in done for x in node.inputs[:count]]
        self._size = size

    def pullback(self, cotangents: list[Node | None], out: Node) -> list[Node | None]:
        """The cotangents of the tensors; of one that is not batched, the sum over the batch."""
        seeds = [None if g is None else _member(g) for g in cotangents]
        batched = {
            seed: g
            for seed, g in zip(seeds, cotangents, strict=True)
            if seed is not None and g is not None
        }
        of_member = self._node.params["context"].pullback(seeds, self._node)
        found = [g for g in of_member if g is not None]
        of_batch = iter(batch(found, {**self._done, **batched}, self._size))
        return [
            None if g is None else self._cotangent(k, next(of_batch))
            for k, g in enumerate(of_member)
        ]

    def push_forward(self, tangents: Sequence[Node | None], out: Node) -> list[Node | None]:
        """The tangents of the results. A tensor that is not batched has a tangent for all."""
        seeds = [
            _member(t) if t is not None and is_batched else t
            for t, is_batched in zip(tangents, self._is_batched, strict=True)
        ]
        batched = {
            seed: t
            for seed, t in zip(seeds, tangents, strict=True)
            if seed is not None and t is not None and seed is not t
        }
        of_member = self._node.params["context"].push_forward(seeds, self._node)
        found = [t for t in of_member if t is not None]
        of_batch = iter(batch(found, {**self._done, **batched}, self._size))
        return [None if t is None else next(of_batch) for t in of_member]

    def _cotangent(self, k: int, g: Node) -> Node:
        return g if self._is_batched[k] else OPS["sum"](g, axes=(0,))

    def release(self) -> None:
        """Free what was saved; with it go the cycles between this and the nodes of the batch."""
        self._node.params["context"].release()
        self._done = {}

    def __getattr__(self, name: str) -> Any:
        """What else is asked of a context, as its name: that of one member."""
        return getattr(self._node.params["context"], name)


def _member(g: Node) -> Node:
    """What stands for one member of the batch `g`."""
    return argument(g.type.of_shape(g.shape[1:]), g.requires_grad)


# A Jacobian is a batch of cotangents, one for each element of the results, or of tangents, one for
# each element of the arguments, cut into a block for each result and argument. How cotangents go
# back and tangents go on is the caller's.

# A batch of vectors for each of some values -> one for each of the others, None for 0.
Batched = Callable[[list[Node]], Sequence[Node | None]]


def by_rows(
    pull_back: Batched, outputs: Sequence[Type], variables: Sequence[Type], unit: complex = 1
) -> list[list[Node]]:
    """For each output its derivatives by each variable, in reverse mode.

    Parameters
    ----------
    pull_back : takes cotangents of all outputs, with an axis for the batch, which may be left out
        where the outputs have one element together; gives those of the variables
    unit : what stands in the unit vectors
    """
    found = pull_back(_unit_vectors(outputs, unit))
    columns = [_blocks_of_rows(g, outputs, x) for g, x in zip(found, variables, strict=True)]
    return [list(row) for row in zip(*columns, strict=True)]


def by_columns(
    push_forward: Batched, outputs: Sequence[Type], variables: Sequence[Type], unit: complex = 1
) -> list[list[Node]]:
    """The same in forward mode. `push_forward` takes tangents of all variables, and gives those of
    the outputs."""
    found = push_forward(_unit_vectors(variables, unit))
    return [_blocks_of_columns(t, variables, y) for t, y in zip(found, outputs, strict=True)]


def _unit_vectors(types: Sequence[Type], unit: complex) -> list[Node]:
    """The unit vectors for all elements of `types` together: of each its part, of shape (all
    elements, *shape)."""
    index = np.dtype(np.int64)
    sizes = [x.size for x in types]
    count = sum(sizes)
    if count == 1:
        return [full(unit, (1, *x.shape), x.dtype, x.device) for x in types]
    row = reshape(OPS["iota"](size=count, dtype=index), (count, 1))
    result = []
    start = 0
    for x, size in zip(types, sizes, strict=True):
        column = OPS["iota"](size=size, dtype=index)
        if start:
            column = OPS["add"](column, full(start, (size,), index))
        is_one = OPS["equal"](row, column)
        one, zero = full(unit, (), x.dtype), full(0, (), x.dtype)
        vectors = reshape(OPS["where"](is_one, one, zero), (count, *x.shape))
        result.append(placed(vectors, x.device))
        start += size
    return result


def _blocks_of_rows(rows: Node | None, outputs: Sequence[Type], x: Type) -> list[Node]:
    """The derivatives of each of `outputs` by an argument of type `x`, whose cotangents `rows` are:
    None for 0, and without an axis for the batch where there is one element."""
    shapes = [(*output.shape, *x.shape) for output in outputs]
    if rows is None:
        return [full(0, shape, x.dtype, x.device) for shape in shapes]
    parts = _parts_of_batch(rows, outputs)
    return [reshape(part, shape) for part, shape in zip(parts, shapes, strict=True)]


def _blocks_of_columns(columns: Node | None, inputs: Sequence[Type], output: Type) -> list[Node]:
    """The derivatives by each of `inputs` of a result of type `output`, whose tangents `columns`
    are: None for 0."""
    shapes = [(*output.shape, *x.shape) for x in inputs]
    if columns is None:
        return [full(0, shape, output.dtype, output.device) for shape in shapes]
    last = (*range(1, 1 + len(output.shape)), 0)
    parts = [permuted(part, last) for part in _parts_of_batch(columns, inputs)]
    return [reshape(part, shape) for part, shape in zip(parts, shapes, strict=True)]


def _parts_of_batch(batch: Node, types: Sequence[Type]) -> list[Node]:
    """The parts of the first axis that belong to the elements of each type."""
    if len(types) == 1:
        return [batch]
    sizes = [type.size for type in types]
    starts = itertools.accumulate(sizes[:-1], initial=0)
    rest = batch.shape[1:]
    return [
        OPS["slice"](
            batch,
            starts=(start, *(0,) * len(rest)),
            sizes=(size, *rest),
            steps=(1,) * len(batch.shape),
        )
        for start, size in zip(starts, sizes, strict=True)
    ]
