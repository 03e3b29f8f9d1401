"""What differs between the kinds of devices that a graph is compiled for. Everything else of the
compiler is the same for all of them."""

import enum
from collections.abc import Callable, Sequence
from typing import Any

from numba_grad.compiler.fusion.costs import Costs
from numba_grad.compiler.loop_nests.kernel_ir import LoopNest
from numba_grad.compiler.loop_nests.point_loops import KernelOfLoop, PointLoop
from numba_grad.graph.node import Node
from numba_grad.immutable import immutable


@immutable
class GraphPass:
    """An exact rewriting of the graph of a segment."""

    name: str
    rewritten: Callable[[list[Node]], list[Node]]
    # Operations of which a graph has one if the pass changes it: each looks for another few, and
    # to go through the graph for each takes as long as to simplify it. None: of any.
    operations: frozenset[str] | None = None


class HostCopy(enum.IntFlag):
    """What a call of the host does with memory of the device, of which it gets a copy."""

    SCRATCH = 0
    READ = 1
    WRITTEN = 2
    KEPT = 4  # the copy stays when the call is over: a message is under way
    FOUND = 8  # it is the copy that was kept
    MPI = 16  # only MPI touches it
    END = 32


@immutable
class HostSteps:
    """Where the host walks the rows that say which step comes next (`runtime/plan.py`), away from
    the memory of kernels: what it does itself, as texts of steps."""

    kernel: Callable[[str], str]  # of the source of a small kernel, over memory of the host
    number: str  # copies an int64 from the device. Words: from, to
    # Of the source of a kernel of the processor, over copies of memory of the device. Words: its
    # own, then for each of them 0, or what `copied` says of (bytes, use).
    call: Callable[[str], str]

    @staticmethod
    def copied(nbytes: int, use: HostCopy) -> int:
        return nbytes * HostCopy.END + use


@immutable
class Target:
    """How loop nests and library calls become steps of a plan, and steps become code."""

    name: str  # "cpu", "cuda sm_90": part of the key of whatever is compiled
    passes: tuple[GraphPass, ...]  # over the graph of a segment, in order
    costs: Costs  # by which it is decided what is stored
    # (kept results, elements that each sums up, extent of the outermost of these loops, whether
    # the innermost loop runs over results) -> parts that a reduction is cut into: a function of
    # sizes alone, so that results do not depend on threads
    reduction_blocks: Callable[[int, int, int, bool], int]
    # (kernel, where its partial results are) -> step
    kernel_step: Callable[[LoopNest, dict[object, Any]], Any]
    # (node, places, temporary, whether in place) -> steps of an operation that is no loop nest
    library_steps: Callable[..., list[Any]]
    # (steps with their kernels, bytes of a memory) -> steps
    join: Callable[[list[Any], Callable[[Any], int | None]], list[Any]]
    copy_step: Callable[[int, int], Any]  # (bytes of an element, bytes) -> step: from, to
    build: Callable[[Sequence[str]], list[Any]]  # sources to loaded kernels
    prepare: Callable[[int], None]  # have the memory made that a plan will need, while it is built
    has_branches: bool  # whether independent steps of a plan run beside each other
    joins_outputs: bool  # whether outputs of a plan may be parts of one array
    adds_products: bool  # whether the library's matrix product can add to a sum
    joins_steps: bool  # whether several steps of a loop may share a kernel
    # All steps of a loop as one kernel, of one whose points never meet; None: not on this device
    point_loop: Callable[[PointLoop], KernelOfLoop] | None
    host: HostSteps | None  # None: kernels and rows that choose among steps share memory
