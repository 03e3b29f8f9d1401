"""Derivatives of functions of tensors, with torch's signatures: vjp, jvp, jacobian, hessian, hvp,
vhp.

`func` takes tensors and returns a tensor or a tuple of them; it is called once, on fresh variables.
Rows of Jacobians are computed together, in one batched program, also without `vectorize`.

`ng.vjp`, `ng.jacobian` and their kin (`frontend/gradients.py`) have JAX's contract: nested
arguments, and a history where the caller's values have one. Here it is torch's: `strict`,
`create_graph`, passes with all hooks of `backward`. Neither can be a face of the other; both call
the same transforms (`cotangents`, `pushed_forward`, `by_rows`, `by_columns`), and no algorithm is
in these modules.
"""

from collections.abc import Callable, Sequence
from typing import Any

from numba_grad.autograd.backward import grad
from numba_grad.autograd.modes import enable_grad, is_grad_enabled, set_grad_enabled
from numba_grad.autograd.running import running
from numba_grad.autograd.tensor_class import is_tensor, new_tensor
from numba_grad.compiler.evaluate import evaluate
from numba_grad.dtypes import is_inexact
from numba_grad.errors import GradientError, explain
from numba_grad.graph.node import OPS, Node, argument, leaf
from numba_grad.graph.walk import is_traced
from numba_grad.ops.families import cast, ones_like, reshape, zeros_like
from numba_grad.transforms.batch import batch, by_columns, by_rows
from numba_grad.transforms.jvp import pushed_forward, tangents

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
    with enable_grad():
        call = _Call("vjp", func, inputs, create_graph, strict)
        if v is None:
            if len(call.outputs) != 1 or call.outputs[0]._node.type.size != 1:
                raise GradientError(
                    "vjp: the vector v can only be None if the user-provided function returns a "
                    "single Tensor with a single element"
                )
            vectors = None
        else:
            vectors = call.vectors(v, call.outputs, call.is_outputs_tuple)
    with set_grad_enabled(create_graph or is_grad_enabled()):
        product = _grad(call.outputs, call.inputs, vectors, create_graph)
        product = _without_none(
            product,
            call.inputs,
            strict,
            create_graph,
            missing="the output of the user-provided function is independent of input {number}",
            constant=_NO_JACOBIAN,
        )
    return call.results(call.outputs, call.is_outputs_tuple), call.results(
        product, call.is_inputs_tuple
    )


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
    with enable_grad():
        call = _Call("jvp", func, inputs, create_graph, strict)
        vectors = call.input_vectors(v)
    with set_grad_enabled(create_graph or is_grad_enabled()):
        outputs, product = call.pushed_forward(call.outputs, vectors)
        product = _without_none(
            product,
            call.outputs,
            strict,
            create_graph,
            missing="output {number} of the user-provided function is independent of the inputs",
            constant=_NO_JACOBIAN,
        )
    return call.results(outputs, call.is_outputs_tuple), call.results(
        product, call.is_outputs_tuple
    )


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
    if vectorize and strict:
        raise GradientError(
            "jacobian: `strict=True` and `vectorize=True` are not supported together"
        )
    if strategy == "forward-mode":
        _check_forward(create_graph, strict, vectorize)
        return _forward_jacobian(func, inputs)
    with enable_grad():
        call = _Call("jacobian", func, inputs, create_graph, strict)
        if strict:
            blocks = [
                _rows(call, [output], create_graph, _INDEPENDENT.format(output=number))[0]
                for number, output in enumerate(call.outputs)
            ]
        else:
            blocks = _rows(call, call.outputs, create_graph)
        return _unpacked(
            [call.results(row, True) for row in blocks], call.is_outputs_tuple, call.is_inputs_tuple
        )


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

    def gradient(*variables: Tensor) -> tuple[Tensor, ...]:
        return jacobian(scalar, variables, create_graph=True)

    def scalar(*variables: Tensor) -> Tensor:
        output = func(*variables)
        _check_scalar("hessian", output)
        _check_depends((output,), strict, _OUTPUT_CONSTANT)
        return new_tensor(reshape(output._node, ()))

    def checked(*variables: Tensor) -> tuple[Tensor, ...]:
        result = gradient(*variables)
        _check_depends(
            result,
            strict,
            "while computing the hessian, found that the jacobian of the user-provided function "
            "with respect to input {number} is independent of the input",
        )
        return result

    rows = jacobian(
        checked,
        tensors,
        create_graph=create_graph,
        strict=strict,
        vectorize=vectorize,
        strategy=outer_jacobian_strategy,
    )
    return _unpacked(rows, is_tuple, is_tuple)


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
    with enable_grad():
        call, vectors, gradient = _gradient_of_scalar("vhp", func, inputs, v, create_graph, strict)
    with set_grad_enabled(create_graph or is_grad_enabled()):
        product = _grad(gradient, call.inputs, vectors, create_graph)
        product = _without_none(
            product,
            call.inputs,
            strict,
            create_graph,
            missing=_NO_JACOBIAN,
            constant=_NO_HESSIAN,
        )
    return call.results(call.outputs, False), call.results(product, call.is_inputs_tuple)


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
    with enable_grad():
        call, vectors, gradient = _gradient_of_scalar("hvp", func, inputs, v, create_graph, strict)
    found = [g for g in gradient if g is not None]
    with set_grad_enabled(create_graph or is_grad_enabled()):
        (output, *_), pushed = call.pushed_forward((*call.outputs, *found), vectors)
        rest = iter(pushed[1:])
        product = _without_none(
            [None if g is None else next(rest) for g in gradient],
            call.inputs,
            strict,
            create_graph,
            missing=_NO_HESSIAN,
            constant=_NO_HESSIAN,
        )
    return call.results([output], False), call.results(product, call.is_inputs_tuple)


