"""How each library is asked for the derivatives of a program.

Each function takes a program and NumPy's arrays and gives a function that runs it once: the value
and the gradients, or the Hessian, as NumPy arrays. Libraries are imported inside of functions: a
process loads only the one that it measures.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from perf.implementations import arrays
from perf.programs import DOUBLE, GRADIENT, HESSIAN, OWN, Function, Program

Run = Callable[[], list[numpy.ndarray]]

DEFINE_BY_RUN, JIT = "numba_grad", "numba_grad jit"
OURS = (DEFINE_BY_RUN, JIT)


def by_numba_grad(program: Program, given: Sequence[numpy.ndarray]) -> Run:
    """As in PyTorch: tensors that require grad, `backward`."""
    import numba_grad as ng
    import numba_grad.numpy as np

    f = program.function_for(DEFINE_BY_RUN)
    wrt = program.variables(given)

    def leaves() -> list[Any]:
        return [ng.tensor(x, requires_grad=k in wrt) for k, x in enumerate(given)]

    def gradient() -> list[numpy.ndarray]:
        inputs = leaves()
        value = f(np, *inputs)
        value.backward()
        return [value.detach().numpy(), *(inputs[k].grad.numpy() for k in wrt)]

    def double() -> list[numpy.ndarray]:
        inputs = leaves()
        gradients = ng.autograd.grad(f(np, *inputs), [inputs[k] for k in wrt], create_graph=True)
        value = sum(np.sum(g**2) for g in gradients)
        value.backward()
        return [value.detach().numpy(), *(inputs[k].grad.numpy() for k in wrt)]

    def hessian() -> list[numpy.ndarray]:
        return [ng.hessian(lambda *x: f(np, *x))(*given).numpy()]

    def own() -> list[numpy.ndarray]:
        return arrays(program.function_for(DEFINE_BY_RUN)(np, ng.value_and_grad, *given))

    return {GRADIENT: gradient, DOUBLE: double, HESSIAN: hessian, OWN: own}[program.kind]


def by_numba_grad_jit(program: Program, given: Sequence[numpy.ndarray]) -> Run:
    import numba_grad as ng
    import numba_grad.numpy as np

    if program.kind == OWN:
        jitted = once(lambda f: ng.jit(ng.value_and_grad(f)))
        return lambda: arrays(program.function_for(JIT)(np, jitted, *given))
    compiled = ng.jit(_transformed(program, np, ng, given, JIT))
    return lambda: arrays(compiled(*given))


def by_torch(program: Program, given: Sequence[numpy.ndarray]) -> Run:
    import torch

    from perf.programs import torch_numpy as np

    torch.set_default_dtype(torch.float64)
    f = program.function_for("torch")
    wrt = program.variables(given)

    def leaves() -> list[Any]:
        tensors = [torch.tensor(x) for x in given]
        for k in wrt:
            tensors[k].requires_grad_()
        return tensors

    def gradient() -> list[numpy.ndarray]:
        inputs = leaves()
        value = f(np, *inputs)
        value.backward()
        return arrays([value, *(inputs[k].grad for k in wrt)])

    def double() -> list[numpy.ndarray]:
        inputs = leaves()
        gradients = torch.autograd.grad(f(np, *inputs), [inputs[k] for k in wrt], create_graph=True)
        value = sum(torch.sum(g**2) for g in gradients)
        value.backward()  # type: ignore[union-attr]
        return arrays([value, *(inputs[k].grad for k in wrt)])

    def hessian() -> list[numpy.ndarray]:
        inputs = [torch.tensor(x) for x in given]
        of_first = torch.autograd.functional.hessian(
            lambda x: f(np, x, *inputs[1:]), inputs[0], vectorize=False
        )
        return arrays([of_first])

    def own() -> list[numpy.ndarray]:
        return arrays(f(np, value_and_grad, *given))

    def value_and_grad(f: Function) -> Function:
        def transformed(x: numpy.ndarray, *rest: numpy.ndarray) -> Any:
            leaf = torch.tensor(x, requires_grad=True)
            value = f(leaf, *(torch.tensor(y) for y in rest))
            value.backward()
            return value.detach(), leaf.grad

        return transformed

    return {GRADIENT: gradient, DOUBLE: double, HESSIAN: hessian, OWN: own}[program.kind]


def by_jax(program: Program, given: Sequence[numpy.ndarray]) -> Run:
    """Compiled, but for programs that look at values."""
    import jax
    import jax.numpy as np

    jax.config.update("jax_enable_x64", True)
    if program.kind == OWN:
        jitted = once(lambda f: jax.jit(jax.value_and_grad(f)))
        return lambda: arrays(program.function_for("jax")(np, jitted, *given))
    f = _transformed(program, np, jax, given, "jax")
    if not program.looks:
        f = jax.jit(f)
    return lambda: arrays(f(*(np.asarray(x) for x in given)))


def by_autograd(program: Program, given: Sequence[numpy.ndarray]) -> Run:
    import autograd
    import autograd.numpy as np

    if program.kind == OWN:
        return lambda: arrays(program.function_for("autograd")(np, autograd.value_and_grad, *given))
    f = _transformed(program, np, _Autograd(autograd), given, "autograd")
    return lambda: arrays(f(*given))


def once(transform: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """The function of the first time again: as if a program had made it outside of its loop."""
    made: list[Function] = []

    def transformed(f: Function) -> Function:
        if not made:
            made.append(transform(f))
        return made[0]

    return transformed


class _Autograd:
    """HIPS autograd's transformations, by the names and with the arguments that JAX gave them."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.hessian = module.hessian

    def value_and_grad(self, f: Function, argnums: tuple[int, ...]) -> Function:
        def transformed(*given: Any) -> Any:
            def of_variables(variables: Any) -> Any:
                full = list(given)
                for k, x in zip(argnums, variables, strict=True):
                    full[k] = x
                return f(*full)

            return self.module.value_and_grad(of_variables)(tuple(given[k] for k in argnums))

        return transformed

    def grad(self, f: Function, argnums: tuple[int, ...]) -> Function:
        return lambda *given: self.value_and_grad(f, argnums)(*given)[1]


def _transformed(
    program: Program, np: Any, transforms: Any, given: Sequence[Any], library: str
) -> Function:
    f = program.function_for(library)
    wrt = tuple(program.variables(given))

    def loss(*given: Any) -> Any:
        return f(np, *given)

    def double(*given: Any) -> Any:
        return sum(np.sum(g**2) for g in transforms.grad(loss, argnums=wrt)(*given))

    if program.kind == HESSIAN:
        return transforms.hessian(loss)
    return transforms.value_and_grad(double if program.kind == DOUBLE else loss, argnums=wrt)


LIBRARIES: dict[str, Callable[[Program, Sequence[numpy.ndarray]], Run]] = {
    DEFINE_BY_RUN: by_numba_grad,
    JIT: by_numba_grad_jit,
    "torch": by_torch,
    "jax": by_jax,
    "autograd": by_autograd,
}


def reason_against(program: Program, library: str) -> str:
    """Why a library does not run a program; empty if it does."""
    if program.looks and library == JIT:
        return "values decide how it goes on"
    return program.reasons.get(library, "")
