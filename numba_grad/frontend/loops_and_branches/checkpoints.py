"""`checkpoint`: a function of which the backward pass keeps the arguments alone."""

from collections.abc import Callable, Sequence
from typing import Any

from numba_grad.frontend import trees
from numba_grad.frontend.arrays import as_node, wrap
from numba_grad.frontend.derived_functions import derived_from
from numba_grad.frontend.loops_and_branches.bodies import (
    check_function,
    communicated,
    first_token,
    traced,
    with_token,
)
from numba_grad.transforms.call import call

__all__ = ["checkpoint"]


def checkpoint(
    f: Callable[..., Any], *, static_argnums: int | Sequence[int] = ()
) -> Callable[..., Any]:
    """`f`, whose backward pass computes again what it needs of the inside of `f`, rather than keep
    it.

    Parameters
    ----------
    f : function of arrays, possibly in nested containers. It is traced, as by `jit`; what else it
        gets by keyword reaches it as it is.
    static_argnums : positions of arguments that reach it as they are, too, such as flags

    Notes
    -----
    As JAX's; `torch.utils.checkpoint.checkpoint(f, x)` is `ng.checkpoint(f)(x)`. Random numbers
    are those of their keys, so they are the same when `f` is computed again. For the steps of a
    loop, `scan(..., memory=...)` finds out itself what to keep.

    Examples
    --------
    >>> ng.grad(ng.checkpoint(lambda x: np.sin(np.exp(x))))(0.0)
    tensor(0.54030231)
    """
    check_function("checkpoint", f)

    numbers = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)

    @derived_from(f, checkpoint)
    def recomputing(*args: Any, **kwargs: Any) -> Any:
        count = len(args)
        fixed = {k % count for k in numbers if -count <= k < count}

        def of_others(*others: Any) -> Any:
            rest = iter(others)
            return f(*[x if k in fixed else next(rest) for k, x in enumerate(args)], **kwargs)

        return _recomputing(of_others, tuple([x for k, x in enumerate(args) if k not in fixed]))

    return recomputing


def _recomputing(f: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    leaves, structure = trees.flatten(args)
    given = [as_node(x) for x in leaves]
    body = traced("checkpoint", f, [x.type for x in given], structure, leaves)
    if body.communicates:
        out, token = _recomputing(with_token(f), (args, first_token()))
        communicated(out, token)
        return out
    results = call(body.target, [*given, *body.captured])
    return trees.unflatten(body.structure, map(wrap, results))
