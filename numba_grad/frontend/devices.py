"""`device=` of public functions, as the name of a device."""

from numba_grad.frontend.namespaces import namespace
from numba_grad.graph.node import Node
from numba_grad.graph.types import CPU
from numba_grad.ops.families import placed


def device_name(device: object) -> str:
    """ "cpu" for that or None; else "cuda:0" and the like, a device that exists.

    Raises
    ------
    DeviceError
        If it is none.
    CudaUnavailableError
        If it is a GPU, and there is none that can be used.
    """
    if device is None or device == CPU:
        return CPU
    return namespace("cuda").device_name(device)


def on_device(node: Node, device: object) -> Node:
    """`node` on a device; where it is, if that is None."""
    return node if device is None else placed(node, device_name(device))
