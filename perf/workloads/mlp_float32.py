"""The network of `mlp.py` in single precision."""

from perf.workloads.mlp import GOALS, IMPLEMENTATIONS, SIZES, TITLE, Size

__all__ = ["GOALS", "IMPLEMENTATIONS"]

TITLE = f"{TITLE}, float32"
SIZES = {name: Size(batch=size.batch, bits=32) for name, size in SIZES.items()}
TOLERANCE = 1e-4  # sums of 784 products, each library in its own order
