"""The derivative of one call of a function with rules of the user's: `Rules`.

It runs the rules, on what the call has kept: the arguments, and what `fwd` returned for them.
"""

import functools
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.autograd.tensor_class import is_tensor
from numba_grad.dtypes import is_inexact
from numba_grad.errors import GradientError, explain
from numba_grad.fresh_thread import carried
from numba_grad.frontend.derivatives.results import described
from numba_grad.frontend.derivatives.returned_by_rules import derivatives, pair
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.inputs.arrays import as_node, wrap
from numba_grad.frontend.loops_and_branches.bodies import name_of
from numba_grad.frontend.tensors.python_numbers import handle_like, is_number
from numba_grad.graph.node import OPS, Node, held_tensor, record, recording
from numba_grad.graph.types import Type
from numba_grad.graph.walk import history_of
from numba_grad.immutable import NamedTuple, immutable
from numba_grad.ops.control import item
from numba_grad.ops.families import full
from numba_grad.transforms.jvp import adjoint_of_linear, zero_point
from numba_grad.transforms.jvp import tangents as tangents_of
from numba_grad.transforms.vjp import add_cotangents, cotangents, reached, released_error

if TYPE_CHECKING:
    from numba_grad.frontend.derivatives.custom_rules import CustomFunction, Rule


class Arguments:
    """The arguments of one call: which leaves have derivatives, and how all are put together."""

    def __init__(self, function: "CustomFunction", args: tuple[Any, ...]) -> None:
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


class Running(threading.local):
    fwds: tuple["CustomFunction", ...] = ()  # whose `fwd` runs
    # What forward rules that run to be transposed have for tangents.
    transposed: tuple[Node, ...] = ()


running = carried(Running())


def names_of_leaves(function: "CustomFunction", call: Arguments) -> list[str]:
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


# A `fwd` may call its own function. For that call it runs when the derivative is asked for.
LATER = object()


def by_fwd(function: "CustomFunction", args: Sequence[Any]) -> tuple[Any, Any]:
    fwd = function.fwd
    assert fwd is not None
    before = running.fwds
    running.fwds = (*before, function)
    try:
        return pair(function.name, fwd, fwd(*args), "(result, residuals)")
    finally:
        running.fwds = before


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
        function: "CustomFunction",
        call: Arguments,
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
        self._call: Arguments | None = call
        self._closed_over = closed_over
        # Identities of the arguments: what lies behind them is reached by the rule.
        self._stand_ins = frozenset(stand_ins)
        self._types: list[Type] = [node.type for node in nodes]  # of all leaves of the result
        self._numbers = numbers  # of those that have derivatives
        self._values = [nodes[k] for k in numbers] if closed_over else []
        self._structure = structure
        self._is_later = residuals is LATER
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

    def _kept(self) -> Arguments:
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
        self, call: Arguments, given: Sequence[Node | None], operation: Node
    ) -> list[Node | None]:
        """By the user's reverse rule."""
        bwd = self.function.bwd
        assert bwd is not None
        if self._is_later:
            residuals = by_fwd(self.function, call.all_with(self._primals(call)))[1]
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
        names = iter(names_of_leaves(self.function, call))
        types = iter(self._types_of_leaves)
        found: list[Node | None] = []
        for number, (tree, structure) in enumerate(zip(returned, call.structures, strict=True)):
            size = structure.num_leaves
            found += derivatives(
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
        self, call: Arguments, given: Sequence[Node | None], operation: Node
    ) -> list[Node | None]:
        """By the user's forward rule, which is linear in the tangents: its derivative by these is
        the same at all of them, so at 0."""
        with recording(True):
            points = [zero_point(self._types_of_leaves[k]) for k in call.variables]
            before = running.transposed
            running.transposed = (*before, *points)
            try:
                pushed = self._tangents(call, dict(zip(call.variables, points, strict=True)))
            finally:
                running.transposed = before
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

    def _tangents(self, call: Arguments, given: Mapping[int, Node | None]) -> list[Node | None]:
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
        _, tangent = pair(self.function.name, rule, returned, "(result, its tangent)")
        where = f"{self.function.name}: the result of {name_of(rule)}"
        names = trees.leaf_names(self._structure, "result")
        found = derivatives(where, tangent, self._structure, "the tangent", self._types, names)
        return [found[k] for k in self._numbers]

    # Both

    def _primals(self, call: Arguments) -> list[Any]:
        """The leaves of the arguments, as rules get them that run later."""
        primals = [x.tensor() if isinstance(x, _Kept) else x for x in call.leaves]
        for k, node in zip(call.variables, self.arguments, strict=True):
            primals[k] = call.leaves[k].like(OPS["identity"](node))
        return primals

    def _called(self, rule: "Rule", *args: Any) -> Any:
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
