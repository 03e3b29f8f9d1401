"""What `start_up` times: one gradient with the library that the argument names."""

import sys

import numpy as np


def main() -> None:
    library = sys.argv[1]
    x = np.linspace(-1.0, 1.0, 10)
    gradient = {
        "numpy": by_hand,
        "numba_grad": with_numba_grad,
        "numba_grad on a GPU": with_numba_grad_on_a_gpu,
        "torch": with_torch,
        "torch.compile": with_torch_compile,
        "jax": with_jax,
        "drjit": with_drjit,
        "autograd": with_autograd,
    }[library](x)
    print(float(np.asarray(gradient).sum()), flush=True)


def rosenbrock(x: np.ndarray) -> np.ndarray:
    return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()


def by_hand(x: np.ndarray) -> np.ndarray:
    gradient = np.zeros_like(x)
    following = x[1:] - x[:-1] ** 2
    gradient[:-1] = -400.0 * following * x[:-1] - 2.0 * (1.0 - x[:-1])
    gradient[1:] += 200.0 * following
    return gradient


def with_numba_grad(x: np.ndarray) -> np.ndarray:
    import numba_grad as ng

    return np.asarray(ng.jit(ng.grad(rosenbrock))(x))


def with_numba_grad_on_a_gpu(x: np.ndarray) -> np.ndarray:
    import numba_grad as ng

    return ng.jit(ng.grad(rosenbrock))(ng.tensor(x, device="cuda")).cpu().numpy()


def with_torch(x: np.ndarray, compiled: bool = False) -> np.ndarray:
    import torch

    leaf = torch.tensor(x, requires_grad=True)
    f = torch.compile(rosenbrock) if compiled else rosenbrock
    f(leaf).backward()
    return leaf.grad.numpy()


def with_torch_compile(x: np.ndarray) -> np.ndarray:
    return with_torch(x, compiled=True)


def with_jax(x: np.ndarray) -> np.ndarray:
    import jax

    jax.config.update("jax_enable_x64", True)
    return np.asarray(jax.jit(jax.grad(rosenbrock))(x))


def with_drjit(x: np.ndarray) -> np.ndarray:
    import drjit
    from drjit.llvm import UInt32
    from drjit.llvm.ad import Float64

    leaf = Float64(x)
    drjit.enable_grad(leaf)
    index = drjit.arange(UInt32, x.size - 1)
    here, there = drjit.gather(Float64, leaf, index), drjit.gather(Float64, leaf, index + 1)
    square, rest = there - drjit.square(here), 1.0 - here
    drjit.backward(drjit.sum(100.0 * drjit.square(square) + drjit.square(rest)))
    return np.asarray(drjit.grad(leaf))


def with_autograd(x: np.ndarray) -> np.ndarray:
    import autograd
    import autograd.numpy as anp

    def of_functions(x: np.ndarray) -> np.ndarray:
        return anp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    return autograd.grad(of_functions)(x)


if __name__ == "__main__":
    main()
