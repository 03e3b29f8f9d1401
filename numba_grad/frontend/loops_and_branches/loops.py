"""Loops as operations whose length is a number: `scan`, `fori_loop`, `map`.

The function of a step is traced once, compiled once and differentiated once, whatever the number of
steps; the loop itself runs without Python. Inside of `jit` and outside.
"""

import builtins
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from numba_grad.errors import ShapeError, TracingError, called, explain
from numba_grad.fresh_thread import imported
from numba_grad.frontend.functions.joining import concatenate
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.inputs.arrays import as_node, wrap
from numba_grad.frontend.inputs.surroundings import drawing_nothing
from numba_grad.frontend.inputs.tracing import values_asked_for
from numba_grad.frontend.loops_and_branches.bodies import (
    check_function,
    communicated,
    device_of,
    first_token,
    name_of,
    on_device_of_body,
    traced,
    with_token,
)
from numba_grad.frontend.loops_and_branches.carries import (
    check_carried,
    checked_step,
    numbered,
    promote,
)
from numba_grad.frontend.loops_and_branches.memory_budgets import (
    Memory,
    memory_on_all_ranks,
    states_within,
)
from numba_grad.frontend.loops_and_branches.progress_bars import Progress, name_of_body
from numba_grad.frontend.loops_and_branches.while_loops import WhileLoop
from numba_grad.frontend.namespaces import namespace
from numba_grad.frontend.tensors.tensor import Tensor
from numba_grad.frontend.vmap import vmap
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.walk import is_traced, toposort
from numba_grad.ops.families import cast
from numba_grad.runtime.progress import label_in
from numba_grad.transforms.call_target import CallTarget
from numba_grad.transforms.control_flow.loops import loop

__all__ = ["fori_loop", "map", "scan"]


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int = 1,
    *,
    memory: Memory = None,
    progress: Progress = False,
) -> tuple[Any, Any]:
    """A loop that carries a state along, reads a row of `xs` in each step, and stacks results.

    Parameters
    ----------
    f : function of (carry, x) that returns (new carry, y). It is traced, as by `jit`, once or
        twice, on stand-ins that have no values.
    init : the first carry: arrays and numbers, possibly in nested containers. The carry keeps
        structure, shapes and dtypes; a Python number in `init` takes the dtype of what follows it.
    xs : arrays, possibly in nested containers, with an axis of `length` in front; step k gets row k
        of each. None: no rows.
    length : the number of steps; needed without `xs`. Without `xs` and `ys` it may be known when
        the loop runs only, as an argument of a jitted function.
    reverse : whether the last row comes first; results are stacked in the order of rows either way
    unroll : of no effect: for the sake of programs written for JAX
    memory : for the derivative, which needs what was carried at the beginning of each step: bytes,
        as a number or as text, "256 MB", or "40 states". What there is no room for is computed
        again, as few steps as can be (a binomial schedule); the gradient has the same bits. By
        default half of the memory that is free. "disk:PATH:4 GB": states go to a file in that
        directory, which is reserved for the derivative's time and has no name.
    progress : whether a bar shows how far the loop is, drawn by tqdm ten times a second; or text
        for the bar. A loop that takes less than 0.1 s shows none.

    Returns
    -------
    (carry, ys) : the last carry; of each part of y, the values of all steps along a new first axis

    Raises
    ------
    TypeError
        If the carry changes structure or dtype, or the length is no integer.
    ShapeError
        If the carry changes shape, or rows are not as many as `length` says.
    ValueError
        If the length is negative or cannot be known.
    OSError
        If the directory of `memory` is not there, or, when the derivative is computed, the disk
        has no room.

    Notes
    -----
    The loop is one operation, differentiable to any order. The derivative keeps the carry of each
    step, and what takes longer to compute again than to read; the rest it computes again.

    Examples
    --------
    >>> def step(total, x):
    ...     return total + x, total * x
    >>> ng.scan(step, 0.0, np.arange(4.0))
    (tensor(6.), tensor([0., 0., 2., 9.]))
    """
    if _is_known_when_run(length) and not trees.flatten(xs)[0]:
        name = name_of_body("scan", f, progress)
        with drawing_nothing("scan", f):
            return _scan_of_unknown_length(f, init, xs, length, memory, name)
    count, rows, rows_structure = _rows("scan", xs, length)
    name = name_of_body("scan", f, progress)
    with drawing_nothing("scan", f):
        return _scan("scan", f, init, rows, rows_structure, count, reverse, memory, name=name)


