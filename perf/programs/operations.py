"""Fills the disk cache with what a program's operations need one at a time, and with nothing of
the program: what is there after other programs have used the same operations.

The program is recorded on other shapes and with few steps, with its gradients, and each node of
the graph is computed alone.
"""

from collections.abc import Sequence
from typing import Any

import numpy

from perf.programs import DOUBLE, HESSIAN, Program
from perf.programs.libraries import DEFINE_BY_RUN

# More than the size measured. Of 6 that is 9: by 8 the recorder would multiply, not divide.
OTHER_SIZE = 3


def run_one_at_a_time(program: Program) -> int:
    """How many operations there were."""
    import numba_grad as ng
    import numba_grad.numpy as np
    from numba_grad.compiler.evaluate import evaluate
    from numba_grad.graph.walk import toposort
    from numba_grad.ops.control import several_results

    short = program.in_short()
    given = short.arguments(short.size + OTHER_SIZE)
    f = short.function_for(DEFINE_BY_RUN)
    if short.kind == HESSIAN:
        roots = [ng.hessian(lambda *x: f(np, *x))(*given)._node]
    else:
        wrt = short.variables(given)
        leaves = [ng.tensor(x, requires_grad=k in wrt) for k, x in enumerate(given)]
        variables = [leaves[k]._node for k in wrt]
        roots = [f(np, *leaves)._node]
        gradients = _gradients(roots[0], variables)
        roots += gradients
        if short.kind == DOUBLE:
            squares: Any = sum(np.sum(ng.Tensor(g) ** 2) for g in gradients)
            roots += _gradients(squares._node, variables)
    done = 0
    for node in toposort(roots):
        if node.value is None and not several_results(node):
            evaluate([node])
            done += 1
    return done


def _gradients(root: Any, variables: Sequence[Any]) -> list[Any]:
    """Their nodes, with nothing computed."""
    from numba_grad.graph.node import leaf
    from numba_grad.transforms.vjp import cotangents, reached

    seed = leaf(numpy.ones(root.shape, root.dtype))
    found = cotangents([root], [seed], reached([root]))
    return [found[x] for x in variables if x in found]
