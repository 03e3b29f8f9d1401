"""Where in a plan the memory of its segments is.

A segment knows its memory by what that is for (`segment_memory.py`). In a plan the same memory has
a key, whoever uses it: an input or an output, an assembly, a file, or something of one instance of
a segment, which has its place in the arena.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from numba_grad.compiler.partition.flat_graph import FlatGraph
from numba_grad.compiler.segment_memory import External, FileMemory, Output, Small, Temporary
from numba_grad.compiler.steps.allocation import Lifetimes
from numba_grad.errors import InternalError
from numba_grad.immutable import NamedTuple, immutable

if TYPE_CHECKING:
    from numba_grad.compiler.segment_program import SegmentProgram


@dataclass(slots=True, eq=False)
class Instance:
    """One occurrence of a segment in a plan."""

    program: "SegmentProgram"
    externals: list[tuple[object, int]]  # for each pointer the memory, and from which byte on
    results: list[int]  # positions of what others need
    # Of several occurrences whose steps are done by turns: these. The words of its steps point to
    # memory `Of` them.
    members: "list[Instance]" = field(default_factory=list)


@immutable
class Of:
    """Memory of the member with this number."""

    member: int
    memory: Any


class PlacesInArena(NamedTuple):
    """Where the plan's own memory is: by its key where it begins, and how many bytes it has."""

    offsets: dict[object, int]
    nbytes: int
    sizes: dict[object, int]


class PlanMemory:
    """Gives the memory of instances its keys."""

    def __init__(self, graph: FlatGraph, output_number: Mapping[int, int]) -> None:
        """`output_number`: by position in the graph, which output a value is."""
        self.graph = graph
        self.output_number = output_number

    def key_of(self, instance: Instance, memory: object) -> object:
        """The program-wide name of a segment's memory."""
        match memory:
            case Of(member, own):
                return self.key_of(instance.members[member], own)
            case External(number):
                return instance.externals[number][0]
            case Output(number):
                k = instance.results[number]
                if k in self.graph.places:
                    return self.assembly_key(self.graph.places[k][0])
                output = self.output_number.get(k)
                if output is not None:
                    return ("output", output)
                return (id(instance), number)
            case Small(dtype):
                return (id(instance), dtype)
            case Temporary(number):
                return (id(instance), "temporary", number)
            case FileMemory():
                return ("file", memory)
        raise InternalError(f"plan: no memory called {memory!r}")

    def assembly_key(self, k: int) -> object:
        output = self.output_number.get(k)
        return ("assembly", k) if output is None else ("output", output)

    def first_byte(self, instance: Instance, memory: object) -> int:
        """Where in its memory a segment's memory begins."""
        match memory:
            case Of(member, own):
                return self.first_byte(instance.members[member], own)
            case External(number):
                return instance.externals[number][1]
            case Output(number) if instance.results[number] in self.graph.places:
                k = instance.results[number]
                return self.graph.places[k][1] * self.graph.nodes[k].type.dtype.itemsize
        return 0

    def lifetimes(self, instances: Sequence[Instance]) -> tuple[Lifetimes, dict[object, int]]:
        """When the plan's own memory is used, and bytes of each."""
        lifetimes = Lifetimes()
        number = 0
        sizes = {
            self.assembly_key(k): self.graph.nodes[k].type.nbytes for k in self.graph.assemblies
        }
        for instance in instances:
            for member in instance.members or [instance]:
                program = member.program
                for dtype, count in program.small.items():
                    sizes[id(member), dtype] = count * dtype.itemsize
                for number_of_result, k in enumerate(member.results):
                    sizes[id(member), number_of_result] = self.graph.nodes[k].type.nbytes
                for k, nbytes in enumerate(program.temporaries):
                    sizes[id(member), "temporary", k] = nbytes
            for step in instance.program.steps:
                for memory in step.memory:
                    key = self.key_of(instance, memory)
                    if isinstance(key, tuple) and key[0] not in ("input", "output", "file"):
                        lifetimes.use(key, number, sizes)
                number += 1
        return lifetimes, sizes

    def arena(self, instances: Sequence[Instance]) -> PlacesInArena:
        lifetimes, sizes = self.lifetimes(instances)
        return PlacesInArena(*lifetimes.allocate(), sizes)
