"""Derivatives of the user's own: `custom_vjp`, `custom_jvp`, `stop_gradient`.

A call whose derivative may be asked for becomes one `custom` operation (`ops/control.py`), as that
of an `autograd.Function` does: its values are what the function recorded, its derivative that
of the rules (`calls_with_rules.py`, which programs without such functions never import).
"""

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any

from numba_grad.autograd.function import signature_of
from numba_grad.autograd.tensor_class import is_tensor
from numba_grad.errors import GradientError, explain
from numba_grad.fresh_thread import imported
from numba_grad.frontend.derived_functions import deep_copied, reduced, wrap_like
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.inputs.arrays import as_node, wrap
from numba_grad.frontend.loops_and_branches.bodies import name_of
from numba_grad.frontend.tensors.python_numbers import handle_like
from numba_grad.graph.node import OPS, Node
from numba_grad.transforms.vjp import add_cotangents

__all__ = ["custom_jvp", "custom_vjp", "stop_gradient"]

Rule = Callable[..., Any]


def custom_vjp(
    f: Callable[..., Any] | None = None, nondiff_argnums: int | Sequence[int] = ()
) -> Any:
    """`f` with a reverse rule of your own, as JAX's: `f.defvjp(fwd, bwd)`. Use it as a decorator.

    Parameters
    ----------
    f : function of arrays and numbers, possibly in nested containers, that returns such
    nondiff_argnums : positions of arguments that are no arrays, as functions and options: they are
        passed on as they are, and have no derivative by the rule

    Returns
    -------
    the function, with methods `defvjp(fwd, bwd)`, `defjvp(rule)` and `defjvps(*rules)`

    Notes
    -----
    `fwd(*args)` returns the result of `f` and anything that the derivative needs, as a pair.
    `bwd(*nondiff_args, residuals, cotangent)` returns a tuple: for each argument a cotangent of its
    structure, shapes and dtypes, None for 0. Both are ordinary code: what they record is
    differentiated for derivatives of higher order, batched and compiled. A result of `fwd` that is
    among the residuals has the derivative that the rule gives.

    With `defjvp` a function has a rule for forward mode as well, and each mode uses its own. Else
    forward mode transposes the reverse rule, which is linear in the cotangent.

    Tensors that `f` closes over are no arguments: their derivative is that of what `fwd` records.

    Examples
    --------
    >>> @ng.custom_vjp
    ... def clipped(x):
    ...     return x
    >>> clipped.defvjp(lambda x: (x, None), lambda _, g: (np.clip(g, -1.0, 1.0),))
    >>> ng.grad(lambda x: 5.0 * clipped(x))(2.0)
    tensor(1.)
    """
    return _custom_function(custom_vjp, f, nondiff_argnums)


def custom_jvp(
    f: Callable[..., Any] | None = None, nondiff_argnums: int | Sequence[int] = ()
) -> Any:
    """`f` with a forward rule of your own, as JAX's: `f.defjvp(rule)`. Use it as a decorator.

    Parameters
    ----------
    f, nondiff_argnums : as for `custom_vjp`

    Returns
    -------
    the function, with methods `defjvp(rule)`, `defjvps(*rules)` and `defvjp(fwd, bwd)`

    Notes
    -----
    `rule(*nondiff_args, primals, tangents)` returns the result of `f` and its tangent, as a pair;
    `primals` and `tangents` are tuples, with one entry for each argument. It must be linear in the
    tangents, for reverse mode, unless `defvjp` says another rule, transposes it. The rule of a
    linear function may call the function itself of its tangents. Integers have no tangent: it is
    None. `defjvps` takes a rule for each argument instead, `rule(tangent, result,
    *args)`, whose results are summed.

    Examples
    --------
    >>> @ng.custom_jvp
    ... def softplus(x):
    ...     return np.log(1.0 + np.exp(x))
    >>> softplus.defjvps(lambda t, out, x: t / (1.0 + np.exp(-x)))
    >>> ng.grad(softplus)(1000.0)
    tensor(1.)
    """
    return _custom_function(custom_jvp, f, nondiff_argnums)


def stop_gradient(tree: Any) -> Any:
    """The same values without history: derivatives of both modes take them for constants.

    Parameters
    ----------
    tree : tensors, possibly in nested containers; what else is in them stays as it is

    Examples
    --------
    >>> ng.grad(lambda x: x * ng.stop_gradient(x))(3.0)
    tensor(3.)
    """
    leaves, structure = trees.flatten(tree)
    stopped = [
        handle_like(x, OPS["detach"](x._node)) if is_tensor(x) and x._node.requires_grad else x
        for x in leaves
    ]
    return trees.unflatten(structure, stopped)


def _custom_function(make: Callable[..., Any], f: Any, nondiff_argnums: Any) -> Any:
    operation = make.__name__
    if f is None:
        return functools.partial(make, nondiff_argnums=nondiff_argnums)
    numbers = (nondiff_argnums,) if isinstance(nondiff_argnums, int) else tuple(nondiff_argnums)
    if not all(isinstance(k, int) and k >= 0 for k in numbers):
        raise TypeError(
            explain(
                operation,
                "positions of arguments are integers from 0 on",
                got={"nondiff_argnums": repr(nondiff_argnums)},
            )
        )
    if isinstance(f, CustomFunction) and (not numbers or numbers == f.nondiff_argnums):
        return f  # it takes rules of both kinds
    if not callable(f):
        raise TypeError(
            explain(operation, "needs a function", got={"f": repr(f)}, fix=f"@ng.{operation}")
        )
    return CustomFunction(make, f, numbers)


