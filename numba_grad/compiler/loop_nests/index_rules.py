"""The value of a node at an index: one rule for each family, and for each movement.

A rule is a generator: it yields (node, index) of the operands it needs, receives their names in the
kernel, and returns the name of its own value. Movements only change the index.
"""

import itertools
from collections.abc import Callable, Generator

import numpy as np

from numba_grad.compiler.loop_nests import conditions
from numba_grad.compiler.loop_nests.iteration_spaces import (
    Factor,
    Index,
    constant_index,
    is_loop,
    literal_index,
    matching_groups,
    position,
    variable,
)
from numba_grad.compiler.loop_nests.kernel_ir import Constant
from numba_grad.compiler.loop_nests.reductions import (
    ARG_REDUCTIONS,
    reduction_axes,
)
from numba_grad.compiler.loop_nests.value_numbering import BOOL, INT64, Values
from numba_grad.compiler.scalar_expressions import expression_of
from numba_grad.compiler.words import Errors
from numba_grad.dtypes import FLOAT32, FLOAT64, is_storage_only
from numba_grad.errors import InternalError
from numba_grad.graph.node import Node
from numba_grad.ops.functions import is_power_of_integers
from numba_grad.ops.movement import rotation_of
from numba_grad.runtime.plan import ErrorSite

Steps = Generator[tuple[Node, tuple[Index, ...]], str, str]


def value_at(values: Values, node: Node, index: tuple[Index, ...]) -> str:
    """The name of the value of `node` at `index`. No recursion: a group may be deep."""
    keys = [(node, index)]
    stack = [_steps(values, node, index)]
    answer: str | None = None
    while stack:
        try:
            request = stack[-1].send(answer)  # type: ignore[arg-type]
        except StopIteration as stop:
            stack.pop()
            answer = values.evaluated[keys.pop()] = stop.value
            continue
        answer = values.evaluated.get(request)
        if answer is None:
            keys.append(request)
            stack.append(_steps(values, *request))
    assert answer is not None
    return answer


def _steps(values: Values, node: Node, index: tuple[Index, ...]) -> Steps:
    place = values.place_to_load(node)
    if place is not None:
        return values.load(place, node.dtype, position(node.shape, index))
    rule = FAMILY_RULES.get(node.op.family) or RULES.get(node.op.name)
    if rule is None:
        raise InternalError(f"lower: no rule to compute {node} inside of a kernel")
    return (yield from rule(values, node, index))


# A product that is added is rounded together with the sum. This is decided here, by the graph and
# by what has memory, and not by LLVM, which does so where it finds a product used once: so a value
# has the same bits in all kernels that compute it. `x == max(x)` holds somewhere, and `x - min(x)`
# is nowhere below 0, though the extreme and the comparison are of two loops.
_SUMS_OF_PRODUCTS = {
    ("add", 0): "{x} * {y} + {other}",
    ("add", 1): "{other} + {x} * {y}",
    ("subtract", 0): "{x} * {y} - {other}",
    ("subtract", 1): "{other} - {x} * {y}",
}


def factors_of(values: Values, node: Node) -> tuple[Node, Node] | None:
    """The factors of a product that is rounded with what it is added to."""
    if node.op.name not in ("multiply", "square") or node.dtype not in (FLOAT32, FLOAT64):
        return None
    if values.place_of(node) is not None:
        return None
    return node.inputs[0], node.inputs[-1]


def _elementwise(values: Values, node: Node, index: tuple[Index, ...]) -> Steps:
    if node.op.name in ("add", "subtract"):
        for number, x in enumerate(node.inputs):
            factors = factors_of(values, x) if x.shape == node.shape else None
            if factors is not None:
                return (yield from _sum_of_product(values, node, number, factors, index))
    operands: dict[str, str] = {}
    for name, x in zip(node.op.input_names, node.inputs, strict=True):
        operands[name] = yield x, broadcast(index, x.shape)
    if is_power_of_integers(node):
        operands["y"] = _refused_if_negative(values, operands["y"])
    values.operations += node.op.cost
    return values.apply(expression_of(node), node.dtype, casts=is_rounded(node.dtype), **operands)


