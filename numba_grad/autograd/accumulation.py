"""Adding to `.grad`, which other threads may do at the same time."""

from collections.abc import Sequence

from numba_grad.autograd.state import GradientState, accumulation_lock
from numba_grad.autograd.tensor_class import new_tensor
from numba_grad.autograd.views import assign
from numba_grad.compiler.evaluate import evaluate
from numba_grad.graph.node import OPS, Node, leaf


class GradientUpdate:
    """What one `.grad` becomes."""

    __slots__ = ("g", "keeps_node", "previous", "previous_node", "state", "total")

    def __init__(self, state: GradientState, g: Node, keeps_node: bool) -> None:
        self.state = state
        self.g = g
        self.keeps_node = keeps_node
        self.restart()

    def restart(self) -> None:
        """Add to what `.grad` is now."""
        self.previous = self.state.grad
        self.previous_node = None if self.previous is None else self.previous._node
        if self.previous_node is not None:
            self.total = OPS["add"](self.previous_node, self.g)
        else:
            self.total = OPS["identity"](self.g) if self.keeps_node else self.g

    def try_to_set(self) -> bool:
        """Set `.grad`, unless it is no longer what was added to.

        As in torch, that of a leaf stays the tensor that it was, with another value, unless one of
        the two has history: who holds it sees the sum, and so does an array that it is a view of.
        """
        previous = self.previous
        if self.state.grad is not previous:
            return False
        if previous is not None and previous._node is not self.previous_node:
            return False
        node = self.total if self.keeps_node else leaf(self.total.value)
        is_another = self.keeps_node or self.state.retains_grad
        if previous is None or is_another or previous._node.requires_grad:
            self.state.grad = new_tensor(node)
        else:
            assign(previous, node)
        return True


def set_gradients(updates: Sequence[GradientUpdate]) -> None:
    """Set `.grad`, of tensors that are computed, or have no values yet."""
    todo = list(updates)
    while todo:
        with accumulation_lock:
            # Another thread may have changed a `.grad` since it was read.
            todo = [u for u in todo if not u.try_to_set()]
        for update in todo:
            update.restart()
        if todo:
            evaluate([u.total for u in todo if not u.keeps_node], is_complete=True)
