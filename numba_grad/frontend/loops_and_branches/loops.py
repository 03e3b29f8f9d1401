"""Loops as operations: `scan`, `fori_loop`, `while_loop`, `map`.

The function of a step is traced once, compiled once and differentiated once, whatever the number of
steps; the loop itself runs without Python. Inside of `jit` and outside.
"""

import builtins
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from numba_grad.errors import ShapeError, TracingError, explain
from numba_grad.fresh_thread import imported
from numba_grad.frontend.functions.joining import concatenate
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.inputs.arrays import as_node, is_weak, wrap
from numba_grad.frontend.inputs.tracing import values_asked_for
from numba_grad.frontend.loops_and_branches.bodies import (
    Traced,
    check_function,
    communicated,
    device_of,
    first_token,
    name_of,
    on_device_of_body,
    traced,
    with_token,
)
from numba_grad.frontend.loops_and_branches.memory_budgets import (
    Memory,
    memory_on_all_ranks,
    states_within,
)
from numba_grad.frontend.loops_and_branches.progress_bars import Progress, name_of_body
from numba_grad.frontend.namespaces import namespace
from numba_grad.frontend.tensors.tensor import Tensor
from numba_grad.frontend.vmap import vmap
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.walk import is_traced, toposort
from numba_grad.ops.families import cast
from numba_grad.runtime.progress import label_in
from numba_grad.transforms.call import CallTarget
from numba_grad.transforms.loops import loop
from numba_grad.transforms.while_loops import most_steps
from numba_grad.transforms.while_loops import while_loop as while_loop_of_nodes

__all__ = ["fori_loop", "map", "scan", "while_loop"]


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
        return _scan_of_unknown_length(f, init, xs, length, memory, name)
    count, rows, rows_structure = _rows("scan", xs, length)
    name = name_of_body("scan", f, progress)
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
        step = _checked(operation, f, structure)
        body = traced(operation, step, types, pair_structure, given, name, device=device)
        if body.communicates:
            for communicator in body.communicators:
                namespace("mpi").all_ranks.agree_on_steps(operation, count, communicator)
            memory = memory_on_all_ranks(operation, memory, carried, body.communicators)
            return _scan_with_token(
                operation, f, init, rows, rows_structure, count, reverse, memory, names, name
            )
        before, device = device, device_of([*carried, *rows, *body.captured])
        if device == before and not _promote(given, carried, body):
            break
    outputs = body.target.outputs
    names = trees.leaf_names(structure, "carry") if names is None else names
    _check_carried(operation, names, carried, outputs[: len(carried)])
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
        module = imported("numba_grad.transforms.rows_by_index")
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
        is_cut=label_in(body.name) is None,
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
    threaded = with_token(_checked(operation, f, trees.flatten(init)[1]))

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


def _checked(
    operation: str, f: Callable[[Any, Any], Any], structure: trees.Structure
) -> Callable[[Any, Any], Any]:
    """`f`, whose result is looked at: a pair, of which the first is as the carry."""
    check_function(operation, f)

    def step(carry: Any, x: Any) -> Any:
        out = f(carry, x)
        if not isinstance(out, tuple | list) or len(out) != 2:
            raise TypeError(
                explain(
                    operation,
                    f"{name_of(f)} must return two things",
                    got={"result": type(out).__name__},
                    expected="(new carry, y), where y may be None",
                )
            )
        returned = trees.flatten(out[0])[1]
        if returned != structure:
            raise TypeError(
                trees.structure_mismatch(operation, "the carry after a step", returned, structure)
            )
        return _like(carry, out[0]), out[1]

    step.__name__ = name_of(f)
    return step


def _like(carry: Any, returned: Any) -> Any:
    """What a step returns; Python numbers in it with the dtypes of what they are to replace."""
    leaves, structure = trees.flatten(returned)
    pairs = zip(leaves, trees.flatten(carry)[0], strict=True)
    typed = [wrap(as_node(x, like=as_node(y))) if is_weak(x) else x for x, y in pairs]
    return trees.unflatten(structure, typed)


def _second(pair: trees.Structure) -> trees.Structure:
    return pair.children()[1]


