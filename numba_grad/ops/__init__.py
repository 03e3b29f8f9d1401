"""The primitives: one record each, nothing about them elsewhere. Start with `families.py`.

A module of records is imported by the functions that use it, so some only with `numba_grad.linalg`
and the like.
"""

from numba_grad.fresh_thread import imported
from numba_grad.graph.node import OPS, Op


def all_ops() -> dict[str, Op]:
    """Every primitive by its name, whether anything has used it yet or not."""
    import pkgutil

    for module in pkgutil.iter_modules(__path__):
        imported(f"{__name__}.{module.name}")
    return OPS
