"""Graphs of loops and branches: what their arguments are, derivatives, batched forms."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from numba_grad.dtypes import is_inexact
from numba_grad.graph.node import OPS, Node, Op, argument, recording
from numba_grad.graph.walk import substitute, toposort
from numba_grad.immutable import NamedTuple
from numba_grad.ops.control import aliases, result, with_results
from numba_grad.ops.families import zeros_like
from numba_grad.transforms.batch import rules_read
from numba_grad.transforms.call import with_targets
from numba_grad.transforms.call_target import (
    CallBatched,
    CallTarget,
    CallVjp,
    once_for_each_graph,
    targets_in,
)
from numba_grad.transforms.control_flow.loop_params import LoopParams, Shape
from numba_grad.transforms.vjp import add_cotangents


class Backward(NamedTuple):
    """The body of a derivative, whose arguments are: cotangents of what the loop carries, sums of
    those of constants; values of what is carried at the beginning of a step, rows, cotangents of
    stacked results and of entries; constants. All by the numbers of the loop's arguments."""

    body: CallTarget
    # Those that have cotangents:
    carried: tuple[int, ...]
    constants: tuple[int, ...]
    sequences: tuple[int, ...]
    # Those whose values it reads:
    entries: tuple[int, ...]
    rows: tuple[int, ...]
    kept: tuple[int, ...]  # results that the loop has stacked for its derivative
    others: tuple[int, ...]
    captured: list[Node]

    def held(self, inputs: Sequence[Node], cotangents: Sequence[Node | None]) -> list[Node]:
        """What it carries at first: cotangents of what the loop carried, and sums of nothing."""
        seeds = [zeros_like(inputs[k]) if (g := cotangents[k]) is None else g for k in self.carried]
        return [*seeds, *[zeros_like(inputs[k]) for k in self.constants]]

    def cotangents(
        self, count: int, finals: Sequence[Node], stacks: Sequence[Node]
    ) -> list[Node | None]:
        """Those of the loop's inputs."""
        found: list[Node | None] = [None] * count
        numbers = (*self.carried, *self.constants, *self.sequences)
        for number, g in zip(numbers, [*finals, *stacks], strict=True):
            found[number] = g
        return found


def backward_body(
    body: CallTarget,
    shape: Shape,
    requires_grad: Sequence[bool],
    given: tuple[bool, ...] = (),
    given_entries: tuple[bool, ...] = (),
    *,
    kept: int = 0,
    is_whole: bool = False,
) -> Backward:
    """What goes one step back.

    Parameters
    ----------
    requires_grad : which of the body's arguments do so at first. Others have no cotangents, unless
        what is carried comes to depend on one that does.
    given, given_entries : which stacked results, and which values at the beginning of steps, have
        cotangents
    kept : how many of the last results it may read rather than compute again
    is_whole : whether it takes all values at the beginning of a step, all rows and constants, not
        just those that it reads
    """
    active = carried_along(body, requires_grad, shape.carried)
    body = body.by(active)
    return _backward_body(body, shape, active, given, given_entries, kept, is_whole)


