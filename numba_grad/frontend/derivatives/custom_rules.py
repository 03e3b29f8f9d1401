"""Derivatives of the user's own: `custom_vjp`, `custom_jvp`, `stop_gradient`.

A call whose derivative may be asked for becomes one `custom` operation (`ops/control.py`), as that
of an `autograd.Function` does: its values are what the function recorded, its derivative `Rules`.
"""

import functools
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from numba_grad.autograd.function import signature_of
from numba_grad.autograd.state import state_of
from numba_grad.autograd.tensor_class import is_tensor
from numba_grad.dtypes import is_inexact
from numba_grad.errors import DTypeError, GradientError, ShapeError, explain
from numba_grad.fresh_thread import carried
from numba_grad.frontend.derivatives.results import described
from numba_grad.frontend.derived_functions import deep_copied, reduced, wrap_like
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.inputs.arrays import as_node, wrap
from numba_grad.frontend.loops_and_branches.bodies import name_of
from numba_grad.frontend.tensors.python_numbers import handle_like, is_number
from numba_grad.graph.node import (
    OPS,
    Node,
    grad_mode,
    held_tensor,
    next_serial,
    record,
    recording,
)
from numba_grad.graph.types import Type
from numba_grad.graph.walk import history_of, in_order_of_recording
from numba_grad.immutable import NamedTuple, immutable
from numba_grad.ops.control import custom_node, item
from numba_grad.ops.families import full, placed
from numba_grad.transforms.jvp import adjoint_of_linear, zero_point
from numba_grad.transforms.jvp import tangents as tangents_of
from numba_grad.transforms.vjp import add_cotangents, cotangents, reached, released_error

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
        call = _Arguments(self, args)
        if not grad_mode.enabled or not call.variables or _is_of_tangents(self, call):
            return self.f(*args)
        return _recorded(self, call)

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
    out = function(*primals)
    leaves, structure = trees.flatten(out)
    sums: list[Node | None] = [None] * len(leaves)
    for rule, tangent in zip(rules, tangents, strict=True):
        if rule is None or tangent is None:
            continue
        where = f"a rule of {function.name}.defjvps"
        types = [as_node(x).type for x in leaves]
        found = _derivatives(where, rule(tangent, out, *primals), structure, "tangent", types)
        sums = [
            b if a is None else a if b is None else add_cotangents(a, b)
            for a, b in zip(sums, found, strict=True)
        ]
    return out, trees.unflatten(structure, [None if t is None else wrap(t) for t in sums])