def _scan(
    operation: str,
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    rows: Sequence[Node],
    rows_structure: trees.Structure,
    count: int,
    reverse: bool = False,
    memory: Memory = None,
    names: Sequence[str] | None = None,
    name: str = "",
) -> tuple[Any, Any]:
    given, structure = trees.flatten(init)
    carried = [as_node(x) for x in given]
    device = device_of([*carried, *rows])
    while True:
        carried, rows = [on_device_of_body(operation, x, device) for x in (carried, rows)]
        row_types = [x.type.of_shape(x.shape[1:]) for x in rows]
        pair_structure = trees.flatten(
            (
                trees.unflatten(structure, [0] * len(carried)),
                trees.unflatten(rows_structure, [0] * len(rows)),
            )
        )[1]
        types = [*[x.type for x in carried], *row_types]
        step = checked_step(operation, f, structure)
        body = traced(
            operation,
            step,
            types,
            pair_structure,
            given,
            name,
            device=device,
            nodes=[*carried, *rows],
        )
        if body.communicates:
            for communicator in body.communicators:
                namespace("mpi").all_ranks.agree_on_steps(operation, count, communicator)
            memory = memory_on_all_ranks(operation, memory, carried, body.communicators)
            return _scan_with_token(
                operation, f, init, rows, rows_structure, count, reverse, memory, names, name
            )
        before, device = device, device_of([*carried, *rows, *body.captured])
        if device == before and not promote(given, carried, body):
            break
    outputs = body.target.outputs
    names = trees.leaf_names(structure, "carry") if names is None else names
    check_carried(operation, names, carried, outputs[: len(carried)])
    if not outputs:
        return init, trees.unflatten(_second(body.structure), [])
    captured = on_device_of_body(operation, body.captured, device)
    finals, stacks = _loop(
        operation, body.target, carried, rows, captured, count, reverse=reverse, memory=memory
    )
    return (
        trees.unflatten(structure, builtins.map(wrap, finals)),
        trees.unflatten(_second(body.structure), builtins.map(wrap, stacks)),
    )


def _loop(
    operation: str,
    body: CallTarget,
    carried: Sequence[Node],
    sequences: Sequence[Node],
    constants: Sequence[Node],
    length: int,
    *,
    reverse: bool,
    memory: Memory,
) -> tuple[list[Node], list[Node]]:
    """What is carried out of the loop, and the stacked results."""
    by_index = None
    if not reverse and body.derived("has indices", lambda: _has_indices(body.outputs)):
        # Imported when it is needed: most loops index nothing.
        module = imported("numba_grad.transforms.control_flow.rows_by_index")
        by_index = module.rows_by_index(body, carried, sequences, constants, length)
    if by_index is not None:
        values_asked_for(*by_index.decided)
        body, carried, sequences = by_index.plan.body, by_index.carried, by_index.sequences
    slots, directory = states_within(operation, memory, carried, length)
    inputs = carried, sequences, constants
    found = loop(
        body,
        *inputs,
        length,
        reverse=reverse,
        slots=slots,
        directory=directory,
        is_cut=True,
        is_shown=label_in(body.name) is not None,
    )
    return found if by_index is None else by_index.results(*found)


def _has_indices(outputs: Sequence[Node]) -> bool:
    return any(x.op.family == "indexing" for x in toposort(outputs))


def _scan_with_token(
    operation: str,
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    rows: Sequence[Node],
    rows_structure: trees.Structure,
    count: int,
    reverse: bool,
    memory: Memory,
    names: Sequence[str] | None,
    name: str,
) -> tuple[Any, Any]:
    """`_scan` of steps that communicate: the token is carried along."""
    threaded = with_token(checked_step(operation, f, trees.flatten(init)[1]))

    def step(carry: tuple[Any, Tensor], x: Any) -> tuple[Any, Any]:
        (new, y), token = threaded((carry[0], x), carry[1])
        return (new, token), y

    step.__name__ = name_of(f)
    if names is None:
        names = trees.leaf_names(trees.flatten(init)[1], "carry")
    (final, token), ys = _scan(
        operation,
        step,
        (init, first_token()),
        rows,
        rows_structure,
        count,
        reverse,
        memory,
        [*names, "token"],
        name,
    )
    communicated((final, ys), token)
    return final, ys


