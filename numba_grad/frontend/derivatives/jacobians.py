"""All derivatives of the results of one call: by rows in reverse mode, by columns in forward mode.

Each is computed for one stand-in, and then for all as a batch.
"""

from collections.abc import Sequence

import numpy as np

from numba_grad.dtypes import promoted
from numba_grad.frontend.derivatives.differentiation import Differentiation
from numba_grad.graph.node import OPS, Node, argument
from numba_grad.ops.families import cast, reshape
from numba_grad.transforms.batch import by_columns, by_rows


def jacobian(
    call: Differentiation, outputs: Sequence[Node], is_reverse: bool, of_one: bool = False
) -> list[list[Node]]:
    """For each of `outputs` its derivatives by each variable of `call`.

    Parameters
    ----------
    is_reverse : by rows, not by columns
    of_one : of complex numbers, what the cotangents or tangents 1 give and no more, as in torch
    """
    if is_reverse:
        return [_rows(call, output, of_one) for output in outputs]
    columns = [_columns(call, outputs, x, of_one) for x in call.variables]
    return [[column[k] for column in columns] for k in range(len(outputs))]


def _rows(call: Differentiation, output: Node, of_one: bool) -> list[Node]:
    """The derivatives of all elements of `output` by each variable, in reverse mode."""
    size = output.type.size
    if size == 1:  # a gradient as any other

        def pull_back(seeds: list[Node]) -> list[Node]:
            return call.gradients([output], [reshape(seeds[0], output.shape)])
    else:
        seed = argument(output.type)
        pulled = call.gradients_of_stand_in(output, seed)

        def pull_back(seeds: list[Node]) -> list[Node]:
            return call.batched(pulled, {seed: seeds[0]}, size)

    def blocks(unit: complex) -> list[Node]:
        types = [x.type for x in call.variables]
        return by_rows(pull_back, [output.type], types, unit)[0]

    if of_one or output.dtype.kind != "c":
        return blocks(1)
    # A complex variable: the pullback of a holomorphic f multiplies by the conjugate of f'. A real
    # one: the pullback of 1 is the derivative of the real part, that of 1j the derivative of the
    # imaginary part.
    of_real, of_imaginary = blocks(1), blocks(1j)
    return [
        OPS["conjugate"](re) if x.dtype.kind == "c" else OPS["make_complex"](re, im)
        for x, re, im in zip(call.variables, of_real, of_imaginary, strict=True)
    ]


def _columns(call: Differentiation, outputs: Sequence[Node], x: Node, of_one: bool) -> list[Node]:
    """The derivatives of each of `outputs` by all elements of a variable, in forward mode."""
    direction = argument(x.type)
    pushed = call.tangents(outputs, [direction if node is x else None for node in call.variables])

    def push_forward(units: list[Node]) -> list[Node]:
        # With each value beside the tangents that it is for: a loop keeps none.
        since = call.variables[-1].serial + 1
        return call.batched(pushed, {direction: units[0]}, x.type.size, since=since)

    def blocks(unit: complex) -> list[Node]:
        types = [output.type for output in outputs]
        return [block for (block,) in by_columns(push_forward, types, [x.type], unit)]

    columns = blocks(1)
    if of_one:
        return columns
    if x.dtype.kind == "c" and any(output.dtype.kind != "c" for output in outputs):
        # Of a real result, what reverse mode gives: the slope along 1, and 1j times that along 1j.
        columns = [
            c if output.dtype.kind == "c" else OPS["make_complex"](c, along)
            for c, along, output in zip(columns, blocks(1j), outputs, strict=True)
        ]
    dtype = x.dtype
    return [
        cast(c, promoted(dtype, np.complex64) if c.dtype.kind == "c" else dtype) for c in columns
    ]
