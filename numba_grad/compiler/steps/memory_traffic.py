"""How much memory a loop nest reads and writes: what decides how it is run and what it costs."""

import itertools
import math

from numba_grad.compiler.loop_nests.iteration_spaces import Index
from numba_grad.compiler.loop_nests.kernel_ir import Buffer, Load, LoopNest


def work_of(kernel: LoopNest) -> tuple[int, int]:
    """Bytes of memory traffic, and scalar operations."""
    points = math.prod(axis.extent for axis in kernel.axes)
    return points * _bytes_of_a_point(kernel), points * kernel.operations


def bytes_of_buffers(kernel: LoopNest) -> dict[Buffer, int]:
    """Bytes of what the kernel reads and writes, each element once: the least traffic that there
    can be, where caches hold what is read again."""
    extents = {axis.variable: axis.extent for axis in kernel.axes}
    positions: dict[Buffer, set[Index]] = {buffer: set() for buffer in kernel.buffers}
    for variant in kernel.variants:
        bodies = [piece.body for piece in variant.pieces]
        lets = [*variant.lets, *[body.lets for body in bodies]]
        for let in itertools.chain.from_iterable(lets):
            if isinstance(let.expression, Load):
                positions[let.expression.buffer].add(let.expression.position)
        for store in itertools.chain.from_iterable(body.stores for body in bodies):
            positions[store.buffer].add(store.position)
    for accumulator in kernel.accumulators:
        if accumulator.buffer is not None:
            positions[accumulator.buffer].add(accumulator.position)
    result = {}
    for buffer, used in positions.items():
        points = rows = 1
        for where in used:
            names = [name.partition(" ")[0] for name, _ in where.terms]
            points = max(points, math.prod(extents.get(name, 1) for name in names))
            factors = [abs(f.value) for name, f in where.terms if f.literal and name in extents]
            rows = max(rows, *factors, 1)
        result[buffer] = buffer.dtype.itemsize * points * min(rows, len(used))
    return result


def _bytes_of_a_point(kernel: LoopNest) -> int:
    return sum(buffer.dtype.itemsize * n for buffer, n in elements_of_a_point(kernel).items())


def elements_of_a_point(kernel: LoopNest) -> dict[Buffer, int]:
    """One element of each buffer, or as many components of a row as are used."""
    positions: dict[Buffer, set[Index]] = {buffer: set() for buffer in kernel.buffers}
    body = kernel.variants[-1].pieces[0].body
    for let in body.lets:
        if isinstance(let.expression, Load):
            positions[let.expression.buffer].add(let.expression.position)
    for store in body.stores:
        positions[store.buffer].add(store.position)
    variable = kernel.axes[-1].variable if kernel.axes else ""
    result: dict[Buffer, int] = {}
    for buffer, used in positions.items():
        factors = (factor for where in used for name, factor in where.terms if name == variable)
        row = max((abs(factor.value) for factor in factors if factor.literal), default=1)
        result[buffer] = max(1, min(row, len(used)))
    return result