# What strict mode says.
_OUTPUT_CONSTANT = (
    "output {number} of the user-provided function does not require gradients: outputs must be "
    "computed in a differentiable manner from the inputs"
)
_INDEPENDENT = "output {output} of the user-provided function is independent of input {{number}}"
_NO_JACOBIAN = "the jacobian of the user-provided function is independent of input {number}"
_NO_HESSIAN = "the hessian of the user-provided function is independent of input {number}"


class _Call:
    """One call of the user's function, on variables of its own."""

    __slots__ = (
        "_create_graph",
        "_operation",
        "inputs",
        "is_inputs_tuple",
        "is_outputs_tuple",
        "outputs",
    )

    def __init__(
        self, operation: str, func: Func, inputs: Tensors, create_graph: bool, strict: bool
    ) -> None:
        self._operation = operation
        self._create_graph = create_graph
        self.is_inputs_tuple, given = _as_tensors(operation, "inputs", inputs)
        # Variables of their own: the function may also close over a tensor that is passed to it.
        self.inputs = tuple([_own(x, create_graph, needs_grad=True) for x in given])
        with running(operation, [x._node for x in self.inputs]):
            returned = func(*self.inputs)
        self.is_outputs_tuple, self.outputs = _as_tensors(
            operation, "outputs of the user-provided function", returned
        )
        _check_depends(self.outputs, strict, _OUTPUT_CONSTANT)

    def vectors(self, v: Tensors, like: Sequence[Tensor], is_tuple: bool) -> tuple[Tensor, ...]:
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
            if vector._node.shape != x._node.shape:
                raise GradientError(
                    explain(
                        self._operation,
                        f"entry {number} of v has an invalid size",
                        got={"v": vector._node.type},
                        expected=f"shape {x._node.shape}",
                    )
                )
        return tuple([_own(x, self._create_graph, needs_grad=False) for x in given])

    def input_vectors(self, v: Tensors | None) -> tuple[Tensor, ...] | None:
        """`v` as the inputs; None stands for 1 with a single input of one element."""
        if v is not None:
            return self.vectors(v, self.inputs, self.is_inputs_tuple)
        if len(self.inputs) != 1 or self.inputs[0]._node.type.size != 1:
            raise GradientError(
                f"{self._operation}: the vector v can only be None if the input to the "
                "user-provided function is a single Tensor with a single element"
            )
        return None

    def pushed_forward(
        self, tensors: Sequence[Tensor], vectors: Sequence[Tensor] | None
    ) -> tuple[list[Tensor], list[Tensor | None]]:
        """The values of `tensors`, and their derivatives in the direction of `vectors`."""
        variables = [x._node for x in self.inputs]
        directions = (
            [ones_like(x) for x in variables]
            if vectors is None
            else [cast(x._node, own.dtype) for x, own in zip(vectors, variables, strict=True)]
        )
        values, found = pushed_forward(
            [x._node for x in tensors],
            dict(zip(variables, directions, strict=True)),
            since=min([x.serial for x in variables]),
            is_recorded=is_grad_enabled(),
        )
        wanted = [*values, *[t for t in found if t is not None]]
        if not self._create_graph and not is_traced(*wanted):
            evaluate(wanted)
        return [new_tensor(x) for x in values], [
            None if t is None else new_tensor(t) for t in found
        ]

    def results(self, tensors: Sequence[Tensor], is_tuple: bool) -> Tensors:
        """`tensors` as the caller gets them: without history, unless that was asked for."""
        if not self._create_graph:
            tensors = [_without_history(x) for x in tensors]
        return tuple(tensors) if is_tuple else tensors[0]


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