def _refused_if_negative(values: Values, exponent: str) -> str:
    """The exponent of an integer. A negative one is recorded, as its size, which as an index into
    one element is out of range."""
    zero = values.constant(0, INT64)
    size = "select({y} < {zero}, -cast({y}, int64), {zero})"
    index = values.apply(
        "check_index({i}, {n}, {errors}, {site})",
        INT64,
        i=values.apply(size, INT64, y=exponent, zero=zero),
        n=values.constant(1, INT64),
        errors=values.special_word(Errors(), "errors"),
        site=values.special_word(ErrorSite("negative power", "power"), "site"),
    )
    values.operations += 2
    return values.apply("cast({y}, int64) + {index}", INT64, y=exponent, index=index)  # index: 0


def is_rounded(dtype: np.dtype) -> bool:
    """Whether what an expression computes is not yet of the `dtype`: integers below 64 bits are
    computed in 64, half precision in float32. A result must not depend on whether it is stored."""
    return dtype.kind in "iub" or is_storage_only(dtype)


def _sum_of_product(
    values: Values,
    node: Node,
    number: int,
    factors: tuple[Node, Node],
    index: tuple[Index, ...],
) -> Steps:
    other = node.inputs[1 - number]
    operands = {}
    for name, x in zip(("x", "y", "other"), (*factors, other), strict=True):
        operands[name] = yield x, broadcast(index, x.shape)
    values.operations += 2
    return values.apply(_SUMS_OF_PRODUCTS[node.op.name, number], node.dtype, **operands)


def _unrolled_reduction(values: Values, node: Node, index: tuple[Index, ...]) -> Steps:
    (x,) = node.inputs
    axes = reduction_axes(node)
    kept = iter(index)
    pattern = [None if axis in axes else next(kept) for axis in range(len(x.shape))]
    result = best = ""
    factors = factors_of(values, x) if node.op.name == "sum" else None
    choices = list(itertools.product(*(range(x.shape[axis]) for axis in axes)))
    for number, choice in enumerate(choices):
        chosen = iter(choice)
        where = tuple(literal_index(next(chosen)) if i is None else i for i in pattern)
        if factors is not None and number:
            first, second = [broadcast(where, y.shape) for y in factors]
            left, right = (yield factors[0], first), (yield factors[1], second)
            values.operations += 2
            together = _SUMS_OF_PRODUCTS["add", 0]
            result = values.apply(together, node.dtype, x=left, y=right, other=result)
            continue
        value = yield (x, where)
        values.operations += 1
        if number == 0:
            result = value
            best = values.constant(0, INT64) if node.op.name in ARG_REDUCTIONS else ""
        elif node.op.name in ARG_REDUCTIONS:
            better = values.apply(ARG_REDUCTIONS[node.op.name], BOOL, value=value, best=result)
            best = values.select(better, values.constant(number, INT64), best, INT64)
            result = values.select(better, value, result, x.dtype)
        else:
            # In half precision the result alone is rounded, as where it is accumulated in a loop.
            is_whole = number == len(choices) - 1
            # In this order, as such sums may be written out in several kernels.
            in_order = node.op.name == "sum" and node.dtype.kind in "fc"
            result = values.apply(
                "{accumulator} + {value}" if in_order else expression_of(node),
                node.dtype,
                casts=is_rounded(node.dtype) if is_whole else node.dtype.kind in "iub",
                accumulator=result,
                value=value,
            )
    return best or result


def _literal(values: Values, node: Node, index: tuple[Index, ...]) -> Steps:
    return values.let(Constant(node.params["bytes"], node.dtype), 0)
    yield


def _iota(values: Values, node: Node, index: tuple[Index, ...]) -> Steps:
    value = values.index_value(index[0])
    return values.apply(
        "cast({x}, {dtype})",
        node.dtype,
        casts=is_storage_only(node.dtype),
        x=value,
    )
    yield


