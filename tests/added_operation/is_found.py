"""Run where the operations are added: they are found by everything that walks registries."""

import runpy

import numpy as np
from numpy._core.overrides import array_function_dispatch

# As if NumPy had one of them.
np.gudermannian = array_function_dispatch(lambda x: (x,))(lambda x: 2 * np.arctan(np.tanh(x / 2)))
np.gudermannian.__name__ = "gudermannian"

import numba_grad as ng  # noqa: E402
from numba_grad.compiler.cuda import library_steps  # noqa: E402
from numba_grad.errors import KernelError  # noqa: E402

x = np.linspace(-2, 2, 5)
expected = 2 * np.arctan(np.tanh(x / 2))

assert {"gudermannian", "mirrored"} <= set(dir(ng)) & set(ng.__all__)
assert isinstance(np.gudermannian(ng.tensor(x)), ng.Tensor)
np.testing.assert_allclose(np.gudermannian(ng.tensor(x)), expected)
np.testing.assert_allclose(ng.numpy.gudermannian(ng.tensor(x)), expected)
np.testing.assert_array_equal(ng.jit(ng.mirrored)(x), x[::-1])
np.testing.assert_allclose(ng.grad(lambda x: (ng.mirrored(x) * x).sum())(x), 2 * x[::-1])

page = runpy.run_path("docs/operations.py")["page"]()
assert all(
    f"\n| `{name}` | float32, float64 | any order |" in page
    for name in ("gudermannian", "mirrored")
)

try:
    library_steps.steps_of_operation(ng.mirrored(x)._node, {}, lambda nbytes: None, in_place=False)
except KernelError as error:
    assert "mirrored: not available on CUDA devices" in str(error), error
else:
    raise AssertionError("a kernel of the CPU alone was taken for one of a GPU")
