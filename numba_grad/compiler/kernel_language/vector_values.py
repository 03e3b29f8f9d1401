"""What loops compute with that are written as vector code (`vector_loops.py`): vectors of numbers,
of conditions, and of complex numbers, whose real and imaginary parts are a vector each.

Results have the bits of scalar code, which the same formulas and the same roundings make of them.
"""

# pyright: reportAttributeAccessIssue=false, reportArgumentType=false

import ast
from functools import reduce
from typing import Any

from llvmlite import ir
from numba.core import types

from numba_grad.compiler.kernel_language import vector_functions
from numba_grad.compiler.kernel_language.scalars import complex_product
from numba_grad.immutable import NamedTuple

INT32 = ir.IntType(32)
PART_OF = {types.complex64: types.float32, types.complex128: types.float64}


class NotPlain(Exception):
    """A kernel whose text is plain, and whose types are not."""


class VectorValue(NamedTuple):
    is_vector: bool
    is_condition: bool
    parts: tuple[Any, ...]  # one, or the real and the imaginary part

    @property
    def is_complex(self) -> bool:
        return len(self.parts) == 2


def vector(*parts: Any) -> VectorValue:
    return VectorValue(True, False, parts)


def condition(value: Any) -> VectorValue:
    return VectorValue(True, True, (value,))


def zero_in(kind: ir.VectorType) -> ir.Constant:
    return ir.Constant(kind, [ir.Constant(kind.element, 0.0)] * kind.count)


def as_complex(value: VectorValue) -> tuple[Any, Any]:
    """The parts of a vector of numbers as they are added to complex ones, as Numba does that."""
    if value.is_condition:
        raise NotPlain
    if value.is_complex:
        return value.parts
    [real] = value.parts
    return real, zero_in(real.type)


def arithmetic(
    builder: ir.IRBuilder,
    operation: type[ast.operator],
    x: VectorValue,
    y: VectorValue,
    known: vector_functions.Known,
) -> VectorValue:
    """Of two vectors. `known`: what functions of this block consist of."""
    if operation in (ast.BitAnd, ast.BitOr):
        if not x.is_condition or not y.is_condition:
            raise NotPlain
        combine = builder.and_ if operation is ast.BitAnd else builder.or_
        return condition(combine(*x.parts, *y.parts))
    if x.is_condition or y.is_condition:
        raise NotPlain
    if x.is_complex or y.is_complex:
        return _of_complex(builder, operation, x, y, known)
    combine = {
        ast.Add: builder.fadd,
        ast.Sub: builder.fsub,
        ast.Mult: builder.fmul,
        ast.Div: builder.fdiv,
    }[operation]
    return vector(combine(*x.parts, *y.parts))


def _of_complex(
    builder: ir.IRBuilder,
    operation: type[ast.operator],
    x: VectorValue,
    y: VectorValue,
    known: vector_functions.Known,
) -> VectorValue:
    left, right = as_complex(x), as_complex(y)
    if operation is ast.Div:
        return vector(*vector_functions.written(builder, "divide", [left, right], known))
    if operation is ast.Mult:
        return vector(*complex_product(builder, left, right))
    combine = {ast.Add: builder.fadd, ast.Sub: builder.fsub}[operation]
    return vector(*map(combine, left, right))


def comparison(
    builder: ir.IRBuilder, operation: str, x: VectorValue, y: VectorValue
) -> VectorValue:
    """Whatever has a NaN in it is false, and "!=" is true."""
    if x.is_condition or y.is_condition:
        raise NotPlain
    compare = builder.fcmp_unordered if operation == "!=" else builder.fcmp_ordered
    if not x.is_complex and not y.is_complex:
        return condition(compare(operation, *x.parts, *y.parts))
    combine = {"==": builder.and_, "!=": builder.or_}.get(operation)
    if combine is None:
        raise NotPlain
    pairs = zip(as_complex(x), as_complex(y), strict=True)
    return condition(reduce(combine, [compare(operation, *pair) for pair in pairs]))


def choice(
    builder: ir.IRBuilder, decides: VectorValue, x: VectorValue, y: VectorValue
) -> VectorValue:
    if not decides.is_condition or x.is_condition != y.is_condition:
        raise NotPlain
    parts = x.parts, y.parts
    if x.is_complex or y.is_complex:
        parts = as_complex(x), as_complex(y)
    [test] = decides.parts
    chosen = [builder.select(test, *pair) for pair in zip(*parts, strict=True)]
    return VectorValue(True, x.is_condition, tuple(chosen))


def function(
    builder: ir.IRBuilder, name: str, arguments: list[VectorValue], known: vector_functions.Known
) -> VectorValue:
    """An elementary function of vectors of numbers."""
    if any(x.is_condition for x in arguments):
        raise NotPlain
    pairs = [x.parts for x in arguments]
    if any(x.is_complex for x in arguments):
        pairs = [as_complex(x) for x in arguments]
    try:
        parts = vector_functions.written(builder, name, pairs, known)
    except NotImplementedError:
        raise NotPlain from None
    return VectorValue(True, name in vector_functions.CONDITIONS, parts)


# Elements of a vector.


def in_all(builder: ir.IRBuilder, scalar: Any, kind: ir.VectorType) -> Any:
    if isinstance(scalar, ir.Constant):
        return ir.Constant(kind, [scalar] * kind.count)
    undefined = ir.Constant(kind, ir.Undefined)
    one = builder.insert_element(undefined, scalar, INT32(0))
    first = ir.Constant(ir.VectorType(INT32, kind.count), None)
    return builder.shuffle_vector(one, undefined, first)


def taken_apart(builder: ir.IRBuilder, pairs: Any) -> tuple[Any, Any]:
    """The real and the imaginary parts of numbers as they lie in memory."""
    undefined, count = ir.Constant(pairs.type, ir.Undefined), pairs.type.count
    real, imaginary = (
        builder.shuffle_vector(pairs, undefined, _numbers(range(part, count, 2))) for part in (0, 1)
    )
    return real, imaginary


def put_together(builder: ir.IRBuilder, real: Any, imaginary: Any) -> Any:
    """Parts as they lie in memory; of a condition for each number, those for its parts."""
    count = real.type.count
    return builder.shuffle_vector(
        real, imaginary, _numbers([k + part * count for k in range(count) for part in (0, 1)])
    )


def _numbers(numbers: Any) -> ir.Constant:
    listed = list(numbers)
    return ir.Constant(ir.VectorType(INT32, len(listed)), listed)
