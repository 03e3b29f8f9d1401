"""What a translation finds out, and begins again with; copies that nobody may write to."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from numba_grad.compiler.numba_functions.analyses import swapped_together
from numba_grad.compiler.numba_functions.numba_ir.refusals import refused
from numba_grad.compiler.numba_functions.regions import (
    Allocate,
    For,
    Load,
    Memory,
    Statement,
    Store,
    While,
    nested,
    walk,
)
from numba_grad.immutable import immutable


class Again(Exception):
    """Something was found out, and is in `Findings`, that the text so far took no account of."""


@immutable
class Shared:
    """An array that was copied where Python has one array with two names."""

    copy: Memory
    source: Memory
    statement: Statement
    location: Any
    is_moved: bool  # the source's own name is given another array at once


@dataclass(slots=True)
class Findings:
    """What is known of all functions before they are translated. Variables are named by the
    function and their name in it."""

    variables: set[tuple[Any, str]] = field(default_factory=set)  # that are to be memories
    # Arrays that have memory of their own, to which other arrays are copied that they are assigned;
    # and those of them whose memory is made where the function begins.
    assigned: set[tuple[Any, str]] = field(default_factory=set)
    early: set[tuple[Any, str]] = field(default_factory=set)
    typed: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    # Of one translation: what was copied, and the `id`s of the statements that did.
    shared: list[Shared] = field(default_factory=list)
    copies: set[int] = field(default_factory=set)


def check_copies(body: list[Statement], findings: Findings, parameters: Sequence[Memory]) -> None:
    """Refuse writing to elements of what Python has one array for, and the tree two."""
    places: dict[int, tuple[int, tuple[int, ...]]] = {}  # of statements, with the loops around them
    depths: dict[Memory, int] = {}  # of the places where arrays are made
    uses: list[Load | Store] = []

    def visit(statements: list[Statement], loops: tuple[int, ...]) -> None:
        for s in statements:
            places[id(s)] = len(places), loops
            if isinstance(s, Allocate):
                depths[s.memory] = len(loops)
            elif isinstance(s, Load | Store) and s.memory.rank:
                uses.append(s)
            inner = (*loops, id(s)) if isinstance(s, For | While) else loops
            for region in nested(s):
                visit(region, inner)

    visit(body, ())
    groups = swapped_together(body)
    for shared in findings.shared:
        if shared.is_moved:
            continue
        place, loops = places[id(shared.statement)]
        own = {id(s) for s in walk([shared.statement])}
        depth = depths.get(shared.source, 0)
        later = []
        for s in uses:
            other, around = places[id(s)]
            # In a loop that is inside of the one where the source is made, what stands before comes
            # after it, too.
            common = sum(a == b for a, b in zip(loops, around, strict=False))
            if id(s) not in own and (other > place or common > depth):
                later.append(s)
        same = groups.get(shared.source, frozenset([shared.source]))
        if shared.source not in parameters and not any(s.memory in same for s in later):
            continue
        size = 0
        while size != len(same):
            size = len(same)
            same |= {s.copy for s in findings.shared if s.source in same}
            same |= {name for memory in same for name in groups.get(memory, ())}
        for s in later:
            if isinstance(s, Store) and s.memory in same and id(s) not in findings.copies:
                raise refused(
                    shared.location,
                    "an array that gets a second name or shape here, and is written to later,",
                    instead="a .copy() here, if it is another array; or ",
                )