class CustomFunction:
    """A function with rules of the user's: made by `custom_vjp` and `custom_jvp`."""

    def __init__(
        self, make: Callable[..., Any], f: Callable[..., Any], nondiff_argnums: tuple[int, ...]
    ) -> None:
        wrap_like(self, f)
        self.f = f
        self.nondiff_argnums = nondiff_argnums
        self.name = name_of(f)
        self.fwd: Rule | None = None
        self.bwd: Rule | None = None
        self.jvp: Rule | None = None
        self._made_by = make, (f, nondiff_argnums)
        try:
            self._signature = signature_of(f)
        except (TypeError, ValueError):
            self._signature = None

    def defvjp(self, fwd: Rule, bwd: Rule) -> None:
        """Say the reverse rule: see `custom_vjp`."""
        self._check_functions("defvjp", fwd=fwd, bwd=bwd)
        self.fwd, self.bwd = fwd, bwd

    def defjvp(self, rule: Rule) -> Rule:
        """Say the forward rule: see `custom_jvp`. Returns it, so this is a decorator."""
        self._check_functions("defjvp", rule=rule)
        self.jvp = rule
        return rule

    def defjvps(self, *rules: Rule | None) -> None:
        """Say a forward rule for each argument, `rule(tangent, result, *args)`; None: it has no
        tangent."""
        self._check_functions("defjvps", **{f"rule {k}": r for k, r in enumerate(rules) if r})
        if self.nondiff_argnums:
            raise TypeError(
                explain(
                    f"{self.name}.defjvps",
                    "goes together with no nondiff_argnums",
                    got={"nondiff_argnums": self.nondiff_argnums},
                    fix=f"{self.name}.defjvp(rule)",
                )
            )
        self.jvp = functools.partial(_summed_tangents, self, rules)

    def _check_functions(self, method: str, **functions: Any) -> None:
        for name, function in functions.items():
            if not callable(function):
                raise TypeError(
                    explain(f"{self.name}.{method}", "not a function", got={name: repr(function)})
                )

    @property
    def rules(self) -> tuple[Rule | None, ...]:
        """What was said of the derivative: fwd, bwd, and the forward rule."""
        return self.fwd, self.bwd, self.jvp

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args = self._positional(args, kwargs)
        if self.bwd is None and self.jvp is None:
            raise GradientError(
                explain(
                    self.name,
                    "has no rule for its derivative yet",
                    fix=f"{self.name}.defvjp(fwd, bwd), or {self.name}.defjvp(rule)",
                )
            )
        calls = imported("numba_grad.frontend.derivatives.calls_with_rules")
        return calls.result_of(self, args)

    def _positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments by position, defaults included, as the rules get them."""
        if self._signature is None and not kwargs:
            return args
        keywords = kwargs
        if self._signature is not None:
            bound = self._signature.bind(*args, **kwargs)
            bound.apply_defaults()
            args = bound.args
            # Those of the function that nobody gave stay what the function says.
            keywords = {name: x for name, x in bound.kwargs.items() if name in kwargs}
        if keywords:
            raise TypeError(
                explain(
                    self.name,
                    "rules get arguments by position",
                    got={"keyword-only": ", ".join(keywords)},
                    fix="no * before them, and nondiff_argnums for what is no array",
                )
            )
        return args

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __reduce__(self) -> str | tuple[Any, ...]:
        made = reduced(self, *self._made_by)
        return made if isinstance(made, str) else (_with_rules, (made, self.rules))

    def __copy__(self) -> "CustomFunction":
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> "CustomFunction":
        copied = deep_copied(self, *self._made_by, memo)
        if copied is not self:
            copied.fwd, copied.bwd, copied.jvp = self.rules
        return copied

    def __repr__(self) -> str:
        return f"<{self._made_by[0].__name__} {self.name}>"


def _with_rules(
    made: tuple[Callable[..., Any], tuple[Any, ...]], rules: tuple[Rule | None, ...]
) -> CustomFunction:
    """What was pickled."""
    make, args = made
    function = make(*args)
    function.fwd, function.bwd, function.jvp = rules
    return function


def _summed_tangents(
    function: CustomFunction,
    rules: Sequence[Rule | None],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
) -> tuple[Any, Any]:
    """The rule that `defjvps` stands for."""
    if len(rules) != len(primals):
        raise TypeError(
            explain(
                f"{function.name}.defjvps",
                "needs a rule for each argument, or None",
                got={"rules": len(rules), "arguments": len(primals)},
            )
        )
    returned_by_rules = imported("numba_grad.frontend.derivatives.returned_by_rules")
    out = function(*primals)
    leaves, structure = trees.flatten(out)
    sums: list[Node | None] = [None] * len(leaves)
    for rule, tangent in zip(rules, tangents, strict=True):
        if rule is None or tangent is None:
            continue
        where = f"a rule of {function.name}.defjvps"
        types = [as_node(x).type for x in leaves]
        returned = rule(tangent, out, *primals)
        found = returned_by_rules.derivatives(where, returned, structure, "tangent", types)
        sums = [
            b if a is None else a if b is None else add_cotangents(a, b)
            for a, b in zip(sums, found, strict=True)
        ]
    return out, trees.unflatten(structure, [None if t is None else wrap(t) for t in sums])
