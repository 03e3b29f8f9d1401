"""`checkpoint`: a function of which the backward pass keeps the arguments alone, or what a policy
says, by the names of JAX's policies."""

from collections.abc import Callable, Sequence
from typing import Any

from numba_grad.autograd.tensor_class import is_tensor
from numba_grad.errors import explain
from numba_grad.frontend.derived_functions import derived_from
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.inputs.arrays import as_node, wrap
from numba_grad.frontend.inputs.changed_arguments import change, returning_arguments
from numba_grad.frontend.loops_and_branches.bodies import (
    check_function,
    communicated,
    device_of,
    first_token,
    traced,
    with_token,
)
from numba_grad.graph.node import OPS
from numba_grad.graph.placement import goes_along
from numba_grad.graph.types import CPU, Type
from numba_grad.ops.families import placed
from numba_grad.transforms.call import call
from numba_grad.transforms.kept_values import Policy

__all__ = ["checkpoint", "checkpoint_name", "checkpoint_policies"]


def checkpoint(
    f: Callable[..., Any],
    *,
    policy: Policy | None = None,
    static_argnums: int | Sequence[int] = (),
) -> Callable[..., Any]:
    """`f`, whose backward pass computes again what it needs of the inside of `f`, rather than keep
    it.

    Parameters
    ----------
    f : function of arrays, possibly in nested containers. It is traced, as by `jit`; what else it
        gets by keyword reaches it as it is.
    policy : what is kept of the inside nevertheless: one of `ng.checkpoint_policies`, or a function
        `policy(operation, *types, name="", **params)` that says so of the result of an operation,
        by its inputs' types and what `checkpoint_name` has named it. Of what it allows that is kept
        which the backward pass reads. Where `f` has loops or branches in it, all is computed again
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
    >>> layer = lambda x, w: np.sin(ng.checkpoint_name(x @ w, "product"))
    >>> policy = ng.checkpoint_policies.save_only_these_names("product")
    >>> ng.grad(lambda x: ng.checkpoint(layer, policy=policy)(x, x))(np.zeros(2))
    tensor([0., 0.])
    """
    check_function("checkpoint", f)
    if policy is not None and not callable(policy):
        raise TypeError(
            explain(
                "checkpoint",
                "the policy is not a function",
                got={"policy": repr(policy)},
                expected="policy(operation, *types, name='', **params) -> bool",
                fix="one of ng.checkpoint_policies, such as dots_saveable",
            )
        )

    numbers = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)

    @derived_from(f, checkpoint)
    def recomputing(*args: Any, **kwargs: Any) -> Any:
        count = len(args)
        fixed = {k % count for k in numbers if -count <= k < count}

        def of_others(*others: Any) -> Any:
            rest = iter(others)
            return f(*[x if k in fixed else next(rest) for k, x in enumerate(args)], **kwargs)

        others = tuple([x for k, x in enumerate(args) if k not in fixed])
        return _recomputing(of_others, others, policy)

    return recomputing


def checkpoint_name(x: Any, name: str) -> Any:
    """The same values, which the policies of `checkpoint` know by a name.

    Parameters
    ----------
    x : tensors, possibly in nested containers; what else is in them stays as it is

    Notes
    -----
    As JAX's. What is named inside of a loop, a branch or a jitted function that is called is not
    known outside of that.

    Examples
    --------
    >>> ng.checkpoint_name(ng.tensor(2.0), "rate")
    tensor(2.)
    """
    if not isinstance(name, str):
        raise TypeError(explain("checkpoint_name", "a name is a text", got={"name": repr(name)}))
    leaves, structure = trees.flatten(x)
    named = [wrap(OPS["named"](x._node, name=name)) if is_tensor(x) else x for x in leaves]
    return trees.unflatten(structure, named)


_PRODUCTS = ("matmul", "matmul_add")


class CheckpointPolicies:
    """What `checkpoint` may keep, by the names that JAX has for it."""

    @staticmethod
    def everything_saveable(operation: str, *types: Type, **params: Any) -> bool:
        """All that the backward pass reads."""
        return True

    @staticmethod
    def nothing_saveable(operation: str, *types: Type, **params: Any) -> bool:
        """The arguments alone, as without a policy."""
        return False

    @staticmethod
    def dots_saveable(operation: str, *types: Type, **params: Any) -> bool:
        """Products of matrices."""
        return operation in _PRODUCTS

    @staticmethod
    def dots_with_no_batch_dims_saveable(operation: str, *types: Type, **params: Any) -> bool:
        """Products of matrices, but not of stacks of them."""
        return operation in _PRODUCTS and all(len(x.shape) <= 2 for x in types)

    checkpoint_dots = dots_saveable
    checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable

    @staticmethod
    def save_only_these_names(*names: str) -> Policy:
        """What has one of these names."""
        return lambda operation, *types, name="", **params: name in names

    @staticmethod
    def save_any_names_but_these(*names: str) -> Policy:
        """What has another name."""
        return lambda operation, *types, name="", **params: name != "" and name not in names

    @staticmethod
    def save_anything_except_these_names(*names: str) -> Policy:
        """What has another name, or none."""
        return lambda operation, *types, name="", **params: name not in names

    @staticmethod
    def save_from_both_policies(policy_1: Policy, policy_2: Policy) -> Policy:
        """What one of two policies keeps."""
        return lambda *args, **params: policy_1(*args, **params) or policy_2(*args, **params)


checkpoint_policies = CheckpointPolicies()


def _recomputing(
    f: Callable[..., Any],
    args: tuple[Any, ...],
    policy: Policy | None,
    *,
    returns_changed: bool = False,
) -> Any:
    leaves, structure = trees.flatten(args)
    given = [as_node(x) for x in leaves]
    body = traced("checkpoint", f, [x.type for x in given], structure, leaves, nodes=given)
    device = device_of([*given, *body.captured])
    numbers = [x for x in given if x.shape and device != CPU and goes_along(x)]
    if numbers:  # they go where the rest is, which was found by tracing
        given = [placed(x, device) if x in numbers else x for x in given]
        body = traced("checkpoint", f, [x.type for x in given], structure, leaves)
    if body.changed and not returns_changed:
        whole = returning_arguments(f, body.changed)
        out, after = _recomputing(whole, args, policy, returns_changed=True)
        change("checkpoint", leaves, body.changed, [x._node for x in after])
        return out
    if body.communicates:
        threaded = with_token(f), (args, first_token())
        out, token = _recomputing(*threaded, policy, returns_changed=returns_changed)
        communicated(out, token)
        return out
    results = call(body.target, [*given, *body.captured], policy=policy)
    return trees.unflatten(body.structure, map(wrap, results))
