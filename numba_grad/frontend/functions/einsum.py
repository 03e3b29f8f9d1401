"""`einsum`: products of any number of arrays, summed over named axes.

Two factors at a time, as one matrix product of stacks where axes of both are summed. In which
order NumPy finds for a few factors, and for more the library opt_einsum, which is imported then.
"""

import functools
import itertools
import math
import operator
import string
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.autograd.views import view_of
from numba_grad.dtypes import BOOL
from numba_grad.errors import ShapeError, explain
from numba_grad.fresh_thread import imported
from numba_grad.frontend.functions.contractions import (
    FEW,
    diagonal_last,
    in_order,
    is_stencil,
    sum_of_products,
)
from numba_grad.frontend.functions.shapes import moved_axes
from numba_grad.frontend.inputs.arrays import ArrayLike, as_arrays, as_optional_dtype, wrap
from numba_grad.frontend.inputs.known_calls import by_types
from numba_grad.graph.node import OPS, Node
from numba_grad.ops.families import broadcast_to, cast, reshape

if TYPE_CHECKING:
    from numba_grad.frontend.tensors.tensor import Tensor

__all__ = ["einsum", "einsum_path"]

Term = tuple[Node, str]  # a factor, and a label for each of its axes
Path = tuple[tuple[int, ...], ...]  # which of the factors to combine, step by step
_Shape = tuple[int, ...]

_FEW_FACTORS = 4
_NO_LIMIT = 1 << 62  # elements of intermediate results


@by_types(operands=99, reads_history=True)
def einsum(*operands: Any, optimize: Any = True, dtype: object = None) -> "Tensor":
    """Products summed over named axes: `einsum("ij,jk->ik", x, y)` is the matrix product.

    Parameters
    ----------
    operands : the subscripts, then the arrays. Subscripts have a letter for each axis, operands
        separated by commas; after "->" the axes of the result, which are else the letters that
        occur once, in alphabetical order. "..." stands for axes that broadcast. A letter that a
        term has several times takes the diagonal.
        Or each array followed by a list of integers (and Ellipsis) in place of letters; last, if
        wanted, that of the result
    optimize : for three arrays and more, in which order to combine them: False from left to right;
        True, or the name of a method of opt_einsum, in the one that it finds cheapest; or a path
        that `einsum_path` gave
    dtype : to compute in, and of the result

    Raises
    ------
    ShapeError
        If terms do not fit the arrays, or sizes of one letter differ.
    """
    subscripts, arrays = _subscripts_and_arrays(operands)
    nodes = as_arrays(arrays)
    wanted = as_optional_dtype(dtype)
    if wanted is not None:
        nodes = tuple([cast(node, wanted) for node in nodes])
    terms, result = _parsed(subscripts, nodes)
    pending = list(zip(nodes, terms, strict=True))
    for positions in _path(terms, nodes, result, optimize):
        chosen = [pending.pop(k) for k in sorted(positions, reverse=True)][::-1]
        needed = set(result).union(*[term for _, term in pending])
        while len(chosen) > 1:
            later = needed.union(*[term for _, term in chosen[2:]])
            chosen[:2] = [_contracted(chosen[0], chosen[1], later)]
        pending.append(chosen[0])
    node, term = _without_unneeded(*pending[0], set(result))
    found = in_order(node, tuple([term.index(label) for label in result]))
    # Of one array, all of whose labels stay, as in NumPy: "ij->ji" and "ii->i".
    is_view = len(nodes) == 1 and wanted is None and set(terms[0]) == set(result)
    return view_of(arrays[0], found) if is_view else wrap(found)


def einsum_path(*operands: Any, optimize: Any = "greedy") -> tuple[list[Any], str]:
    """In which order `einsum` would combine its arrays: a path to give it as `optimize`, and a text
    about its cost. Arguments are those of `einsum`."""
    subscripts, arrays = _subscripts_and_arrays(operands)
    nodes = as_arrays(arrays)
    terms, result = _parsed(subscripts, nodes)
    method, limit = _method(optimize if optimize is not False else _from_left(len(nodes)))
    shapes = tuple([node.shape for node in nodes])
    path, cost = _path_and_cost(f"{','.join(terms)}->{result}", shapes, method, limit)
    return ["einsum_path", *path], cost


# Subscripts


def _subscripts_and_arrays(operands: tuple[Any, ...]) -> tuple[str, tuple[ArrayLike, ...]]:
    """Both forms of arguments as the one with letters."""
    if operands and isinstance(operands[0], str):
        return operands[0], operands[1:]
    count = len(operands) // 2
    if not count:
        raise TypeError(
            explain("einsum", "subscripts must be a string", expected="as 'ij,jk->ik', x, y")
        )
    terms = ",".join([_letters(operands[2 * k + 1]) for k in range(count)])
    if len(operands) % 2:
        terms += "->" + _letters(operands[-1])
    return terms, operands[: 2 * count : 2]


