"""Scalars inside kernels: how each dtype lies in memory, and NumPy's casts, as LLVM instructions.

Numba's own casts are C's: undefined for NaN and on overflow.
"""

# pyright: reportAttributeAccessIssue=false

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from numba_grad.compiler.kernel_language import bfloat16

INT8, INT16, INT32, INT64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
# In memory only: values are float32. Numba has no bfloat16, and nothing needs to know more of it
# than that it is a type of its own.
FLOAT16, BFLOAT16 = types.float16, types.Opaque("bfloat16")
STORAGE_ONLY = (FLOAT16, BFLOAT16)

# Neither Numba's types nor llvmlite's values declare the attributes used here.
ScalarType = Any
LlvmValue = Any


class BufferType(types.Type):
    """A typed pointer. Buffers of different `scope` are promised not to overlap.

    `scope` None promises nothing.
    """

    def __init__(self, element: ScalarType, scope: int | None) -> None:
        self.element = element
        self.scope = scope
        super().__init__(name=f"BufferType({element}, {scope})")


def llvm_type(scalar: ScalarType | BufferType) -> Any:
    """The LLVM type of a value in registers."""
    if isinstance(scalar, BufferType):
        return storage_type(scalar.element).as_pointer()
    if isinstance(scalar, types.Boolean):
        return ir.IntType(1)
    if isinstance(scalar, types.Complex):
        return ir.LiteralStructType([llvm_type(scalar.underlying_float)] * 2)
    return storage_type(scalar)


def storage_type(element: ScalarType) -> Any:
    """How one element, or one half of a complex element, lies in memory."""
    if isinstance(element, types.Boolean):
        return INT8
    if isinstance(element, types.Integer):
        return ir.IntType(element.bitwidth)
    if element is FLOAT16:
        return ir.HalfType()
    if element is BFLOAT16:
        return INT16
    if isinstance(element, types.Complex):
        return storage_type(element.underlying_float)
    return ir.FloatType() if element is types.float32 else ir.DoubleType()


def value_type(element: ScalarType) -> ScalarType:
    """What kernels compute with, where memory holds `element`."""
    return types.float32 if element in STORAGE_ONLY else element


def size_in_bytes(storage: Any) -> int:
    if isinstance(storage, ir.IntType):
        return storage.width // 8
    return {"half": 2, "float": 4, "double": 8}[str(storage)]


def call_llvm(builder: ir.IRBuilder, name: str, *arguments: LlvmValue) -> LlvmValue:
    """Call one of LLVM's intrinsics whose arguments and result have one type."""
    kind = arguments[0].type
    function_type = ir.FunctionType(kind, [kind] * len(arguments))
    full_name = f"{name}.{'f32' if isinstance(kind, ir.FloatType) else 'f64'}"
    function = cgutils.get_or_insert_function(builder.module, function_type, full_name)
    return builder.call(function, arguments)


def complex_product(
    builder: Any, x: Sequence[LlvmValue], y: Sequence[LlvmValue]
) -> tuple[LlvmValue, LlvmValue]:
    """The parts of a product, of scalars or of vectors. Each is a sum of two products, of which
    LLVM may round one with the result, as these have no other use: it is the same one everywhere,
    but in code without effort, where it is none."""
    flags = ("contract",) if builder.module.numba_grad_contracts else ()
    (a, b), (c, d) = x, y
    ac, bd, ad, bc = (builder.fmul(*pair, flags=flags) for pair in ((a, c), (b, d), (a, d), (b, c)))
    return builder.fsub(ac, bd, flags=flags), builder.fadd(ad, bc, flags=flags)


def make_complex(builder: ir.IRBuilder, real: LlvmValue, imaginary: LlvmValue) -> LlvmValue:
    value = ir.Constant(ir.LiteralStructType([real.type] * 2), ir.Undefined)
    return builder.insert_value(builder.insert_value(value, real, 0), imaginary, 1)


def complex_parts(builder: ir.IRBuilder, value: LlvmValue) -> list[LlvmValue]:
    return [builder.extract_value(value, 0), builder.extract_value(value, 1)]


