"""Emitted kernels in Numba's own simulator: threads of a block are threads of the system there."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.cuda.graph_kernels import UNWRITTEN, GraphRun
from tests.cuda.requirements import needs_compiler


def laplacian(x):
    p = np.pad(x, 1)
    return p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * x


def forces(x):
    difference = x[:, None] - x[None, :]
    return (difference / (1 + difference * difference)).sum(axis=1)


@needs_compiler
def test_points_columns_and_tiles():
    cases = [
        (laplacian, np.linspace(0, 1, 20 * 19).reshape(20, 19)),
        (lambda x: x * 2 + 1, np.arange(70, dtype=np.float32)),
        (lambda x: x.sum(axis=0), np.linspace(0, 1, 37 * 34).reshape(37, 34)),
        (forces, np.linspace(0, 1, 40)),
    ]
    launches, expected = [], []
    for f, array in cases:
        run = GraphRun()
        expected += run.evaluate(f, array)
        (emitted,), (arguments,) = run.emitted, run.arguments
        launches.append((emitted.source, emitted.grid, emitted.block, arguments))
    process = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("simulate.py"))],
        input=pickle.dumps(launches),
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr.decode()
    for launch, after, wanted in zip(launches, pickle.loads(process.stdout), expected, strict=True):
        (result,) = [x for x, before in zip(after, launch[3], strict=True) if is_new(before)]
        np.testing.assert_allclose(result, wanted.reshape(-1), rtol=1e-12, atol=1e-12)


def is_new(argument):
    """Whether this is memory that a kernel is to fill."""
    return isinstance(argument, np.ndarray) and (argument.view(np.uint8) == UNWRITTEN).all()
