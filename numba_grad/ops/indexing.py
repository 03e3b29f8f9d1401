"""Indexing primitives: reading and writing at positions that are themselves values.

The first k axes of `x` are indexed by k integer arrays of one common shape I; the other axes are
`rest`. Indices from -n to n - 1 are legal and negative ones count from the end.

checked=True: kernels test every index, and one out of range raises IndexError. checked=False: who
records the operation has made sure that all indices are from 0 to n - 1, so kernels neither test
nor wrap them. An adjoint is checked as its operation is: both may run in one program, before
anybody looks at the error.

`named_axes`, where given, are the numbers by which messages call the indexed axes, because the
user's array had its axes in another order.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from numba_grad.errors import DTypeError, ShapeError, explain
from numba_grad.graph.node import OPS, Node, Op, record
from numba_grad.graph.types import Type, array_type
from numba_grad.ops.families import (
    ALL,
    batch_size,
    check_one_dtype,
    full,
    linear,
    reshape,
    structural,
    with_batch_axis,
    zeros_like,
)
from numba_grad.ops.families import broadcast_to as stretch
from numba_grad.ops.movement import array_of

Shape = tuple[int, ...]
Axes = tuple[int, ...] | None
BATCH_AXIS = -1  # its name in named_axes; never seen, as its indices are always in range


def out_of_range(operation: str, index: int, axis: int, size: int) -> str:
    """The message for an index outside of its axis, in the words that kernels' errors have too."""
    return explain(
        operation,
        f"index {index} is out of bounds for axis {axis} with size {size}",
        expected=f"{-size} <= index < {size}" if size else "no index: the axis is empty",
    )


def check_range(operation: str, index: np.ndarray, axis: int, size: int) -> None:
    """Raise IndexError for the first element that is not from -size to size - 1."""
    bad = (index < -size) | (index >= size)
    if bad.any():
        raise IndexError(out_of_range(operation, int(index[bad][0]), axis, size))


def _check_indices(
    operation: str, x: Type, indices: Sequence[Type], named_axes: Axes
) -> tuple[Shape, Shape]:
    """The shape I of the index arrays, and the shape of `rest`."""
    got: dict[str, object] = {"x": x}
    got.update({f"index {k}": t for k, t in enumerate(indices)})
    if not 1 <= len(indices) <= x.rank:
        raise IndexError(
            explain(
                operation,
                "too many indices" if indices else "no index",
                got=got,
                expected=f"1 to {x.rank} of them, one for each of the first axes of x",
            )
        )
    if any(t.dtype.kind not in "iu" for t in indices):
        raise DTypeError(
            explain(
                operation,
                "an index array must be of integers",
                got=got,
                expected="an integer dtype",
                fix="mask.nonzero() for a mask, index.astype(int) for whole floating numbers",
            )
        )
    if any(t.shape != indices[0].shape for t in indices):
        raise ShapeError(explain(operation, "index arrays of different shapes", got=got))
    # Kernels read element 0 for an index that is out of range, which an empty axis does not have.
    if indices[0].size:
        names = named_axes or range(len(indices))
        for axis, size in zip(names, x.shape[: len(indices)], strict=True):
            if size == 0:
                raise IndexError(
                    explain(
                        operation,
                        "no index is in range on an empty axis",
                        got={**got, "axis": axis, "size": 0},
                    )
                )
    return indices[0].shape, x.shape[len(indices) :]


def _check_arrays(
    operation: str, x: np.ndarray, indices: Sequence[np.ndarray], named_axes: Axes
) -> None:
    names = named_axes or range(len(indices))
    for axis, size, index in zip(names, x.shape, indices, strict=False):
        check_range(operation, index, axis, size)


def _iota_over(shape: Shape) -> Node:
    """0, 1, 2, ... along the first axis, stretched over `shape`."""
    counts = OPS["iota"](size=shape[0], dtype=np.dtype(np.int64))
    return stretch(reshape(counts, (shape[0], *[1] * (len(shape) - 1))), shape)


