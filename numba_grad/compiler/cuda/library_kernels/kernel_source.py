"""How the kernels of this package are written: their head, and how they are launched."""

from collections.abc import Sequence
from textwrap import indent

import numpy as np

from numba_grad.dtypes import computed_in, is_floating

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
    """What elements are in registers."""
    return stored_name(computed_in(dtype))


def zero(dtype: np.dtype, value: int = 0) -> str:
    """A literal of the dtype in registers."""
    name = computed_name(dtype)
    if dtype.kind == "c":
        part = "float32" if name == "complex64" else "float64"
        return f"complex({part}({float(value)}), {part}(0.0))"
    return f"{name}({float(value)})" if is_floating(dtype) else f"{name}({value})"


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


def copy_source(itemsize: int) -> str:
    """A copy. Words: from, to, how many elements of that size."""
    # As integers, so that NaN payloads are kept and half precision is not converted.
    names = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64", 16: "complex128"}
    pointer = pointer_to(names[itemsize])
    return kernel_source(
        [("x", pointer), ("out", pointer), ("tasks", "int64")],
        each_task("out[task] = x[task]\n"),
    )


def indented(text: str, depth: int) -> str:
    return "".join(f"{'    ' * depth}{line}\n" for line in text.splitlines())


# Stacks of matrices


def merged_axes(words: list[int]) -> list[tuple[int, int, int]]:
    """The stack of `words_of_stack` with as few axes as can be: size and strides in x and y."""
    axes: list[tuple[int, int, int]] = []
    for place in range(words[0]):
        size, x_stride, y_stride = words[1 + 3 * place : 4 + 3 * place]
        if size == 1:
            continue
        if axes and axes[-1][1:] == (size * x_stride, size * y_stride):
            size *= axes.pop()[0]
        axes.append((size, x_stride, y_stride))
    return axes


def walk_of_stack(rank: int) -> tuple[str, list[str]]:
    """Where `matrix` of a stack starts in two operands, `x_start` and `y_start`; and the integers
    that say so, for each axis its size and strides."""
    names = [f"{name}{axis}" for axis in range(rank) for name in ("size", "x_stride", "y_stride")]
    lines = ["rest = matrix", "x_start = int64(0)", "y_start = int64(0)"]
    for axis in reversed(range(rank)):
        along = "rest" if axis == 0 else f"(rest % size{axis})"
        lines += [f"x_start += {along} * x_stride{axis}", f"y_start += {along} * y_stride{axis}"]
        if axis:
            lines.append(f"rest = rest // size{axis}")
    return "\n".join(lines) + "\n", names