def _second(pair: trees.Structure) -> trees.Structure:
    return pair.children()[1]


def _rows(operation: str, xs: Any, length: Any) -> tuple[int, list[Node], trees.Structure]:
    """How many steps, the sequences, and their structure."""
    leaves, structure = trees.flatten(xs)
    rows = [as_node(x) for x in leaves]
    names = trees.leaf_names(structure, "xs")
    for name, x in zip(names, rows, strict=True):
        if x.shape == ():
            raise ShapeError(explain(operation, "a 0-d array has no rows", got={name: x.type}))
    sizes: dict[str, object] = {name: x.shape[0] for name, x in zip(names, rows, strict=True)}
    if _is_known_when_run(length):
        raise TracingError(
            explain(
                operation,
                "the length is known when the loop runs only, and there are rows for some number",
                got={**sizes, "length": length},
                expected="no length where there are rows",
                fix="ng.fori_loop(0, length, lambda i, carry: ..., init), which may read xs[i]",
            )
        )
    if length is not None:
        sizes["length"] = length = _integer(operation, "length", length)
    if len(set(sizes.values())) > 1:
        raise ShapeError(explain(operation, "sequences of different lengths", got=sizes))
    if not sizes:
        raise ValueError(
            explain(
                operation,
                "how many steps?",
                got={"xs": xs, "length": length},
                expected="length=..., where there are no rows to count",
            )
        )
    count = _integer(operation, *next(iter(sizes.items())))
    if count < 0:
        raise ValueError(explain(operation, "a negative length", got=sizes))
    return count, rows, structure


def _is_known_when_run(number: Any) -> bool:
    """Whether this is a tensor whose value is not there yet while a function is being traced."""
    return isinstance(number, Tensor) and is_traced(number._node)


def _integer(operation: str, name: str, number: Any) -> int:
    try:
        return operator.index(number)
    except TypeError:
        raise TypeError(
            explain(operation, f"{name} must be an integer", got={name: repr(number)})
        ) from None