def _batched_indices(
    is_batched: Sequence[bool], indices: Sequence[Node], size: int
) -> tuple[Node, ...]:
    return tuple(
        with_batch_axis(i, batched, size) for i, batched in zip(indices, is_batched, strict=True)
    )


def _renamed(indices: Sequence[Node], named_axes: Axes) -> Shape:
    """The names of the axes after a batch axis was put before them."""
    return (BATCH_AXIS, *(named_axes or range(len(indices))))


# gather


def _infer_gather(x: Type, *indices: Type, checked: bool = True, named_axes: Axes = None) -> Type:
    positions, rest = _check_indices("gather", x, indices, named_axes)
    return array_type(positions + rest, x.dtype)


def _gather_reference(
    x: np.ndarray, *indices: np.ndarray, checked: bool = True, named_axes: Axes = None
) -> np.ndarray:
    _check_arrays("gather", x, indices, named_axes)
    return x[indices]


def _gather_vjp(k: int, g: Node, out: Node, x: Node, *indices: Node, **params: Any) -> Node | None:
    return scatter_add(zeros_like(x), g, *indices, **params) if k == 0 else None


def _batch_gather(
    is_batched: Sequence[bool],
    x: Node,
    *indices: Node,
    checked: bool = True,
    named_axes: Axes = None,
) -> Node:
    size = batch_size(is_batched, (x, *indices))
    if not is_batched[0]:
        batched = _batched_indices(is_batched[1:], indices, size)
        return gather(x, *batched, **_params(checked, named_axes))
    batched = _batched_indices(is_batched[1:], indices, size)
    names = _renamed(indices, named_axes)
    return gather(x, _iota_over(batched[0].shape), *batched, checked=checked, named_axes=names)


def _params(checked: bool, named_axes: Axes) -> dict[str, Any]:
    """Params as recorded: `named_axes` only where it says something."""
    return (
        {"checked": checked}
        if named_axes is None
        else {"checked": checked, "named_axes": named_axes}
    )


def _integers(rng: "np.random.Generator", low: int, high: int, *shape: int) -> np.ndarray:
    return rng.integers(low, high, shape)


def _index_examples(rng: "np.random.Generator") -> list[tuple[np.ndarray, tuple[np.ndarray, ...]]]:
    """Operands and indices: duplicates, negative ones, several axes, empty ones, 0-d ones."""
    return [
        (array_of(rng, 5), (_integers(rng, -5, 5, 12),)),
        (array_of(rng, 5, 9), (_integers(rng, -5, 5, 2, 3),)),
        (array_of(rng, 3, 4, 2), (_integers(rng, -3, 3, 6), _integers(rng, -4, 4, 6))),
        (array_of(rng, 3, 4), (_integers(rng, 0, 3), _integers(rng, -4, 4))),
        (array_of(rng, 1), (np.array([0, -1, 0]),)),
        (array_of(rng, 4, 2), (_integers(rng, 0, 1, 0),)),
        (array_of(rng, 0, 2), (_integers(rng, 0, 1, 0, 3),)),
        (array_of(rng, 3, 0), (_integers(rng, 0, 3, 2),)),
        (array_of(rng, 10, 2), (_integers(rng, 0, 10, 4).astype(np.int32),)),
    ]


gather = structural(
    "gather",
    family="indexing",
    input_names=("x", "index"),
    infer=_infer_gather,
    reference=_gather_reference,
    vjp=_gather_vjp,
    batch=_batch_gather,
    saves=("inputs",),
    dtypes=ALL,
    example=lambda rng: [((x, *indices), {"checked": True}) for x, indices in _index_examples(rng)],
    jvp=linear,
)


# scatter_add, scatter_set


def _infer_scatter(
    operation: str, x: Type, v: Type, indices: Sequence[Type], named_axes: Axes
) -> Type:
    positions, rest = _check_indices(operation, x, indices, named_axes)
    if v.shape != positions + rest:
        raise ShapeError(
            explain(
                operation,
                "v does not have the shape of what the indices name",
                got={"x": x, "v": v, **{f"index {k}": t for k, t in enumerate(indices)}},
                expected=f"v of shape {positions + rest}",
            )
        )
    check_one_dtype(operation, {"x": x, "v": v}, fix=f"v.astype({x.dtype.name!r})")
    return x


