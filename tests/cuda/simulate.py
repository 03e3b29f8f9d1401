"""Runs kernels in Numba's simulator, which must be chosen before Numba is imported: a process.

Reads a pickled list of (source, grid, block, arguments) and writes the arguments back, as kernels
leave them. The simulator knows arrays instead of pointers, and neither shuffles nor libdevice.
"""

import math
import pickle
import sys

import numpy as np
from numba import cuda

NAMES = {name: getattr(np, name) for name in ("int8", "int32", "int64", "uint8", "uint32")}
NAMES |= {name: getattr(np, name) for name in ("float32", "float64", "inf", "nan")}


def main() -> None:
    launches = pickle.load(sys.stdin.buffer)
    for source, grid, block, arguments in launches:
        names = {**NAMES, "cuda": cuda, "math": math}
        source = source.replace(source[: source.index("\n")], "@cuda.jit")
        exec(source, names)
        names["kernel"][grid, block](*arguments)
    pickle.dump([arguments for *_, arguments in launches], sys.stdout.buffer)


if __name__ == "__main__":
    main()
