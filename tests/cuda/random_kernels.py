"""Kernels at random, without races: a thread writes to its own row, and adds to what is shared.

x[n], rows[n, 3]   read and written at the thread's own place
p[3], q[n]         read anywhere
index[n]           data
total[3]           added to, with atomics
"""

import random
from collections.abc import Callable
from typing import Any

PARAMETERS = ("x", "rows", "p", "q", "index", "total", "count")


class _Writer:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.names = ["v"]  # of floats
        self.loops: list[str] = []  # indices that are 0, 1 or 2
        self.depth = 2

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def small(self) -> str:
        return self.random.choice(["0", "1", "2", "index[i]", *self.loops * 2])

    def anywhere(self) -> str:
        return self.random.choice(["i", "i - 1", "(i + 1) % q.shape[0]", "0", self.small()])

    def atom(self) -> str:
        return self.random.choice(
            [
                *self.names,
                "x[i]",
                f"rows[i, {self.small()}]",
                f"p[{self.small()}]",
                f"q[{self.anywhere()}]",
                f"t[{self.small()}]",
                f"{self.random.uniform(0.2, 0.9):.2f}",
            ]
        )

    def value(self) -> str:
        a, b = self.atom(), self.atom()
        return self.random.choice(
            [
                f"{a} * {b}",
                f"math.sin({a}) - 0.5 * {b}",
                f"math.tanh({a} + {b})",
                f"0.7 * {a} + 0.1",
                f"bent({a}, {b})",
                f"({a} if {b} > 0.35 else 0.9 * {b})",
            ]
        )

    def statement(self) -> None:
        place = self.random.choice(["x[i]", f"rows[i, {self.small()}]", f"t[{self.small()}]"])
        kind = self.random.randrange(10)
        if kind < 3:
            self.line(f"{place} = {self.value()}")
        elif kind == 3:
            self.line(f"{place} += 0.5 * {self.value()}")
        elif kind == 4:
            name = self.random.choice([*self.names, f"w{len(self.names)}"])
            self.line(f"{name} = {self.value()}")
            if self.depth == 2 and name not in self.names:
                self.names.append(name)
        elif kind == 5:
            self.line(f"cuda.atomic.add(total, {self.small()}, {self.value()})")
        elif kind == 6 and self.depth < 5:
            self.nested(f"if {self.atom()} > 0.4:")
            if self.random.random() < 0.4:
                self.nested("else:")
        elif kind == 7 and self.depth < 4:
            index = f"k{len(self.loops)}_{len(self.lines)}"
            self.loops.append(index)
            span = self.random.choice(["3", "count", "2, -1, -1", "index[i], 3"])
            self.nested(f"for {index} in range({span}):", leaves=True)
            self.loops.remove(index)
        else:
            self.line(f"v = {self.value()}")

    def nested(self, head: str, *, leaves: bool = False) -> None:
        self.line(head)
        self.depth += 1
        for _ in range(self.random.randint(1, 3)):
            self.statement()
        if leaves and self.random.random() < 0.3:
            self.line(f"if {self.atom()} > 0.6:")
            self.line("    break")
        self.depth -= 1


_HEADS = (
    "    i = cuda.grid(1)\n    if i < x.shape[0]:\n",
    "    i = cuda.blockDim.x * cuda.blockIdx.x + cuda.threadIdx.x\n    if i < x.shape[0]:\n",
    "    for i in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)):\n",
    "    i = cuda.grid(1)\n    while i < x.shape[0]:\n",
)


def random_kernel(seed: int) -> tuple[str, Callable[..., Any]]:
    """The text of a kernel of `PARAMETERS`, and the kernel."""
    writer = _Writer(seed)
    for _ in range(writer.random.randint(3, 8)):
        writer.statement()
    head = writer.random.choice(_HEADS)
    text = (
        "import math\n\nfrom numba import cuda, float64\n\n\n"
        "@cuda.jit(device=True)\ndef bent(a, b):\n"
        "    if a > b:\n        return a * a\n    return 0.5 * a * b\n\n\n"
        f"def kernel({', '.join(PARAMETERS)}):\n{head}"
        "        t = cuda.local.array(3, float64)\n"
        "        for k in range(3):\n            t[k] = 0.3 * p[k] + x[i]\n"
        "        v = 0.8 * x[i]\n"
        + "\n".join(writer.lines)
        + "\n        x[i] = x[i] * v + 0.1 * t[0] * rows[i, 0]\n"
        + ("        i += cuda.gridsize(1)\n" if "while" in head else "")
    )
    namespace: dict[str, Any] = {"__name__": f"random_kernel_{seed}"}
    exec(compile(text, f"<random kernel {seed}>", "exec"), namespace)
    return text, namespace["kernel"]