def _letters(numbers: Any) -> str:
    """A term of integers in letters."""
    try:
        labels = [n if n is Ellipsis else operator.index(n) for n in numbers]
    except TypeError:
        raise TypeError(
            explain(
                "einsum",
                "each array needs a list of integers after it, or subscripts come first",
                got={"list": repr(numbers)},
                expected="x, [0, 1], y, [1, 2], [0, 2]; or 'ij,jk->ik', x, y",
            )
        ) from None
    symbols = string.ascii_letters
    if any(n is not Ellipsis and not 0 <= n < len(symbols) for n in labels):
        got: dict[str, object] = {"list": labels}
        expected = f"integers from 0 to {len(symbols) - 1}, and Ellipsis"
        raise ValueError(explain("einsum", "not labels of axes", got=got, expected=expected))
    return "".join(["..." if n is Ellipsis else symbols[n] for n in labels])


def _error(problem: str, subscripts: str, nodes: Sequence[Node]) -> ShapeError:
    got: dict[str, object] = {"subscripts": repr(subscripts)}
    got.update({f"operand {k}": node.type for k, node in enumerate(nodes)})
    return ShapeError(explain("einsum", problem, got=got, expected="as 'ij,jk->ik'"))


def _parsed(subscripts: str, nodes: Sequence[Node]) -> tuple[list[str], str]:
    """The labels of each operand and of the result, each axis with a letter of its own."""
    text = subscripts.replace(" ", "")
    given, arrow, result = text.partition("->")
    terms = given.split(",")
    if len(terms) != len(nodes):
        raise _error("as many terms as operands are needed", subscripts, nodes)
    free_letters = [chr(code) for code in range(0x391, 0x3FF) if chr(code) not in text]
    ranks = [
        _rank_of_dots(term, node, subscripts, nodes)
        for term, node in zip(terms, nodes, strict=True)
    ]
    dots = "".join(free_letters[: max(ranks)])
    expanded = [
        term.replace("...", dots[len(dots) - rank :])
        for term, rank in zip(terms, ranks, strict=True)
    ]
    if arrow:
        if dots and "..." not in result:
            raise _error("the result needs '...' for the axes it stands for", subscripts, nodes)
        result = result.replace("...", dots)
    else:
        joined = "".join(terms).replace(".", "")
        result = dots + "".join(sorted(c for c in set(joined) if joined.count(c) == 1))
    if len(set(result)) != len(result) or not set(result) <= set("".join(expanded)):
        raise _error("letters of the result must be different and occur", subscripts, nodes)
    _check_sizes(expanded, nodes, dots, subscripts)
    return expanded, result


def _rank_of_dots(term: str, node: Node, subscripts: str, nodes: Sequence[Node]) -> int:
    """How many axes of the operand "..." stands for."""
    letters = term.replace("...", "", 1)
    if letters and not letters.isalpha():
        raise _error(f"not a term: {term!r}", subscripts, nodes)
    rank = len(node.shape) - len(letters)
    if rank < 0 or (rank and "..." not in term):
        raise _error(f"{term!r} does not have a letter for each axis", subscripts, nodes)
    return rank


def _check_sizes(terms: list[str], nodes: Sequence[Node], dots: str, subscripts: str) -> None:
    sizes: dict[str, set[int]] = {}
    for term, node in zip(terms, nodes, strict=True):
        for label, n in zip(term, node.shape, strict=True):
            sizes.setdefault(label, set()).add(n)
    for label, different in sizes.items():
        if len(different - {1}) > 1:
            name = "..." if label in dots else label
            problem = f"different sizes of {name!r}: {sorted(different)}"
            raise _error(problem, subscripts, nodes)


# The order of contractions


def _path(terms: list[str], nodes: Sequence[Node], result: str, optimize: Any) -> Path:
    count = len(terms)
    if count <= 2:
        return (tuple(range(count)),)
    if optimize is False:
        return _from_left(count)
    method, limit = _method(optimize)
    if not isinstance(method, str):
        _check_path(method, count)
        return method
    shapes = tuple([node.shape for node in nodes])
    return _path_and_cost(f"{','.join(terms)}->{result}", shapes, method, limit)[0]


def _from_left(count: int) -> Path:
    """The combined factor is put last, so the next two are that one and the first."""
    return ((0, 1), *[(0, count - 2 - k) for k in range(count - 2)])[: max(count - 1, 1)]


def _method(optimize: Any) -> tuple[str | Path, int | None]:
    """A method of opt_einsum or a path, and a limit to the size of intermediate results."""
    if optimize is True:
        return "auto", None
    if isinstance(optimize, str):
        return optimize, None
    steps = list(optimize)
    if steps and steps[0] == "einsum_path":
        steps = steps[1:]
    elif len(steps) == 2 and isinstance(steps[0], str):
        return steps[0], int(steps[1])
    return tuple([tuple(step) for step in steps]), None