def _own(x: Tensor, create_graph: bool, *, needs_grad: bool) -> Tensor:
    node = x._node
    if create_graph and node.requires_grad:
        return new_tensor(OPS["identity"](node))
    return _variable(node) if needs_grad else new_tensor(OPS["detach"](node))


def _variable(node: Node) -> Tensor:
    """A new leaf with the value of `node`, that requires grad."""
    own = OPS["detach"](node)
    if not is_inexact(own.dtype):
        raise GradientError(
            f"only Tensors of floating point and complex dtype can require gradients, not {own}"
        )
    own.requires_grad = True
    return new_tensor(own)


def _without_history(x: Tensor) -> Tensor:
    node = x._node
    return new_tensor(OPS["detach"](node) if node.value is None else leaf(node.value))


def _grad(
    outputs: Sequence[Tensor | None],
    inputs: Sequence[Tensor],
    grad_outputs: Sequence[Tensor] | None,
    create_graph: bool,
    retain_graph: bool | None = None,
    is_grads_batched: bool = False,
) -> tuple[Tensor | None, ...]:
    """autograd.grad of those outputs that require grad."""
    vectors = grad_outputs if grad_outputs is not None else [None] * len(outputs)
    pairs = [
        (output, vector)
        for output, vector in zip(outputs, vectors, strict=True)
        if output is not None and output._node.requires_grad
    ]
    if not pairs:
        return (None,) * len(inputs)
    return grad(
        [output for output, _ in pairs],
        inputs,
        [vector for _, vector in pairs],
        retain_graph=retain_graph,
        create_graph=create_graph,
        allow_unused=True,
        is_grads_batched=is_grads_batched,
    )


def _check_depends(tensors: Sequence[Tensor | None], strict: bool, problem: str) -> None:
    """In strict mode, raise for the first that is missing or does not require grad."""
    if not strict:
        return
    for number, x in enumerate(tensors):
        if x is None or not x._node.requires_grad:
            raise GradientError(
                f"{problem.format(number=number)}; this is not allowed in strict mode"
            )


def _without_none(
    gradients: Sequence[Tensor | None],
    like: Sequence[Tensor],
    strict: bool,
    create_graph: bool,
    *,
    missing: str,
    constant: str,
) -> list[Tensor]:
    """`gradients` with zeros for None; in strict mode, errors."""
    if strict:
        for number, g in enumerate(gradients):
            if g is None:
                raise GradientError(
                    f"{missing.format(number=number)}; this is not allowed in strict mode"
                )
            if create_graph and not g._node.requires_grad:
                raise GradientError(
                    f"{constant.format(number=number)}; this is not allowed in strict mode when "
                    "create_graph=True"
                )
    return [
        new_tensor(zeros_like(x._node)) if g is None else g
        for g, x in zip(gradients, like, strict=True)
    ]


