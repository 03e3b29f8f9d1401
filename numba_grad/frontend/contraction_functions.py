"""Functions of NumPy that multiply and sum: matrix products and their generalizations.

All come down to the primitive `matmul` on stacks of matrices, or to a fused product and sum where
each result is one dot product.
"""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from numba_grad.errors import ShapeError, explain
from numba_grad.frontend.arrays import ArrayLike, as_node, common_dtype, operands, wrap
from numba_grad.frontend.reduction_functions import BOOL, INT64
from numba_grad.frontend.reduction_functions import sum as sum_of
from numba_grad.frontend.shape_functions import moved_axes
from numba_grad.graph.node import OPS, Node
from numba_grad.graph.types import normalize_axis
from numba_grad.ops.families import broadcast_to, reshape
from numba_grad.ops.index_expressions import take_index

if TYPE_CHECKING:
    from numba_grad.frontend.tensor import Tensor


def matmul(x1: ArrayLike, x2: ArrayLike, /) -> "Tensor":
    """The matrix product of the last two axes; the axes before them broadcast.

    A 1-d `x1` is a row, a 1-d `x2` a column; that axis is not in the result.

    Raises
    ------
    ShapeError
        If the last axis of `x1` and the last but one of `x2` differ, or for 0-d operands.
    """
    x, y = operands(np.matmul, (x1, x2))
    if not x.shape or not y.shape or x.shape[-1] != y.shape[max(len(y.shape) - 2, 0)]:
        raise ShapeError(
            explain(
                "matmul",
                "shapes do not fit",
                got={"x1": x.type, "x2": y.type},
                expected="(..., m, k) and (..., k, n), or (k,) in place of one of them",
                fix=_matmul_fix(x, y),
            )
        )
    if len(x.shape) == len(y.shape) == 1:
        return wrap(_sum_of_products(x, y, 0))
    left = reshape(x, (1, *x.shape)) if len(x.shape) == 1 else x
    right = reshape(y, (*y.shape, 1)) if len(y.shape) == 1 else y
    result = OPS["matmul"](left, right)
    shape = list(result.shape)
    if len(y.shape) == 1:
        del shape[-1]
    if len(x.shape) == 1:
        del shape[-2 + (len(y.shape) == 1)]
    return wrap(reshape(result, tuple(shape)))


def _matmul_fix(x: Node, y: Node) -> str:
    if not x.shape or not y.shape:
        return "x1 * x2, where one is a scalar"
    turned_fits = len(y.shape) > 1 and x.shape[-1] == y.shape[-1]
    return "x1 @ x2.mT" if turned_fits else ""


def _sum_of_products(x: Node, y: Node, axis: int) -> Node:
    """sum(x * y) over one axis, in the dtype of both."""
    product = OPS["multiply"](x, y)
    return OPS["any" if product.dtype == BOOL else "sum"](product, axes=(axis,))


def dot(x1: ArrayLike, x2: ArrayLike) -> "Tensor":
    """The product over the last axis of `x1` and the last but one (or only) axis of `x2`.

    For matrices and vectors that is `matmul`, for scalars `multiply`.
    """
    x, y = common_dtype((x1, x2))
    if not x.shape or not y.shape:
        return wrap(OPS["multiply"](x, y))
    if len(x.shape) <= 2 and len(y.shape) <= 2:
        return matmul(x, y)
    return tensordot(x, y, ([-1], [max(len(y.shape) - 2, 0)]))


def vdot(x1: ArrayLike, x2: ArrayLike, /) -> "Tensor":
    """sum(conj(x1) * x2) over all elements."""
    x, y = (reshape(node, (node.type.size,)) for node in common_dtype((x1, x2)))
    return vecdot(x, y)


def vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> "Tensor":
    """sum(conj(x1) * x2) over `axis`; the other axes broadcast."""
    x, y = operands(np.vecdot, (x1, x2))
    sides = []
    for name, node in (("x1", x), ("x2", y)):
        if not node.shape:
            raise ShapeError(explain("vecdot", "needs an axis", got={name: node.type}))
        number = normalize_axis("vecdot", axis, len(node.shape))
        sides.append(moved_axes(node, number, -1))
    x, y = sides
    if x.shape[-1] != y.shape[-1]:
        raise ShapeError(
            explain(
                "vecdot",
                "the axis has different sizes",
                got={"x1": x.type, "x2": y.type, "axis": axis},
            )
        )
    if x.dtype.kind == "c":
        x = OPS["conjugate"](x)
    return wrap(_sum_of_products(x, y, max(len(x.shape), len(y.shape)) - 1))


