"""The steps of all segments, one after the other, as the table and the words of a plan.

What is the same in all instances of a segment is written once, as a template: its words, in which
the places of memory are open.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numba_grad.compiler.steps.plan_memory import Instance, PlacesInArena, PlanMemory
from numba_grad.compiler.words import Errors, KernelAddress, OwnWord, Pointer, Symbol
from numba_grad.errors import InternalError
from numba_grad.runtime.plan import ErrorSite, PlanBuilder

if TYPE_CHECKING:
    from numba_grad.compiler.segment_program import SegmentProgram

_WHOLE = 1 << 62  # more bytes than any array has


def write_steps(
    builder: PlanBuilder,
    instances: Sequence[Instance],
    kernels: Mapping[str, Any],
    memory: PlanMemory,
    arena: PlacesInArena,
    *,
    has_accesses: bool,
) -> None:
    """`kernels`: by source; `has_accesses`: whether the plan says which bytes its steps read and
    write, as where steps may run side by side."""
    templates: dict[int, _Template] = {}
    for instance in instances:
        template = templates.get(id(instance.program))
        if template is None:
            template = _Template(instance.program, kernels, builder)
            templates[id(instance.program)] = template
        _append(builder, instance, template, memory, arena, has_accesses=has_accesses)


def _append(
    builder: PlanBuilder,
    instance: Instance,
    template: "_Template",
    memory: PlanMemory,
    arena: PlacesInArena,
    *,
    has_accesses: bool,
) -> None:
    offsets, sizes = arena.offsets, arena.sizes
    relocations = template.relocations.copy()
    accesses: list[tuple[int, int, int, int, bool]] = []
    for row, own in template.memory:
        key = memory.key_of(instance, own)
        kind = key[0]  # type: ignore[index]
        relocations[row, 2] += memory.first_byte(instance, own)
        if kind == "input":
            relocations[row, 1] = builder.input(key[1])  # type: ignore[index]
        elif kind == "output":
            relocations[row, 1] = builder.output(key[1])  # type: ignore[index]
        elif kind == "file":
            file = key[1]  # type: ignore[index]
            relocations[row, 1] = builder.file(file, file.nbytes, file.directory)
        else:
            relocations[row, 1] = builder.arena
            relocations[row, 2] += offsets[key]
        if has_accesses:
            step, is_written = template.uses[row]
            first = offsets.get(key, 0)
            end = first + sizes[key] if key in offsets else _WHOLE
            accesses.append((step, int(relocations[row, 1]), first, end, is_written))
    if accesses:
        builder.access(np.array(accesses, np.int64))
    builder.block(template.steps, template.words, relocations)


class _Template:
    """The words of a segment's steps, with the places of its memory left open."""

    def __init__(
        self, program: "SegmentProgram", kernels: Mapping[str, Any], builder: PlanBuilder
    ) -> None:
        steps: list[tuple[int, ...]] = []
        words: list[int] = []
        relocations: list[tuple[int, int, int]] = []
        self.memory: list[tuple[int, object]] = []
        # By relocation of memory: the step, and whether it may write there.
        self.uses: dict[int, tuple[int, bool]] = {}
        for number_of_step, step in enumerate(program.steps):
            kernel = step.control or builder.kernel(kernels[step.source])
            start = len(words)
            steps.append((kernel, start, *step.launch))
            for number_of_word, word in enumerate(step.words):
                match word:
                    case int():
                        words.append(word)
                        continue
                    case Errors():
                        relocations.append((len(words), builder.errors, 0))
                    case ErrorSite():
                        words.append(builder.site(word))
                        continue
                    case KernelAddress(source):
                        place = 8 * builder.kernel(kernels[source])
                        relocations.append((len(words), builder.functions, place))
                    case OwnWord(number):
                        # From the start of the block, which `PlanBuilder.block` adds.
                        relocations.append((len(words), builder.words, 8 * (start + number)))
                    case Symbol(name):
                        relocations.append((len(words), builder.symbol(name), 0))
                    case Pointer(memory, offset):
                        is_written = step.written is None or number_of_word in step.written
                        self.uses[len(relocations)] = (number_of_step, is_written)
                        self.memory.append((len(relocations), memory))
                        relocations.append((len(words), 0, offset))
                    case _:
                        raise InternalError(f"plan: no word for {word!r}")
                words.append(0)
        self.steps = np.array(steps, np.int64).reshape(-1, 4)
        self.words = np.array(words, np.int64)
        self.relocations = np.array(relocations, np.int64).reshape(-1, 3)
