"""Choices between values in straight-line code, of which one is computed: where that spares much.

`select` takes both of its values. In a loop of numbers each step waits some 18 ns for `sin(x)`,
whether or not that or `2 * x` is chosen; a branch that the processor expects costs nothing, and one
that it does not some 5 ns. So what a choice alone needs is computed in a branch, together with what
other choices of the same condition need.
"""

import heapq
from collections import defaultdict
from collections.abc import Collection, Sequence

from numba_grad.compiler.loop_nests.kernel_ir import Apply, Let
from numba_grad.compiler.scalar_expressions import Call, Operation, Term, functions_in, parts
from numba_grad.graph.node import OPS
from numba_grad.immutable import NamedTuple

_WORTH_A_BRANCH = 12  # operations that are not done, of both sides together
_DIVISION = 4


class NamedChoice(NamedTuple):
    """`name` is one of two values, by their names."""

    name: str
    values: tuple[str, str]  # where the condition holds, and where not


class Branch(NamedTuple):
    """Code for where a condition holds and for where not, and what is chosen."""

    condition: str
    sides: "tuple[Code, Code]"
    choices: list[NamedChoice]


Item = Let | Branch
Code = list[Item]


def with_branches(code: Sequence[Item], results: Collection[str]) -> Code:
    """The same code with branches, of which `results` are read behind it."""
    found = list(code)
    conditions = [choice[0] for item in code if (choice := _choice(item)) is not None]
    # What comes last has the others in it.
    for condition in reversed(dict.fromkeys(conditions)):
        found = _with_branch(found, results, condition)
    return found


def _choice(item: Item) -> tuple[str, NamedChoice] | None:
    """The condition of a choice, and what it is between."""
    match item:
        case Let(name, Apply(Call("select"), operands)):
            named = dict(operands)
            if named.keys() == {"condition", "x", "y"}:
                return named["condition"], NamedChoice(name, (named["x"], named["y"]))
    return None


def _with_branch(code: Code, results: Collection[str], condition: str) -> Code:
    choices = _choices(code, condition)
    names = {choice.name for choice in choices}
    readers: dict[str, set[str]] = defaultdict(set)
    for item in code:
        for name in _read(item):
            readers[name].update(_made(item))
    sides: list[Code] = []
    for number in (0, 1):
        outside = {condition, *results, *[choice.values[1 - number] for choice in choices]}
        inside, side = set(names), []
        for item in reversed(code):
            made = _made(item)
            read_by = {reader for name in made for reader in readers[name]}
            if read_by and read_by <= inside and made.isdisjoint(outside | names):
                inside |= made
                side.insert(0, item)
        sides.append(side)
    if sum(_operations(item) for side in sides for item in side) < _WORTH_A_BRANCH:
        return code
    first, second = [
        with_branches(side, {choice.values[number] for choice in choices})
        for number, side in enumerate(sides)
    ]
    moved = names.union(*[_made(item) for side in sides for item in side])
    left = [item for item in code if _made(item).isdisjoint(moved)]
    return _ordered([*left, Branch(condition, (first, second), choices)])


def _choices(code: Code, condition: str) -> list[NamedChoice]:
    """Those of a condition, without what is made of others of them."""
    found = []
    behind: set[str] = set()
    for item in code:
        is_behind = not behind.isdisjoint(_read(item))
        choice = _choice(item)
        if choice is not None and choice[0] == condition and not is_behind:
            found.append(choice[1])
            is_behind = True
        if is_behind:
            behind |= _made(item)
    return found


def _made(item: Item) -> set[str]:
    """The names that are read behind it."""
    return {item.name} if isinstance(item, Let) else {choice.name for choice in item.choices}


def _read(item: Item) -> set[str]:
    match item:
        case Let(expression=Apply(operands=operands)):
            return {name for _, name in operands}
        case Branch(condition, sides, choices):
            values = {name for choice in choices for name in choice.values}
            inside = [inner for side in sides for inner in side]
            made = set[str]().union(*map(_made, inside))
            return {condition, *values}.union(*map(_read, inside)) - made
    return set()


def _ordered(code: Code) -> Code:
    """With its last item where all is there that it reads, and all else as it was as far as that
    goes."""
    maker = {name: k for k, item in enumerate(code) for name in _made(item)}
    readers: dict[int, list[int]] = defaultdict(list)
    missing = [0] * len(code)
    for k, item in enumerate(code):
        for before in {maker[name] for name in _read(item) if name in maker}:
            readers[before].append(k)
            missing[k] += 1
    ready = [k for k, count in enumerate(missing) if not count]
    found: Code = []
    while ready:
        k = heapq.heappop(ready)
        found.append(code[k])
        for reader in readers[k]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, reader)
    return found


def _operations(item: Item) -> int:
    match item:
        case Let(expression=Apply(term)):
            return _operations_of_term(term)
        case Branch(sides=sides):
            return sum(_operations(inner) for side in sides for inner in side)
    return 0


def _operations_of_term(term: Term) -> int:
    own = sum(OPS[name].cost for name in functions_in(term) if name in OPS)
    return max(1, own + _DIVISION * _divides(term))


def _divides(term: Term) -> bool:
    is_division = isinstance(term, Operation) and term.symbol in ("/", "//", "%")
    return is_division or any(map(_divides, parts(term)))
