"""Every primitive of the registry on a GPU: values, derivatives and second derivatives, compared
with the CPU, which the tests of the registry compare with everything else."""

import numpy as np
import pytest

from numba_grad.compiler.backends import copied_to, on_host
from numba_grad.compiler.evaluate import evaluate
from numba_grad.compiler.reference_engine import evaluate_with_numpy
from numba_grad.errors import KernelError
from numba_grad.graph.node import leaf
from numba_grad.ops import all_ops
from numba_grad.transforms.vjp import cotangents, reached

# Moves are tested with tensors, and users' kernels on their own.
NOT_HERE = ("to_device", "custom_kernel")
TESTED = [op for op in all_ops().values() if op.example is not None and op.name not in NOT_HERE]
# Vectors of which signs and phases are arbitrary: so are derivatives along random directions.
PHASES_ARE_ARBITRARY = ("eig", "eigh", "svd")
TOLERANCES = {2: 2e-3, 4: 2e-5, 8: 1e-11, 16: 1e-11}


def inputs_on(device, op, arrays):
    refused = op.extras.get("no_derivative", {})
    names = [*op.input_names, *op.input_names[-1:] * len(arrays)]
    return [
        leaf(
            copied_to(np.array(a, order="C"), device), a.dtype.kind in "fc" and name not in refused
        )
        for a, name in zip(arrays, names, strict=False)
    ]


def random_like(rng, node):
    result = rng.standard_normal(node.shape)
    if node.dtype.kind == "c":
        result = result + 1j * rng.standard_normal(node.shape)
    return np.asarray(result).astype(node.dtype)


def derivatives(device, op, arrays, params):
    """The result, its pullback of a random vector, and that of the pullback."""
    rng = np.random.default_rng(1)
    inputs = inputs_on(device, op, arrays)
    out = op(*inputs, **params)
    nodes = [out]
    if out.requires_grad:
        g = leaf(copied_to(random_like(rng, out), device), requires_grad=True)
        found = cotangents([out], [g], reached([out]))
        first = [found[x] for x in inputs if x in found]
        nodes += first
        roots = [x for x in first if x.requires_grad]
        seeds = [leaf(copied_to(random_like(rng, x), device)) for x in roots]
        try:
            again = cotangents(roots, seeds, reached(roots))
        except RuntimeError:  # no second derivative: the message is tested elsewhere
            again = {}
        nodes += [again[x] for x in (g, *inputs) if x in again]
    return nodes


@pytest.mark.parametrize("op", TESTED, ids=lambda op: op.name)
def test_as_on_the_cpu(op, gpu):
    for arrays, params in op.example(np.random.default_rng(0)):
        nodes = derivatives(gpu, op, arrays, params)
        assert all(node.type.device == gpu for node in nodes) or not arrays
        try:
            evaluate(nodes)
        except KernelError as error:
            if "not available on CUDA" in str(error) or "on GPUs" in str(error):
                pytest.skip(str(error).splitlines()[0])
            raise
        expected = evaluate_with_numpy(derivatives("cpu", op, arrays, params))
        for node, reference in zip(nodes, expected, strict=True):
            value = on_host(node.value)
            assert (value.shape, value.dtype) == (node.shape, node.dtype)
            if op.name in PHASES_ARE_ARBITRARY:
                if node is not nodes[0]:
                    continue
                value, reference = np.abs(value), np.abs(reference)
            tolerance = TOLERANCES[node.dtype.itemsize] if node.dtype.kind in "fc" else 0
            np.testing.assert_allclose(value, reference, rtol=tolerance, atol=tolerance)