def _promote(given: list[Any], carried: list[Node], body: Traced) -> bool:
    """Give Python numbers that are carried the dtypes that a step makes of them; whether any had
    another one."""
    outputs = body.target.outputs[: len(carried)]
    changed = False
    for k, (x, node, out) in enumerate(zip(given, carried, outputs, strict=True)):
        if is_weak(x) and node.dtype != out.dtype:
            carried[k] = cast(as_node(x), out.dtype)
            given[k] = None  # no longer weak
            changed = True
    return changed


def _check_carried(
    operation: str,
    names: Sequence[str],
    before: Sequence[Node],
    after: Sequence[Node],
) -> None:
    for name, a, b in zip(names, before, after, strict=True):
        if a.type is b.type:
            continue
        same_shape = a.shape == b.shape
        raise (TypeError if same_shape else ShapeError)(
            explain(
                operation,
                f"a step changes the {'dtype' if same_shape else 'shape'} of what is carried",
                got={f"{name} before a step": a.type, f"{name} after it": b.type},
                expected="the same shape and dtype",
                fix=f"init with {b.dtype.name}, or .astype({a.dtype.name}) in the step"
                if same_shape
                else "an init of the shape that steps return",
            )
        )


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
        return _scan("map", lambda _, x: (None, f(x)), None, rows, structure, count, name=name)[1]
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
        return _between("fori_loop", lower, upper, body_fun, init_val, memory, name)
    first, stop = _integer("fori_loop", "lower", lower), _integer("fori_loop", "upper", upper)
    step, structure = _numbered("fori_loop", body_fun, init_val)
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


def _numbered(
    operation: str, body_fun: Callable[[Any, Any], Any], init_val: Any
) -> tuple[Callable[[tuple[Any, Any]], tuple[Any, Any]], trees.Structure]:
    """A step that counts: of (i, val), to (i + 1, new val); and the structure of val."""
    structure = trees.flatten(init_val)[1]

    def step(numbered: tuple[Any, Any]) -> tuple[Any, Any]:
        i, val = numbered
        new = body_fun(i, val)
        returned = trees.flatten(new)[1]
        if returned != structure:
            raise TypeError(
                trees.structure_mismatch(operation, "the carry after a step", returned, structure)
            )
        return i + 1, new

    step.__name__ = name_of(body_fun)
    return step, structure


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
    for name, node in zip(("lower", "upper"), bounds, strict=True):
        if node.shape != () or node.dtype.kind not in "iu":
            raise (ShapeError if node.shape != () else TypeError)(
                explain(
                    operation,
                    f"{name} must be an integer",
                    got={name: node.type},
                    expected="an integer, 0-d",
                )
            )
    first, stop = [wrap(cast(node, np.dtype(np.int64))) for node in bounds]
    step, structure = _numbered(operation, body_fun, init_val)
    names = ["i", *trees.leaf_names(structure, "carry")]
    final = _while(
        operation, lambda numbered: numbered[0] < stop, step, (first, init_val), memory, names, name
    )
    return final[1]


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
    checked = _checked("scan", f, trees.flatten(init)[1])

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


def while_loop(
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], Any],
    init_val: Any,
    *,
    memory: Memory = None,
    progress: Progress = False,
) -> Any:
    """`while cond_fun(val): val = body_fun(val)`; the last `val`.

    Parameters
    ----------
    cond_fun : function of val that returns a boolean, 0-d
    body_fun : function of val that returns the new one, of the same structure, shapes and dtypes
    init_val : the first val: arrays and numbers, possibly in nested containers. A Python number
        takes the dtype of what follows it.
    memory, progress : as for `scan`; of how many steps is not known

    Raises
    ------
    TypeError
        If val changes structure or dtype, or the condition is no boolean.
    ShapeError
        If val changes shape, or the condition has one.

    Notes
    -----
    Both functions are traced once. Of a batch (`vmap`) each member goes on as long as its own
    condition holds, one after the other.

    Examples
    --------
    >>> ng.while_loop(lambda x: x < 100, lambda x: 2 * x, 1)
    tensor(128)
    """
    check_function("while_loop", cond_fun)
    check_function("while_loop", body_fun)
    name = name_of_body("while_loop", body_fun, progress)
    return _while("while_loop", cond_fun, body_fun, init_val, memory, name=name)


