"""What operations are to memory: which are computed into it, and which are other names, views or
parts of what is there."""

from numba_grad.graph.node import Node

# Never a step of their own: who reads them computes them at the place of use.
FREE_FAMILIES = ("movement", "literal", "iota")
# What a loop nest computes element by element, without a sum.
INLINE_FAMILIES = ("elementwise", *FREE_FAMILIES)
# The value of their input.
RENAMINGS = ("detach", "identity", "named", "to_device")
# The value of one of their inputs. A call is computed as its items, all by one segment.
ALIASES = (*RENAMINGS, "item", "custom", "pack")
# Of the family of movements, but a chain of them would be computed again, from its start, in each
# segment that reads it.
ASSIGNMENTS = ("update_slice", "add_slice")
# These cut loops into pieces, each with a body of its own.
CONDITIONAL = ("pad", "concatenate", *ASSIGNMENTS)
# What changes a part of an array.
WRITES = (*ASSIGNMENTS, "scatter_set", "scatter_add")
# What is computed to the memory of an array that is not needed afterwards: a product may be added
# to a sum.
OVERWRITES = (*WRITES, "matmul_add")
# Movements that may leave the elements of an array where they are, in their order.
VIEWS = ("slice", "reshape")
# What has no memory of its own in NumPy: movements which read an array in another order.
REARRANGEMENTS = (*VIEWS, "transpose", "flip", "broadcast_to")
# Of one array in a stack that is never stored, at most, see `parts_of_stacks.py`.
MOST_WINDOWS = 64


def is_library(node: Node) -> bool:
    """Whether a kernel of its own computes this, of operands in memory, rather than a loop nest."""
    family = node.op.family
    return family not in (*INLINE_FAMILIES, "reduction", "leaf") and node.op.name != "gather"
