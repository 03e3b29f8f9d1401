"""What shares one loop nest."""

from dataclasses import dataclass, field

from numba_grad.graph.node import Node


@dataclass(slots=True)
class Group:
    """Nodes that share one loop nest: `stored` ones element by element, and `reduced` ones."""

    space: tuple[int, ...]  # extents of the loops
    reduced_axes: tuple[int, ...]  # which of them are reduced
    stored: list[Node] = field(default_factory=list)
    reduced: list[Node] = field(default_factory=list)
    # The one stored node is an assignment to a region of memory that holds the old value: the loops
    # run over the region.
    in_place: bool = False

    @property
    def roots(self) -> list[Node]:
        return self.stored + self.reduced