def cast_value(
    builder: ir.IRBuilder, value: LlvmValue, source: ScalarType, target: ScalarType
) -> LlvmValue:
    """NumPy's `astype`, for every pair of scalar types.

    To float16 and bfloat16 means to a float32 that they can hold, so that results do not depend on
    which values are stored between two operations.
    """
    source = types.unliteral(source)
    if target is FLOAT16:
        return _round_to_half(builder, value, source)
    if target is BFLOAT16:
        value = cast_value(builder, value, source, types.float32)
        return bfloat16.float32_from(builder, bfloat16.bits_of(builder, value))
    if source == target:
        return value
    if isinstance(source, types.Complex):
        return _cast_from_complex(builder, value, source, target)
    if isinstance(target, types.Complex):
        part = target.underlying_float
        real = cast_value(builder, value, source, part)
        zero = ir.Constant(llvm_type(part), 0.0)
        return make_complex(builder, real, zero)
    if isinstance(target, types.Boolean):
        if isinstance(source, types.Float):
            # Unordered: NaN is true.
            return builder.fcmp_unordered("!=", value, ir.Constant(value.type, 0.0))
        return builder.icmp_unsigned("!=", value, ir.Constant(value.type, 0))
    if isinstance(source, types.Float) and isinstance(target, types.Integer):
        return _float_to_integer(builder, value, target)
    if isinstance(source, types.Boolean):
        return _cast_from_bits(builder, value, False, target)
    if isinstance(source, types.Integer):
        return _cast_from_bits(builder, value, source.signed, target)
    grows = source.bitwidth < target.bitwidth
    return (builder.fpext if grows else builder.fptrunc)(value, llvm_type(target))


def _round_to_half(builder: ir.IRBuilder, value: LlvmValue, source: ScalarType) -> LlvmValue:
    if isinstance(source, types.Complex):
        value, source = builder.extract_value(value, 0), source.underlying_float
    if source is types.float64:
        value = _to_float_rounded_to_odd(builder, value)
    else:
        value = cast_value(builder, value, source, types.float32)
    return builder.fpext(builder.fptrunc(value, ir.HalfType()), ir.FloatType())


def _to_float_rounded_to_odd(builder: ir.IRBuilder, value: LlvmValue) -> LlvmValue:
    """float64 to float32 such that rounding once more, to float16, is as good as rounding once.

    There is no instruction from float64 to float16, and LLVM would call a function that few
    processes have. An inexact result becomes the neighbour, on the side of zero or itself, whose
    last bit is set (Boldo and Melquiond, 2008).
    """
    near = builder.fptrunc(value, ir.FloatType())
    back = builder.fpext(near, ir.DoubleType())
    is_inexact = builder.fcmp_ordered("!=", back, value)
    magnitudes = [call_llvm(builder, "llvm.fabs", x) for x in (back, value)]
    is_beyond = builder.fcmp_ordered(">", *magnitudes)
    bits = builder.bitcast(near, INT32)
    bits = builder.sub(bits, builder.zext(is_beyond, INT32))
    bits = builder.or_(bits, builder.zext(is_inexact, INT32))
    return builder.bitcast(bits, ir.FloatType())


def from_storage(builder: ir.IRBuilder, stored: LlvmValue, element: ScalarType) -> LlvmValue:
    """A value out of what memory holds of one element, that is not complex."""
    if isinstance(element, types.Boolean):
        return builder.icmp_unsigned("!=", stored, INT8(0))
    if element is FLOAT16:
        return builder.fpext(stored, ir.FloatType())
    if element is BFLOAT16:
        return bfloat16.float32_from(builder, stored)
    return stored


def to_storage(builder: ir.IRBuilder, value: LlvmValue, element: ScalarType) -> LlvmValue:
    """What memory holds of a value that `cast_value` cast to `element`."""
    if isinstance(element, types.Boolean):
        return builder.zext(value, INT8)
    if element is FLOAT16:
        return builder.fptrunc(value, ir.HalfType())
    if element is BFLOAT16:
        return bfloat16.bits_of_rounded(builder, value)
    return value


