"""Derivatives of functions: grad, value_and_grad, vjp, jvp, linearize, jacobian, jacrev, jacfwd,
hessian, hvp.

The contract is JAX's: functions of nested arguments. `autograd/functional.py` has torch's, of
tensors and tuples. Both are faces of `Differentiation`, and no algorithm is in these modules.
"""

from collections.abc import Callable, Sequence
from typing import Any

from numba_grad.errors import explain
from numba_grad.fresh_thread import imported
from numba_grad.frontend.derivatives.differentiation import (
    Argnums,
    derivative_of,
    gradient_of_call,
    reopened,
    run_on_variables,
)
from numba_grad.frontend.derivatives.results import matching, output_nodes, scalar
from numba_grad.frontend.inputs import trees
from numba_grad.frontend.namespaces import namespace
from numba_grad.graph.node import recording
from numba_grad.locks import new_lock
from numba_grad.ops.families import ones_like, zeros_like

__all__ = [
    "grad",
    "hessian",
    "hvp",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jvp",
    "linearize",
    "value_and_grad",
    "vjp",
]


def grad(f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that computes the gradient of `f`.

    Parameters
    ----------
    f : function with one real, 0-d result
    argnums : which positional arguments to differentiate by; with a sequence, the result is a tuple
    has_aux : `f` returns (value, anything), and the new function (gradient, that thing)

    Returns
    -------
    function of the same arguments. Its result has the structure of the differentiated argument
    (nested tuples, lists, dicts, dataclasses) with a Tensor for each array, of the same shape and
    dtype. Arrays, tensors and Python floats may be passed; other arguments reach `f` as they are.
    A Python float is weakly typed in `f`, as it is without `grad`; its gradient is float64.

    Raises
    ------
    ShapeError
        If the result of `f` is not 0-d.
    DTypeError
        If a differentiated argument holds integers.
    GradientError
        If `f` makes a Python or NumPy number of what depends on a differentiated argument, as
        `float(x)` and `array[0] = x` do. `x.detach().item()` is a constant.

    Notes
    -----
    Gradients of complex arguments are torch's: the conjugate Wirtinger derivative, so that
    `x - rate * gradient` descends. Nothing is computed until `f` has returned, except what `f`
    itself asks for; then the gradient is computed in one program. Inside another transform it stays
    part of the graph.

    Examples
    --------
    >>> ng.grad(np.sin)(0.0)
    tensor(1.)
    >>> ng.grad(lambda p: p["a"] * p["b"] ** 2)({"a": 2.0, "b": 3.0})
    {'a': tensor(9.), 'b': tensor(12.)}
    """

    @derivative_of(f, grad, argnums, has_aux)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        gradients, _, aux = gradient_of_call("grad", f, argnums, has_aux, args, kwargs, False)
        return (gradients, aux) if has_aux else gradients

    return gradient


def value_and_grad(
    f: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    comm: Any = None,
    loss: str = "same",
) -> Callable[..., Any]:
    """A function that computes the value of `f` and its gradient, in one program.

    As `grad`, but the new function returns (value, gradient), or ((value, aux), gradient) with
    `has_aux`.

    Parameters
    ----------
    comm : an mpi4py communicator whose ranks call the function together. None: this process alone.
    loss : what the value is on these ranks. "same": one number that all of them have, as after
        `ng.mpi.allreduce`; the gradient is that of this number, by what each rank has. "mean": a
        number of each rank's own data, by arguments that are the same on all ranks; value and
        gradient are the means over the ranks, in one message.

    Raises
    ------
    ValueError
        If `loss` is neither.

    Examples
    --------
    >>> ng.value_and_grad(np.square)(3.0)
    (tensor(9.), tensor(6.))
    """
    if loss not in ("same", "mean"):
        raise ValueError(
            explain(
                "value_and_grad", "no such loss", got={"loss": loss}, expected='"same" or "mean"'
            )
        )
    options = () if comm is None else (comm, loss)

    @derivative_of(f, value_and_grad, argnums, has_aux, *options)
    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        ranks = 1 if comm is None else namespace("mpi").all_ranks.size_of("value_and_grad", comm)
        weight = 1 / ranks if loss == "same" else 1.0
        gradients, (value,), aux = gradient_of_call(
            "value_and_grad", f, argnums, has_aux, args, kwargs, True, weight
        )
        if ranks > 1 and loss == "mean":
            leaves, structure = trees.flatten(gradients)
            value, *means = namespace("mpi").all_ranks.mean_over_ranks([value, *leaves], comm)
            gradients = trees.unflatten(structure, means)
        return ((value, aux), gradients) if has_aux else (value, gradients)

    return value_and_gradient


def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of `f(*primals)`, and the function that pulls cotangents back through it.

    Parameters
    ----------
    f : function of `primals`; its result may be nested
    has_aux : `f` returns (value, anything), and that thing is returned third

    Returns
    -------
    value
    pullback : takes a cotangent of the structure, shapes and dtypes of the value; returns a tuple
        with the cotangent of each of `primals`. It may be called any number of times.

    Examples
    --------
    >>> value, pullback = ng.vjp(lambda x, y: x * y, 2.0, 5.0)
    >>> pullback(1.0)
    (tensor(5.), tensor(2.))
    """
    call, out, aux = run_on_variables("vjp", f, primals, {}, range(len(primals)), has_aux)
    outputs, structure = output_nodes("vjp", out)

    values, aux = call.results_and_aux(outputs, aux)
    history = call.closed
    lock = new_lock()

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        seeds = matching("vjp", "cotangent", cotangent, structure, outputs)
        with lock, reopened(history):
            with recording(call.is_recorded(outputs, seeds)):
                pulled = call.gradients(outputs, seeds)
            callers = call.close(pulled)
        return call.as_arguments(call.computed(pulled, callers))

    value = trees.unflatten(structure, values)
    return (value, pullback, aux) if has_aux else (value, pullback)


def jvp(
    f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> Any:
    """The value of `f(*primals)` and its derivative in the direction `tangents`.

    Parameters
    ----------
    primals, tangents : sequences of the same structure, shapes and dtypes
    has_aux : `f` returns (value, anything), and that thing is returned third

    Returns
    -------
    value, tangent : of the structure of the result of `f`; the tangent of an integer is 0

    Notes
    -----
    Forward mode: each operation's tangent is computed beside its value, in one program, and nothing
    is kept of the past. The tangent of a loop needs no more memory than its value.

    Examples
    --------
    >>> ng.jvp(np.sin, (0.0,), (2.0,))
    (tensor(0.), tensor(2.))
    """
    _check_sequences("jvp", primals, tangents)
    call, out, aux = run_on_variables("jvp", f, primals, {}, range(len(primals)), has_aux)
    directions = call.directions(tangents)
    outputs, structure = output_nodes("jvp", out)
    values, pushed, aux = call.results_with_tangents(outputs, directions, aux)
    value, tangent = trees.unflatten(structure, values), trees.unflatten(structure, pushed)
    return (value, tangent, aux) if has_aux else (value, tangent)


def linearize(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of `f(*primals)`, and its derivative there as a function of directions.

    Parameters
    ----------
    f : function of `primals`; its result may be nested
    has_aux : `f` returns (value, anything), and that thing is returned third

    Returns
    -------
    value
    f_jvp : takes a tangent for each of `primals`, of their structure and shapes; returns the
        tangent of the value. It is linear, and may be called any number of times: `f` is not run
        again. What it needs of the values of `f` it computes again, as the pullback of `vjp` does.

    Examples
    --------
    >>> value, f_jvp = ng.linearize(lambda x, y: x * y, 2.0, 5.0)
    >>> f_jvp(1.0, 0.0), f_jvp(0.0, 1.0)
    (tensor(5.), tensor(2.))
    """
    call, out, aux = run_on_variables("linearize", f, primals, {}, range(len(primals)), has_aux)
    outputs, structure = output_nodes("linearize", out)

    values, aux = call.results_and_aux(outputs, aux)
    history = call.closed
    lock = new_lock()

    def f_jvp(*tangents: Any) -> Any:
        directions = call.directions(tangents)
        with lock, reopened(history):
            _, found = call.pushed_forward(outputs, directions)
            pushed = [
                zeros_like(x) if t is None else t for x, t in zip(outputs, found, strict=True)
            ]
            callers = call.close(pushed)
        return trees.unflatten(structure, call.computed(pushed, callers))

    value = trees.unflatten(structure, values)
    return (value, f_jvp, aux) if has_aux else (value, f_jvp)


_MODES = ("auto", "reverse", "forward")


def jacobian(
    f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, mode: str = "auto"
) -> Callable[..., Any]:
    """A function that computes all derivatives of all results of `f`.

    Parameters
    ----------
    f : function with any number of floating or complex results
    argnums : which positional arguments to differentiate by
    has_aux : `f` returns (results, anything), and the new function (jacobian, that thing)
    mode : "reverse" computes it by rows, "forward" by columns; "auto" takes the one that has fewer
        of them: reverse mode where the arguments have more elements than the results, or where a
        user's Function has no rule for forward mode

    Returns
    -------
    function of the same arguments. Its result has the structure of the results of `f`; each leaf
    is, in the structure of the differentiated argument (with a sequence of `argnums`, a tuple of
    these), a Tensor of shape `result.shape + argument.shape`.

    Notes
    -----
    One pass, batched over the elements of the results, or of the arguments: one program, not a
    loop. Memory is that of one pass times their number. Complex results: of real arguments, the
    ordinary derivative; of complex arguments, that of a holomorphic function. Real results of
    complex arguments: as `grad`.

    Examples
    --------
    >>> ng.jacobian(lambda x: x * x)(np.array([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if mode not in _MODES:
        raise ValueError(
            explain("jacobian", "no such mode", got={"mode": mode}, expected=", ".join(_MODES))
        )

    @derivative_of(f, jacobian, argnums, has_aux, mode)
    def jacobian_of(*args: Any, **kwargs: Any) -> Any:
        return _jacobian("jacobian", f, argnums, has_aux, mode, args, kwargs)

    return jacobian_of


def jacrev(
    f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """`jacobian` in reverse mode: by rows, for results of few elements.

    Examples
    --------
    >>> ng.jacrev(lambda x: (x * x).sum())(np.array([1.0, 2.0]))
    tensor([2., 4.])
    """

    @derivative_of(f, jacrev, argnums, has_aux)
    def jacobian_of(*args: Any, **kwargs: Any) -> Any:
        return _jacobian("jacrev", f, argnums, has_aux, "reverse", args, kwargs)

    return jacobian_of


def jacfwd(
    f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """`jacobian` in forward mode: by columns, for arguments of few elements.

    Examples
    --------
    >>> ng.jacfwd(lambda t: np.array([1.0, 2.0]) * t)(3.0)
    tensor([1., 2.])
    """

    @derivative_of(f, jacfwd, argnums, has_aux)
    def jacobian_of(*args: Any, **kwargs: Any) -> Any:
        return _jacobian("jacfwd", f, argnums, has_aux, "forward", args, kwargs)

    return jacobian_of


def _jacobian(
    operation: str,
    f: Callable[..., Any],
    argnums: Argnums,
    has_aux: bool,
    mode: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    call, out, aux = run_on_variables(operation, f, args, kwargs, argnums, has_aux)
    outputs, structure = output_nodes(operation, out, is_inexact=True)
    is_reverse = call.is_wide(outputs) if mode == "auto" else mode == "reverse"
    with recording(call.is_recorded(outputs)):
        jacobians = imported("numba_grad.frontend.derivatives.jacobians")
        rows = jacobians.jacobian(call, outputs, is_reverse)
    blocks, aux = call.results_and_aux([block for row in rows for block in row], aux)
    width = len(call.variables)
    leaves = [
        call.as_arguments(blocks[k * width : (k + 1) * width], argnums) for k in range(len(outputs))
    ]
    result = trees.unflatten(structure, leaves)
    return (result, aux) if has_aux else result


def hessian(f: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """A function that computes the second derivatives of `f`, which has real results, mostly one.

    Returns
    -------
    function of the same arguments. Its result is `jacobian(jacrev(f))`: for each leaf of the
    result of `f` and of the differentiated arguments, the structure of these again, with Tensors of
    the shape `result.shape + first.shape + second.shape`. With a sequence of `argnums`,
    `result[i][j]` has the derivatives by argument `argnums[i]` and `argnums[j]`.

    Notes
    -----
    Forward over reverse mode: the tangents of the gradient in all directions, in one batched
    program. `hvp` gives a product with it at the cost of a few evaluations of `f`, without the
    matrix.

    Examples
    --------
    >>> ng.hessian(lambda x: (x**3).sum())(np.array([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacobian(jacrev(f, argnums), argnums)


def hvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, ...]:
    """The product of the second derivatives of `f` at `primals` with the direction `tangents`.

    Parameters
    ----------
    f : function of `primals` with one real, 0-d result
    primals, tangents : sequences of the same structure, shapes and dtypes

    Returns
    -------
    tuple of the structure of `primals`

    Notes
    -----
    The tangent of the gradient of `f`: costs a few evaluations of `f` and no matrix.

    Examples
    --------
    >>> ng.hvp(lambda x: (x**3).sum(), (np.array([1.0, 2.0]),), (np.array([1.0, 1.0]),))
    (tensor([ 6., 12.]),)
    """
    _check_sequences("hvp", primals, tangents)
    call, out, _ = run_on_variables("hvp", f, primals, {}, range(len(primals)), False)
    directions = call.directions(tangents)
    value = scalar("hvp", out)
    with recording(True):
        gradients = call.gradients([value], [ones_like(value)])
    with recording(call.is_recorded([value], directions)):
        products = call.tangents(gradients, directions)
    return call.as_arguments(call.results(products))


def _check_sequences(operation: str, primals: object, tangents: object) -> None:
    """An array would be taken apart into one argument per element."""
    given = {"primals": primals, "tangents": tangents}
    for name, value in given.items():
        if not isinstance(value, (tuple, list)):
            raise TypeError(
                explain(
                    operation,
                    f"{name} must be a tuple or list, with one item per argument of f",
                    got={key: f"of type {type(x).__name__}" for key, x in given.items()},
                    fix=f"ng.{operation}(f, (x,), (v,))",
                )
            )
