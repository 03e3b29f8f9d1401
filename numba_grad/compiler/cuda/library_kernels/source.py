"""How the kernels of this package are written: their head, and how they are launched."""

from collections.abc import Sequence
from textwrap import indent

import numpy as np

THREADS = 256
WARP = 32
# A grid has no more blocks; each thread, or block, then has several tasks.
MOST_BLOCKS = 1 << 20


def kernel_source(
    parameters: Sequence[tuple[str, str]], body: str, functions: Sequence[str] = ()
) -> str:
    """The source of a kernel.

    Parameters
    ----------
    parameters : names, and "int64" or the dtype that a pointer points to
    body : its statements, not indented
    functions : texts of device functions, each after those it calls
    """
    types = [
        kind if kind == "int64" else f"CPointer({kind.removeprefix('*')})" for _, kind in parameters
    ]
    head = f'@cuda.jit("void({", ".join(types)})")\n'
    names = ", ".join(name for name, _ in parameters)
    definitions = "".join(text.rstrip("\n") + "\n\n\n" for text in functions)
    return f"{definitions}{head}def kernel({names}):\n{indent(body, '    ')}"


def pointer_to(name: str) -> str:
    """The kind of a parameter that points to elements of a dtype."""
    return f"*{name}"


def stored_name(dtype: np.dtype) -> str:
    """The dtype in memory: a bool is a byte."""
    return "uint8" if dtype == np.bool_ else dtype.name


def computed_name(dtype: np.dtype) -> str:
    """What elements are in registers: half precision is for memory only."""
    return "float32" if dtype == np.float16 else stored_name(dtype)


def zero(dtype: np.dtype, value: int = 0) -> str:
    """A literal of the dtype in registers."""
    name = computed_name(dtype)
    if dtype.kind == "c":
        part = "float32" if name == "complex64" else "float64"
        return f"complex({part}({float(value)}), {part}(0.0))"
    return f"{name}({float(value)})" if dtype.kind == "f" else f"{name}({value})"


def blocks_for(threads: int) -> int:
    """Blocks of a grid that has a thread for each task, if it can."""
    return min(-(-threads // THREADS), MOST_BLOCKS)


# A loop over tasks, one for each thread of the grid at a time; the rest of the text is its body.
EACH_TASK = """\
task = int64(cuda.blockIdx.x) * THREADS + int64(cuda.threadIdx.x)
while task < tasks:
{body}
    task += int64(cuda.gridDim.x) * THREADS
""".replace("THREADS", str(THREADS))


def each_task(body: str) -> str:
    """`body` for each `task` below the integer `tasks`, by single threads."""
    return EACH_TASK.replace("{body}", indent(body.rstrip("\n"), "    "))