@once_for_each_graph
def _backward_body(
    body: CallTarget,
    shape: Shape,
    active: Sequence[bool],
    given: tuple[bool, ...],
    given_entries: tuple[bool, ...],
    kept: int,
    is_whole: bool,
) -> Backward:
    arguments, outputs = body.arguments, body.outputs
    count = shape.carried
    differentiable = tuple(k for k in range(count) if active[k] and is_inexact(arguments[k].dtype))
    asked = tuple(k in differentiable for k in range(count)) + (given or (False,) * shape.stacked)
    vjp = body.vjp(asked)
    pulled = [k for k in vjp.numbers if active[k]]
    first_constant = count + shape.sequences
    constants = tuple(k for k in pulled if k >= first_constant)
    sequences = tuple(k for k in pulled if count <= k < first_constant)
    new = _BackwardArguments.of(body, vjp, asked, constants, given_entries, kept)
    results = new.results(body, vjp, active, differentiable, sequences)
    read_in_results = set(toposort(results))
    read = set(new.own) if is_whole else read_in_results
    entries, rows, others = (
        tuple([k for k in numbers if new.own[k] in read])
        for numbers in (
            range(count),
            range(count, first_constant),
            range(first_constant, len(arguments)),
        )
    )
    kept_numbers = tuple([k for k, node in new.kept.items() if node in read_in_results])
    target = CallTarget(
        f"vjp of {body.name}",
        [
            *[new.seeds[k] for k in differentiable],
            *new.sums.values(),
            *[new.own[k] for k in (*entries, *rows)],
            *[new.kept[k] for k in kept_numbers],
            *[new.seeds[k] for k in range(count, len(outputs)) if asked[k]],
            *new.entries.values(),
            *[new.own[k] for k in others],
            *new.captured.values(),
        ],
        results,
    )
    return Backward(
        target,
        differentiable,
        constants,
        sequences,
        entries,
        rows,
        kept_numbers,
        others,
        list(new.captured),
    )


class _BackwardArguments(NamedTuple):
    """The arguments that the body of a derivative may have, by the numbers of what they stand
    for."""

    own: list[Node]  # the values of the body's arguments
    seeds: dict[int, Node]  # cotangents of its outputs
    sums: dict[int, Node]  # of cotangents of constants, so far
    entries: dict[int, Node]  # cotangents of values at the beginning of steps
    kept: dict[int, Node]  # results
    captured: dict[Node, Node]  # what the derivative closes over

    @classmethod
    def of(
        cls,
        body: CallTarget,
        vjp: CallVjp,
        asked: tuple[bool, ...],
        constants: tuple[int, ...],
        given_entries: tuple[bool, ...],
        kept: int,
    ) -> "_BackwardArguments":
        arguments, outputs = body.arguments, body.outputs

        def stand_in(node: Node) -> Node:
            return argument(node.type, is_inexact(node.dtype))

        return cls(
            own=[stand_in(node) for node in arguments],
            seeds={k: stand_in(outputs[k]) for k, is_asked in enumerate(asked) if is_asked},
            sums={k: stand_in(arguments[k]) for k in constants},
            entries={k: stand_in(arguments[k]) for k, has in enumerate(given_entries) if has},
            kept={k: stand_in(outputs[k]) for k in range(len(outputs) - kept, len(outputs))},
            captured={node: stand_in(node) for node in vjp.captured},
        )

    def results(
        self,
        body: CallTarget,
        vjp: CallVjp,
        active: Sequence[bool],
        differentiable: tuple[int, ...],
        sequences: tuple[int, ...],
    ) -> list[Node]:
        """Cotangents that are carried on, sums with this step's, cotangents of rows."""
        pairs = zip(vjp.numbers, vjp.target.outputs, strict=True)
        of = {number: g for number, g in pairs if active[number]}
        replaced = {body.outputs[k]: node for k, node in self.kept.items()}
        values = [*self.own, *self.seeds.values(), *self.captured.values()]
        replaced.update(zip(vjp.target.arguments, values, strict=True))
        with recording(True):
            pulled = dict(zip(of, substitute(list(of.values()), replaced), strict=True))
            carried_on = []
            for k in differentiable:
                g = pulled.get(k)
                if k in self.entries:
                    g = self.entries[k] if g is None else add_cotangents(g, self.entries[k])
                carried_on.append(zeros_like(body.arguments[k]) if g is None else g)
            sums_on = [_added(x, pulled[k]) for k, x in self.sums.items()]
        return [*carried_on, *sums_on, *[pulled[k] for k in sequences]]


def _added(total: Node, g: Node) -> Node:
    """A sum with a step's contribution; products of matrices, which BLAS adds, one by one."""
    reads = _reads_of_sums(g)
    pending = [g]
    while pending:
        g = _product(pending.pop())
        parts = [_product(x) for x in g.inputs] if reads[g] == 1 else []
        if any(x.op.name in ("add", "matmul") for x in parts):
            pending += reversed(parts)
        else:
            total = add_cotangents(total, g)
    return total


