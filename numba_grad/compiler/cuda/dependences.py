"""Which loops a value depends on: that says whether threads can share it."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from numba_grad.compiler.loop_nests.iteration_spaces import Index
from numba_grad.compiler.loop_nests.kernel_ir import (
    Apply,
    Expression,
    IndexValue,
    Let,
    Load,
    LoopNest,
    Variant,
)


def names_in(expression: Expression) -> list[str]:
    """Values, loop variables and words that an expression uses."""
    match expression:
        case Load(_, index) | IndexValue(index):
            return names_in_index(index)
        case Apply(_, operands, _, _):
            return [name for _, name in operands]
    return []


def names_in_index(index: Index) -> list[str]:
    """The names that an index is added up from."""
    return [name for text, _ in index.terms for name in text.split(" * ")]


@dataclass(slots=True)
class ReductionLets:
    """The lets of a way through a reduction, by what they depend on."""

    of_results: list[Let] = field(default_factory=list)  # on kept loops only
    of_reduced: list[Let] = field(default_factory=list)  # on reduced loops only
    of_points: list[Let] = field(default_factory=list)  # on both

    @property
    def loads_of_points(self) -> bool:
        """Whether each result reads elements of its own for each point."""
        return any(isinstance(let.expression, Load) for let in self.of_points)

    @property
    def loads_of_reduced(self) -> bool:
        """Whether all results read the same elements."""
        return any(isinstance(let.expression, Load) for let in self.of_reduced)


def reduction_lets(kernel: LoopNest, variant: Variant) -> ReductionLets:
    """Sort the lets of `variant`; those of its pieces, too, if there is one piece only."""
    kept = {axis.variable for axis in kernel.kept}
    reduced = {axis.variable for axis in kernel.reduced}
    loops: dict[str, frozenset[str]] = {name: frozenset((name,)) for name in kept | reduced}
    result = ReductionLets()
    lets = [let for level in variant.lets[1:] for let in level]
    for piece in variant.pieces:
        lets += piece.body.lets
    movable = {let.name for level in variant.lets[1:] for let in level}
    if len(variant.pieces) == 1:
        movable.update(let.name for let in variant.pieces[0].body.lets)
    for let in lets:
        used = frozenset().union(*(loops.get(n, frozenset()) for n in names_in(let.expression)))
        loops[let.name] = used
        if let.name not in movable:
            continue
        if used <= kept:
            result.of_results.append(let)
        elif used <= reduced:
            result.of_reduced.append(let)
        else:
            result.of_points.append(let)
    return result


def used_by(lets: Iterable[Let], variant: Variant) -> set[str]:
    """What these lets use, and updates and stores of the variant's pieces."""
    used = {name for let in lets for name in names_in(let.expression)}
    for piece in variant.pieces:
        for update in piece.body.updates:
            used.update(names_in(update.expression))
        for store in piece.body.stores:
            used.update([store.value, *names_in_index(store.position)])
    return used
