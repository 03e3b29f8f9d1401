"""Where the ways between blocks lead, and where they meet."""

# Numba's annotations are few, and wrong where they come from class attributes set at run time.
# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

from dataclasses import dataclass, field
from typing import Any

from numba.core import ir
from numba.core.analysis import compute_cfg_from_blocks

from numba_grad.compiler.numba_functions.numba_ir.meanings import Elements
from numba_grad.compiler.numba_functions.numba_ir.refusals import refused
from numba_grad.compiler.numba_functions.numba_ir.typed_code import TypedCode
from numba_grad.compiler.numba_functions.regions import Allocate, Memory, Scalar, Statement

RAISES = ir.Raise | ir.StaticRaise | ir.DynamicRaise


@dataclass(slots=True)
class Loop:
    """A loop of the control flow graph while its body is translated."""

    blocks: set[int]
    header: int
    leave: Memory | None = None
    exit: Memory | None = None  # which of `targets` comes after it
    targets: list[int] = field(default_factory=list)
    iterator: Elements | None = None  # None: of a `while` loop
    index: Scalar | None = None  # of a loop over a range, the number that it is at


@dataclass(slots=True)
class ListRoom:
    """Of a list, where it is made."""

    statement: Allocate
    region: list[Statement]  # that it is in
    visible: frozenset[Scalar]
    loops: tuple[Loop, ...]  # around it
    depth: int  # of scopes
    is_certain: bool = True  # all of it is used, once the loops have been gone through


class Ways:
    """Of the control flow graph of a function."""

    def __init__(self, code: TypedCode) -> None:
        self.blocks = code.blocks
        self.graph = compute_cfg_from_blocks(code.blocks)
        self.loops = self.graph.loops()
        self.raising = self._blocks_that_raise()
        self._immediate: dict[int, dict[int, frozenset[int]]] = {}

    def _blocks_that_raise(self) -> frozenset[int]:
        """The blocks from which all ways end in an exception: nothing comes after them."""
        found: set[int] = set()
        while True:
            size = len(found)
            for label, block in self.blocks.items():
                targets = [target for target, _ in self.graph.successors(label)]
                raises = isinstance(block.body[-1], RAISES)
                if raises or (targets and found.issuperset(targets)):
                    found.add(label)
            if size == len(found):
                return frozenset(found)

    def successors(self, label: int, loop: Loop | None) -> list[int]:
        """Where the ways lead from a block, an inner loop being one block; -1 where they leave."""
        inner = self.inner_loop(label, loop)
        blocks = inner.body if inner is not None else {label}
        found = []
        for block in sorted(blocks):
            for target, _ in self.graph.successors(block):
                if inner is not None and target in inner.body:
                    continue
                if target in self.raising and label not in self.raising:
                    continue
                outside = loop is not None and (target not in loop.blocks or target == loop.header)
                found.append(-1 if outside else target)
        return list(dict.fromkeys(found)) or [-1]

    def inner_loop(self, label: int, loop: Loop | None) -> Any:
        if loop is not None and label == loop.header:
            return None
        return self.loops.get(label)

    def _meets(self, label: int, loop: Loop | None) -> frozenset[int]:
        """The blocks that all ways from a block lead through, itself among them."""
        known = self._immediate.setdefault(-1 if loop is None else loop.header, {-1: frozenset()})
        stack = [label]
        while stack:
            block = stack[-1]
            if block in known:
                stack.pop()
                continue
            targets = self.successors(block, loop)
            missing = [t for t in targets if t not in known]
            if missing:
                if len(stack) > len(self.blocks) + 1:
                    raise refused(self.blocks[label].loc, "a loop that is entered in two places")
                stack += missing
                continue
            common = frozenset.intersection(*[known[t] for t in targets])
            known[block] = common | {block}
            stack.pop()
        return known[label]

    def join(self, targets: list[int], loop: Loop | None) -> int | None:
        """Where the ways from these blocks meet first."""
        sets = [self._meets(t, loop) if t != -1 else frozenset() for t in targets]
        common = frozenset.intersection(*sets)
        return max(common, key=lambda block: len(self._meets(block, loop)), default=None)
