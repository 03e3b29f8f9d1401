"""Rows, one part for each rank: what is checked of them."""

from typing import Any

from numba_grad.errors import ShapeError, explain
from numba_grad.frontend.message_passing.communicators import as_integer, as_operand
from numba_grad.graph.node import Node


def as_rows(operation: str, x: Any) -> Node:
    node = as_operand(operation, x)
    if node.shape == ():
        raise ShapeError(
            explain(operation, "a number has no rows", got={"x": node.type}, fix="x.reshape(1)")
        )
    return node


def as_counts(operation: str, name: str, counts: Any, size: int) -> tuple[int, ...]:
    found = tuple([as_integer(operation, name, n) for n in counts])
    if len(found) != size or min(found) < 0:
        raise ValueError(
            explain(operation, "one number of rows for each rank", got={name: found, "ranks": size})
        )
    return found


def check_rows(operation: str, x: Node, rows: int, what: str) -> None:
    if x.shape[0] != rows:
        raise ShapeError(
            explain(
                operation,
                "not as many rows as there must be",
                got={"x": x.type},
                expected=f"{rows} rows, {what}",
            )
        )
