"""How each library is asked for a value and gradients, and what an implementation hands over.

Workloads write the loss as plain functions. Everything that has to be alike for all of them is
here: that a run is finished when it returns, and that results come out as NumPy arrays.
Libraries are imported inside of functions: a process loads only the one that it measures.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Loss = Callable[..., Any]

# Variants that goals compare with.
VALUE_ONLY = "numba_grad, value only"
ONE_THREAD = "numba_grad, 1 thread"


@dataclass(slots=True)
class Prepared:
    """An implementation of a workload, ready to be run."""

    run: Callable[[], Any]  # finished when it returns
    results: Callable[[Any], Sequence[np.ndarray]] | None = None  # values and gradients of a run
    figures: Callable[[], dict[str, float]] | None = None  # asked for once, before timing
    operations: int = 1  # the time of a run is divided by this
    is_own_clock: bool = False  # `run` returns seconds instead of results


def arrays(tree: Any) -> list[np.ndarray]:
    """The leaves of nested tuples and lists as NumPy arrays."""
    if isinstance(tree, tuple | list):
        return [array for branch in tree for array in arrays(branch)]
    return [np.asarray(tree.detach().numpy() if hasattr(tree, "detach") else tree)]


def by_numba_grad(loss: Loss, args: Sequence[np.ndarray], wrt: Sequence[int] = (0,)) -> Prepared:
    import numba_grad as ng

    f = ng.jit(ng.value_and_grad(loss, argnums=tuple(wrt)))

    def figures() -> dict[str, float]:
        lowered = f.lower(*args)
        kernels = lowered.kernels
        return {
            "kernels": len(kernels),
            "steps": sum(kernel.count for kernel in kernels),
            "bytes": sum(kernel.nbytes for kernel in kernels),
            "flops": sum(kernel.flops for kernel in kernels),
        }

    return Prepared(lambda: f(*args), arrays, figures)


def value_by_numba_grad(loss: Loss, args: Sequence[np.ndarray]) -> Prepared:
    """Without the gradient: what that costs in addition."""
    import numba_grad as ng

    f = ng.jit(loss)
    return Prepared(lambda: f(*args))


def on_one_thread(prepare: Callable[[Any], Prepared]) -> Callable[[Any], Prepared]:
    """For all of the process, which is the implementation's own."""

    def prepare_on_one_thread(size: Any) -> Prepared:
        import numba_grad as ng

        ng.configure(threads=1)
        return prepare(size)

    return prepare_on_one_thread


def by_torch(loss: Loss, args: Sequence[np.ndarray], wrt: Sequence[int] = (0,)) -> Prepared:
    import torch

    torch.set_num_threads(2)
    tensors = [torch.tensor(x) for x in args]
    leaves = [tensors[k].requires_grad_() for k in wrt]

    def run() -> Any:
        value = loss(*tensors)
        return value, torch.autograd.grad(value, leaves)

    return Prepared(run, arrays)


def by_torch_compile(loss: Loss, args: Sequence[np.ndarray], wrt: Sequence[int] = (0,)) -> Prepared:
    import torch

    return by_torch(torch.compile(loss), args, wrt)


def by_jax(loss: Loss, args: Sequence[np.ndarray], wrt: Sequence[int] = (0,)) -> Prepared:
    import jax

    jax.config.update("jax_enable_x64", True)
    f = jax.jit(jax.value_and_grad(loss, argnums=tuple(wrt)))
    on_device = [jax.device_put(x) for x in args]
    return Prepared(lambda: jax.block_until_ready(f(*on_device)), arrays)


def by_autograd(loss: Loss, args: Sequence[np.ndarray], wrt: Sequence[int] = (0,)) -> Prepared:
    import autograd

    def of_variables(variables: tuple[np.ndarray, ...]) -> Any:
        full = list(args)
        for k, x in zip(wrt, variables, strict=True):
            full[k] = x
        return loss(*full)

    f = autograd.value_and_grad(of_variables)
    variables = tuple(args[k] for k in wrt)
    return Prepared(lambda: f(variables), arrays)


def by_drjit(loss: Loss, args: Sequence[np.ndarray], wrt: Sequence[int] = (0,)) -> Prepared:
    """One-dimensional arguments only. `loss` gets Dr.Jit arrays of float64."""
    import drjit
    from drjit.llvm.ad import Float64

    drjit.set_thread_count(2)
    constants = [Float64(x) for x in args]
    drjit.eval(*constants)

    def run() -> Any:
        given = [Float64(x) for x in constants]
        leaves = [given[k] for k in wrt]
        drjit.enable_grad(*leaves)
        value = loss(*given)
        drjit.backward(value)
        gradients = [drjit.grad(leaf) for leaf in leaves]
        drjit.eval(value, *gradients)
        drjit.sync_thread()
        return drjit.detach(value), gradients

    return Prepared(run, lambda out: [np.asarray(x) for x in (out[0], *out[1])])


def by_pytensor(loss: Loss, args: Sequence[np.ndarray], wrt: Sequence[int] = (0,)) -> Prepared:
    """Compiled with Numba, for the shapes of the arguments: JAX and numba_grad know them too."""
    import pytensor
    import pytensor.tensor as pt

    given = [pt.tensor(dtype=x.dtype, shape=x.shape) for x in args]
    value = loss(*given)
    gradients = pytensor.grad(value, [given[k] for k in wrt])
    f = pytensor.function(given, [value, *gradients], mode="NUMBA", trust_input=True)
    return Prepared(lambda: f(*args), arrays)


def by_hand(
    kernel: Callable[..., Any], *args: Any, results: Callable[[Any], Any] = arrays
) -> Prepared:
    """A kernel written for the problem: it returns the value and gradients, in kept buffers."""
    return Prepared(lambda: kernel(*args), results)