class _Arguments:
    """The arguments of one call: which leaves have derivatives, and how all are put together."""

    def __init__(self, function: CustomFunction, args: tuple[Any, ...]) -> None:
        self.fixed = {k: args[k] for k in function.nondiff_argnums if k < len(args)}
        self.count = len(args)
        self.positions = [k for k in range(len(args)) if k not in self.fixed]
        given = [trees.flatten(args[k]) for k in self.positions]
        self.structures = [structure for _, structure in given]
        self.leaves = [x for leaves, _ in given for x in leaves]
        # Numbers of the leaves that derivatives flow to.
        self.variables = [
            k for k, x in enumerate(self.leaves) if is_tensor(x) and x._node.requires_grad
        ]

    def all_with(self, leaves: Sequence[Any]) -> list[Any]:
        """All arguments, with these leaves."""
        of_position = dict(zip(self.positions, self.trees(leaves), strict=True))
        return [self.fixed[k] if k in self.fixed else of_position[k] for k in range(self.count)]

    def trees(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments that are not fixed, with these leaves."""
        rest = iter(leaves)
        return tuple(
            [
                trees.unflatten(structure, [next(rest) for _ in range(structure.num_leaves)])
                for structure in self.structures
            ]
        )


def _check_arrays(function: CustomFunction, call: _Arguments) -> None:
    for name, x in zip(_names(function, call), call.leaves, strict=True):
        if not (is_tensor(x) or is_number(x) or isinstance(x, np.ndarray | np.generic)):
            raise TypeError(
                explain(
                    function.name,
                    "an argument is neither array nor number",
                    got={name: repr(x)},
                    fix="its position in nondiff_argnums",
                )
            )


def _names(function: CustomFunction, call: _Arguments) -> list[str]:
    """How a user would write each leaf."""
    names = [f"argument {k}" for k in range(call.count)]
    if function._signature is not None:
        parameters = function._signature.parameters.values()
        for k, parameter in zip(range(call.count), parameters, strict=False):
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                names[k] = parameter.name
    return [
        name
        for k, structure in zip(call.positions, call.structures, strict=True)
        for name in trees.leaf_names(structure, names[k])
    ]


def _recorded(function: CustomFunction, call: _Arguments) -> Any:
    """The results of a call, with the user's derivative."""
    _check_arrays(function, call)
    first_serial = next_serial()
    stand_ins = list(call.leaves)
    for k in call.variables:
        stand_ins[k] = handle_like(call.leaves[k], OPS["identity"](call.leaves[k]._node))
    given = [stand_ins[k]._node for k in call.variables]
    args = call.all_with(stand_ins)
    if function.fwd is None or function in _running.fwds:
        out, residuals = function.f(*args), _LATER
    else:
        out, residuals = _by_fwd(function, args)
    own = [stand_ins[k]._node for k in call.variables]
    if any(x is not before for x, before in zip(own, given, strict=True)):
        raise GradientError(
            explain(
                function.name,
                "changes an argument in place, of whose derivative its rule says nothing",
                fix="x = x.copy() inside, and x as a result",
            )
        )
    leaves, structure = trees.flatten(out)
    nodes = [as_node(x) for x in leaves]
    numbers = [k for k, node in enumerate(nodes) if is_inexact(node.dtype)]
    if not numbers:
        return out
    values = [nodes[k] for k in numbers]
    closed_over = _closed_over(values, own, first_serial)
    rules = Rules(function, call, own, closed_over, nodes, numbers, structure, residuals)
    # Of the values only numbers: what they are made of is no history of this operation.
    detached = [OPS["detach"](node) for node in values]
    operation = custom_node(rules, [*rules.arguments, *closed_over], detached)
    state_of(operation)  # so that a pass notices what the rule records
    results = list(leaves)
    for number, k in enumerate(numbers):
        result = record(item, (operation,), {"number": number})
        results[k] = handle_like(leaves[k], result)
    return trees.unflatten(structure, results)


class _Running(threading.local):
    fwds: tuple[CustomFunction, ...] = ()  # whose `fwd` runs
    # What forward rules that run to be transposed have for tangents.
    transposed: tuple[Node, ...] = ()


_running = carried(_Running())


def _is_of_tangents(function: CustomFunction, call: _Arguments) -> bool:
    """Whether a forward rule that is to be transposed calls a function of its tangents which has a
    forward rule itself: so the rule of a linear function may call this function. What is linear is
    transposed as it is written, since its rule would ask for its rule."""
    if function.bwd is not None or not _running.transposed:
        return False
    roots = [call.leaves[k]._node for k in call.variables]
    points = _running.transposed
    met = history_of(roots, points, since=points[0].serial).ends
    return not set(points).isdisjoint(met)


# A `fwd` may call its own function. For that call it runs when the derivative is asked for.
_LATER = object()


def _by_fwd(function: CustomFunction, args: Sequence[Any]) -> tuple[Any, Any]:
    fwd = function.fwd
    assert fwd is not None
    before = _running.fwds
    _running.fwds = (*before, function)
    try:
        return _pair(function, fwd, fwd(*args), "(result, residuals)")
    finally:
        _running.fwds = before


def _pair(function: CustomFunction, rule: Rule, returned: Any, expected: str) -> tuple[Any, Any]:
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        raise TypeError(
            explain(
                function.name,
                f"{name_of(rule)} must return two things",
                got={"result": described(returned)},
                expected=expected,
            )
        )
    return returned[0], returned[1]


def _closed_over(values: Sequence[Node], own: Sequence[Node], first_serial: int) -> list[Node]:
    """What else derivatives flow to from `values`, apart from the function's arguments."""
    arguments = set(own)
    met = history_of(values, arguments, since=first_serial).ends
    return in_order_of_recording(
        [x for x in met if x not in arguments and (x.serial < first_serial or x.op.vjp is None)]
    )


class _Kept(NamedTuple):
    """What a tensor was. Not the tensor itself: one of a loop's function would seem to leak."""

    node: Node
    is_number: bool

    @classmethod
    def of(cls, x: Any) -> Any:
        """Instead of a tensor; anything else as it is."""
        return cls(x._node, is_number(x)) if is_tensor(x) else x

    def like(self, node: Node) -> Any:
        """A tensor of `node` in place of this one."""
        return handle_like(0.0, node) if self.is_number else wrap(node)

    def tensor(self) -> Any:
        """The user's, if it is still there and nobody has assigned to it."""
        tensor = held_tensor(self.node)
        return self.like(self.node) if tensor is None else tensor


@immutable
class _Result:
    """A residual that is a result, by number: it has the history that the rule gives."""

    number: int


class Rules:
    """The context of one call: the user's derivative, of the arguments, and that of what was
    recorded, of what the function closes over."""

    context = None  # of an autograd.Function, there is none
    name: str

    def __init__(
        self,
        function: CustomFunction,
        call: _Arguments,
        stand_ins: list[Node],
        closed_over: list[Node],
        nodes: list[Node],
        numbers: list[int],
        structure: trees.Structure,
        residuals: Any,
    ) -> None:
        self.name = f"{function.name}Backward"
        self.function = function
        self.arguments = [call.leaves[k]._node for k in call.variables]
        self.tensor_count = len(call.variables) + len(closed_over)
        self.has_tangent = function.jvp is not None
        self._call: _Arguments | None = call
        self._closed_over = closed_over
        # Identities of the arguments: what lies behind them is reached by the rule.
        self._stand_ins = frozenset(stand_ins)
        self._types: list[Type] = [node.type for node in nodes]  # of all leaves of the result
        self._numbers = numbers  # of those that have derivatives
        self._values = [nodes[k] for k in numbers] if closed_over else []
        self._structure = structure
        self._is_later = residuals is _LATER
        self._types_of_leaves = [as_node(x).type for x in call.leaves]
        if self.has_tangent or self._is_later:
            # A rule that runs later gets what these are now.
            call.leaves = [
                _Kept(as_node(x), False) if isinstance(x, np.ndarray) else x for x in call.leaves
            ]
        call.leaves = [*map(_Kept.of, call.leaves)]
        positions = {nodes[k]: number for number, k in enumerate(numbers)}
        leaves, self._residual_structure = trees.flatten(residuals)
        self._residuals = [
            (
                _Result(positions[x._node])
                if is_tensor(x) and x._node in positions and x._node not in self.arguments
                else _Kept.of(x)
            )
            for x in leaves
        ]

    def release(self) -> None:
        """Free what was kept, after a backward pass that does not retain the graph."""
        self._call = None
        self._closed_over, self._values, self._residuals = [], [], []
        self._stand_ins = frozenset()

    def _kept(self) -> _Arguments:
        if self._call is None:
            raise released_error(None)
        return self._call

    # Reverse mode

    def pullback(self, given: Sequence[Node | None], operation: Node) -> list[Node | None]:
        """From cotangents of the results to those of arguments, and of what is closed over."""
        call = self._kept()
        rule = self._backward if self.function.bwd is not None else self._transposed
        of_leaves = rule(call, given, operation)
        found = [of_leaves[k] for k in call.variables]
        return [*found, *self._of_closed_over(given)]

    def _backward(
        self, call: _Arguments, given: Sequence[Node | None], operation: Node
    ) -> list[Node | None]:
        """By the user's reverse rule."""
        bwd = self.function.bwd
        assert bwd is not None
        if self._is_later:
            residuals = _by_fwd(self.function, call.all_with(self._primals(call)))[1]
        else:
            self._forget_constants()
            residuals = trees.unflatten(
                self._residual_structure, [_residual(x, operation) for x in self._residuals]
            )
        returned = self._called(
            bwd, *call.fixed.values(), residuals, self._derivative_of_result(given)
        )
        where = f"{self.function.name}: the result of {name_of(bwd)}"
        count = len(call.positions)
        if not isinstance(returned, tuple | list) or len(returned) != count:
            raise GradientError(
                explain(
                    self.function.name,
                    f"{name_of(bwd)} must return a cotangent for each argument",
                    got={"result": described(returned), "arguments": count},
                    expected=f"a tuple of {count}, None for 0",
                )
            )
        names = iter(_names(self.function, call))
        types = iter(self._types_of_leaves)
        found: list[Node | None] = []
        for number, (tree, structure) in enumerate(zip(returned, call.structures, strict=True)):
            size = structure.num_leaves
            found += _derivatives(
                where,
                tree,
                structure,
                f"cotangent {number}",
                [next(types) for _ in range(size)],
                [next(names) for _ in range(size)],
            )
        return found

    def _forget_constants(self) -> None:
        """Of an argument that has turned out to be a constant since, as an element of a row that
        nothing was assigned to, what `fwd` has made of it alone has no derivative either."""
        constant = {
            x
            for x in self._stand_ins
            if x.requires_grad and x.inputs and not any(y.requires_grad for y in x.inputs)
        }
        if not constant:
            return
        kept = [x.node for x in self._residuals if isinstance(x, _Kept)]
        for node in history_of(kept, constant).nodes:
            if not constant.isdisjoint(node.inputs) and not any(
                x.requires_grad and x not in constant for x in node.inputs
            ):
                constant.add(node)
        for node in constant:
            node.requires_grad = False

    def _transposed(
        self, call: _Arguments, given: Sequence[Node | None], operation: Node
    ) -> list[Node | None]:
        """By the user's forward rule, which is linear in the tangents: its derivative by these is
        the same at all of them, so at 0."""
        with recording(True):
            points = [zero_point(self._types_of_leaves[k]) for k in call.variables]
            before = _running.transposed
            _running.transposed = (*before, *points)
            try:
                pushed = self._tangents(call, dict(zip(call.variables, points, strict=True)))
            finally:
                _running.transposed = before
        ends = [
            (t, g) for t, g in zip(pushed, given, strict=True) if t is not None and g is not None
        ]
        pulled = adjoint_of_linear(points, ends, self._no_derivative, self._not_linear)
        found: list[Node | None] = [None] * len(call.leaves)
        for k, g in zip(call.variables, pulled, strict=True):
            found[k] = g
        return found

    def _no_derivative(self, node: Node) -> GradientError:
        name = self.function.name
        return GradientError(
            explain(
                name,
                "reverse mode transposes the rule for forward mode, and an operation of the "
                "tangents has no derivative",
                got={"recorded by the rule": node},
                fix=f"{name}.defvjp(fwd, bwd)",
            )
        )

    def _not_linear(self) -> GradientError:
        name = self.function.name
        return GradientError(
            explain(
                name,
                "the tangent that the rule returns is not linear in the tangents that it gets",
                expected="a linear function of them: reverse mode is its transpose",
                fix=f"t in place of t**2, abs(t) and the like; or {name}.defvjp(fwd, bwd)",
            )
        )

    def _of_closed_over(self, given: Sequence[Node | None]) -> list[Node | None]:
        pairs = [
            (x, g)
            for x, g in zip(self._values, given, strict=False)
            if g is not None and x.requires_grad
        ]
        roots = [x for x, _ in pairs]
        order = reached(roots, self._closed_over, self._stand_ins)
        pulled = cotangents(roots, [g for _, g in pairs], order)
        return [pulled.get(x) for x in self._closed_over]

    # Forward mode

    def push_forward(self, given: Sequence[Node | None], operation: Node) -> list[Node | None]:
        """From tangents of arguments, and of what is closed over, to those of the results."""
        call = self._kept()
        of_arguments = given[: len(call.variables)]
        found = self._tangents(call, dict(zip(call.variables, of_arguments, strict=True)))
        of_others = given[len(call.variables) :]
        if all(t is None for t in of_others):
            return found
        directions = dict(zip(self._closed_over, of_others, strict=True))
        order = reached(self._values, self._closed_over, self._stand_ins)
        others = tangents_of(self._values, directions, order)
        return [
            b if a is None else a if b is None else add_cotangents(a, b)
            for a, b in zip(found, others, strict=True)
        ]

    def _tangents(self, call: _Arguments, given: Mapping[int, Node | None]) -> list[Node | None]:
        """Those of the results that have derivatives, by the user's forward rule."""
        rule = self.function.jvp
        assert rule is not None
        tangents = []
        for k, (x, type) in enumerate(zip(call.leaves, self._types_of_leaves, strict=True)):
            node = given.get(k)
            if node is None and is_inexact(type.dtype):
                node = full(0, type.shape, type.dtype, type.device)
            like = x.like if isinstance(x, _Kept) else functools.partial(handle_like, x)
            tangents.append(None if node is None else like(node))
        primals = call.trees(self._primals(call))
        returned = self._called(rule, *call.fixed.values(), primals, call.trees(tangents))
        _, tangent = _pair(self.function, rule, returned, "(result, its tangent)")
        where = f"{self.function.name}: the result of {name_of(rule)}"
        names = trees.leaf_names(self._structure, "result")
        found = _derivatives(where, tangent, self._structure, "the tangent", self._types, names)
        return [found[k] for k in self._numbers]

    # Both

    def _primals(self, call: _Arguments) -> list[Any]:
        """The leaves of the arguments, as rules get them that run later."""
        primals = [x.tensor() if isinstance(x, _Kept) else x for x in call.leaves]
        for k, node in zip(call.variables, self.arguments, strict=True):
            primals[k] = call.leaves[k].like(OPS["identity"](node))
        return primals

    def _called(self, rule: Rule, *args: Any) -> Any:
        try:
            return rule(*args)
        except Exception as error:
            error.add_note(f"in {name_of(rule)}, a rule of {self.function.name}")
            raise

    def _derivative_of_result(self, given: Sequence[Node | None]) -> Any:
        """Cotangents as the user's rule gets them: of integers None, 0 where nothing arrived."""
        found: list[Any] = [None] * len(self._types)
        for k, g in zip(self._numbers, given, strict=True):
            type = self._types[k]
            found[k] = wrap(full(0, type.shape, type.dtype, type.device) if g is None else g)
        return trees.unflatten(self._structure, found)


def _residual(kept: Any, operation: Node) -> Any:
    if isinstance(kept, _Result):
        return wrap(record(item, (operation,), {"number": kept.number}))
    return kept.tensor() if isinstance(kept, _Kept) else kept


def _derivatives(
    where: str,
    tree: Any,
    structure: trees.Structure,
    what: str,
    types: Sequence[Type],
    names: Sequence[str] | None = None,
) -> list[Node | None]:
    """The leaves of what a rule returned, None for 0, which stand for values of these types."""
    if tree is None:
        return [None] * len(types)
    own, returned = trees.flatten(tree)
    try:
        leaves = structure.flatten_up_to(tree)
    except (ValueError, TypeError):
        leaves = []
    # None in place of a leaf is 0, though for trees in general it is an empty container.
    given = [x for x in leaves if x is not None]
    if len(leaves) != len(types) or list(map(id, given)) != list(map(id, own)):
        raise GradientError(trees.structure_mismatch(where, what, returned, structure))
    names = trees.leaf_names(structure, what) if names is None else names
    return [
        None if x is None or not is_inexact(type.dtype) else _derivative(where, x, type, name)
        for x, type, name in zip(leaves, types, names, strict=True)
    ]


def _derivative(where: str, x: Any, type: Type, name: str) -> Node:
    """One leaf. Python numbers have no dtype of their own."""
    like = full(0, (), type.dtype) if is_number(x) else None
    try:
        node = as_node(x, like)
    except (TypeError, ValueError) as error:
        raise GradientError(
            explain(
                where, f"no derivative of {name}", got={"returned": repr(x)}, expected=str(type)
            )
        ) from error
    if node.shape == type.shape and node.dtype == type.dtype:
        return placed(node, type.device)
    is_dtype = node.shape == type.shape
    raise (DTypeError if is_dtype else ShapeError)(
        explain(
            where,
            f"a derivative of another {'dtype' if is_dtype else 'shape'} than what it belongs to",
            got={name: type, "its derivative": node.type},
            expected=str(type),
            fix=f".astype({type.dtype.name})" if is_dtype else "",
        )
    )
