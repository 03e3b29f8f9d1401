"""Every primitive of the registry on a GPU: values, derivatives and second derivatives, compared
with the CPU, which the tests of the registry compare with everything else."""

import math
from pathlib import Path

import numpy as np
import pytest

from numba_grad.compiler.backends import copied_to, on_host
from numba_grad.compiler.evaluate import evaluate
from numba_grad.compiler.reference_engine import evaluate_with_numpy
from numba_grad.errors import KernelError
from numba_grad.graph.node import leaf
from numba_grad.ops import all_ops
from numba_grad.runtime.cuda import cupy_calls
from numba_grad.transforms.vjp import cotangents, reached
from tests.ops.test_registry import random_like

# Moves are tested with tensors, and users' kernels on their own.
NOT_HERE = ("to_device", "custom_kernel")
TESTED = [op for op in all_ops().values() if op.example is not None and op.name not in NOT_HERE]
# Vectors of which signs and phases are arbitrary: so are derivatives along random directions.
PHASES_ARE_ARBITRARY = ("eig", "eigh", "svd")
# What GPUs do not have, as docs/cuda.md has it: the operation, the kinds of numbers, and what the
# error names. Refused where there are elements; all else is computed.
WITHOUT_CUPY = (
    ("cofactor_in_direction", "f", "cofactor_in_direction"),
    ("eig", "f", "eig"),
    ("eigvals", "f", "eig"),
    ("expm", "f", "expm"),
    ("fft", "c", "fourier"),
    ("irfft", "c", "fourier"),
    ("lstsq", "f", "lstsq"),
    ("rfft", "f", "fourier"),
    ("solve_by_factors", "f", "solve_by_factors"),
    ("svd", "f", "svd"),
    ("svdvals", "f", "svd"),
)
# Made by the compiler for CPUs, never by users.
NEVER = (("matmul_add", "f", "matmul_add"),)
# By Schur factors, which no library for GPUs has.
SCHUR = ("solve_sylvester", "sqrtm")
TOLERANCES = {2: 2e-3, 4: 2e-5, 8: 1e-11, 16: 1e-11}


def inputs_on(device, op, arrays):
    refused = {*op.extras.get("no_derivative", ()), *op.extras.get("constants", ())}
    names = [*op.input_names, *op.input_names[-1:] * len(arrays)]
    return [
        leaf(
            copied_to(np.array(a, order="C"), device), a.dtype.kind in "fc" and name not in refused
        )
        for a, name in zip(arrays, names, strict=False)
    ]


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


def refusal(op, arrays, result):
    """What the error says, or None."""
    kind = "c" if any(a.dtype.kind == "c" for a in arrays) else "f"
    if (op.name, kind, op.name) in NEVER or op.name in SCHUR:
        return f"{op.name}: not available on CUDA devices\n"
    if cupy_calls.cupy() is None and math.prod(result.shape) and all(a.size for a in arrays):
        for name, refused_kind, named in WITHOUT_CUPY:
            if (name, refused_kind) == (op.name, kind):
                return f"{named}: not available on CUDA devices without CuPy\n"
    return None


def test_what_is_refused_is_in_order_and_documented():
    assert list(WITHOUT_CUPY) == sorted(WITHOUT_CUPY)
    tested = {op.name for op in TESTED}
    text = (Path(__file__).parents[2] / "docs" / "cuda.md").read_text()
    section = text.split("## What GPUs do not have")[1].split("\n## ")[0]
    for name in [name for name, *_ in (*WITHOUT_CUPY, *NEVER)] + list(SCHUR):
        assert name in tested
        assert f"`{name}`" in section


@pytest.mark.thorough(
    but="-(add|exp|where|sum|argmax|matmul|gather|scatter_add|cumsum|argsort|inv|pad|correlate"
    "|zeta_derivative)$"
)
@pytest.mark.parametrize("op", TESTED, ids=lambda op: op.name)
def test_as_on_the_cpu(op, gpu):
    for arrays, params in op.example(np.random.default_rng(0)):
        nodes = derivatives(gpu, op, arrays, params)
        assert all(node.type.device == gpu for node in nodes) or not arrays
        refused = refusal(op, arrays, nodes[0])
        if refused is not None:
            with pytest.raises(KernelError, match=refused):
                evaluate(nodes)
            continue
        evaluate(nodes)
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
