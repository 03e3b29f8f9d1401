"""`associative_scan`: all partial results of an associative function, in a logarithmic number of
steps over whole arrays."""

from collections.abc import Callable
from typing import Any

from numba_grad.errors import ShapeError, called, explain
from numba_grad.frontend.functions.joining import concatenate, stack
from numba_grad.frontend.functions.shapes import flip, moveaxis, reshape
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.inputs.arrays import as_node, wrap
from numba_grad.frontend.loops_and_branches.bodies import check_function
from numba_grad.frontend.tensors.tensor import Tensor
from numba_grad.graph.types import Type, normalize_axis

__all__ = ["associative_scan"]


def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """Results k of combining the first k + 1 elements: `fn(...fn(fn(e0, e1), e2)..., ek)`.

    Parameters
    ----------
    fn : associative function of two elements, or of as many pairs of them as it is given along the
        axis, at once: it gets arrays like `elems` that are shorter along it
    elems : arrays, possibly in nested containers, with elements along `axis`
    reverse : whether the last element comes first

    Returns
    -------
    As `elems`. Since `fn` is associative only up to rounding, results may differ from those of a
    loop in the last digits.

    Raises
    ------
    ShapeError
        If arrays have different lengths along the axis, or `fn` changes their shapes.
    TypeError
        If `fn` changes their structure or dtypes.

    Notes
    -----
    By halves: neighbours are combined, the partial results of these pairs found in the same way,
    and what is between them combined once more (Blelloch 1990). Some 2 n calls of `fn` on elements,
    in 2 log2(n) calls on arrays, where a loop takes n calls in n steps.

    Examples
    --------
    >>> ng.associative_scan(np.add, np.arange(5.0))
    tensor([ 0.,  1.,  3.,  6., 10.])
    """
    check_function("associative_scan", fn)
    leaves, structure = trees.flatten(elems)
    nodes = [as_node(x) for x in leaves]
    axes = [normalize_axis("associative_scan", axis, len(x.shape)) for x in nodes]
    names = trees.leaf_names(structure, "elems")
    sizes: dict[str, object] = {
        name: x.shape[a] for name, x, a in zip(names, nodes, axes, strict=True)
    }
    if len(set(sizes.values())) > 1:
        raise ShapeError(
            explain("associative_scan", "elements of different numbers along the axis", got=sizes)
        )

    def combined(a: list[Tensor], b: list[Tensor]) -> list[Tensor]:
        def placed(parts: list[Tensor]) -> Any:
            moved = [moveaxis(x, 0, k) for x, k in zip(parts, axes, strict=True)]
            return trees.unflatten(structure, moved)

        given = placed(a)
        result, own = trees.flatten(called("associative_scan", fn, given, placed(b)))
        if own != structure:
            raise TypeError(
                trees.structure_mismatch("associative_scan", "the result of fn", own, structure)
            )
        combination = [as_node(x) for x in result]
        for name, x, y in zip(names, trees.flatten(given)[0], combination, strict=True):
            _check_same_type(name, x._node.type, y.type)
        return [moveaxis(wrap(x), k, 0) for x, k in zip(combination, axes, strict=True)]

    def scanned(rows: list[Tensor]) -> list[Tensor]:
        count = rows[0].shape[0]
        if count < 2:
            return rows
        pairs = combined([x[: count - 1 : 2] for x in rows], [x[1::2] for x in rows])
        odd = scanned(pairs)
        if count % 2:
            even = combined(odd, [x[2::2] for x in rows])
        else:
            even = combined([x[:-1] for x in odd], [x[2::2] for x in rows])
        even = [concatenate([x[:1], y]) for x, y in zip(rows, even, strict=True)]
        return [_interleaved(x, y) for x, y in zip(even, odd, strict=True)]

    rows = [moveaxis(wrap(x), k, 0) for x, k in zip(nodes, axes, strict=True)]
    if not rows:
        return elems
    results = scanned([flip(x, 0) for x in rows] if reverse else rows)
    results = [flip(x, 0) for x in results] if reverse else results
    return trees.unflatten(
        structure, [moveaxis(x, 0, k) for x, k in zip(results, axes, strict=True)]
    )


def _check_same_type(name: str, given: Type, combined: Type) -> None:
    if given is combined:
        return
    what = "dtype" if given.shape == combined.shape else "shape"
    raise (TypeError if what == "dtype" else ShapeError)(
        explain(
            "associative_scan",
            f"the function changes the {what} of its arguments",
            got={f"{name} before": given, f"{name} after": combined},
            expected="the same shape and dtype",
        )
    )


def _interleaved(even: Tensor, odd: Tensor) -> Tensor:
    """even[0], odd[0], even[1], ...; there may be one more even element."""
    count = odd.shape[0]
    both = reshape(stack([even[:count], odd], axis=1), (2 * count, *odd.shape[1:]))
    return both if even.shape[0] == count else concatenate([both, even[count:]])
