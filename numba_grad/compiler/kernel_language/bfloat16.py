"""bfloat16 in memory, as instructions on the bits of float32: its upper half, rounded to even.

LLVM has a type for it, which llvmlite has not. Imports neither Numba nor a compiler for CUDA, both
of which use it.
"""

from typing import Any

from llvmlite import ir

INT16, INT32 = ir.IntType(16), ir.IntType(32)


def float32_from(builder: ir.IRBuilder, bits: Any) -> Any:
    """The number that 16 bits stand for."""
    return builder.bitcast(builder.shl(builder.zext(bits, INT32), INT32(16)), ir.FloatType())


def bits_of(builder: ir.IRBuilder, value: Any) -> Any:
    """The 16 bits of the number nearest to a float32. A NaN stays one, and becomes quiet."""
    bits = builder.bitcast(value, INT32)
    is_odd = builder.and_(builder.lshr(bits, INT32(16)), INT32(1))
    rounded = builder.add(bits, builder.add(is_odd, INT32(0x7FFF)))
    # Rounding could carry a NaN into infinity: it is cut off instead, with a bit set that stays.
    quiet = builder.or_(bits, INT32(0x400000))
    is_nan = builder.fcmp_unordered("uno", value, value)
    return _upper_half(builder, builder.select(is_nan, quiet, rounded))


def bits_of_rounded(builder: ir.IRBuilder, value: Any) -> Any:
    """The same of a float32 that is a bfloat16."""
    return _upper_half(builder, builder.bitcast(value, INT32))


def _upper_half(builder: ir.IRBuilder, bits: Any) -> Any:
    return builder.trunc(builder.lshr(bits, INT32(16)), INT16)
