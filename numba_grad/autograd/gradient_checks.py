"""`gradcheck`, `gradgradcheck`: derivatives compared with finite differences, with torch's
signatures.

For complex inputs the gradient is the conjugate Wirtinger derivative; complex outputs are checked
as two real ones, their real and imaginary parts.
"""

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from numba_grad.autograd.backward import grad
from numba_grad.autograd.finite_differences import (
    SECOND_ORDER,
    slopes,
    slopes_by_element,
    units,
)
from numba_grad.autograd.tensor_class import is_tensor, new_tensor
from numba_grad.compiler.backends import copied_to, on_host
from numba_grad.compiler.evaluate import evaluate
from numba_grad.dtypes import is_inexact
from numba_grad.graph.node import OPS, Node, argument, leaf
from numba_grad.ops.families import zeros_like
from numba_grad.transforms.batch import batch
from numba_grad.transforms.jvp import tangents

Tensor = Any
Func = Callable[..., Any]


class GradcheckError(RuntimeError):
    """A derivative that disagrees with finite differences, or breaks another rule."""


def gradcheck(
    func: Func,
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the gradients of `func` with central finite differences.

    Parameters
    ----------
    func : takes `inputs`; returns a tensor or a tuple of tensors
    inputs : tensor or sequence of arguments; checked are the tensors that require grad, which
        should be double precision
    eps : step of the finite differences
    atol, rtol : tolerances of the comparison
    raise_exception : raise with the details, instead of returning False
    nondet_tol : how much two passes with the same input may differ
    check_undefined_grad : check that results without a gradient count as results with a gradient of
        zero
    check_grad_dtypes : check that gradients have the dtype of their inputs
    check_batched_grad : check that batched gradients are those of each member
    fast_mode : compare one random combination of all entries instead of every entry
    check_backward_ad, check_forward_ad : check gradients, and tangents
    check_batched_forward_grad : check that batched tangents are those of each member
    masked : accepted and not used: it is about sparse tensors

    Returns
    -------
    True, or False where `raise_exception` is not set

    Raises
    ------
    GradcheckError
        With the output, the input and both Jacobians.
    ValueError
        If no input requires grad.
    """
    if not check_forward_ad and not check_backward_ad:
        raise ValueError("gradcheck: expected check_forward_ad or check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise ValueError("gradcheck: check_batched_forward_grad=True needs check_forward_ad=True")
    if check_batched_grad and not check_backward_ad:
        raise ValueError("gradcheck: check_batched_grad=True needs check_backward_ad=True")
    check = _Check(func, inputs, eps, atol, rtol, nondet_tol, check_grad_dtypes)
    try:
        if not check.outputs:
            check.no_gradient()
            return True
        if check_forward_ad:
            check.forward(fast_mode)
        if check_batched_forward_grad:
            check.batched_forward()
        if not check_backward_ad:
            return True
        if fast_mode:
            check.one_combination()
        else:
            check.every_entry()
        if check_batched_grad:
            check.batched()
        check.zero_for_zero()
        if check_undefined_grad:
            check.missing_as_zero()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Func,
    inputs: Tensor | Sequence[Any],
    grad_outputs: Tensor | Sequence[Tensor] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Compare second derivatives of `func` with finite differences of its first ones.

    Parameters
    ----------
    grad_outputs : gradients of the outputs; by default random ones that require grad
    gen_non_contig_grad_outputs : accepted and not used: values are always contiguous
    check_fwd_over_rev, check_rev_over_rev : check the gradients' tangents, and their gradients
    others : as in `gradcheck`
    """
    arguments = _as_tuple(inputs)
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        vectors = tuple(
            [
                _variable(_random(rng, x._node), x)
                for x in _differentiable(_as_tuple(func(*arguments)))
            ]
        )
    else:
        vectors = _as_tuple(grad_outputs)
    count = len(vectors)

    def gradients(*all_arguments: Any) -> tuple[Tensor, ...]:
        own, own_vectors = all_arguments[:-count], all_arguments[-count:]
        outputs = _differentiable(_as_tuple(func(*own)))
        found = grad(
            outputs,
            [x for x in own if _is_checked(x)],
            own_vectors,
            create_graph=True,
            allow_unused=True,
        )
        return tuple([g for g in found if g is not None])

    return gradcheck(
        gradients,
        (*arguments, *vectors),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )


class _Check:
    """One function at one point."""

    __slots__ = (
        "_atol",
        "_dtypes_matter",
        "_func",
        "_nondet_tol",
        "_rng",
        "_rtol",
        "arguments",
        "eps",
        "inputs",
        "outputs",
        "positions",
    )

    def __init__(
        self,
        func: Func,
        inputs: Tensor | Sequence[Any],
        eps: float,
        atol: float,
        rtol: float,
        nondet_tol: float,
        dtypes_matter: bool,
    ) -> None:
        self._func = func
        self._atol = atol
        self._rtol = rtol
        self._nondet_tol = nondet_tol
        self._dtypes_matter = dtypes_matter
        self._rng = np.random.default_rng(0)
        self.eps = eps
        self.arguments = _as_tuple(inputs)
        self.positions = [k for k, x in enumerate(self.arguments) if _is_checked(x)]
        if not self.positions:
            raise ValueError(
                "gradcheck expects at least one input tensor to require gradient, but none of "
                "them have requires_grad=True"
            )
        self.inputs = [self.arguments[k] for k in self.positions]
        for position, x in zip(self.positions, self.inputs, strict=True):
            if x._node.dtype not in (np.float64, np.complex128):
                warnings.warn(
                    f"gradcheck: input {position} requires gradient and is not a double precision "
                    "floating point or complex; this check will likely fail",
                    UserWarning,
                    stacklevel=3,
                )
        self.outputs = self._real(self._func(*self.arguments))

    def _real(self, outputs: Any) -> list[tuple[str, Tensor]]:
        """The differentiable outputs; the parts of complex ones are outputs of their own."""
        result = []
        for number, output in enumerate(_differentiable(_as_tuple(outputs))):
            if output._node.dtype.kind == "c":
                for part in ("real", "imag"):
                    node = OPS[part](output._node)
                    result.append((f"{number} ({part} part)", new_tensor(node)))
            else:
                result.append((str(number), output))
        return result

    def _outputs_at(self, changed: int, value: np.ndarray) -> Any:
        """What the function returns with another value of one input."""
        arguments = list(self.arguments)
        position = self.positions[changed]
        old = arguments[position]
        arguments[position] = _variable(value.astype(old._node.dtype), old)
        return self._func(*arguments)

    def _values(self, changed: int, value: np.ndarray) -> list[np.ndarray]:
        """The outputs, flat, with another value of one input."""
        nodes = [output._node for _, output in self._real(self._outputs_at(changed, value))]
        evaluate(nodes)
        if [x.type for x in nodes] != [x._node.type for _, x in self.outputs]:
            raise GradcheckError(
                "outputs change their number, shape or dtype when an input is perturbed"
            )
        return [on_host(x.value).reshape(-1).astype(np.float64) for x in nodes]

    def _difference(self, number: int, direction: np.ndarray) -> list[np.ndarray]:
        """The derivatives of the outputs along a change of one input, by central differences."""
        return slopes(
            functools.partial(self._values, number),
            _value(self.inputs[number]),
            direction,
            self.eps,
            SECOND_ORDER,
        )

    def _numerical(self, number: int) -> list[np.ndarray]:
        """For each output, its Jacobian by one input."""
        x = _value(self.inputs[number])
        values = functools.partial(self._values, number)
        columns = [
            slopes_by_element(values, x, unit, self.eps, SECOND_ORDER) for unit in units(x.shape)
        ]
        return [
            np.stack([c[k] for c in columns], axis=1)
            if columns
            else np.zeros((output._node.type.size, 0))
            for k, (_, output) in enumerate(self.outputs)
        ]

    def _gradients(self, output: Tensor, seed: np.ndarray, **options: Any) -> list[np.ndarray]:
        """The gradients of one output by all inputs."""
        numbers = np.array(seed, output._node.dtype, order="C")
        vector = new_tensor(leaf(copied_to(numbers, output._node.type.device)))
        found = grad(output, self.inputs, vector, retain_graph=True, allow_unused=True, **options)
        batch = seed.shape[:1] if options else ()
        return [self._checked(g, x, batch) for g, x in zip(found, self.inputs, strict=True)]

    def _checked(self, g: Tensor | None, x: Tensor, batch: tuple[int, ...]) -> np.ndarray:
        if g is None:
            return np.zeros((*batch, *x._node.shape), x._node.dtype)
        value = _value(g)
        if self._dtypes_matter and value.dtype != x._node.dtype:
            raise GradcheckError(f"gradient has dtype mismatch: {value.dtype} for {x._node.dtype}")
        if value.shape != (*batch, *x._node.shape):
            raise GradcheckError(
                f"analytical gradient has incorrect size: {value.shape} for {x._node.shape}"
            )
        return value

    def _analytical(self, output: Tensor) -> list[np.ndarray]:
        """The Jacobians of one output by all inputs, row by row."""
        rows = [
            [g.reshape(-1) for g in self._gradients(output, seed)]
            for seed in units(output._node.shape)
        ]
        return [
            np.stack([row[k] for row in rows]) if rows else np.zeros((0, x._node.type.size))
            for k, x in enumerate(self.inputs)
        ]

    def every_entry(self) -> None:
        """Compare whole Jacobians."""
        numerical = [self._numerical(k) for k in range(len(self.inputs))]
        for j, (label, output) in enumerate(self.outputs):
            found, again = self._analytical(output), self._analytical(output)
            self._same_again(found, again)
            for k, analytical in enumerate(found):
                expected = numerical[k][j]
                if not np.allclose(analytical, expected, atol=self._atol, rtol=self._rtol):
                    raise GradcheckError(
                        f"Jacobian mismatch for output {label} with respect to input "
                        f"{self.positions[k]},\n"
                        f"numerical:\n{expected}\nanalytical:\n{analytical}"
                    )

    def one_combination(self) -> None:
        """Compare v.T @ J @ u with random u, v."""
        directions = [self._random_direction(_value(x)) for x in self.inputs]
        numerical = [self._difference(k, u) for k, u in enumerate(directions)]
        for j, (label, output) in enumerate(self.outputs):
            v = self._rng.uniform(0.5, 1.5, output._node.shape)
            found, again = self._gradients(output, v), self._gradients(output, v)
            self._same_again(found, again)
            for k, (g, u) in enumerate(zip(found, directions, strict=True)):
                analytical = np.real(np.vdot(g, u))
                expected = np.vdot(v, numerical[k][j])
                # Errors of all entries add up.
                scale = float(np.abs(u).sum() * np.abs(v).sum())
                bound = self._atol * scale
                if not np.isclose(analytical, expected, atol=bound, rtol=self._rtol):
                    raise GradcheckError(
                        f"Jacobian mismatch for output {label} with respect to input "
                        f"{self.positions[k]} in fast mode,\n"
                        f"numerical: {expected}\n"
                        f"analytical: {analytical}\n"
                        "Without fast_mode, the whole Jacobians are shown"
                    )

    def forward(self, is_fast: bool) -> None:
        """Compare tangents in the directions of all entries, or in a random one."""
        for number, x in enumerate(self.inputs):
            at = _value(x)
            directions = list(units(at.shape))
            if at.dtype.kind == "c":
                directions += [1j * unit for unit in directions]
            for direction in [self._random_direction(at)] if is_fast else directions:
                found = self._tangents(number, direction)
                expected = self._difference(number, direction)
                bound = self._atol * (float(np.abs(direction).sum()) if is_fast else 1.0)
                for (label, _), t, slope in zip(self.outputs, found, expected, strict=True):
                    if not np.allclose(t.reshape(-1), slope, atol=bound, rtol=self._rtol):
                        raise GradcheckError(
                            f"Jacobian mismatch in forward mode for output {label} with respect to "
                            f"input {self.positions[number]}, in the direction\n{direction}\n"
                            f"numerical:\n{slope}\nanalytical:\n{t.reshape(-1)}"
                        )

    def _tangents(self, number: int, direction: np.ndarray) -> list[np.ndarray]:
        """The tangents of the outputs in a direction of one input."""
        x = self.inputs[number]._node
        t = leaf(copied_to(np.array(direction, x.dtype, order="C"), x.type.device))
        return self._values_of(tangents([output._node for _, output in self.outputs], {x: t}), ())

    def _values_of(self, found: Sequence[Node | None], stack: tuple[int, ...]) -> list[np.ndarray]:
        """Tangents of the outputs as arrays: zeros for None."""
        return [
            np.zeros((*stack, *output._node.shape), output._node.dtype)
            if t is None
            else _value(new_tensor(t))
            for t, (_, output) in zip(found, self.outputs, strict=True)
        ]

    def batched_forward(self) -> None:
        """Compare tangents of a batch of two directions with two passes."""
        roots = [output._node for _, output in self.outputs]
        for number, x in enumerate(self.inputs):
            node = x._node
            directions = np.stack([self._random_direction(_value(x)) for _ in range(2)])
            member = argument(node.type)
            found = tangents(roots, {node: member})
            stacked = copied_to(np.array(directions, node.dtype, order="C"), node.type.device)
            try:
                rows = iter(batch([t for t in found if t is not None], {member: leaf(stacked)}, 2))
                together = self._values_of([None if t is None else next(rows) for t in found], (2,))
            except (RuntimeError, NotImplementedError) as error:
                raise GradcheckError(f"while computing batched tangents, got: {error}") from error
            apart = [self._tangents(number, direction) for direction in directions]
            for k, (label, _) in enumerate(self.outputs):
                expected = np.stack([one[k] for one in apart])
                if not np.allclose(together[k], expected):
                    raise GradcheckError(
                        f"batched tangent mismatch for output {label} with respect to input "
                        f"{self.positions[number]},\n"
                        f"batched:\n{together[k]}\none by one:\n{expected}"
                    )

    def _random_direction(self, x: np.ndarray) -> np.ndarray:
        u = self._rng.uniform(0.5, 1.5, x.shape)
        return u + 1j * self._rng.uniform(0.5, 1.5, x.shape) if x.dtype.kind == "c" else u

    def _same_again(self, found: Sequence[np.ndarray], again: Sequence[np.ndarray]) -> None:
        for a, b in zip(found, again, strict=True):
            if a.size and not np.all(np.abs(a - b) <= self._nondet_tol):
                raise GradcheckError(
                    "backward is not reentrant: running it twice with the same input and "
                    "grad_output gives different values; the tolerance for nondeterminism was "
                    f"{self._nondet_tol}"
                )

    def no_gradient(self) -> None:
        """No output is differentiable: then they should not change with the inputs."""
        for number, x in enumerate(self.inputs):
            at = _value(x)
            for unit in units(at.shape):
                nodes = []
                for step in (self.eps, -self.eps):
                    outputs = _as_tuple(self._outputs_at(number, at + step * unit))
                    nodes.append([o._node for o in outputs if is_tensor(o)])
                    evaluate(nodes[-1])
                for above, below in zip(*nodes, strict=True):
                    if is_inexact(above.dtype) and np.any(
                        on_host(above.value) != on_host(below.value)
                    ):
                        raise GradcheckError("numerical gradient for function expected to be zero")

    def batched(self) -> None:
        """Compare a batch of two with two passes."""
        for label, output in self.outputs:
            seeds = self._rng.standard_normal((2, *output._node.shape))
            try:
                together = self._gradients(output, seeds, is_grads_batched=True)
            except (RuntimeError, NotImplementedError) as error:
                raise GradcheckError(f"while computing batched gradients, got: {error}") from error
            apart = [self._gradients(output, seed) for seed in seeds]
            for k, g in enumerate(together):
                expected = np.stack([one[k] for one in apart])
                if not np.allclose(g, expected):
                    raise GradcheckError(
                        f"batched gradient mismatch for output {label} with respect to input "
                        f"{self.positions[k]},\n"
                        f"batched:\n{g}\none by one:\n{expected}"
                    )

    def zero_for_zero(self) -> None:
        """The gradients for a cotangent of zero are zero."""
        for _, output in self.outputs:
            for g in self._gradients(output, np.zeros(output._node.shape)):
                if np.any(g != 0):
                    raise GradcheckError("backward not multiplied by grad_output")

    def missing_as_zero(self) -> None:
        """With several outputs, a cotangent that is missing counts as one of zero."""
        for left_out in range(len(self.outputs)):
            outputs = [x for k, (_, x) in enumerate(self.outputs) if k != left_out]
            if not outputs:
                continue
            seeds = [new_tensor(zeros_like(x._node)) for x in outputs]
            try:
                found = grad(outputs, self.inputs, seeds, retain_graph=True, allow_unused=True)
            except RuntimeError as error:
                raise GradcheckError(
                    "expected backward function to handle undefined output grads"
                ) from error
            if any(g is not None and np.any(_value(g) != 0) for g in found):
                raise GradcheckError(
                    "expected all input grads to be undefined or zero when all output grads are "
                    "undefined or zero"
                )


def _as_tuple(values: Any) -> tuple[Any, ...]:
    return tuple(values) if isinstance(values, tuple | list) else (values,)


def _differentiable(outputs: Sequence[Any]) -> list[Tensor]:
    return [x for x in outputs if is_tensor(x) and x._node.requires_grad]


def _is_checked(value: Any) -> bool:
    return is_tensor(value) and value._node.requires_grad


def _variable(value: np.ndarray, like: Tensor) -> Tensor:
    """A leaf that requires grad, where `like` is."""
    own = copied_to(np.array(value, order="C"), like._node.type.device)
    return new_tensor(leaf(own, requires_grad=True))


def _value(tensor: Tensor) -> np.ndarray:
    node = tensor._node
    evaluate([node])
    return on_host(node.value)


def _random(rng: "np.random.Generator", node: Node) -> np.ndarray:
    value = rng.uniform(-1, 1, node.shape)
    if node.dtype.kind == "c":
        value = value + 1j * rng.uniform(-1, 1, node.shape)
    return value.astype(node.dtype)