def _scatter_add_vjp(
    k: int, g: Node, out: Node, x: Node, v: Node, *indices: Node, **params: Any
) -> Node | None:
    if k == 0:
        return g
    return gather(g, *indices, **params) if k == 1 else None


def _scatter_set_vjp(
    k: int, g: Node, out: Node, x: Node, v: Node, *indices: Node, **params: Any
) -> Node | None:
    if k == 0:
        return scatter_set(g, zeros_like(v), *indices, **params)
    if k > 1:
        return None
    taken = gather(g, *indices, **params)
    stayed = _is_last_duplicate(x.shape[: len(indices)], indices, params)
    kept = stretch(
        reshape(stayed, stayed.shape + (1,) * (len(v.shape) - len(stayed.shape))), v.shape
    )
    return OPS["where"](kept, taken, zeros_like(v))


def _is_last_duplicate(sizes: Shape, indices: Sequence[Node], params: dict[str, Any]) -> Node:
    """For each position of the index arrays, whether what was written there is what stayed."""
    positions = indices[0].shape
    count = indices[0].type.size
    own = reshape(OPS["iota"](size=count, dtype=np.dtype(np.int64)), positions)
    written = scatter_set(full(0, sizes, np.dtype(np.int64)), own, *indices, **params)
    return OPS["equal"](gather(written, *indices, **params), own)


def _scatter_examples(rng: "np.random.Generator") -> list[Any]:
    return [
        (
            (x, array_of(rng, *indices[0].shape, *x.shape[len(indices) :]), *indices),
            {"checked": True},
        )
        for x, indices in _index_examples(rng)
    ]


def _scatter_add_jvp(
    tangents: Sequence[Node | None], out: Node, x: Node, v: Node, *indices: Node, **params: Any
) -> Node | None:
    of_x, of_v, *_ = tangents
    return of_x if of_v is None else linear(tangents, out, x, v, *indices, **params)


def _scatter(
    name: str,
    write: Callable[[np.ndarray, tuple[np.ndarray, ...], np.ndarray], None],
    vjp: Callable[..., Node | None],
    jvp: Callable[..., Node | None],
) -> Op:
    """`x` after `write(x, indices, v)`."""

    def infer(
        x: Type, v: Type, *indices: Type, checked: bool = True, named_axes: Axes = None
    ) -> Type:
        return _infer_scatter(name, x, v, indices, named_axes)

    def reference(
        x: np.ndarray,
        v: np.ndarray,
        *indices: np.ndarray,
        checked: bool = True,
        named_axes: Axes = None,
    ) -> np.ndarray:
        _check_arrays(name, x, indices, named_axes)
        result = x.copy()
        write(result, indices, v)
        return result

    def batch(
        is_batched: Sequence[bool],
        x: Node,
        v: Node,
        *indices: Node,
        checked: bool = True,
        named_axes: Axes = None,
    ) -> Node:
        size = batch_size(is_batched, (x, v, *indices))
        batched = _batched_indices(is_batched[2:], indices, size)
        operands = (
            with_batch_axis(x, is_batched[0], size),
            with_batch_axis(v, is_batched[1], size),
            _iota_over(batched[0].shape),
            *batched,
        )
        return record(OPS[name], operands, _params(checked, _renamed(indices, named_axes)))

    return structural(
        name,
        family="indexing",
        input_names=("x", "v", "index"),
        infer=infer,
        reference=reference,
        vjp=vjp,
        batch=batch,
        saves=("inputs",),
        dtypes=ALL,
        example=_scatter_examples,
        jvp=jvp,
    )


# Duplicates add up.
scatter_add = _scatter("scatter_add", np.add.at, _scatter_add_vjp, _scatter_add_jvp)

# Of duplicates the last in the order of the index arrays stays, as in NumPy's assignment.
scatter_set = _scatter("scatter_set", np.ndarray.__setitem__, _scatter_set_vjp, linear)
