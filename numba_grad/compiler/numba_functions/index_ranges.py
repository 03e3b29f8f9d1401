"""What is known of integers: linear forms of lengths and loop indices, and bounds of these.

A form is a constant and a number for each atom: a length, the index of a loop, or an integer that
nothing is known of. An index lies between forms of what is around its loop, so the least that a
form can be comes from putting bounds in place of indices, the innermost first. Lengths are at
least 0. What is found holds wherever the code runs.
"""

from collections.abc import Sequence
from dataclasses import field
from typing import Any

from numba_grad.compiler.numba_functions.regions import (
    Define,
    For,
    Load,
    Memory,
    Parallel,
    Scalar,
    Size,
    Statement,
    Value,
    walk,
)
from numba_grad.immutable import immutable

_Atom = Any  # that has a hash: a name, a scalar, a product of names


@immutable
class Form:
    """`constant` and the sum of atoms, each so many times."""

    constant: int
    atoms: dict[_Atom, int] = field(default_factory=dict)

    def plus(self, other: "Form", times: int = 1) -> "Form":
        atoms = dict(self.atoms)
        for atom, count in other.atoms.items():
            atoms[atom] = atoms.get(atom, 0) + times * count
        return Form(
            self.constant + times * other.constant,
            {atom: count for atom, count in atoms.items() if count},
        )


def combined(operation: str, forms: Sequence[Form]) -> Form | None:
    """What an operation makes of integers; None if that is no linear form of the same atoms."""
    if operation in ("add", "subtract"):
        return forms[0].plus(forms[1], 1 if operation == "add" else -1)
    if operation == "negative":
        return Form(0).plus(forms[0], -1)
    if operation in ("positive", "cast"):
        return forms[0]
    for x, y in (forms, forms[::-1]) if operation == "multiply" else ():
        if not y.atoms:
            return Form(0).plus(x, y.constant)
    return None


@immutable
class _Bounds:
    order: int  # of definition: bounds are of what was defined before
    least: Form | None
    most: Form | None


class IndexRanges:
    """Of the integers of some statements."""

    def __init__(self, body: list[Statement]) -> None:
        self._forms: dict[Scalar, Form] = {}
        self._bounds: dict[_Atom, _Bounds] = {}
        for s in walk(body):
            if isinstance(s, For):
                self._index(s)
            elif isinstance(s, Parallel):
                for task in (s.first, s.last):
                    self._atom(task, Form(0), self.form(s.tasks))
            elif isinstance(s, Size):
                self._forms[s.target] = Form(0, {(s.memory, s.axis): 1})
            elif isinstance(s, Define) and s.target.dtype == "int64":
                self._define(s)
            elif isinstance(s, Load) and s.target.dtype == "int64":
                self._forms[s.target] = Form(0, {s.target: 1})

    def form(self, value: Value) -> Form | None:
        """None of what is no integer."""
        if isinstance(value, Scalar):
            return self._forms.get(value)
        return Form(value) if type(value) is int else None

    def is_never_negative(self, value: Value) -> bool:
        form = self.form(value)
        least = None if form is None else self.least(form)
        return least is not None and least >= 0

    def are_one(self, memory: Memory, a: Sequence[Value], b: Sequence[Value]) -> bool:
        """Whether two tuples of indices are always those of one element."""
        return all(
            x == y or ((place := self.place(memory, k, x)) and place == self.place(memory, k, y))
            for k, (x, y) in enumerate(zip(a, b, strict=True))
        )

    def differ(self, memory: Memory, a: Sequence[Value], b: Sequence[Value]) -> bool:
        """Whether two tuples of indices are never those of one element."""
        return any(
            self.differ_on(memory, axis, x, y) for axis, (x, y) in enumerate(zip(a, b, strict=True))
        )

    def differ_on(self, memory: Memory, axis: int, a: Value, b: Value) -> bool:
        """Whether two indices are never those of one place on an axis."""
        x, y = (self.place(memory, axis, index) for index in (a, b))
        if x is None or y is None:
            return False
        ways = [self.least(difference) for difference in (x.plus(y, -1), y.plus(x, -1))]
        return any(least is not None and least > 0 for least in ways)

    def place(self, memory: Memory, axis: int, index: Value) -> Form | None:
        """Where an index is on an axis: -1 is the last place. None if that is not known."""
        if type(index) is int and index < 0:
            return Form(index, {(memory, axis): 1})
        return self.form(index) if self.is_never_negative(index) else None

    def least(self, form: Form) -> int | None:
        """A number that the form is never less than; None if none is known."""
        while True:
            bounded = [atom for atom in form.atoms if atom in self._bounds]
            if not bounded:
                break
            atom = max(bounded, key=lambda a: self._bounds[a].order)
            bounds, count = self._bounds[atom], form.atoms[atom]
            bound = bounds.least if count > 0 else bounds.most
            if bound is None:
                return None
            form = form.plus(Form(0, {atom: 1}), -count).plus(bound, count)
        # The rest are lengths, or nothing is known of them.
        are_lengths = all(isinstance(a, tuple) and n > 0 for a, n in form.atoms.items())
        return form.constant if are_lengths else None

    def _least_of(self, forms: Sequence[Form | None]) -> Form | None:
        """A number that none of them is ever less than."""
        found = [None if form is None else self.least(form) for form in forms]
        known = [least for least in found if least is not None]
        return Form(min(known)) if len(known) == len(found) else None

    def _atom(self, target: Scalar, least: Form | None, most: Form | None) -> None:
        self._bounds[target] = _Bounds(len(self._bounds), least, most)
        self._forms[target] = Form(0, {target: 1})

    def _index(self, s: For) -> None:
        start, stop = self.form(s.start), self.form(s.stop)
        step = s.step if type(s.step) is int else 0
        ends = start, None if stop is None else stop.plus(Form(1 if step < 0 else -1))
        least, most = ends if step >= 0 else ends[::-1]
        self._atom(s.index, least if step else None, most if step else None)

    def _define(self, s: Define) -> None:
        forms = [self.form(x) for x in s.arguments]
        known = [form for form in forms if form is not None]
        found = combined(s.operation, known) if forms and len(known) == len(forms) else None
        if found is not None:
            self._forms[s.target] = found
            return
        least = most = None
        if s.operation == "mod" and forms[1] is not None:
            divisor = self.least(forms[1])
            if divisor is not None and divisor >= 0:  # Of 0 there is no remainder.
                least, most = Form(0), forms[1].plus(Form(-1))
        elif s.operation in ("floor_divide", "multiply"):
            if all(map(self.is_never_negative, s.arguments)):
                least = Form(0)
        elif s.operation == "absolute":
            least = Form(0)
        elif s.operation == "least":
            least, most = self._least_of(forms), forms[0]
        elif s.operation == "most":
            least = forms[1]
        elif s.operation == "select":
            least = self._least_of(forms[1:])
        self._atom(s.target, least, most)
