"""Functions in generated source that neither Python nor NumPy has: compiled code takes those of the
kernel language (`array_lowering.py`)."""

from numba_grad.fresh_thread import imported


def digamma(x: float) -> float:
    """The derivative of the logarithm of the gamma function."""
    return float(imported("scipy.special").psi(x))


def trigamma(x: float) -> float:
    """The derivative of digamma."""
    return float(imported("scipy.special").polygamma(1, x))


def zeta(x: float, q: float) -> float:
    """Hurwitz's zeta function."""
    return float(imported("scipy.special").zeta(x, q))
