"""Kernels in Numba's own simulator: threads of a block are threads of the system there."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from numba_grad.compiler.library_kernels import Errors, Memory
from numba_grad.runtime.plan import ErrorSite
from tests.cuda.graph_kernels import UNWRITTEN, GraphRun
from tests.cuda.library_calls import call_of, node_of
from tests.cuda.requirements import needs_compiler


def simulated(memory, launches):
    """The memory, arrays of bytes, after the launches: see `simulate.py`."""
    process = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("simulate.py"))],
        input=pickle.dumps((memory, launches)),
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr.decode()
    return pickle.loads(process.stdout)


def as_bytes(array):
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).copy()


def laplacian(x):
    p = np.pad(x, 1)
    return p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * x


def forces(x):
    difference = x[:, None] - x[None, :]
    return (difference / (1 + difference * difference)).sum(axis=1)


@pytest.mark.thorough
@needs_compiler
def test_points_columns_and_tiles():
    cases = [
        (laplacian, np.linspace(0, 1, 20 * 19).reshape(20, 19)),
        (lambda x: x * 2 + 1, np.arange(70, dtype=np.float32)),
        (lambda x: x.sum(axis=0), np.linspace(0, 1, 37 * 34).reshape(37, 34)),
        (forces, np.linspace(0, 1, 40)),
    ]
    memory, launches, results = [], [], []
    for f, array in cases:
        run = GraphRun()
        (expected,) = run.evaluate(f, array)
        (emitted,), (arguments,) = run.emitted, run.arguments
        words = []
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                if (argument.view(np.uint8) == UNWRITTEN).all():
                    results.append((len(memory), expected))
                memory.append(as_bytes(argument))
                argument = len(memory) - 1, 0
            words.append(argument)
        launches.append((emitted.source, *emitted.grid, words))
    assert len(results) == len(cases)
    memory = simulated(memory, launches)
    for number, expected in results:
        found = memory[number].view(expected.dtype)
        np.testing.assert_allclose(found, expected.reshape(-1), rtol=1e-12, atol=1e-12)


@pytest.mark.thorough
@needs_compiler
def test_products_scatters_sorts_and_scans():
    rng = np.random.default_rng(0)
    x, v = rng.standard_normal((3, 2)), rng.standard_normal((70, 2))
    index = rng.integers(-3, 3, 70)
    cases = [
        (node_of("matmul", rng.standard_normal((40, 20)), np.ones((20, 33))), None),
        (node_of("matmul", np.ones((3, 2)), np.ones((2, 4))), None),
        (node_of("scatter_add", x, v, index), (x, v, index)),
        (node_of("scatter_set", x, v, index), (x, v, index)),
        (node_of("argsort", index, axis=0, descending=True), (index,)),
        (node_of("cumsum", np.ones(1100), axis=0, reverse=False), (rng.standard_normal(1100),)),
    ]
    memory, launches, results = [np.zeros(64, np.uint8)], [], []
    for node, arrays in cases:
        arrays = arrays or [rng.standard_normal(x.shape) for x in node.inputs]
        call = call_of(node)
        inputs = range(len(memory), len(memory) + len(arrays))
        memory += map(as_bytes, arrays)
        scratch, output = len(memory), len(memory) + 1
        memory += [np.full(n, UNWRITTEN, np.uint8) for n in (call.scratch_bytes, node.type.nbytes)]
        places = {"input": inputs, "scratch": [scratch], "output": [output]}
        results.append((output, node.op.reference(*arrays, **node.params)))
        for step in call.steps:
            words = []
            for word in step.words:
                match word:
                    case Memory(role, number, offset):
                        word = places[role][number], offset
                    case Errors():
                        word = 0, 0
                    case ErrorSite():
                        word = 7
                words.append(word)
            launches.append((step.source, *step.launch, words))
    memory = simulated(memory, launches)
    assert not memory[0].any()
    for number, expected in results:
        found = memory[number].view(expected.dtype)
        np.testing.assert_allclose(found, expected.reshape(-1), rtol=1e-12, atol=1e-12)