def _check_scalar(operation: str, output: Any) -> None:
    if not is_tensor(output):
        raise GradientError(f"{operation}: the function should return a single Tensor")
    if output._node.type.size != 1:
        raise GradientError(
            explain(
                operation,
                "the Tensor returned by the function should contain a single element",
                got={"returned": output._node.type},
            )
        )


def _gradient_of_scalar(
    operation: str, func: Func, inputs: Tensors, v: Tensors | None, create_graph: bool, strict: bool
) -> tuple[_Call, tuple[Tensor, ...] | None, tuple[Tensor | None, ...]]:
    """The gradient of `func`, differentiable, and what to multiply its derivative with."""
    call = _Call(operation, func, inputs, create_graph, strict)
    vectors = call.input_vectors(v)
    _check_scalar(operation, call.outputs if call.is_outputs_tuple else call.outputs[0])
    gradient = _grad(call.outputs, call.inputs, None, True)
    _check_depends(
        gradient,
        strict,
        _NO_JACOBIAN,
    )
    return call, vectors, gradient


# Jacobians.


def _rows(
    call: _Call, outputs: Sequence[Tensor], create_graph: bool, missing: str = ""
) -> list[list[Tensor]]:
    """For each output, its derivatives by each input: one batched pass for all elements.

    In strict mode each of them must exist: `missing` is what to say.
    """
    types = [x._node.type for x in outputs]
    size = sum([type.size for type in types])

    def pull_back(seeds: list[Node]) -> list[Node | None]:
        if size == 1:  # a pass as any other
            seeds = [reshape(seed, type.shape) for seed, type in zip(seeds, types, strict=True)]
        vectors = [new_tensor(seed) for seed in seeds]
        found: Sequence[Tensor | None] = (None,) * len(call.inputs)
        if size:
            found = _grad(outputs, call.inputs, vectors, create_graph, True, size != 1)
        if missing and size:
            found = _without_none(
                found, call.inputs, True, create_graph, missing=missing, constant=_NO_JACOBIAN
            )
        return [None if g is None else g._node for g in found]

    rows = by_rows(pull_back, types, [x._node.type for x in call.inputs])
    return [[new_tensor(block) for block in row] for row in rows]


def _check_forward(create_graph: bool, strict: bool, vectorize: bool) -> None:
    if create_graph or strict:
        option = "create_graph" if create_graph else "strict"
        raise NotImplementedError(
            f'jacobian: {option}=True and strategy="forward-mode" are not supported together'
        )
    if not vectorize:
        raise NotImplementedError(
            'jacobian: strategy="forward-mode" is only implemented for vectorize=True'
        )


def _forward_jacobian(func: Func, inputs: Tensors) -> Tensors:
    """By columns: one batched pass for all elements."""
    with enable_grad():
        call = _Call("jacobian", func, inputs, False, False)
    nodes = [x._node for x in call.inputs]
    directions = [argument(x.type) for x in nodes]
    outputs = [x._node for x in call.outputs]
    with set_grad_enabled(False):
        pushed = tangents(outputs, dict(zip(nodes, directions, strict=True)))

        def push_forward(units: list[Node]) -> list[Node | None]:
            found = [t for t in pushed if t is not None]
            seeds = dict(zip(directions, units, strict=True))
            of_batch = iter(batch(found, seeds, sum([x.type.size for x in nodes])))
            return [None if t is None else next(of_batch) for t in pushed]

        types = [x.type for x in nodes]
        blocks = by_columns(push_forward, [x.type for x in outputs], types)
    wanted = [block for row in blocks for block in row]
    if not is_traced(*wanted):
        evaluate(wanted)
    rows = [call.results([new_tensor(block) for block in row], True) for row in blocks]
    return _unpacked(rows, call.is_outputs_tuple, call.is_inputs_tuple)


def _unpacked(rows: Sequence[Any], is_outputs_tuple: bool, is_inputs_tuple: bool) -> Tensors:
    """A tuple of tuples, without the levels that the caller did not pass."""
    result = tuple([tuple(row) if is_inputs_tuple else row[0] for row in rows])
    return result if is_outputs_tuple else result[0]
