"""Derivatives of functions of tensors, with torch's signatures: vjp, jvp, jacobian, hessian, hvp,
vhp.

`func` takes tensors and returns a tensor or a tuple of them; it is called once, on fresh variables.
Rows of Jacobians are computed together, in one batched program, also without `vectorize`.

It is a face of `Differentiation`, as `ng.vjp`, `ng.jacobian` and their kin are: torch's arguments,
results and errors. So this module is above the frontend.
"""

from collections.abc import Callable, Sequence
from typing import Any

from numba_grad.autograd.tensor_class import is_tensor, new_tensor
from numba_grad.dtypes import is_floating, is_inexact
from numba_grad.errors import GradientError, explain
from numba_grad.frontend.derivatives.differentiation import run_on_variables
from numba_grad.frontend.derivatives.jacobians import jacobian as jacobian_of_call
from numba_grad.frontend.derivatives.results import matching
from numba_grad.frontend.inputs.trees import flatten
from numba_grad.graph.node import OPS, Node, recording
from numba_grad.ops.families import ones_like, reshape, zeros_like

Tensor = Any
Tensors = Any  # a Tensor or a tuple of them
Func = Callable[..., Tensors]

STRATEGIES = ("reverse-mode", "forward-mode")


def vjp(
    func: Func,
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Tensors, Tensors]:
    """The product of `v` with the Jacobian of `func` at `inputs`.

    Parameters
    ----------
    func : takes as many tensors as `inputs` has; returns a tensor or a tuple of tensors
    inputs : tensor or tuple of tensors
    v : as the result of `func`; may be left out if that is one tensor with one element
    create_graph : let the results be differentiable
    strict : raise if a result does not depend on an input, instead of giving zeros

    Returns
    -------
    result of `func`, and the product, as `inputs`
    """
    call = _Call("vjp", func, inputs, create_graph, strict)
    seeds = call.cotangents(v)
    with recording(create_graph):
        products = call.own.gradients(call.outputs, seeds)
    call.check_reached(call.outputs, _INDEPENDENT)
    call.check_recorded(products, _NO_JACOBIAN)
    return call.values_and_products(call.outputs, products, call.is_inputs_tuple)


def jvp(
    func: Func,
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Tensors, Tensors]:
    """The product of the Jacobian of `func` at `inputs` with `v`: the derivative in the direction
    `v`.

    Parameters and results as `vjp`, but `v` is as `inputs` and the product as the result of `func`.

    Notes
    -----
    Forward mode: `torch.autograd.functional.jvp` gets the same from reverse mode, twice.
    """
    call = _Call("jvp", func, inputs, create_graph, strict)
    directions = call.directions(v)
    call.check_reached(call.outputs, _INDEPENDENT)
    outputs, found = call.own.pushed_forward(call.outputs, directions)
    products = [zeros_like(x) if t is None else t for x, t in zip(outputs, found, strict=True)]
    call.check_recorded(products, _NO_JACOBIAN)
    return call.values_and_products(outputs, products, call.is_outputs_tuple)


