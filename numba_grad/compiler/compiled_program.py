"""What compiling a graph gives, and what it is compiled for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from numba_grad.immutable import NamedTuple
from numba_grad.runtime.plan import Plan

if TYPE_CHECKING:
    from numba_grad.compiler.segment_program import SegmentProgram
    from numba_grad.compiler.target import Target


@dataclass(slots=True, eq=False)
class CompiledProgram:
    """A plan, and how it came about; nothing is known of that where the plan was on disk."""

    plan: Plan
    segments: "list[SegmentProgram] | None" = None  # in order of the plan, repeated ones repeated
    kernels: dict[str, Any] = field(default_factory=dict)  # by source
    # That steps of loops compute which can share kernels, as those for `later` do.
    joined_elements: int = 0


class Destination(NamedTuple):
    """What graphs are compiled for, before any is lowered."""

    name: str  # "cpu", "cuda sm_90": part of the key of whatever is compiled
    target: "Callable[[], Target]"  # how to lower for it
    # Keys to loaded kernels; raises KernelError if the disk lacks one. None: plans are not kept on
    # disk.
    stored: Callable[[Sequence[str]], list[Any]] | None = None
    later: "Destination | None" = None  # of programs that are run often