def inner(x1: ArrayLike, x2: ArrayLike, /) -> "Tensor":
    """The product over the last axes of both."""
    x, y = common_dtype((x1, x2))
    if not x.shape or not y.shape:
        return wrap(OPS["multiply"](x, y))
    return tensordot(x, y, ([-1], [-1]))


def outer(x1: ArrayLike, x2: ArrayLike, /) -> "Tensor":
    """x1[i] * x2[j] for all elements of both."""
    x, y = common_dtype((x1, x2))
    return wrap(OPS["multiply"](reshape(x, (x.type.size, 1)), reshape(y, (1, y.type.size))))


def tensordot(
    x1: ArrayLike,
    x2: ArrayLike,
    axes: int | Sequence[int | Sequence[int]] = 2,
) -> "Tensor":
    """Products summed over some axes of `x1` and as many of `x2`.

    Parameters
    ----------
    axes : (axes of x1, axes of x2) in pairs; or n for the last n of `x1` and the first n of `x2`
    """
    x, y = common_dtype((x1, x2))
    x_axes, y_axes = _paired_axes(x, y, axes)
    x_free = [k for k in range(len(x.shape)) if k not in x_axes]
    y_free = [k for k in range(len(y.shape)) if k not in y_axes]
    shape = tuple([x.shape[k] for k in x_free] + [y.shape[k] for k in y_free])
    shared = math.prod([x.shape[k] for k in x_axes])
    left = reshape(
        _in_order(x, (*x_free, *x_axes)), (math.prod([x.shape[k] for k in x_free]), shared)
    )
    right = reshape(
        _in_order(y, (*y_axes, *y_free)), (shared, math.prod([y.shape[k] for k in y_free]))
    )
    if not shape:
        flat = (reshape(left, (shared,)), reshape(right, (shared,)))
        return wrap(_sum_of_products(*flat, 0))
    return wrap(reshape(OPS["matmul"](left, right), shape))


def _paired_axes(
    x: Node, y: Node, axes: int | Sequence[int | Sequence[int]]
) -> tuple[list[int], list[int]]:
    rank = len(x.shape)
    if isinstance(axes, Iterable):
        first, second = axes
        pair = [list(side) if isinstance(side, Iterable) else [side] for side in (first, second)]
    else:
        pair = [list(range(rank - axes, rank)), list(range(axes))]
    x_axes = [normalize_axis("tensordot", k, rank) for k in pair[0]]
    y_axes = [normalize_axis("tensordot", k, len(y.shape)) for k in pair[1]]
    sizes = [x.shape[k] for k in x_axes], [y.shape[k] for k in y_axes]
    if sizes[0] != sizes[1] or len(set(x_axes)) != len(x_axes) or len(set(y_axes)) != len(y_axes):
        raise ShapeError(
            explain(
                "tensordot",
                "the axes to sum over do not fit",
                got={"x1": x.type, "x2": y.type, "axes": (x_axes, y_axes)},
                expected="as many different axes of both, of equal sizes in order",
            )
        )
    return x_axes, y_axes


def _in_order(x: Node, axes: tuple[int, ...]) -> Node:
    return x if axes == tuple(range(len(axes))) else OPS["transpose"](x, axes=axes)


# Diagonals