def _reads_of_sums(g: Node) -> Counter[Node]:
    """The sums that `g` is made of, and how often each is read by others: what is read twice, as by
    the derivative of `x = x + x`, has twice as many parts for each such step if taken apart."""
    reads: Counter[Node] = Counter()
    pending = [g]
    while pending:
        g = pending.pop()
        if g.op.name == "add" and all(x.type is g.type for x in g.inputs):
            reads[g] += 1
            if reads[g] == 1:
                pending += g.inputs
    return reads


def _product(node: Node) -> Node:
    """The transpose of a product of matrices as a product."""
    if node.op.name == "transpose" and node.inputs[0].op.name == "matmul" and len(node.shape) == 2:
        x, y = node.inputs[0].inputs
        if len(x.shape) == len(y.shape) == 2:
            flipped = [OPS["transpose"](z, axes=(1, 0)) for z in (y, x)]
            return OPS["matmul"](*flipped)
    return node


class Forward(NamedTuple):
    """A body that computes tangents as well. Its arguments are those of the body, of each kind
    followed by the tangents of those that have one: what is carried, rows, constants; then
    `captured`. Of its outputs, what is carried and the results, each followed by tangents."""

    body: CallTarget
    carried: tuple[int, ...]  # the numbers of what has tangents
    sequences: tuple[int, ...]
    constants: tuple[int, ...]
    stacked: tuple[int, ...]  # outputs
    captured: list[Node]

    @property
    def numbers(self) -> tuple[int, ...]:
        """Of the arguments with tangents."""
        return (*self.carried, *self.sequences, *self.constants)


def forward_body(body: CallTarget, shape: Shape, has_tangent: Sequence[bool]) -> Forward:
    """The body with tangents, where these arguments have one at first."""
    flags = carried_along(body, has_tangent, shape.carried)
    active = tuple(
        [flag and is_inexact(x.dtype) for flag, x in zip(flags, body.arguments, strict=True)]
    )
    return _forward_body(body, shape, active)


@once_for_each_graph
def _forward_body(body: CallTarget, shape: Shape, active: tuple[bool, ...]) -> Forward:
    jvp = body.jvp(active, with_values=True)
    count = len(body.arguments)
    numbers = [k for k, flag in enumerate(active) if flag]
    own = jvp.target.arguments[:count]
    directions = dict(zip(numbers, jvp.target.arguments[count:], strict=False))
    captured = jvp.target.arguments[count + len(numbers) :]
    values = jvp.target.outputs[: len(body.outputs)]
    found = dict(zip(jvp.numbers, jvp.target.outputs[len(values) :], strict=True))
    first = shape.carried + shape.sequences
    carried, sequences, constants = (
        tuple([k for k in numbers if low <= k < high])
        for low, high in ((0, shape.carried), (shape.carried, first), (first, count))
    )
    stacked = tuple([k for k in found if k >= shape.carried])
    with recording(True):
        moved = [found[k] if k in found else zeros_like(values[k]) for k in carried]
    arguments = [
        *own[: shape.carried],
        *[directions[k] for k in carried],
        *own[shape.carried : first],
        *[directions[k] for k in sequences],
        *own[first:],
        *[directions[k] for k in constants],
        *captured,
    ]
    outputs = [
        *values[: shape.carried],
        *moved,
        *values[shape.carried :],
        *[found[k] for k in stacked],
    ]
    target = CallTarget(f"jvp of {body.name}", arguments, outputs)
    return Forward(target, carried, sequences, constants, stacked, jvp.captured)


def with_body_of_tangents(loop: LoopParams, forward: Forward) -> LoopParams:
    """The loop that carries tangents along. It keeps nothing for a derivative but states."""
    return loop._replace(
        body=forward.body,
        carried=loop.carried + len(forward.carried),
        sequences=loop.sequences + len(forward.sequences),
        kept=0,
        sums=0,
    )


