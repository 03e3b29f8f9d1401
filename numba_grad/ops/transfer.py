"""Moving an array to another device, and its cotangent back.

What is made of literals alone is not moved: it is computed where it is needed.
"""

from numba_grad.graph.node import Node
from numba_grad.graph.placement import is_made_of_literals
from numba_grad.graph.types import Type
from numba_grad.ops.families import placed, structural


def _infer(x: Type, *, device: str) -> Type:
    return x.on(device)


to_device = structural(
    "to_device",
    family="transfer",
    infer=_infer,
    reference=lambda x, *, device: x,
    vjp=(lambda g, out, x, *, device: placed(g, x.type.device),),
    batch=lambda is_batched, x, *, device: placed(x, device),
    example=lambda rng: [((rng.standard_normal((3, 4)),), {"device": "cpu"})],
    jvp=lambda tangents, out, x, *, device: placed(tangents[0], device),
)


def is_move(node: Node) -> bool:
    """Whether this copies an array from one device to another: what is made of literals is computed
    on the device that it is for."""
    if node.op is not to_device or node.value is not None:
        return False
    x = node.inputs[0]
    return x.type.device != node.type.device and not is_made_of_literals(x)
