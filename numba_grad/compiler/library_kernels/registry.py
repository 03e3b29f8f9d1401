"""Which kernel computes an operation, and from what of it: said beside each kernel, by `lowers`."""

from collections.abc import Callable
from dataclasses import dataclass

from numba_grad.compiler.library_kernels.calls import LibraryCall
from numba_grad.graph.node import Node

# Of sizes and dtypes. Each kind of device may have its own, of the same name and parameters.
Kernel = Callable[..., LibraryCall]


@dataclass(frozen=True, slots=True)
class Lowering:
    """How an operation becomes the call of a kernel."""

    kernel: str
    call_of: Callable[[Kernel, Node], LibraryCall]
    operations: Callable[[Node], int]  # roughly, what it computes, for profiles
    is_in_place: bool  # whether the result may go to the memory of the first input


LOWERINGS: dict[str, Lowering] = {}


def one_for_each_element(node: Node) -> int:
    return node.type.size


def lowers(
    *names: str,
    by: Kernel,
    operations: Callable[[Node], int] = one_for_each_element,
    in_place: bool = False,
) -> Callable[[Callable[[Kernel, Node], LibraryCall]], Callable[[Kernel, Node], LibraryCall]]:
    """A decorator for what calls a kernel, `by` or another device's, with the sizes of a node.

    Parameters
    ----------
    names : of the operations
    operations : roughly, the additions and multiplications for a node, for profiles
    in_place : whether the kernel takes `in_place=`, and then finds the first input in its result
    """

    def register(
        call_of: Callable[[Kernel, Node], LibraryCall],
    ) -> Callable[[Kernel, Node], LibraryCall]:
        for name in names:
            LOWERINGS[name] = Lowering(by.__name__, call_of, operations, in_place)
        return call_of

    return register
