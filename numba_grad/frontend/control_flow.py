"""Loops as operations: `scan`, `fori_loop`, `while_loop`, `map`.

The function of a step is traced once, compiled once and differentiated once, whatever the number of
steps; the loop itself runs without Python. Inside of `jit` and outside.
"""

import builtins
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from numba_grad.errors import ShapeError, explain
from numba_grad.frontend import trees
from numba_grad.frontend.arrays import as_node, is_scalar, wrap
from numba_grad.frontend.bodies import Traced, name_of, traced
from numba_grad.frontend.joining_functions import concatenate
from numba_grad.frontend.memory_budgets import Memory, states_within
from numba_grad.frontend.progress_bars import Progress, name_of_body
from numba_grad.frontend.vmap import vmap
from numba_grad.graph.node import OPS, Node
from numba_grad.ops.families import cast
from numba_grad.transforms.loops import loop
from numba_grad.transforms.while_loops import while_loop as while_loop_of_nodes


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
    length : the number of steps; needed without `xs`
    reverse : whether the last row comes first; results are stacked in the order of rows either way
    unroll : of no effect: for the sake of programs written for JAX
    memory : for the derivative, which needs what was carried at the beginning of each step: bytes,
        as a number or as text, "256 MB", or "40 states". What there is no room for is computed
        again, as few steps as can be (a binomial schedule); the gradient has the same bits. By
        default half of the memory that is free.
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

    Notes
    -----
    The loop is one operation, differentiable to any order. The derivative keeps the carry of each
    step, and computes everything else of it again.

    Examples
    --------
    >>> def step(total, x):
    ...     return total + x, total * x
    >>> ng.scan(step, 0.0, np.arange(4.0))
    (tensor(6.), tensor([0., 0., 2., 9.]))
    """
    count, rows, rows_structure = _rows("scan", xs, length)
    name = name_of_body("scan", f, progress)
    return _scan("scan", f, init, rows, rows_structure, count, reverse, memory, name)


def _scan(
    operation: str,
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    rows: Sequence[Node],
    rows_structure: trees.Structure,
    count: int,
    reverse: bool = False,
    memory: Memory = None,
    name: str = "",
) -> tuple[Any, Any]:
    given, structure = trees.flatten(init)
    carried = [as_node(x) for x in given]
    row_types = [x.type.of_shape(x.shape[1:]) for x in rows]
    while True:
        _, pair_structure = trees.flatten(
            (
                trees.unflatten(structure, [0] * len(carried)),
                trees.unflatten(rows_structure, [0] * len(rows)),
            )
        )
        types = [*[x.type for x in carried], *row_types]
        step = _checked(operation, f, structure)
        body = traced(operation, step, types, pair_structure, given, name)
        if not _promote(given, carried, body):
            break
    outputs = body.target.outputs
    _check_carried(operation, structure, carried, outputs[: len(carried)])
    if not outputs:
        return init, trees.unflatten(_second(body.structure), [])
    slots = states_within(operation, memory, carried, count)
    finals, stacks = loop(
        body.target, carried, rows, body.captured, count, reverse=reverse, slots=slots
    )
    return (
        trees.unflatten(structure, builtins.map(wrap, finals)),
        trees.unflatten(_second(body.structure), builtins.map(wrap, stacks)),
    )


def _checked(
    operation: str, f: Callable[[Any, Any], Any], structure: trees.Structure
) -> Callable[[Any, Any], Any]:
    """`f`, whose result is looked at: a pair, of which the first is as the carry."""

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
        return tuple(out)

    step.__name__ = name_of(f)
    return step


def _second(pair: trees.Structure) -> trees.Structure:
    return pair.children()[1]


def _promote(given: list[Any], carried: list[Node], body: Traced) -> bool:
    """Give Python numbers that are carried the dtypes that a step makes of them; whether any had
    another one."""
    outputs = body.target.outputs[: len(carried)]
    changed = False
    for k, (x, node, out) in enumerate(zip(given, carried, outputs, strict=True)):
        if is_scalar(x) and node.dtype != out.dtype:
            carried[k] = cast(as_node(x), out.dtype)
            given[k] = None  # no longer weak
            changed = True
    return changed


def _check_carried(
    operation: str,
    structure: trees.Structure,
    before: Sequence[Node],
    after: Sequence[Node],
    what: str = "carry",
) -> None:
    for number, (a, b) in enumerate(zip(before, after, strict=True)):
        if a.type is b.type:
            continue
        name = trees.leaf_names(structure, what)[number]
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
    sizes: dict[str, Any] = {name: x.shape[0] for name, x in zip(names, rows, strict=True)}
    if length is not None:
        try:
            length = operator.index(length)
        except TypeError:
            raise TypeError(
                explain(operation, "the length must be an integer", got={"length": repr(length)})
            ) from None
        sizes["length"] = length
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
    count = next(iter(sizes.values()))
    if count < 0:
        raise ValueError(explain(operation, "a negative length", got=sizes))
    return count, rows, structure


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
    count, rows, structure = _rows("map", xs, None)
    name = name_of_body("map", f, progress)
    if batch_size is None:
        return _scan("map", lambda _, x: (None, f(x)), None, rows, structure, count, name=name)[1]
    size = operator.index(batch_size)
    if size < 1:
        raise ValueError(explain("map", "a batch has at least one row", got={"batch_size": size}))
    whole = count // size * size
    batched = vmap(f)
    parts = []
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
    lower, upper : integers
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
    first, stop = operator.index(lower), operator.index(upper)
    count = max(stop - first, 0)
    indices = [as_node(np.arange(first, first + count))]
    structure = trees.flatten(0)[1]

    def step(val: Any, i: Any) -> Any:
        return body_fun(i, val), None

    step.__name__ = name_of(body_fun)
    name = name_of_body("fori_loop", body_fun, progress)
    return _scan(
        "fori_loop", step, init_val, indices, structure, count, memory=memory, name=name
    )[0]


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
    name = name_of_body("while_loop", body_fun, progress)
    given, structure = trees.flatten(init_val)
    carried = [as_node(x) for x in given]
    arguments = trees.flatten((trees.unflatten(structure, [0] * len(carried)),))[1]
    while True:
        types = [x.type for x in carried]
        body = traced("while_loop", body_fun, types, arguments, given, name)
        if body.structure != structure:
            raise TypeError(
                trees.structure_mismatch(
                    "while_loop", "val after a step", body.structure, structure
                )
            )
        if not _promote(given, carried, body):
            break
    _check_carried("while_loop", structure, carried, body.target.outputs, "val")
    test = traced("while_loop", cond_fun, types, arguments, given)
    _check_condition(test)
    slots = states_within("while_loop", memory, carried) or 1
    finals, _ = while_loop_of_nodes(
        test.target, body.target, carried, test.captured, body.captured, slots
    )
    return trees.unflatten(structure, builtins.map(wrap, finals))


def _check_condition(test: Traced) -> None:
    outputs = test.target.outputs
    if len(outputs) == 1 and outputs[0].shape == () and outputs[0].dtype == np.bool_:
        return
    raise (TypeError if len(outputs) != 1 or outputs[0].shape == () else ShapeError)(
        explain(
            "while_loop",
            "the condition must be one boolean",
            got={"result of the condition": [x.type for x in outputs]},
            expected="bool[]",
            fix="a comparison; np.any(...) or np.all(...) of several",
        )
    )
