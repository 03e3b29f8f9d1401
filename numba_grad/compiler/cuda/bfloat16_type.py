"""bfloat16 as a type of Numba's compilers for CUDA: it is in memory only, and is cast.

numba-cuda has one of its own, whose casts are functions of CUDA's headers that NVRTC would have to
compile for each kernel.
"""

from typing import Any

from llvmlite import ir

from numba_grad.compiler.kernel_language.bfloat16 import INT16, bits_of, float32_from

# Of structures there may be arrays in shared memory; of other types only if Numba knows them.
STRUCTURE = ir.LiteralStructType([INT16])


def bfloat16_type(types: Any, extending: Any, models: Any) -> Any:
    """The type, known to the compiler that these modules are of."""

    class BFloat16(types.Number):
        bitwidth = 16

        def __init__(self) -> None:
            super().__init__(name="bfloat16")

    @models.register_model(BFloat16)
    class _Model(models.StructModel):
        def __init__(self, manager: Any, element: Any) -> None:
            super().__init__(manager, element, [("bits", types.uint16)])

    @extending.lower_cast(BFloat16, types.float32)
    def to_float32(context: Any, builder: Any, source: Any, target: Any, value: Any) -> Any:
        return float32_from(builder, builder.extract_value(value, 0))

    @extending.lower_cast(types.float32, BFloat16)
    def from_float32(context: Any, builder: Any, source: Any, target: Any, value: Any) -> Any:
        return builder.insert_value(STRUCTURE(ir.Undefined), bits_of(builder, value), 0)

    return BFloat16()
