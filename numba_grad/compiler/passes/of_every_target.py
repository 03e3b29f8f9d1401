"""The passes that all targets have, in order. A target may put others before them."""

from numba_grad.compiler.passes.mirrored_sums import mirrored_sums
from numba_grad.compiler.passes.simplify import simplify
from numba_grad.compiler.passes.slices_of_parts import slices_of_parts
from numba_grad.compiler.passes.split_sums import split_sums
from numba_grad.compiler.passes.vector_products import vector_products
from numba_grad.compiler.target import Pass

PASSES: tuple[tuple[str, Pass], ...] = (
    ("slices of parts", slices_of_parts),  # before simplify: it repeats what is equal
    ("simplify", simplify),
    ("vector products", vector_products),  # before passes that look for sums
    ("mirrored sums", mirrored_sums),  # after simplify: which values are equal shows there
    ("split sums", split_sums),
)
