"""BLAS and LAPACK entry points by address, as the symbols of plans."""

from collections.abc import Sequence
from numba_grad.runtime.threads import Threads


def symbol_address(name: str) -> int:
    raise NotImplementedError


def prepare_threads(threads: Threads, symbols: Sequence[str]) -> bool:
    return False
