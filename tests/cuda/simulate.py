"""Runs kernels in Numba's simulator, which must be chosen before Numba is imported: a process.

Reads pickled memory, a list of arrays of bytes, and a list of (source, grid, block, words): a word
is an integer, or the place of bytes in memory, (number of the array, offset). Writes the memory
back, as kernels leave it. The simulator knows arrays instead of pointers, and no shuffles, nor
libdevice: of that there are products and their sums here.
"""

import math
import operator
import pickle
import re
import sys
from types import SimpleNamespace

import numpy as np
from numba import cuda

SCALARS = ("int8", "int32", "int64", "uint8", "uint32", "uint64", "float32", "float64")
NAMES = {name: getattr(np, name) for name in (*SCALARS, "inf", "nan")}
LIBDEVICE = SimpleNamespace(
    fmul_rn=operator.mul,
    dmul_rn=operator.mul,
    fmaf=lambda x, y, z: np.float32(np.float64(x) * y + z),
    fma=lambda x, y, z: np.float64(np.longdouble(x) * y + z),
)
DECORATOR = re.compile(r'@cuda\.jit\("void\((.*)\)"(?:, max_registers=\d+)?\)')


def compare_and_swap(pointer, expected, desired):
    found = pointer[0]  # nobody else is at it: threads take turns at barriers alone
    if found == expected:
        pointer[0] = desired
    return found


def main() -> None:
    memory, launches = pickle.load(sys.stdin.buffer)
    # Other arrays are copied to and fro, which parts of one piece of memory do not survive.
    device_array = type(cuda.to_device(np.zeros(1)))
    for source, grid, block, words in launches:
        names = {**NAMES, "cuda": cuda, "math": math, "compare_and_swap": compare_and_swap}
        names["libdevice"] = LIBDEVICE
        (signature,) = DECORATOR.findall(source)
        exec(DECORATOR.sub("@cuda.jit", source), names)
        arguments = []
        for kind, word in zip(signature.split(", "), words, strict=True):
            if isinstance(word, tuple):
                number, offset = word
                dtype = np.dtype(kind.removeprefix("CPointer(").removesuffix(")"))
                elements = memory[number][offset:]
                elements = elements[: elements.size // dtype.itemsize * dtype.itemsize]
                word = device_array(elements.view(dtype))
            arguments.append(word)
        names["kernel"][grid, block](*arguments)
    pickle.dump(memory, sys.stdout.buffer)


if __name__ == "__main__":
    main()