def _while(
    operation: str,
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], Any],
    init_val: Any,
    memory: Memory,
    names: Sequence[str] | None = None,
    name: str = "",
) -> Any:
    given, structure = trees.flatten(init_val)
    carried = [as_node(x) for x in given]

    def step(val: Any) -> Any:
        new = body_fun(val)
        return _like(val, new) if trees.flatten(new)[1] == structure else new

    step.__name__ = name_of(body_fun)
    arguments = trees.flatten((trees.unflatten(structure, [0] * len(carried)),))[1]
    device = device_of(carried)
    while True:
        carried = on_device_of_body(operation, carried, device)
        types = [x.type for x in carried]
        body = traced(operation, step, types, arguments, given, name, device=device)
        if body.communicates:
            if traced(operation, cond_fun, types, arguments, given, device=device).communicates:
                return _while_with_condition(
                    operation, cond_fun, body_fun, init_val, memory, names, name
                )
            memory = memory_on_all_ranks(
                operation, memory, carried, body.communicators, is_bounded=False
            )
            return _while_with_token(operation, cond_fun, body_fun, init_val, memory, names, name)
        if body.structure != structure:
            raise TypeError(
                trees.structure_mismatch(operation, "val after a step", body.structure, structure)
            )
        if _promote(given, carried, body):
            continue
        test = traced(operation, cond_fun, types, arguments, given, device=device)
        if test.communicates:
            return _while_with_condition(
                operation, cond_fun, body_fun, init_val, memory, names, name
            )
        before, device = device, device_of([*carried, *body.captured, *test.captured])
        if device == before:
            break
    names = trees.leaf_names(structure, "val") if names is None else names
    _check_carried(operation, names, carried, body.target.outputs)
    _check_condition(operation, test)
    of_test, of_body = [on_device_of_body(operation, x.captured, device) for x in (test, body)]
    most = most_steps(test.target, body.target, carried, of_test, of_body)
    slots, directory = states_within(operation, memory, carried, most=most)
    finals, _ = while_loop_of_nodes(
        test.target, body.target, carried, of_test, of_body, slots or 1, directory
    )
    return trees.unflatten(structure, builtins.map(wrap, finals))


def _while_with_token(
    operation: str,
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], Any],
    init_val: Any,
    memory: Memory,
    names: Sequence[str] | None,
    name: str,
) -> Any:
    """`_while` of steps that communicate: the token is carried along."""
    threaded = with_token(body_fun)

    def step(val: tuple[Any, Tensor]) -> tuple[Any, Tensor]:
        new, token = threaded((val[0],), val[1])
        is_alike = trees.flatten(new)[1] == trees.flatten(val[0])[1]
        return (_like(val[0], new) if is_alike else new), token

    step.__name__ = name_of(body_fun)
    if names is None:
        names = trees.leaf_names(trees.flatten(init_val)[1], "val")
    final, token = _while(
        operation,
        lambda val: cond_fun(val[0]),
        step,
        (init_val, first_token()),
        memory,
        [*names, "token"],
        name,
    )
    communicated(final, token)
    return final


def _while_with_condition(
    operation: str,
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], Any],
    init_val: Any,
    memory: Memory,
    names: Sequence[str] | None,
    name: str,
) -> Any:
    """`_while` whose condition communicates: what it gives is carried along. A condition is a graph
    without results of its own, from which no token could go on."""

    def step(val: tuple[Any, Tensor]) -> tuple[Any, Any]:
        new = body_fun(val[0])
        if trees.flatten(new)[1] == trees.flatten(val[0])[1]:
            new = _like(val[0], new)
        return new, cond_fun(new)

    step.__name__ = name_of(body_fun)
    leaves, structure = trees.flatten(init_val)
    start = trees.unflatten(structure, [wrap(as_node(x)) for x in leaves])
    if names is None:
        names = trees.leaf_names(structure, "val")
    final, _ = _while(
        operation,
        lambda val: val[1],
        step,
        (init_val, cond_fun(start)),
        memory,
        [*names, "condition"],
        name,
    )
    return final


def _check_condition(operation: str, test: Traced) -> None:
    outputs = test.target.outputs
    if len(outputs) == 1 and outputs[0].shape == () and outputs[0].dtype == np.bool_:
        return
    raise (TypeError if len(outputs) != 1 or outputs[0].shape == () else ShapeError)(
        explain(
            operation,
            "the condition must be one boolean",
            got={"result of the condition": [x.type for x in outputs]},
            expected="bool[]",
            fix="a comparison; np.any(...) or np.all(...) of several",
        )
    )
