"""Movement primitives: the elements stay what they are and change place. None of them computes.

Params are already normalized: axes count from the first and are sorted, starts are not negative,
steps are at least 1. Negative steps are `flip` of `slice`; the frontend takes arguments apart.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from numba_grad.errors import AxisError, ShapeError, explain
from numba_grad.graph.node import (
    OPS,
    Inferred,
    Node,
    SharedParams,
    inferred_of,
    record,
    recorded,
)
from numba_grad.graph.types import Type, array_type
from numba_grad.ops.families import (
    ALL,
    check_one_dtype,
    linear,
    shape_params,
    structural,
    sum_to,
    together,
    zeros_like,
)
from numba_grad.ops.families import reshape as reshape_to  # records nothing where shapes agree

Shape = tuple[int, ...]


def array_of(rng: "np.random.Generator", *shape: int) -> np.ndarray:
    """A sample for tests."""
    return rng.standard_normal(shape)


# reshape


def _infer_reshape(x: Type, *, shape: Shape) -> Type:
    if math.prod(shape) != x.size or any(n < 0 for n in shape):
        raise ShapeError(
            explain(
                "reshape",
                f"{x.size} elements do not fill the shape {shape}",
                got={"x": x, "shape": shape},
                expected="the same number of elements",
                fix="x.reshape(..., -1) to leave one size to be worked out",
            )
        )
    return array_type(shape, x.dtype)


reshape = structural(
    "reshape",
    family="movement",
    infer=_infer_reshape,
    reference=lambda x, *, shape: np.reshape(x, shape),
    vjp=(lambda g, out, x, *, shape: reshape(g, shape=x.shape),),
    batch=lambda is_batched, x, *, shape: reshape(x, shape=(x.shape[0], *shape)),
    dtypes=ALL,
    example=lambda rng: [
        ((array_of(rng, 3, 4),), {"shape": (2, 6)}),
        ((array_of(rng, 2, 9, 5),), {"shape": (10, 9)}),
        ((array_of(rng),), {"shape": (1, 1)}),
        ((array_of(rng, 1, 1),), {"shape": ()}),
        ((array_of(rng, 3, 0),), {"shape": (0, 7, 2)}),
        ((array_of(rng, 24),), {"shape": (1, 2, 1, 12)}),
    ],
    extras={"write_back": lambda x, v, *, shape: reshape(v, shape=x.shape)},
    jvp=linear,
)


# transpose


def _infer_transpose(x: Type, *, axes: Shape) -> Type:
    if sorted(axes) != list(range(x.rank)):
        raise AxisError(
            explain(
                "transpose",
                "axes are not a permutation of the axes of x",
                got={"x": x, "axes": axes},
                expected=f"each of {tuple(range(x.rank))} once",
            )
        )
    return array_type(tuple(x.shape[axis] for axis in axes), x.dtype)


def inverse_permutation(axes: Shape) -> Shape:
    result = [0] * len(axes)
    for position, axis in enumerate(axes):
        result[axis] = position
    return tuple(result)


transpose = structural(
    "transpose",
    family="movement",
    infer=_infer_transpose,
    reference=lambda x, *, axes: np.transpose(x, axes),
    vjp=(lambda g, out, x, *, axes: permuted(g, inverse_permutation(axes)),),
    batch=lambda is_batched, x, *, axes: transpose(x, axes=(0, *(axis + 1 for axis in axes))),
    dtypes=ALL,
    example=lambda rng: [
        ((array_of(rng, 3, 4),), {"axes": (1, 0)}),
        ((array_of(rng, 2, 3, 11),), {"axes": (2, 0, 1)}),
        ((array_of(rng, 2, 3, 1, 4),), {"axes": (0, 3, 2, 1)}),
        ((array_of(rng, 9),), {"axes": (0,)}),
        ((array_of(rng),), {"axes": ()}),
        ((array_of(rng, 0, 3),), {"axes": (1, 0)}),
    ],
    extras={"write_back": lambda x, v, *, axes: transpose(v, axes=inverse_permutation(axes))},
    jvp=linear,
)


def permuted(x: Node, axes: Shape) -> Node:
    """Axis k of the result is axis `axes[k]` of `x`, which is returned itself if nothing moves."""
    params = _order_params(axes, len(x.type.shape))
    return x if params is None else record(transpose, (x,), params)


@functools.lru_cache(maxsize=1 << 12)
def _order_params(axes: Shape, rank: int) -> SharedParams | None:
    return None if axes == tuple(range(rank)) else SharedParams(axes=axes)


# broadcast_to


def _infer_broadcast_to(x: Type, *, shape: Shape) -> Type:
    extra = len(shape) - x.rank
    if extra < 0 or any(n not in (1, m) for n, m in zip(x.shape, shape[extra:], strict=True)):
        raise ShapeError(
            explain(
                "broadcast_to",
                f"x does not broadcast to the shape {shape}",
                got={"x": x, "shape": shape},
                expected="on every axis, counted from the last, equal sizes or a size of 1 in x",
                fix="x[:, None] or x.reshape(...) to line the axes up",
            )
        )
    return array_type(shape, x.dtype)


def _batch_broadcast_to(is_batched: Sequence[bool], x: Node, *, shape: Shape) -> Node:
    size, own = x.shape[0], x.shape[1:]
    aligned = reshape(x, shape=(size, *(1,) * (len(shape) - len(own)), *own))
    return broadcast_to_op(aligned, shape=(size, *shape))


# Named unlike the op: `broadcast_to` of families.py, used here, records nothing where shapes agree.
broadcast_to_op = structural(
    "broadcast_to",
    family="movement",
    infer=_infer_broadcast_to,
    reference=lambda x, *, shape: np.broadcast_to(x, shape),
    vjp=(lambda g, out, x, *, shape: sum_to(g, x.shape),),
    batch=_batch_broadcast_to,
    dtypes=ALL,
    example=lambda rng: [
        ((array_of(rng, 3),), {"shape": (2, 3)}),
        ((array_of(rng, 3, 1),), {"shape": (3, 10)}),
        ((array_of(rng, 1, 4),), {"shape": (2, 5, 4)}),
        ((array_of(rng),), {"shape": (3, 3)}),
        ((array_of(rng),), {"shape": ()}),
        ((array_of(rng, 1),), {"shape": (0,)}),
        ((array_of(rng, 0),), {"shape": (3, 0)}),
        ((array_of(rng, 1),), {"shape": (12,)}),
    ],
    jvp=linear,
)


# slice


def region(starts: Shape, sizes: Shape, steps: Shape) -> tuple[slice, ...]:
    """The part of an array that slice, update_slice and add_slice mean, as an index for NumPy."""
    return tuple(
        slice(start, start + _extent(size, step), step)
        for start, size, step in zip(starts, sizes, steps, strict=True)
    )


def part(
    x: np.ndarray, starts: Shape, sizes: Shape, steps: Shape, dropped: Shape = ()
) -> np.ndarray:
    """That part, as a view; also where there are no axes, for which `x[()]` would be a number."""
    index: list[int | slice] = [*region(starts, sizes, steps)]
    for axis in dropped:
        index[axis] = starts[axis]
    return x[(*index, ...)]


def _extent(size: int, step: int) -> int:
    """How far `size` elements reach, at one in `step`."""
    return (size - 1) * step + 1 if size else 0


def _check_region(operation: str, x: Type, starts: Shape, sizes: Shape, steps: Shape) -> None:
    if not len(starts) == len(sizes) == len(steps) == x.rank or any(
        start < 0 or size < 0 or step < 1 or start + _extent(size, step) > n
        for start, size, step, n in zip(starts, sizes, steps, x.shape, strict=True)
    ):
        raise ShapeError(
            explain(
                operation,
                "the region is not inside x",
                got={"x": x, "starts": starts, "sizes": sizes, "steps": steps},
                expected="one start >= 0, size >= 0 and step >= 1 per axis, ending inside it",
            )
        )


@functools.lru_cache(maxsize=1 << 14)
def region_params(starts: Shape, steps: Shape) -> SharedParams:
    """Where update_slice and add_slice write."""
    return SharedParams(starts=starts, steps=steps)


def _infer_slice(
    x: Type, *, starts: Shape, sizes: Shape, steps: Shape, dropped: Shape = ()
) -> Type:
    _check_region("slice", x, starts, sizes, steps)
    if any(sizes[axis] != 1 for axis in dropped):
        raise ShapeError(
            explain(
                "slice",
                "an axis that is left out has more than one element",
                got={"x": x, "sizes": sizes, "dropped": dropped},
                expected="a size of 1 on each of these axes",
            )
        )
    return array_type(_without(sizes, dropped), x.dtype)


def _without(shape: Shape, dropped: Shape) -> Shape:
    return tuple([n for axis, n in enumerate(shape) if axis not in dropped]) if dropped else shape


def _slice_vjp(
    g: Node,
    out: Node,
    x: Node,
    *,
    starts: Shape,
    sizes: Shape,
    steps: Shape,
    dropped: Shape = (),
) -> Node:
    whole = reshape_to(g, sizes)
    if sizes == x.shape:  # of `x[:, None]`
        return whole
    return record(pad, (whole,), _pad_params(x.shape, starts, sizes, steps))


@functools.lru_cache(maxsize=1 << 14)
def _pad_params(shape: Shape, starts: Shape, sizes: Shape, steps: Shape) -> SharedParams:
    """Of the pad that puts a slice back to its place."""
    high = tuple(
        n - start - _extent(size, step)
        for n, start, size, step in zip(shape, starts, sizes, steps, strict=True)
    )
    return SharedParams(low=starts, high=high, interior=tuple(step - 1 for step in steps))


def _batch_slice(
    is_batched: Sequence[bool],
    x: Node,
    *,
    starts: Shape,
    sizes: Shape,
    steps: Shape,
    dropped: Shape = (),
) -> Node:
    params = slice_params(
        (0, *starts),
        (x.shape[0], *sizes),
        (1, *steps),
        tuple([axis + 1 for axis in dropped]),
    )
    return record(slice_, (x,), params)


@functools.lru_cache(maxsize=1 << 14)
def slice_params(starts: Shape, sizes: Shape, steps: Shape, dropped: Shape = ()) -> SharedParams:
    """Of a region; without axes that are dropped, there is no such param."""
    if not dropped:
        return SharedParams(starts=starts, sizes=sizes, steps=steps)
    return SharedParams(starts=starts, sizes=sizes, steps=steps, dropped=dropped)


# A strided region, less the axes `dropped`, of which it has one place: those of integer indices.
slice_ = structural(
    "slice",
    family="movement",
    infer=_infer_slice,
    reference=part,
    vjp=(_slice_vjp,),
    batch=_batch_slice,
    dtypes=ALL,
    example=lambda rng: [
        ((array_of(rng, 12),), {"starts": (1,), "sizes": (10,), "steps": (1,)}),
        ((array_of(rng, 12),), {"starts": (1,), "sizes": (4,), "steps": (3,)}),
        ((array_of(rng, 4, 5),), {"starts": (1, 0), "sizes": (2, 3), "steps": (2, 2)}),
        ((array_of(rng, 4, 5),), {"starts": (3, 2), "sizes": (1, 1), "steps": (1, 5)}),
        ((array_of(rng, 2, 3, 9),), {"starts": (0, 2, 0), "sizes": (2, 1, 9), "steps": (1, 1, 1)}),
        ((array_of(rng, 4),), {"starts": (4,), "sizes": (0,), "steps": (1,)}),
        ((array_of(rng, 0, 3),), {"starts": (0, 1), "sizes": (0, 2), "steps": (2, 1)}),
        ((array_of(rng),), {"starts": (), "sizes": (), "steps": ()}),
        ((array_of(rng, 12),), {"starts": (5,), "sizes": (1,), "steps": (1,), "dropped": (0,)}),
        (
            (array_of(rng, 4, 3, 9),),
            {"starts": (2, 1, 1), "sizes": (1, 2, 4), "steps": (1, 1, 2), "dropped": (0,)},
        ),
        (
            (array_of(rng, 4, 3, 9),),
            {"starts": (0, 2, 8), "sizes": (4, 1, 1), "steps": (1, 1, 1), "dropped": (1, 2)},
        ),
    ],
    extras={
        "write_back": lambda x, v, *, starts, sizes, steps, dropped=(): record(
            update_slice, (x, reshape_to(v, sizes)), region_params(starts, steps)
        )
    },
    jvp=linear,
)


# flip


def _infer_flip(x: Type, *, axes: Shape) -> Type:
    if len(set(axes)) != len(axes) or any(not 0 <= axis < x.rank for axis in axes):
        raise AxisError(
            explain(
                "flip",
                "axis out of range or repeated",
                got={"x": x, "axes": axes},
                expected=f"different axes, 0 <= axis < {x.rank}",
            )
        )
    return x


flip = structural(
    "flip",
    family="movement",
    infer=_infer_flip,
    reference=lambda x, *, axes: np.flip(x, axes),
    vjp=(lambda g, out, x, *, axes: flip(g, axes=axes),),
    dtypes=ALL,
    example=lambda rng: [
        ((array_of(rng, 10),), {"axes": (0,)}),
        ((array_of(rng, 3, 4),), {"axes": (0, 1)}),
        ((array_of(rng, 2, 3, 4),), {"axes": (1,)}),
        ((array_of(rng, 1),), {"axes": (0,)}),
        ((array_of(rng, 0, 2),), {"axes": (0, 1)}),
        ((array_of(rng),), {"axes": ()}),
    ],
    extras={"write_back": lambda x, v, *, axes: flip(v, axes=axes)},
    jvp=linear,
)


# pad


def _infer_pad(x: Type, *, low: Shape, high: Shape, interior: Shape) -> Type:
    if not len(low) == len(high) == len(interior) == x.rank or any(
        n < 0 for n in (*low, *high, *interior)
    ):
        raise ShapeError(
            explain(
                "pad",
                "padding does not fit x",
                got={"x": x, "low": low, "high": high, "interior": interior},
                expected="for each axis of x one number >= 0 each",
            )
        )
    shape = tuple(
        before + _extent(n, between + 1) + after
        for n, before, after, between in zip(x.shape, low, high, interior, strict=True)
    )
    return array_type(shape, x.dtype)


def _pad_reference(x: np.ndarray, *, low: Shape, high: Shape, interior: Shape) -> np.ndarray:
    shape = _infer_pad(array_type(x.shape, x.dtype), low=low, high=high, interior=interior).shape
    result = np.zeros(shape, x.dtype)
    result[region(low, x.shape, tuple(n + 1 for n in interior))] = x
    return result


def _pad_vjp(g: Node, out: Node, x: Node, *, low: Shape, high: Shape, interior: Shape) -> Node:
    return slice_(g, starts=low, sizes=x.shape, steps=tuple(n + 1 for n in interior))


def _batch_pad(
    is_batched: Sequence[bool], x: Node, *, low: Shape, high: Shape, interior: Shape
) -> Node:
    return pad(x, low=(0, *low), high=(0, *high), interior=(0, *interior))


# Fills with zeros: below the first element of an axis, above the last, and `interior` of them
# between neighbours.
pad = structural(
    "pad",
    family="movement",
    infer=_infer_pad,
    reference=_pad_reference,
    vjp=(_pad_vjp,),
    batch=_batch_pad,
    dtypes=ALL,
    example=lambda rng: [
        ((array_of(rng, 9),), {"low": (2,), "high": (1,), "interior": (0,)}),
        ((array_of(rng, 4),), {"low": (0,), "high": (3,), "interior": (2,)}),
        ((array_of(rng, 2, 3),), {"low": (1, 0), "high": (0, 2), "interior": (1, 0)}),
        ((array_of(rng, 1, 1),), {"low": (0, 0), "high": (0, 0), "interior": (3, 0)}),
        ((array_of(rng, 0),), {"low": (2,), "high": (3,), "interior": (4,)}),
        ((array_of(rng, 3, 0),), {"low": (0, 0), "high": (1, 0), "interior": (0, 1)}),
        ((array_of(rng),), {"low": (), "high": (), "interior": ()}),
    ],
    jvp=linear,
)


# concatenate


def _infer_concatenate(*types: Type, axis: int) -> Type:
    first = types[0]
    got: dict[str, object] = {f"array {k}": t for k, t in enumerate(types)}
    if not 0 <= axis < first.rank:
        raise AxisError(
            explain(
                "concatenate",
                "axis out of range",
                got={**got, "axis": axis},
                expected=f"0 <= axis < {first.rank}"
                if first.rank
                else "arrays of one axis or more",
                fix="" if first.rank else "stack(...), which makes a new axis",
            )
        )
    rest = first.shape[:axis] + first.shape[axis + 1 :]
    if any(t.rank != first.rank or t.shape[:axis] + t.shape[axis + 1 :] != rest for t in types):
        raise ShapeError(
            explain(
                "concatenate",
                "shapes differ on another axis than the one to join",
                got={**got, "axis": axis},
                expected=f"equal ranks, and equal sizes on every axis but {axis}",
            )
        )
    check_one_dtype("concatenate", {f"array {k}": t for k, t in enumerate(types)})
    total = sum(t.shape[axis] for t in types)
    return array_type((*first.shape[:axis], total, *first.shape[axis + 1 :]), first.dtype)


_FEW_PARTS = 8
# Where the parts of a long concatenation start: its rule is called for each of them.
_starts_of_parts: WeakKeyDictionary[Node, list[int]] = WeakKeyDictionary()


def _concatenate_vjp(k: int, g: Node, out: Node, *inputs: Node, axis: int) -> Node:
    if k < _FEW_PARTS:
        start = sum([x.type.shape[axis] for x in inputs[:k]])
    else:
        starts = _starts_of_parts.get(out)
        if starts is None:
            starts = [0, *itertools.accumulate([x.type.shape[axis] for x in inputs])]
            _starts_of_parts[out] = starts
        start = starts[k]
    return record(slice_, (g,), _part_params(axis, start, inputs[k].type.shape))


@functools.lru_cache(maxsize=1 << 12)
def _part_params(axis: int, start: int, sizes: Shape) -> SharedParams:
    """Of the slice that is one part of a concatenation."""
    starts = tuple([start if number == axis else 0 for number in range(len(sizes))])
    return SharedParams(starts=starts, sizes=sizes, steps=(1,) * len(sizes))


concatenate = structural(
    "concatenate",
    family="movement",
    input_names=("array",),
    infer=_infer_concatenate,
    reference=lambda *arrays, axis: np.concatenate(arrays, axis),
    vjp=_concatenate_vjp,
    dtypes=ALL,
    example=lambda rng: [
        ((array_of(rng, 2, 3), array_of(rng, 2, 1), array_of(rng, 2, 10)), {"axis": 1}),
        ((array_of(rng, 2, 3), array_of(rng, 1, 3)), {"axis": 0}),
        ((array_of(rng, 9), array_of(rng, 0), array_of(rng, 1)), {"axis": 0}),
        ((array_of(rng, 4),), {"axis": 0}),
        ((array_of(rng, 2, 0), array_of(rng, 3, 0)), {"axis": 0}),
    ],
    jvp=linear,
)


def concatenated(arrays: Sequence[Node], axis: int) -> Node:
    """Arrays one after the other: a loop stacks its parts in the same way in each step."""
    return record(concatenate, tuple(arrays), _axis_params(axis))


def stacked(arrays: Sequence[Node], axis: int) -> Node:
    """Arrays of one type next to each other along a new axis: each is given that, and they are
    concatenated."""
    params, expanded, joining, joined = _stacking(arrays[0].type, len(arrays), axis)
    parts = [recorded(reshape, (x,), params, expanded) for x in arrays]
    return recorded(concatenate, tuple(parts), joining, joined)


@functools.lru_cache(maxsize=1 << 10)
def _stacking(
    type: Type, count: int, axis: int
) -> tuple[SharedParams, Inferred, SharedParams, Inferred]:
    """The params of both operations, and what is inferred of them."""
    params = shape_params((*type.shape[:axis], 1, *type.shape[axis:]))
    expanded = inferred_of(reshape, [type], params)
    joining = _axis_params(axis)
    return params, expanded, joining, inferred_of(concatenate, [expanded[0]] * count, joining)


@functools.lru_cache(maxsize=1 << 8)
def _axis_params(axis: int) -> SharedParams:
    return SharedParams(axis=axis)


# update_slice, add_slice


def _infer_region(operation: str) -> Callable[..., Type]:
    def infer(x: Type, v: Type, *, starts: Shape, steps: Shape) -> Type:
        _check_region(operation, x, starts, v.shape, steps)
        check_one_dtype(operation, {"x": x, "v": v}, fix=f"v.astype({x.dtype.name!r})")
        return x

    return infer


def _update_slice_reference(
    x: np.ndarray, v: np.ndarray, *, starts: Shape, steps: Shape
) -> np.ndarray:
    result = x.copy()
    result[region(starts, v.shape, steps)] = v
    return result


def _add_slice_reference(
    x: np.ndarray, v: np.ndarray, *, starts: Shape, steps: Shape
) -> np.ndarray:
    result = x.copy()
    result[region(starts, v.shape, steps)] += v
    return result


def _slice_of_cotangent(
    g: Node, out: Node, x: Node, v: Node, *, starts: Shape, steps: Shape
) -> Node:
    return slice_(g, starts=starts, sizes=v.shape, steps=steps)


def _batch_region(name: str) -> Callable[..., Node]:
    def batch(is_batched: Sequence[bool], x: Node, v: Node, *, starts: Shape, steps: Shape) -> Node:
        region = {"starts": (0, *starts), "steps": (1, *steps)}
        return record(OPS[name], tuple(together(is_batched, x, v)), region)

    return batch


def _region_examples(rng: "np.random.Generator") -> list[Any]:
    return [
        ((array_of(rng, 12), array_of(rng, 9)), {"starts": (2,), "steps": (1,)}),
        ((array_of(rng, 12), array_of(rng, 4)), {"starts": (1,), "steps": (3,)}),
        ((array_of(rng, 4, 5), array_of(rng, 2, 1)), {"starts": (1, 3), "steps": (2, 1)}),
        ((array_of(rng, 2, 3), array_of(rng, 2, 3)), {"starts": (0, 0), "steps": (1, 1)}),
        ((array_of(rng, 3), array_of(rng, 0)), {"starts": (3,), "steps": (1,)}),
        ((array_of(rng, 0, 2), array_of(rng, 0, 1)), {"starts": (0, 1), "steps": (1, 1)}),
        ((array_of(rng), array_of(rng)), {"starts": (), "steps": ()}),
    ]


update_slice = structural(
    "update_slice",
    family="movement",
    input_names=("x", "v"),
    infer=_infer_region("update_slice"),
    reference=_update_slice_reference,
    vjp=(
        lambda g, out, x, v, **region: update_slice(g, zeros_like(v), **region),
        _slice_of_cotangent,
    ),
    batch=_batch_region("update_slice"),
    dtypes=ALL,
    example=_region_examples,
    jvp=linear,
)


def _add_slice_jvp(
    tangents: Sequence[Node | None], out: Node, x: Node, v: Node, **region: Any
) -> Node | None:
    of_x, of_v = tangents
    return of_x if of_v is None else linear(tangents, out, x, v, **region)


add_slice = structural(
    "add_slice",
    family="movement",
    input_names=("x", "v"),
    infer=_infer_region("add_slice"),
    reference=_add_slice_reference,
    vjp=(lambda g, out, x, v, **region: g, _slice_of_cotangent),
    batch=_batch_region("add_slice"),
    dtypes=ALL,
    example=_region_examples,
    jvp=_add_slice_jvp,
)


def rotation_of(node: Node) -> tuple[Node, int] | None:
    """Of what array a concatenation has all elements in their order, but for where they begin, and
    where that is: what `np.roll` records."""
    if len(node.inputs) != 2 or any(part.op is not slice_ for part in node.inputs):
        return None
    end, beginning = node.inputs
    (x,) = end.inputs
    axis, cut = node.params["axis"], beginning.shape[node.params["axis"]]
    is_rotation = (
        beginning.inputs[0] is x
        and x.shape == node.shape
        and set(end.params["steps"]) == set(beginning.params["steps"]) == {1}
        and end.params["starts"][axis] == cut
        and beginning.params["starts"][axis] == 0
    )
    return (x, cut) if is_rotation else None
