"""The list of passes that all targets have, in order. A target may put others before them
(`cpu_target.py`, `cuda/target.py`)."""

from numba_grad.compiler.passes.later_reshapes import later_reshapes
from numba_grad.compiler.passes.mirrored_sums import mirrored_sums
from numba_grad.compiler.passes.short_scans import SCANS, short_scans
from numba_grad.compiler.passes.simplify import simplify
from numba_grad.compiler.passes.slices_of_parts import slices_of_parts
from numba_grad.compiler.passes.split_sums import split_sums
from numba_grad.compiler.passes.vector_products import vector_products
from numba_grad.compiler.target import GraphPass

PRODUCTS = frozenset(["matmul"])
_SUMS = PRODUCTS | {"sum"}  # which products of vectors become
PASSES = (
    # Before simplify: they repeat what is equal.
    GraphPass("short scans", short_scans, SCANS),
    GraphPass("slices of parts", slices_of_parts, frozenset(["slice"])),
    GraphPass("simplify", simplify),
    GraphPass("later reshapes", later_reshapes, frozenset(["reshape"])),
    GraphPass("vector products", vector_products, PRODUCTS),  # before passes that look for sums
    # After simplify: which values are equal shows there.
    GraphPass("mirrored sums", mirrored_sums, _SUMS),
    GraphPass("split sums", split_sums, _SUMS),
)
