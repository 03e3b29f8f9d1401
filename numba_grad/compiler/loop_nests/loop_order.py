"""In which order loops run, and which of them merge into one, by what a first pass saw."""

from dataclasses import dataclass, field

from numba_grad.compiler.loop_nests.fusion_groups import Group
from numba_grad.compiler.loop_nests.iteration_spaces import Index
from numba_grad.compiler.loop_nests.loop_cuts import Interval
from numba_grad.compiler.loop_nests.reductions import ARG_REDUCTIONS


@dataclass(slots=True)
class Survey:
    """What the first pass saw."""

    accesses: list[Index] = field(default_factory=list)
    conditions: list[Interval] = field(default_factory=list)
    irregular: set[str] = field(default_factory=set)  # variables used otherwise than in positions


def loop_order(
    group: Group, names: tuple[str, ...], reduced: tuple[str, ...], survey: Survey
) -> tuple[str, ...]:
    """Kept axes outside, reduced inside, unless memory is contiguous along a kept axis only."""
    kept = tuple(name for name in names if name not in reduced)
    if not reduced or not kept or any(node.op.name in ARG_REDUCTIONS for node in group.reduced):
        return kept + reduced
    strided = dict.fromkeys(names, 0)
    for access in survey.accesses:
        for name, factor in access.terms:
            if name in strided and not (factor.literal and abs(factor.value) <= 8):
                strided[name] += 1
    if strided[reduced[-1]] > strided[kept[-1]]:
        return kept[:-1] + reduced + kept[-1:]
    return kept + reduced


def mergeable_loops(
    order: tuple[str, ...], reduced: tuple[str, ...], extents: dict[str, int], survey: Survey
) -> list[tuple[str, str]]:
    """Pairs (outer, inner) of neighbouring loops that every access sees as one long axis."""
    result: list[tuple[str, str]] = []
    extents = dict(extents)
    accesses = [{name: f.value for name, f in access.terms} for access in survey.accesses]
    unmergeable = survey.irregular | {c.variable for c in survey.conditions}
    inner = order[-1] if order else ""
    for outer in reversed(order[:-1]):
        alike = (outer in reduced) == (inner in reduced)
        if (
            alike
            and outer not in unmergeable
            and inner not in unmergeable
            and all(a.get(outer, 0) == a.get(inner, 0) * extents[inner] for a in accesses)
        ):
            result.append((outer, inner))
            extents[inner] *= extents[outer]
        else:
            inner = outer
    return result