def map(
    f: Callable[[Any], Any],
    xs: Any,
    *,
    batch_size: int | None = None,
    progress: Progress = False,
) -> Any:
    """`f` of each row of `xs`, one after the other; the results stacked.

    Parameters
    ----------
    f : function of a row of each array in `xs`
    xs : arrays, possibly in nested containers, with rows along their first axis
    batch_size : so many rows at a time, as `vmap` computes them; by default one
    progress : as for `scan`

    Notes
    -----
    `vmap` computes all rows at once, in memory for all of them. Here a row may take its own time:
    branches and loops in `f` are those of this row.

    Examples
    --------
    >>> ng.map(lambda x: x * x, np.arange(3.0))
    tensor([0., 1., 4.])
    """
    check_function("map", f)
    count, rows, structure = _rows("map", xs, None)
    name = name_of_body("map", f, progress)
    if batch_size is None:
        with drawing_nothing("map", f):
            one = _scan(
                "map",
                lambda _, x: (None, called("map", f, x)),
                None,
                rows,
                structure,
                count,
                name=name,
            )
        return one[1]
    size = _integer("map", "batch_size", batch_size)
    if size < 1:
        raise ValueError(explain("map", "a batch has at least one row", got={"batch_size": size}))
    whole = count // size * size
    batched = vmap(f)
    parts, out_structure = [], structure
    if whole:
        grouped = [_reshaped(x, 0, whole, (whole // size, size)) for x in rows]
        stacked = _scan(
            "map",
            lambda _, x: (None, batched(x)),
            None,
            grouped,
            structure,
            whole // size,
            name=name,
        )[1]
        leaves, out_structure = trees.flatten(stacked)
        parts.append([OPS["reshape"](x._node, shape=(whole, *x.shape[2:])) for x in leaves])
    if whole < count:
        rest = [wrap(_reshaped(x, whole, count, (count - whole,))) for x in rows]
        leaves, out_structure = trees.flatten(batched(trees.unflatten(structure, rest)))
        parts.append([x._node for x in leaves])
    if not parts:
        return _scan("map", lambda _, x: (None, f(x)), None, rows, structure, 0)[1]
    joined = [
        column[0] if len(column) == 1 else concatenate([wrap(x) for x in column])._node
        for column in zip(*parts, strict=True)
    ]
    return trees.unflatten(out_structure, builtins.map(wrap, joined))


def _reshaped(x: Node, first: int, stop: int, axes: tuple[int, ...]) -> Node:
    part = wrap(x)[first:stop]._node
    return OPS["reshape"](part, shape=(*axes, *x.shape[1:]))


def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    unroll: int | bool | None = None,
    memory: Memory = None,
    progress: Progress = False,
) -> Any:
    """`for i in range(lower, upper): val = body_fun(i, val)`; the last `val`.

    Parameters
    ----------
    lower, upper : integers; also such as are known when the loop runs only, like an argument of a
        jitted function
    body_fun : function of (i, val) that returns the new val, of the same structure, shapes and
        dtypes. `i` is a 0-d int64 tensor.
    init_val : the first val: arrays and numbers, possibly in nested containers
    unroll : of no effect: for the sake of programs written for JAX
    memory, progress : as for `scan`

    Examples
    --------
    >>> ng.fori_loop(0, 5, lambda i, total: total + i, 0)
    tensor(10)
    """
    check_function("fori_loop", body_fun)
    name = name_of_body("fori_loop", body_fun, progress)
    if _is_known_when_run(lower) or _is_known_when_run(upper):
        with drawing_nothing("fori_loop", body_fun):
            return _between("fori_loop", lower, upper, body_fun, init_val, memory, name)
    first, stop = _integer("fori_loop", "lower", lower), _integer("fori_loop", "upper", upper)
    step, structure = numbered("fori_loop", body_fun, init_val)
    with drawing_nothing("fori_loop", body_fun):
        final, _ = _scan(
            "fori_loop",
            lambda numbered, _: (step(numbered), None),
            (as_node(np.int64(first)), init_val),
            [],
            trees.flatten(None)[1],
            max(stop - first, 0),
            memory=memory,
            names=["i", *trees.leaf_names(structure, "carry")],
            name=name,
        )
    return final[1]


def _between(
    operation: str,
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    memory: Memory,
    name: str,
) -> Any:
    """`fori_loop` between bounds that are known when it runs."""
    bounds = [as_node(lower), as_node(upper)]
    for bound, node in zip(("lower", "upper"), bounds, strict=True):
        if node.shape != () or node.dtype.kind not in "iu":
            raise (ShapeError if node.shape != () else TypeError)(
                explain(
                    operation,
                    f"{bound} must be an integer",
                    got={bound: node.type},
                    expected="an integer, 0-d",
                )
            )
    first, stop = [wrap(cast(node, np.dtype(np.int64))) for node in bounds]
    step, structure = numbered(operation, body_fun, init_val)
    names = ["i", *trees.leaf_names(structure, "carry")]
    return WhileLoop(
        operation, lambda numbered: numbered[0] < stop, step, (first, init_val), memory, names, name
    ).record()[1]


def _scan_of_unknown_length(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    length: Any,
    memory: Memory,
    name: str,
) -> tuple[Any, Any]:
    """`scan` where the number of steps is known when it runs: without rows, and without results,
    whose shapes would not be known."""
    stacked: list[trees.Structure] = []
    checked = checked_step("scan", f, trees.flatten(init)[1])

    def step(_: Any, carry: Any) -> Any:
        carry, y = checked(carry, xs)
        structure = trees.flatten(y)[1]
        if structure.num_leaves:
            raise TracingError(
                explain(
                    "scan",
                    "the length is known when the loop runs only, and so the shape of ys would be",
                    got={"length": length, "y": structure},
                    expected="None as y",
                    fix="a length that is a Python number, as by static_argnums=...",
                )
            )
        stacked.append(structure)
        return carry

    step.__name__ = name_of(f)
    final = _between("scan", 0, length, step, init, memory, name)
    return final, trees.unflatten(stacked[-1], [])