def _check_path(path: Path, count: int) -> None:
    left = count
    for step in path:
        if not step or len(set(step)) != len(step) or not all(0 <= k < left for k in step):
            break
        left -= len(step) - 1
    else:
        if left == 1:
            return
    raise ValueError(
        explain(
            "einsum",
            "optimize is not a path that leaves one array",
            got={"optimize": path, "arrays": count},
            fix="optimize=ng.einsum_path(...)[0]",
        )
    )


@functools.lru_cache(maxsize=1 << 10)
def _path_and_cost(
    subscripts: str, shapes: tuple[tuple[int, ...], ...], method: Any, limit: int | None
) -> tuple[Path, str]:
    # Finding it takes 100 us and more, and loops ask for the same one again.
    if method == "auto" and limit is None and len(shapes) <= _FEW_FACTORS and subscripts.isascii():
        # Both look at all orders of so few, and the other one takes 6 ms to import.
        arrays = [np.broadcast_to(np.empty(()), shape) for shape in shapes]
        path, cost = np.einsum_path(subscripts, *arrays, optimize=("optimal", _NO_LIMIT))
        return tuple(path[1:]), cost
    opt_einsum = imported("opt_einsum")
    try:
        path, cost = opt_einsum.contract_path(
            subscripts, *shapes, shapes=True, optimize=method, memory_limit=limit
        )
    except KeyError as error:
        problem = f"no method {method!r} to find a path"
        raise ValueError(explain("einsum", problem, expected=str(error.args[0]))) from None
    return tuple([tuple(step) for step in path]), str(cost)


# Contractions


def _contracted(first: Term, second: Term, needed: set[str]) -> Term:
    """The product of two factors, summed over labels that nothing later needs."""
    x, x_term = _without_unneeded(*first, needed.union(second[1]))
    y, y_term = _without_unneeded(*second, needed.union(first[1]))
    x, x_term = _without_stretched(x, x_term, y, y_term)
    y, y_term = _without_stretched(y, y_term, x, x_term)
    if set(x_term) <= set(y_term) and is_stencil(y, x):
        x, x_term, y, y_term = y, y_term, x, x_term
    summed = [c for c in x_term if c in y_term and c not in needed]
    stacked = [c for c in x_term if c in y_term and c in needed]
    x_free = [c for c in x_term if c not in y_term]
    y_free = [c for c in y_term if c not in x_term]
    x = in_order(x, tuple([x_term.index(c) for c in (*stacked, *x_free, *summed)]))
    y = in_order(y, tuple([y_term.index(c) for c in (*stacked, *summed, *y_free)]))
    ends = itertools.accumulate([len(stacked), len(x_free), len(summed)], initial=0)
    stack, rows, terms = (x.shape[start:end] for start, end in itertools.pairwise(ends))
    columns = y.shape[len(stack) + len(terms) :]
    return _product(x, y, stack, rows, terms, columns), "".join((*stacked, *x_free, *y_free))


def _product(x: Node, y: Node, stack: _Shape, rows: _Shape, terms: _Shape, columns: _Shape) -> Node:
    """Of shape (*stack, *rows, *columns), with a sum over terms.

    `x` is of shape (*stack, *rows, *terms), and `y` of (*stack, *terms, *columns).
    """
    if not terms:
        left = reshape(x, (*stack, *rows, *[1 for _ in columns]))
        right = reshape(y, (*stack, *[1 for _ in rows], *columns))
        return OPS["multiply"](left, right)
    if not rows and not columns:
        flat = (*stack, math.prod(terms))
        return sum_of_products(reshape(x, flat), reshape(y, flat), len(stack))
    is_windows = len(terms) > 1 and math.prod(terms) <= FEW and x.dtype.kind in "fc"
    if not columns and (is_windows or (not stack and is_stencil(x, y))):
        # A stencil on windows of several axes, which as one axis would be too long to be unrolled.
        weights = reshape(y, (*stack, *[1 for _ in rows], *terms))
        axes = tuple(range(len(x.shape) - len(terms), len(x.shape)))
        return OPS["sum"](OPS["multiply"](x, weights), axes=axes)
    left = reshape(x, (*stack, math.prod(rows), math.prod(terms)))
    right = reshape(y, (*stack, math.prod(terms), math.prod(columns)))
    return reshape(OPS["matmul"](left, right), (*stack, *rows, *columns))


def _without_unneeded(x: Node, term: str, needed: set[str]) -> Term:
    """One axis per label, and those that nobody else has summed away."""
    for label in dict.fromkeys(term):
        while term.count(label) > 1:
            first = term.index(label)
            second = term.index(label, first + 1)
            x = diagonal_last(_same_sizes(moved_axes(x, [first, second], [-2, -1])))
            term = term[:first] + term[first + 1 : second] + term[second + 1 :] + label
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
