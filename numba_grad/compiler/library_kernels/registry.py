"""Which kernel computes an operation, and from what of it: said beside each kernel, by `lowers`."""

from collections.abc import Callable, Mapping
from dataclasses import field

from numba_grad.compiler.library_kernels.calls import LibraryCall
from numba_grad.graph.node import Node
from numba_grad.immutable import immutable

# Of sizes and dtypes. Each kind of device may have its own, of the same parameters.
LibraryKernel = Callable[..., LibraryCall]
CallOfKernel = Callable[[LibraryKernel, Node], LibraryCall]


@immutable
class Translated:
    """That GPUs have the kernel, too, where it calls no library: a thread does a task of the CPU's,
    whose text is translated (`compiler/cuda/library_kernels/translation.py`)."""

    with_params: Mapping[str, object] = field(default_factory=dict)  # for which tasks are small
    is_of_stacks: bool = False  # whether `lapack.stack_call` made it: a task is some matrices


BY_TASK = Translated()
BY_MATRIX = Translated(is_of_stacks=True)


@immutable
class Lowering:
    """How an operation becomes the call of a kernel."""

    kernel: LibraryKernel  # of the CPU
    call_of: CallOfKernel
    operations: Callable[[Node], int]  # roughly, what it computes, for profiles
    is_in_place: bool  # whether the result may go to the memory of the first input
    on_gpus: Translated | None  # None: where GPUs have it, that is said beside their kernel


LOWERINGS: dict[str, Lowering] = {}


def one_for_each_element(node: Node) -> int:
    return node.type.size


def lowers(
    *names: str,
    by: LibraryKernel,
    operations: Callable[[Node], int] = one_for_each_element,
    in_place: bool = False,
    on_gpus: Translated | None = None,
) -> Callable[[CallOfKernel], CallOfKernel]:
    """A decorator for what calls a kernel, `by` or another device's, with the sizes of a node.

    Parameters
    ----------
    names : of the operations
    operations : roughly, the additions and multiplications for a node, for profiles
    in_place : whether the kernel takes `in_place=`, and then finds the first input in its result
    on_gpus : that a thread can do a task of the kernel as it is written. Kernels for GPUs alone say
        which of the CPU's they stand for (`stands_for`); an operation with neither is refused there
    """

    def register(call_of: CallOfKernel) -> CallOfKernel:
        for name in names:
            LOWERINGS[name] = Lowering(by, call_of, operations, in_place, on_gpus)
        return call_of

    return register