def inputs_with_tangents(
    forward: Forward, shape: Shape, inputs: Sequence[Node], tangents: Sequence[Node | None]
) -> list[Node]:
    """The inputs of a loop whose body computes tangents."""

    def of(numbers: Sequence[int]) -> list[Node]:
        return [zeros_like(inputs[k]) if (t := tangents[k]) is None else t for k in numbers]

    state, rows, constants = shape.arguments(inputs)
    return [
        *state,
        *of(forward.carried),
        *rows,
        *of(forward.sequences),
        *constants,
        *of(forward.constants),
        *forward.captured,
    ]


def carried_along(body: CallTarget, is_batched: Sequence[bool], carried: int) -> tuple[bool, ...]:
    """Which arguments of a body have a batch axis, where these have one at first: what is carried
    gets one as soon as it depends on one."""
    flags = list(is_batched)
    while True:
        dependent = depending_on(body, flags)
        new = [flag or dependent[k] for k, flag in enumerate(flags[:carried])]
        if new == flags[:carried]:
            return tuple(flags)
        flags[:carried] = new


def depending_on(body: CallTarget, flags: Sequence[bool]) -> list[bool]:
    """Which outputs of a graph depend on the arguments that have a flag; within surroundings that
    are batched, also by the rules of a user's function."""
    depends = {node for node, flag in zip(body.arguments, flags, strict=True) if flag}
    depends.update(body.surroundings)
    for node in toposort(body.outputs):
        is_read = any(x in depends for x in node.inputs)
        if is_read or (body.surroundings and rules_read(node, depends)):
            depends.add(node)
    return [node in depends for node in body.outputs]


@once_for_each_graph
def batched_body(
    body: CallTarget, flags: tuple[bool, ...], size: int, carried: int
) -> tuple[CallBatched, list[bool]]:
    """The body of a batch, and which of its outputs have a batch axis."""
    has_axis = depending_on(body, flags)
    has_axis[:carried] = flags[:carried]
    return body.batched(flags, size, tuple(has_axis)), has_axis


def member_by_member(
    op: Op,
    is_batched: Sequence[bool],
    inputs: Sequence[Node],
    params: dict[str, Any],
    target: CallTarget,
    number_of_results: int,
) -> Node:
    """The batching rule of what decides by values: a loop over the members of the batch, each of
    which takes its own way. So nothing is computed of a way that is not taken.

    `target`: a graph of the params, by which the loop's body is remembered.
    """
    size = next(x.shape[0] for x, has_axis in zip(inputs, is_batched, strict=True) if has_axis)
    # What rules may have kept are rows as well.
    kept = {x: rows for other in targets_in(params) for x, rows in other.surroundings.items()}
    rows = [x for x, has_axis in zip(inputs, is_batched, strict=True) if has_axis]
    shared = [x for x, has_axis in zip(inputs, is_batched, strict=True) if not has_axis]

    def make() -> CallTarget:
        members = [
            argument(x.type.of_shape(x.shape[1:]) if has_axis else x.type, is_inexact(x.dtype))
            for x, has_axis in zip(inputs, is_batched, strict=True)
        ]
        of_kept = {x: argument(x.type, is_inexact(x.dtype)) for x in kept}
        with recording(True):
            own = with_targets(params, lambda other: other.rebuilt(of_kept))
            node = with_results(op, members, own)
            results = [result(node, k) for k in range(number_of_results)]
        of_rows = [m for m, has_axis in zip(members, is_batched, strict=True) if has_axis]
        others = [m for m, has_axis in zip(members, is_batched, strict=True) if not has_axis]
        arguments = [*of_rows, *of_kept.values(), *others]
        return CallTarget(f"member of {target.name}", arguments, results)

    key = ("member", op, tuple(params.items()), tuple(is_batched), tuple(x.type for x in inputs))
    body = target.derived(key, make)
    rows += kept.values()
    params_of_loop = LoopParams(body, 0, len(rows), size)
    node = with_results(OPS["loop"], [*rows, *shared], params_of_loop._asdict())
    return aliases([result(node, k) for k in range(number_of_results)])
