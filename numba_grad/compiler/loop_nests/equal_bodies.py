"""Neighbouring pieces of a loop that compute the same, as where no condition matters any more.

Rows above and below a stencil's interior add nothing to any element, whichever column it is in: one
loop for LLVM, not three.
"""

from numba_grad.compiler.loop_nests.kernel_ir import (
    Apply,
    Body,
    Expression,
    IndexValue,
    Load,
)

Part = tuple[int, int, Body]  # from where to where a loop goes, and what it does there


def joined(parts: list[Part]) -> list[Part]:
    """The same with one part in place of neighbours that differ in the names of values alone."""
    result: list[Part] = []
    for start, stop, body in parts:
        if result and _are_equal(result[-1][2], body):
            result[-1] = (result[-1][0], stop, body)
        else:
            result.append((start, stop, body))
    return result


def _are_equal(a: Body, b: Body) -> bool:
    if (len(a.lets), len(a.updates)) != (len(b.lets), len(b.updates)):
        return False
    return _structure(a) == _structure(b)


def _structure(body: Body) -> object:
    """The body with numbers in place of the names of its own values."""
    numbers = {let.name: number for number, let in enumerate(body.lets)}

    def of(x: object) -> object:
        if isinstance(x, str):
            return numbers.get(x, x)
        return tuple([of(part) for part in x]) if isinstance(x, tuple) else x

    def of_expression(expression: Expression) -> object:
        match expression:
            case Load(buffer, position):
                return "load", buffer.name, of(position)
            case IndexValue(index):
                return "index", of(index)
            case Apply(template, operands, dtype, casts):
                return template, of(operands), dtype, casts
        return expression

    return (
        [of_expression(let.expression) for let in body.lets],
        [(update.name, of_expression(update.expression)) for update in body.updates],
        [(store.buffer.name, of(store.position), of(store.value)) for store in body.stores],
    )