def _reshape(values: Values, node: Node, index: tuple[Index, ...]) -> Steps:
    (x,) = node.inputs
    place = values.place_to_load(x)
    if place is not None:
        return values.load(place, x.dtype, position(node.shape, index))
    return (yield x, _reshaped(values, x.shape, node.shape, index))


def _reshaped(
    values: Values, old: tuple[int, ...], new: tuple[int, ...], index: tuple[Index, ...]
) -> tuple[Index, ...]:
    """The index into `old` of the element at `index` of `new`."""
    result = [Index()] * len(old)
    if 0 in old:
        return tuple(result)
    for old_axes, new_axes in matching_groups(old, new):
        flat = position(
            tuple(new[axis] for axis in new_axes), tuple(index[axis] for axis in new_axes)
        )
        for k, axis in reversed(list(enumerate(old_axes))):
            if k == 0:
                result[axis] = flat
            elif flat.is_constant:
                is_literal = not is_loop(old[axis]) and not flat.runtime
                result[axis] = constant_index(flat.constant % old[axis], is_literal)
                flat = constant_index(flat.constant // old[axis], flat.runtime == 0)
            else:
                value = values.index_value(flat)
                extent = values.index_value(constant_index(old[axis], not is_loop(old[axis])))
                result[axis] = variable(values.apply("{k} % {n}", INT64, k=value, n=extent))
                flat = variable(values.apply("{k} // {n}", INT64, k=value, n=extent))
    return tuple(result)


def _transpose(values: Values, node: Node, index: tuple[Index, ...]) -> Steps:
    (x,) = node.inputs
    where = [Index()] * len(index)
    for i, axis in zip(index, node.params["axes"], strict=True):
        where[axis] = i
    return (yield x, tuple(where))


def _broadcast_to(values: Values, node: Node, index: tuple[Index, ...]) -> Steps:
    (x,) = node.inputs
    return (yield x, broadcast(index, x.shape))


def broadcast(index: tuple[Index, ...], shape: tuple[int, ...]) -> tuple[Index, ...]:
    """Where what is broadcast from `shape` is read."""
    own = index[len(index) - len(shape) :]
    if 1 not in shape:
        return own
    return tuple([Index() if n == 1 else i for n, i in zip(shape, own, strict=True)])


def _slice(values: Values, node: Node, index: tuple[Index, ...]) -> Steps:
    (x,) = node.inputs
    where = [
        i.times(Factor(step, True)).shifted(start, not is_loop(n))
        for i, start, step, n in zip(
            index, node.params["starts"], node.params["steps"], x.shape, strict=True
        )
    ]
    return (yield x, tuple(where))


def _flip(values: Values, node: Node, index: tuple[Index, ...]) -> Steps:
    (x,) = node.inputs
    where = [
        i.times(Factor(-1, True)).shifted(n - 1, not is_loop(n))
        if axis in node.params["axes"]
        else i
        for axis, (i, n) in enumerate(zip(index, x.shape, strict=True))
    ]
    return (yield x, tuple(where))


def _pad(values: Values, node: Node, index: tuple[Index, ...]) -> Steps:
    (x,) = node.inputs
    steps = tuple(interior + 1 for interior in node.params["interior"])
    low = node.params["low"]
    condition, where = conditions.region(values, index, node.shape, x.shape, low, steps)
    if condition is False:
        return values.constant(0, node.dtype)
    value = yield (x, where)
    if condition is True:
        return value
    assert isinstance(condition, str)
    return values.select(condition, value, values.constant(0, node.dtype), node.dtype)


def _concatenate(values: Values, node: Node, index: tuple[Index, ...]) -> Steps:
    axis = node.params["axis"]
    is_literal = not is_loop(node.shape[axis])
    rotation = _rotation(values, node)
    if rotation is not None:  # no value is computed twice, to choose from
        x, cut = rotation
        where = conditions.rotated(values, index[axis], cut, node.shape[axis], is_literal)
        return (yield x, (*index[:axis], where, *index[axis + 1 :]))
    start = 0
    result = ""
    for x in node.inputs:
        size = x.shape[axis]
        own = index[axis].shifted(-start, is_literal)
        start += size
        here = conditions.holds(values, own, 0, size)
        if here is False:
            continue
        # A part of one element is read there: what it is made of is found while compiling.
        inside = Index() if size == 1 else conditions.guarded(values, here, own)
        where = (*index[:axis], inside, *index[axis + 1 :])
        value = yield (x, where)
        if here is True:
            return value
        assert isinstance(here, str)
        result = values.select(here, value, result, node.dtype) if result else value
    return result


def _rotation(values: Values, node: Node) -> tuple[Node, int] | None:
    """As `rotation_of` has it, if the whole array can be read, or computed."""
    found = rotation_of(node)
    if found is None or values.place_to_load(found[0]) is not None:
        return found
    return None if any(map(values.place_to_load, node.inputs)) else found


def _update_slice(values: Values, node: Node, index: tuple[Index, ...]) -> Steps:
    x, v = node.inputs
    condition, where = conditions.region(
        values, index, x.shape, v.shape, node.params["starts"], node.params["steps"]
    )
    if condition is True:
        return (yield v, where)
    old = yield (x, index)
    if condition is False:
        return old
    assert isinstance(condition, str)
    value = yield (v, where)
    return values.select(condition, value, old, node.dtype)


def _add_slice(values: Values, node: Node, index: tuple[Index, ...]) -> Steps:
    x, v = node.inputs
    condition, where = conditions.region(
        values, index, x.shape, v.shape, node.params["starts"], node.params["steps"]
    )
    if condition is True and _is_outside_of_pad(values, x, index):
        # Reverse mode adds contributions to one cotangent; here the first one is absent rather
        # than 0.
        return (yield v, where)
    old = yield (x, index)
    if condition is False:
        return old
    value = yield (v, where)
    values.operations += 1
    new = values.apply("{x} + {y}", node.dtype, casts=is_rounded(node.dtype), x=old, y=value)
    if condition is True:
        return new
    # Not x + select(v, 0): that would turn -0.0 outside of the region into 0.0.
    assert isinstance(condition, str)
    return values.select(condition, new, old, node.dtype)


def _is_outside_of_pad(values: Values, x: Node, index: tuple[Index, ...]) -> bool:
    """Whether `x` at `index` is known to be what a pad fills in."""
    if x.op.name != "pad" or values.place_to_load(x) is not None:
        return False
    steps = tuple(interior + 1 for interior in x.params["interior"])
    low, inner = x.params["low"], x.inputs[0].shape
    inside, _ = conditions.region(values, index, x.shape, inner, low, steps)
    return inside is False


def _gather(values: Values, node: Node, index: tuple[Index, ...]) -> Steps:
    x, *index_arrays = node.inputs
    rank = len(index_arrays[0].shape)
    where: list[Index] = []
    for axis, array in enumerate(index_arrays):
        value = yield (array, index[:rank])
        if array.dtype != INT64:
            value = values.apply("cast({x}, int64)", INT64, x=value)
        if node.params.get("checked", True):
            n = x.shape[axis]
            extent = values.index_value(constant_index(n, not is_loop(n)))
            errors = values.special_word(Errors(), "errors")
            named = (node.params.get("named_axes") or range(len(index_arrays)))[axis]
            site = values.special_word(ErrorSite("index", node.op.name, named), "site")
            value = values.apply(
                "check_index({i}, {n}, {errors}, {site})",
                INT64,
                i=value,
                n=extent,
                errors=errors,
                site=site,
            )
        values.operations += 2
        where.append(variable(value))
    return (yield x, (*where, *index[rank:]))


Rule = Callable[[Values, Node, tuple[Index, ...]], Steps]
FAMILY_RULES: dict[str, Rule] = {"elementwise": _elementwise, "reduction": _unrolled_reduction}
RULES: dict[str, Rule] = {
    "literal": _literal,
    "iota": _iota,
    "reshape": _reshape,
    "transpose": _transpose,
    "broadcast_to": _broadcast_to,
    "slice": _slice,
    "flip": _flip,
    "pad": _pad,
    "concatenate": _concatenate,
    "update_slice": _update_slice,
    "add_slice": _add_slice,
    "gather": _gather,
}
