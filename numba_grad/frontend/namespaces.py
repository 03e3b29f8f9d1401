"""`numba_grad.cuda`, `emath`, `fft`, `linalg`, `mpi`, ...: imported when asked for.

With the operations that only they have they are a sixth of the package, and most programs use one
of them or none.
"""

from types import ModuleType

from numba_grad.fresh_thread import imported

NAMESPACES = ("cuda", "emath", "fft", "linalg", "mpi", "random", "signal", "special")


def namespace(name: str) -> ModuleType:
    """One of `NAMESPACES`, as a module."""
    return imported(f"numba_grad.frontend.{name}")