def jacobian(
    func: Func,
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Tensors:
    """The Jacobian of `func` at `inputs`.

    Parameters
    ----------
    func, inputs, create_graph, strict : as in `vjp`
    vectorize : accepted; rows are always computed together
    strategy : "reverse-mode", or "forward-mode", which is faster for more outputs than inputs

    Returns
    -------
    Tensor of shape `output.shape + input.shape`; a tuple of them if `func` returns a tuple or
    `inputs` is one, a tuple of tuples, `result[output][input]`, if both
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"jacobian: strategy={strategy!r}: expected one of {STRATEGIES}")
    is_reverse = strategy == "reverse-mode"
    if not is_reverse:
        _check_forward(create_graph, strict, vectorize)
    if vectorize and strict:
        raise GradientError(
            "jacobian: `strict=True` and `vectorize=True` are not supported together"
        )
    call = _Call("jacobian", func, inputs, create_graph, strict)
    for number, output in enumerate(call.outputs):
        if output.type.size:
            call.check_reached([output], _INDEPENDENT_OUTPUT.format(output=number))
    with recording(create_graph):
        rows = jacobian_of_call(call.own, call.outputs, is_reverse, of_one=True)
    for row in rows:
        call.check_recorded(row, _NO_JACOBIAN)
    blocks = iter(call.own.results([block for row in rows for block in row]))
    result = [_unpacked([next(blocks) for _ in row], call.is_inputs_tuple) for row in rows]
    return _unpacked(result, call.is_outputs_tuple)


def hessian(
    func: Func,
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Tensors:
    """The Hessian at `inputs` of `func`, which returns one tensor with one element.

    Parameters
    ----------
    outer_jacobian_strategy : "reverse-mode", or "forward-mode" for the derivative of the gradient
    others : as in `jacobian`

    Returns
    -------
    Tensor of shape `input.shape + input.shape`; for a tuple of inputs a tuple of tuples,
    `result[i][j]` of shape `inputs[i].shape + inputs[j].shape`
    """
    is_tuple, tensors = _as_tensors("hessian", "inputs", inputs)

    def scalar(*variables: Tensor) -> Tensor:
        output = func(*variables)
        _check_scalar("hessian", output._node if is_tensor(output) else None)
        return new_tensor(reshape(output._node, ()))

    def gradient(*variables: Tensor) -> tuple[Tensor, ...]:
        result = jacobian(scalar, variables, create_graph=True)
        _check_depends(strict, [x._node for x in result], _CONSTANT_GRADIENT)
        return result

    rows = jacobian(
        gradient,
        tensors,
        create_graph=create_graph,
        strict=strict,
        vectorize=vectorize,
        strategy=outer_jacobian_strategy,
    )
    return _unpacked([_unpacked(row, is_tuple) for row in rows], is_tuple)


def vhp(
    func: Func,
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Tensor, Tensors]:
    """The product of `v` with the Hessian at `inputs` of `func`, which returns one tensor with one
    element.

    Parameters and results as `jvp`, but the product is as `inputs`.
    """
    call = _Call("vhp", func, inputs, create_graph, strict)
    vectors = call.directions(v)
    gradient = call.gradient()
    call.check_reached(gradient, _NO_JACOBIAN)
    with recording(create_graph):
        products = call.own.gradients(gradient, vectors)
    call.check_recorded(products, _NO_HESSIAN)
    return call.values_and_products(call.outputs, products, call.is_inputs_tuple)


def hvp(
    func: Func,
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Tensor, Tensors]:
    """The product of the Hessian at `inputs` of `func` with `v`; `func` returns one tensor with one
    element.

    Parameters and results as `jvp`, but the product is as `inputs`. Where second derivatives are
    continuous, `vhp` is the same and faster.
    """
    call = _Call("hvp", func, inputs, create_graph, strict)
    directions = call.directions(v)
    gradient = call.gradient()
    if strict:
        _refuse_first_missing([any(call.own.depends_on([g])) for g in gradient], _NO_HESSIAN)
    with recording(create_graph):
        products = call.own.tangents(gradient, directions)
    call.check_recorded(products, _NO_HESSIAN)
    return call.values_and_products(call.outputs, products, call.is_inputs_tuple)


# What strict mode says.
_OUTPUT_CONSTANT = (
    "output {number} of the user-provided function does not require gradients: outputs must be "
    "computed in a differentiable manner from the inputs"
)
_INDEPENDENT = "the output of the user-provided function is independent of input {number}"
_INDEPENDENT_OUTPUT = (
    "output {output} of the user-provided function is independent of input {{number}}"
)
_NO_JACOBIAN = "the jacobian of the user-provided function is independent of input {number}"
_NO_HESSIAN = "the hessian of the user-provided function is independent of input {number}"
_CONSTANT_GRADIENT = (
    "while computing the hessian, found that the jacobian of the user-provided function with "
    "respect to input {number} is independent of the input"
)


class _Call:
    """One call of the user's function: `own`, and torch's side of it."""

    __slots__ = (
        "_create_graph",
        "_operation",
        "_strict",
        "is_inputs_tuple",
        "is_outputs_tuple",
        "outputs",
        "own",
    )

    def __init__(
        self, operation: str, func: Func, inputs: Tensors, create_graph: bool, strict: bool
    ) -> None:
        self._operation = operation
        self._create_graph = create_graph
        self._strict = strict
        self.is_inputs_tuple, tensors = _as_tensors(operation, "inputs", inputs)
        for x in tensors:
            if not is_inexact(x._node.dtype):
                raise GradientError(
                    "only Tensors of floating point and complex dtype can require gradients, not "
                    f"{x._node.type}"
                )
        given = self._without_history(tensors)
        self.own, returned, _ = run_on_variables(
            operation, func, given, {}, range(len(given)), False, create_graph
        )
        self.is_outputs_tuple, outputs = _as_tensors(
            operation, "outputs of the user-provided function", returned
        )
        self.outputs = [x._node for x in outputs]
        _check_depends(strict, self.outputs, _OUTPUT_CONSTANT)

    def _without_history(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """`tensors`, without history unless results are to be differentiable."""
        if self._create_graph:
            return list(tensors)
        return [new_tensor(OPS["detach"](x._node)) for x in tensors]

    def cotangents(self, v: Tensors | None) -> list[Node]:
        """`v` as the outputs; None stands for 1 where they are one number."""
        if v is not None:
            return self._vectors(v, self.outputs, self.is_outputs_tuple)
        if len(self.outputs) != 1 or self.outputs[0].type.size != 1:
            raise GradientError(
                f"{self._operation}: the vector v can only be None if the user-provided function "
                "returns a single Tensor with a single element"
            )
        (output,) = self.outputs
        if not is_floating(output.dtype):
            raise GradientError(
                "grad can be implicitly created only for real scalar outputs but got "
                f"{output.dtype}"
            )
        return [ones_like(output)]

    def directions(self, v: Tensors | None) -> list[Node]:
        """`v` as the inputs; None stands for 1 where they are one number."""
        variables = self.own.variables
        if v is not None:
            return self._vectors(v, variables, self.is_inputs_tuple)
        if len(variables) != 1 or variables[0].type.size != 1:
            raise GradientError(
                f"{self._operation}: the vector v can only be None if the input to the "
                "user-provided function is a single Tensor with a single element"
            )
        return [ones_like(variables[0])]

    def _vectors(self, v: Tensors, like: Sequence[Node], is_tuple: bool) -> list[Node]:
        """`v`, checked to be as `like`."""
        _, given = _as_tensors(self._operation, "v", v)
        if len(given) != len(like):
            raise GradientError(
                f"{self._operation}: v is a tuple of invalid length: should be {len(like)} but "
                f"got {len(given)}"
                if is_tuple
                else f"{self._operation}: the given v should contain a single Tensor"
            )
        for number, (vector, x) in enumerate(zip(given, like, strict=True)):
            if vector._node.shape != x.shape:
                raise GradientError(
                    explain(
                        self._operation,
                        f"entry {number} of v has an invalid size",
                        got={"v": vector._node.type},
                        expected=f"shape {x.shape}",
                    )
                )
        vectors = tuple(self._without_history(given))
        return matching(self._operation, "v", vectors, flatten(vectors)[1], like)

    def gradient(self) -> list[Node]:
        """The gradient of the one number that the function returned, differentiable."""
        (output, *others) = self.outputs
        _check_scalar(self._operation, None if others or self.is_outputs_tuple else output)
        with recording(True):
            gradient = self.own.gradients([output], [ones_like(output)])
        _check_depends(self._strict, gradient, _NO_JACOBIAN)
        return gradient

    def check_reached(self, outputs: Sequence[Node], problem: str) -> None:
        """In strict mode, raise for the first input that none of `outputs` was computed from."""
        if self._strict:
            _refuse_first_missing(self.own.depends_on(outputs), problem)

    def check_recorded(self, products: Sequence[Node], problem: str) -> None:
        """In strict mode with create_graph, raise for the first that cannot be differentiated."""
        if self._strict and self._create_graph:
            are_recorded = [x.requires_grad for x in products]
            _refuse_first_missing(are_recorded, problem, " when create_graph=True")

    def values_and_products(
        self, values: Sequence[Node], products: Sequence[Node], is_tuple: bool
    ) -> tuple[Tensors, Tensors]:
        """Both as the caller gets them; `is_tuple` is about the products."""
        tensors = self.own.results([*values, *products])
        count = len(values)
        return (
            _unpacked(tensors[:count], self.is_outputs_tuple),
            _unpacked(tensors[count:], is_tuple),
        )


def _as_tensors(operation: str, label: str, value: Tensors) -> tuple[bool, tuple[Tensor, ...]]:
    """Whether `value` is a tuple, and it as one."""
    is_tuple = isinstance(value, tuple)
    tensors = value if is_tuple else (value,)
    for number, x in enumerate(tensors):
        if not is_tensor(x):
            where = f"the value at index {number}" if is_tuple else f"the given {label}"
            raise TypeError(
                f"{operation}: the {label} must be either a Tensor or a tuple of Tensors, but "
                f"{where} has type {type(x).__name__}"
            )
    return is_tuple, tensors


def _unpacked(values: Sequence[Any], is_tuple: bool) -> Any:
    """A tuple, or what the caller has not passed in one."""
    return tuple(values) if is_tuple else values[0]


def _check_depends(strict: bool, nodes: Sequence[Node], problem: str) -> None:
    """In strict mode, raise for the first that does not require grad."""
    if strict:
        _refuse_first_missing([x.requires_grad for x in nodes], problem)


def _refuse_first_missing(are_there: Sequence[bool], problem: str, where: str = "") -> None:
    for number, is_there in enumerate(are_there):
        if not is_there:
            raise GradientError(
                f"{problem.format(number=number)}; this is not allowed in strict mode{where}"
            )


def _check_scalar(operation: str, output: Node | None) -> None:
    if output is None:
        raise GradientError(f"{operation}: the function should return a single Tensor")
    if output.type.size != 1:
        raise GradientError(
            explain(
                operation,
                "the Tensor returned by the function should contain a single element",
                got={"returned": output.type},
            )
        )


def _check_forward(create_graph: bool, strict: bool, vectorize: bool) -> None:
    if create_graph:
        raise NotImplementedError(
            'jacobian: create_graph=True and strategy="forward-mode" are not supported together'
        )
    if strict:
        raise GradientError(
            'jacobian: strict=True and strategy="forward-mode" are not supported together'
        )
    if not vectorize:
        raise NotImplementedError(
            'jacobian: strategy="forward-mode" is only implemented for vectorize=True'
        )
