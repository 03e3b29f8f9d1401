"""Is a graph well formed? Run after each compiler pass in tests (`config.check_passes`)."""

from collections.abc import Sequence

from numba_grad.errors import InternalError
from numba_grad.graph.node import Node
from numba_grad.graph.walk import toposort


def check(name: str, before: Sequence[Node], after: Sequence[Node]) -> None:
    """Raise InternalError, naming the pass, unless results kept their types and every node has the
    type its op infers."""
    if len(before) != len(after):
        raise InternalError(f"pass {name}: {len(before)} results became {len(after)}")
    for old, new in zip(before, after, strict=True):
        if old.type != new.type:
            raise InternalError(f"pass {name}: a result of type {old.type} became {new.type}")
    for node in toposort(after):
        if node.op.family == "leaf":
            continue
        inferred = node.op.infer(*[x.type for x in node.inputs], **node.params)
        if inferred != node.type:
            raise InternalError(f"pass {name}: {node} where {node.op.name} infers {inferred}")