def diagonal(x: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> "Tensor":
    """The elements of diagonal number `offset` of two axes, along a new last axis."""
    node = as_node(x)
    if len(node.shape) < 2:
        raise ShapeError(explain("diagonal", "needs two axes", got={"x": node.type}))
    axes = [normalize_axis("diagonal", axis, len(node.shape)) for axis in (axis1, axis2)]
    return wrap(_diagonal_last(moved_axes(node, axes, [-2, -1]), offset))


def _diagonal_last(x: Node, offset: int = 0) -> Node:
    """A diagonal of the last two axes, along the last."""
    rows = np.arange(max(-offset, 0), x.shape[-2])
    rows = rows[: max(x.shape[-1] - max(offset, 0), 0)]
    return take_index(x, (Ellipsis, rows, rows + offset))


def trace(
    x: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: object = None
) -> "Tensor":
    """The sum of a diagonal of two axes."""
    return sum_of(diagonal(x, offset, axis1, axis2), axis=-1, dtype=dtype)


def diag(x: ArrayLike, k: int = 0) -> "Tensor":
    """Diagonal number `k` of a matrix; or the matrix with `x`, 1-d, as that diagonal."""
    node = as_node(x)
    if len(node.shape) == 2:
        return diagonal(node, k)
    if len(node.shape) != 1:
        raise ShapeError(explain("diag", "not 1-d or 2-d", got={"x": node.type}))
    size = node.shape[0] + abs(k)
    columns = reshape(OPS["iota"](size=size, dtype=INT64), (1, size))
    rows = reshape(OPS["iota"](size=size, dtype=INT64), (size, 1))
    from_row = max(-k, 0)
    spread = OPS["pad"](node, low=(from_row,), high=(max(k, 0),), interior=(0,))
    on_diagonal = OPS["equal"](OPS["subtract"](columns, rows), as_node(k))
    spread = broadcast_to(reshape(spread, (size, 1)), (size, size))
    return wrap(OPS["where"](on_diagonal, spread, as_node(0, like=node)))


def diagflat(x: ArrayLike, k: int = 0) -> "Tensor":
    """The matrix with all elements of `x`, in row-major order, as its diagonal number `k`."""
    node = as_node(x)
    return diag(reshape(node, (node.type.size,)), k)


# einsum


def einsum(subscripts: str, *operands: ArrayLike, optimize: object = True) -> "Tensor":
    """Products summed over named axes: `einsum("ij,jk->ik", x, y)` is the matrix product.

    Parameters
    ----------
    subscripts : a letter for each axis, operands separated by commas; after "->" the axes of the
        result, which are else the letters that occur once, in alphabetical order. "..." stands for
        axes that broadcast.
    optimize : for three operands and more, False takes them from left to right; else in the order
        that `numpy.einsum_path` finds cheapest
    """
    nodes = common_dtype(operands)
    terms, result = _parsed(subscripts, nodes)
    pending = list(zip(nodes, terms, strict=True))
    for positions in _order_of_contractions(pending, result, optimize):
        chosen = [pending.pop(k) for k in sorted(positions, reverse=True)][::-1]
        needed = set(result).union(*[term for _, term in pending])
        while len(chosen) > 1:
            later = needed.union(*[term for _, term in chosen[2:]])
            chosen[:2] = [_contracted(chosen[0], chosen[1], later)]
        pending.append(chosen[0])
    node, term = _without_unneeded(*pending[0], set(result))
    return wrap(_in_order(node, tuple([term.index(label) for label in result])))


Term = tuple[Node, str]  # a factor, and a label for each of its axes


def _einsum_error(problem: str, subscripts: str, nodes: Sequence[Node]) -> ShapeError:
    got: dict[str, object] = {"subscripts": repr(subscripts)}
    got.update({f"operand {k}": node.type for k, node in enumerate(nodes)})
    return ShapeError(explain("einsum", problem, got=got, expected="as 'ij,jk->ik'"))


def _parsed(subscripts: str, nodes: Sequence[Node]) -> tuple[list[str], str]:
    """The labels of each operand and of the result, each axis with a letter of its own."""
    if not isinstance(subscripts, str):
        raise TypeError(explain("einsum", "subscripts must be a string", expected="as 'ij,jk->ik'"))
    text = subscripts.replace(" ", "")
    given, arrow, result = text.partition("->")
    terms = given.split(",")
    if len(terms) != len(nodes):
        raise _einsum_error("as many terms as operands are needed", subscripts, nodes)
    used = set(text)
    free_letters = [chr(code) for code in range(0x391, 0x3FF) if chr(code) not in used]
    ranks = []
    for term, node in zip(terms, nodes, strict=True):
        letters = term.replace("...", "", 1)
        if letters and not letters.isalpha():
            raise _einsum_error(f"not a term: {term!r}", subscripts, nodes)
        rank = len(node.shape) - len(letters)
        if rank < 0 or (rank and "..." not in term):
            raise _einsum_error(f"{term!r} does not have a letter for each axis", subscripts, nodes)
        ranks.append(rank)
    dots = "".join(free_letters[: max(ranks, default=0)])
    expanded = [
        term.replace("...", dots[len(dots) - rank :])
        for term, rank in zip(terms, ranks, strict=True)
    ]
    if arrow:
        result = result.replace("...", dots)
    else:
        joined = "".join(terms).replace(".", "")
        result = dots + "".join(sorted(c for c in set(joined) if joined.count(c) == 1))
    if len(set(result)) != len(result) or not set(result) <= set("".join(expanded)):
        raise _einsum_error("letters of the result must be different and occur", subscripts, nodes)
    for label in set("".join(expanded)):
        sizes = {
            n
            for term, node in zip(expanded, nodes, strict=True)
            for letter, n in zip(term, node.shape, strict=True)
            if letter == label
        }
        if len(sizes - {1}) > 1:
            raise _einsum_error(f"different sizes of {label!r}: {sorted(sizes)}", subscripts, nodes)
    return expanded, result


def _order_of_contractions(
    pending: Sequence[Term], result: str, optimize: object
) -> list[tuple[int, ...]]:
    """Which of the pending factors to combine next, step by step."""
    if len(pending) <= 2:
        return [tuple(range(len(pending)))]
    if not optimize:
        # The combined factor is put last, so the next two are that one and the first.
        return [(0, 1), *[(0, len(pending) - 2 - k) for k in range(len(pending) - 2)]]
    labels = ",".join([term for _, term in pending])
    shapes = [np.broadcast_to(np.float64(0), node.shape) for node, _ in pending]
    path, _ = np.einsum_path(f"{labels}->{result}", *shapes, optimize="greedy")
    return [tuple(step) for step in path[1:]]


def _contracted(first: Term, second: Term, needed: set[str]) -> Term:
    """The product of two factors, summed over labels that nothing later needs."""
    x, x_term = _without_unneeded(*first, needed.union(second[1]))
    y, y_term = _without_unneeded(*second, needed.union(first[1]))
    x, x_term = _without_stretched(x, x_term, y, y_term)
    y, y_term = _without_stretched(y, y_term, x, x_term)
    summed = [c for c in x_term if c in y_term and c not in needed]
    stacked = [c for c in x_term if c in y_term and c in needed]
    x_free = [c for c in x_term if c not in y_term]
    y_free = [c for c in y_term if c not in x_term]
    sizes = dict(zip(y_term + x_term, y.shape + x.shape, strict=True))
    x = _in_order(x, tuple([x_term.index(c) for c in (*stacked, *x_free, *summed)]))
    y = _in_order(y, tuple([y_term.index(c) for c in (*stacked, *summed, *y_free)]))
    labels = "".join((*stacked, *x_free, *y_free))

    def extent(names: Iterable[str]) -> int:
        return math.prod([sizes[c] for c in names])

    stack = tuple([sizes[c] for c in stacked])
    shape = tuple([sizes[c] for c in labels])
    if not summed:
        columns = (*stack, *[1 for _ in x_free], *[sizes[c] for c in y_free])
        rows = (*x.shape, *[1 for _ in y_free])
        return OPS["multiply"](reshape(x, rows), reshape(y, columns)), labels
    if not x_free and not y_free:
        flat = (*stack, extent(summed))
        return _sum_of_products(reshape(x, flat), reshape(y, flat), len(stack)), labels
    left = reshape(x, (*stack, extent(x_free), extent(summed)))
    right = reshape(y, (*stack, extent(summed), extent(y_free)))
    return reshape(OPS["matmul"](left, right), shape), labels


def _without_unneeded(x: Node, term: str, needed: set[str]) -> Term:
    """One axis per label, and those that nobody else has summed away."""
    for label in dict.fromkeys(term):
        while term.count(label) > 1:
            first = term.index(label)
            second = term.index(label, first + 1)
            x = _diagonal_last(_same_sizes(moved_axes(x, [first, second], [-2, -1])))
            term = term.replace(label, "") + label * (term.count(label) - 1)
            if term.count(label) > 1:
                raise NotImplementedError(
                    explain("einsum", f"the letter {label!r} is in one term more than twice")
                )
    alone = tuple([k for k, label in enumerate(term) if label not in needed])
    if alone:
        x = OPS["any" if x.dtype == BOOL else "sum"](x, axes=alone)
        term = "".join([label for k, label in enumerate(term) if k not in alone])
    return x, term


def _same_sizes(x: Node) -> Node:
    """The last two axes stretched to one size, where one of them is 1."""
    size = max(x.shape[-2:]) if 0 not in x.shape[-2:] else 0
    return broadcast_to(x, (*x.shape[:-2], size, size))


def _without_stretched(x: Node, term: str, other: Node, other_term: str) -> Term:
    """`x` without axes of size 1 that broadcast against `other`: they change nothing there."""
    sizes = dict(zip(other_term, other.shape, strict=True))
    stays = [
        k
        for k, (c, n) in enumerate(zip(term, x.shape, strict=True))
        if n != 1 or sizes.get(c, 1) == 1
    ]
    return reshape(x, tuple([x.shape[k] for k in stays])), "".join([term[k] for k in stays])