def floor_division(
    builder: ir.IRBuilder, dividend: LlvmValue, divisor: LlvmValue
) -> tuple[LlvmValue, LlvmValue]:
    """Python's `//` and `%` of two int64; both are 0 where the processor would trap.

    As Numba's, without its branches and memory, which LLVM takes longer for than for the division.
    """
    zero, one = INT64(0), INT64(1)
    overflows = builder.and_(
        builder.icmp_signed("==", dividend, INT64(-(2**63))),
        builder.icmp_signed("==", divisor, INT64(-1)),
    )
    traps = builder.or_(builder.icmp_signed("==", divisor, zero), overflows)
    divisor = builder.select(traps, one, divisor)
    quotient = builder.sdiv(dividend, divisor)
    remainder = builder.srem(dividend, divisor)
    is_above = builder.and_(
        builder.icmp_signed("!=", remainder, zero),
        builder.icmp_signed("<", builder.xor(remainder, divisor), zero),
    )
    quotient = builder.sub(quotient, builder.zext(is_above, INT64))
    remainder = builder.add(remainder, builder.select(is_above, divisor, zero))
    return builder.select(traps, zero, quotient), builder.select(traps, zero, remainder)


def _cast_from_complex(
    builder: ir.IRBuilder, value: LlvmValue, source: ScalarType, target: ScalarType
) -> LlvmValue:
    real, imaginary = complex_parts(builder, value)
    part = source.underlying_float
    if isinstance(target, types.Complex):
        parts = [cast_value(builder, x, part, target.underlying_float) for x in (real, imaginary)]
        return make_complex(builder, *parts)
    if isinstance(target, types.Boolean):
        return builder.or_(
            cast_value(builder, real, part, target),
            cast_value(builder, imaginary, part, target),
        )
    return cast_value(builder, real, part, target)


def _cast_from_bits(
    builder: ir.IRBuilder, value: LlvmValue, signed: bool, target: ScalarType
) -> LlvmValue:
    to = llvm_type(target)
    if isinstance(target, types.Float):
        return (builder.sitofp if signed else builder.uitofp)(value, to)
    return _resize(builder, value, signed, to)


def _resize(builder: ir.IRBuilder, value: LlvmValue, signed: bool, to: Any) -> LlvmValue:
    if value.type.width == to.width:
        return value
    if value.type.width > to.width:
        return builder.trunc(value, to)
    return (builder.sext if signed else builder.zext)(value, to)


def _float_to_integer(builder: ir.IRBuilder, value: LlvmValue, target: ScalarType) -> LlvmValue:
    """What NumPy does on x86: through int32 or int64, where NaN and overflow give the minimum."""
    if target is types.uint64:
        return _float_to_uint64(builder, value)
    is_narrow = target.bitwidth < 32 or target is types.int32
    wide = INT32 if is_narrow else INT64
    return _resize(
        builder, _float_to_signed(builder, value, wide), True, ir.IntType(target.bitwidth)
    )


def _float_to_signed(builder: ir.IRBuilder, value: LlvmValue, to: Any) -> LlvmValue:
    # Both bounds are powers of two, exact in either float type. Between -2**31 - 1 and -2**31 the
    # answer -2**31 is right as well.
    bound = 2 ** (to.width - 1)
    fits = builder.and_(
        builder.fcmp_ordered("<", value, ir.Constant(value.type, float(bound))),
        builder.fcmp_ordered(">=", value, ir.Constant(value.type, -float(bound))),
    )
    # `fptosi` of what does not fit would make the whole result undefined, selected or not.
    safe = builder.select(fits, value, ir.Constant(value.type, 0.0))
    return builder.select(fits, builder.fptosi(safe, to), ir.Constant(to, -bound))


def _float_to_uint64(builder: ir.IRBuilder, value: LlvmValue) -> LlvmValue:
    half = ir.Constant(value.type, 2.0**63)
    is_large = builder.fcmp_ordered(">=", value, half)
    low = _float_to_signed(builder, value, INT64)
    high = _float_to_signed(builder, builder.fsub(value, half), INT64)
    return builder.select(is_large, builder.xor(high, ir.Constant(INT64, -(2**63))), low)
