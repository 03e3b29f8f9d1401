"""Which elements of arrays only one thread of a grid comes to: there a sum needs no atomics.

Integers are polynomials in the place of a thread, in sizes, lengths and indices of loops. An index
is looked at modulo the number of threads along an axis, as loops over the grid go on by that: if in
all places it is the number of the thread, and what is the same for all threads, no other thread has
that element. It must not be negative, since that counts from the end: conditions around it say so.

Where an array is only added to, at several such places (`u[i - 1]`, `u[i]`, `u[i + 1]`), each has
an array of its own, and their sum is taken after the launch: so it has one order.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from numba_grad.compiler.numba_functions.grid_kernels import GridKernel
from numba_grad.compiler.numba_functions.index_ranges import Form, combined
from numba_grad.compiler.numba_functions.regions import (
    Allocate,
    Define,
    For,
    If,
    Load,
    Memory,
    RegionKernel,
    Scalar,
    Size,
    Statement,
    Store,
    Value,
    defined,
    nested,
    rewritten,
    walk,
)
from numba_grad.compiler.numba_functions.scalar_operations import OPPOSITE
from numba_grad.immutable import immutable

_MOST_PARTS = 8

# Atoms of a polynomial are products of names, in order.
_Monomial = tuple[str, ...]
# What an index tells apart ("thread_x", ...), and what it adds to the number of that.
_Key = tuple[frozenset[str], Form]


@immutable
class _Access:
    statement: Load | Store
    keys: tuple[_Key | None, ...]  # of its indices


class OwnElements:
    """The arrays of a kernel of which it is so."""

    def __init__(self, kernel: RegionKernel, counted: tuple[str, ...]) -> None:
        """`counted`: what tells the threads of a launch apart: "block_x", "thread_x", ..."""
        self._counted = frozenset(counted)
        stored = {s.memory for s in walk(kernel.body) if isinstance(s, Store)}
        self._numbers = {m for m in kernel.inputs if not m.rank} - stored
        self._private = {s.memory for s in walk(kernel.body) if isinstance(s, Allocate)}
        self._definitions: dict[Scalar, Define] = {}
        self._exact: dict[Scalar, Form] = {}
        self._reduced: dict[Scalar, Form] = {}
        self._least: dict[str, Form] = {}  # of indices of loops
        self._facts: list[Form] = []  # at least 0 where the walk is
        self._accesses: dict[Memory, list[_Access]] = {}
        self._read(kernel.body)

    def __contains__(self, memory: Memory) -> bool:
        if memory in self._private:
            return True
        left = set(self._counted)
        for keys in zip(*[access.keys for access in self._accesses.get(memory, [])], strict=True):
            if keys[0] is not None and all(key == keys[0] for key in keys):
                left -= keys[0][0]
        return not left

    def parts(self, memory: Memory) -> dict[int, int]:
        """The part of an array that each store, by its `id`, can add to alone; none if there is
        another way to its elements."""
        found: list[tuple[_Key | None, ...]] = []
        result: dict[int, int] = {}
        for access in self._accesses.get(memory, []):
            told = [key[0] for key in access.keys if key is not None]
            is_sum = isinstance(access.statement, Store) and access.statement.is_added
            if not is_sum or not self._counted <= frozenset().union(*told):
                return {}
            if access.keys not in found:
                found.append(access.keys)
            result[id(access.statement)] = found.index(access.keys)
        return result if len(found) <= _MOST_PARTS else {}

    # Reading.

    def _read(self, statements: list[Statement]) -> None:
        for s in statements:
            if isinstance(s, Load | Store) and s.memory.rank and s.memory not in self._private:
                access = _Access(s, tuple(map(self._key, s.indices)))
                self._accesses.setdefault(s.memory, []).append(access)
            target = defined(s)
            if target is not None:
                self._define(s, target)
            if isinstance(s, If):
                for region, is_true in ((s.then, True), (s.otherwise, False)):
                    with self._knowing(self._said(s.condition, is_true)):
                        self._read(region)
                continue
            for region in nested(s):
                self._read(region)

    @contextmanager
    def _knowing(self, facts: list[Form]) -> Iterator[None]:
        count = len(self._facts)
        self._facts += facts
        yield
        del self._facts[count:]

    def _define(self, s: Statement, target: Scalar) -> None:
        if isinstance(s, Define):
            self._definitions[target] = s
        if target.dtype != "int64":
            return
        if isinstance(s, For):
            self._define_index(s)
            return
        for forms in (self._exact, self._reduced):
            found = self._of(s, forms)
            forms[target] = _named(f"?{target.name}") if found is None else found

    def _of(self, s: Statement, forms: dict[Scalar, Form]) -> Form | None:
        if isinstance(s, Size):
            return _named(f"length of {s.memory.name} {s.axis}")
        if isinstance(s, Load):
            return _named(f"number {s.memory.name}") if s.memory in self._numbers else None
        if not isinstance(s, Define):
            return None
        if not s.arguments:
            return _named(s.operation)
        if s.operation == "select" and self._is_wrapped(s):
            return _form(s.arguments[2], forms)
        arguments = [form for x in s.arguments if (form := _form(x, forms)) is not None]
        if len(arguments) < len(s.arguments):
            return None
        is_product = s.operation == "multiply"
        return _product(*arguments) if is_product else combined(s.operation, arguments)

    def _is_wrapped(self, s: Define) -> bool:
        """Whether it is an index of a view, which would count from the end if it were negative, and
        is not."""
        condition, _, index = s.arguments
        test = self._definitions.get(condition) if isinstance(condition, Scalar) else None
        if test is None or test.operation != "less" or test.arguments != (index, 0):
            return False
        exact = _form(index, self._exact)
        return exact is not None and self._is_never_negative(exact)

    def _define_index(self, s: For) -> None:
        """Of a loop that goes on by as many as there are threads or blocks, the index is where it
        starts, but for multiples of these."""
        atom = f"?{s.index.name}"
        self._exact[s.index] = self._reduced[s.index] = _named(atom)
        start, stop, step = (_form(x, self._reduced) for x in (s.start, s.stop, s.step))
        first, last, stride = (_form(x, self._exact) for x in (s.start, s.stop, s.step))
        if None in (start, stop, step, first, last, stride):
            return
        assert start is not None and stop is not None and step is not None
        assert first is not None and last is not None and stride is not None
        is_aligned = False
        for _, _, factors in _NUMBERINGS:
            if _without(step, factors) == _ZERO:
                self._reduced[s.index] = _without(start, factors)
                is_aligned = _without(start.plus(stop, -1), factors) == _ZERO
                break
        if self._is_never_negative(stride):
            self._least[atom] = first
        elif self._is_never_negative(_ZERO.plus(stride, -1)):
            # Backwards it ends after `stop`; one step after it, if a pass would come there.
            self._least[atom] = last.plus(stride, -1) if is_aligned else last.plus(Form(1))

    # What is known of integers.

    def _key(self, index: Value) -> _Key | None:
        exact, form = _form(index, self._exact), _form(index, self._reduced)
        if exact is None or form is None or not self._is_never_negative(exact):
            return None
        for numbers, own, factors in _NUMBERINGS:
            rest = _without(form, factors).plus(own, -1)
            if all(map(_is_same_for_all, rest.atoms)):
                return numbers, rest
        return None

    def _is_never_negative(self, form: Form) -> bool:
        forms = form, self._with_least(form)
        differences = [p.plus(fact, -1) for p in forms for fact in self._facts]
        return any(map(_is_sum_of_lengths, (*forms, *differences)))

    def _with_least(self, form: Form) -> Form:
        """With their least values in place of indices of loops."""
        while True:
            atom = next((m for m in form.atoms if len(m) == 1 and m[0] in self._least), None)
            count = 0 if atom is None else form.atoms[atom]
            if atom is None or count < 0:
                return form
            form = form.plus(Form(0, {atom: 1}), -count).plus(self._least[atom[0]], count)

    def _said(self, condition: Value, is_true: bool) -> list[Form]:
        """What follows from a condition that is true, or false."""
        s = self._definitions.get(condition) if isinstance(condition, Scalar) else None
        if s is None:
            return []
        if s.operation in ("bool", "positive", "cast"):
            return self._said(s.arguments[0], is_true)
        if s.operation == "not":
            return self._said(s.arguments[0], not is_true)
        if s.operation == "select":
            chooses, first, second = s.arguments
            # `a and b`, of which both are true, and `a or b`, of which both are false.
            if is_true and (second is False or second == chooses):
                return self._said(chooses, True) + self._said(first, True)
            if not is_true and (first is True or first == chooses):
                return self._said(chooses, False) + self._said(second, False)
            return []
        return self._compared(s, is_true)

    def _compared(self, s: Define, is_true: bool) -> list[Form]:
        name = s.operation if is_true else OPPOSITE.get(s.operation, "")
        forms = [_form(x, self._exact) for x in s.arguments]
        if name not in OPPOSITE or forms[0] is None or forms[1] is None:
            return []
        over, under = forms[0].plus(forms[1], -1), forms[1].plus(forms[0], -1)
        if name == "equal":
            return [over, under]
        if name == "not_equal":
            return [x.plus(Form(-1)) for x in (over, under) if self._is_never_negative(x)]
        difference = over if name.startswith("greater") else under
        return [difference.plus(Form(0 if name.endswith("equal") else -1))]


def with_parts(
    grid: GridKernel, count: int, counted: tuple[str, ...]
) -> tuple[GridKernel, list[tuple[int, int]]]:
    """The kernel, with an array for each place that adds to a result; and for each of these arrays
    the numbers of the result and of the output that is to be added to it."""
    kernel = grid.kernel
    own = OwnElements(kernel, counted)
    builder = kernel.builder.copy()
    outputs, shapes = list(kernel.outputs), dict(kernel.shapes)
    beginnings = dict(grid.beginnings)
    places: dict[int, Memory] = {}
    added: list[tuple[int, int]] = []
    for number, memory in enumerate(kernel.outputs[:count]):
        if not memory.rank or memory in own:
            continue
        parts = own.parts(memory)
        made: dict[int, Memory] = {0: memory}
        for place, part in parts.items():
            if part not in made:
                made[part] = builder.memory(memory.name, memory.dtype, memory.rank)
                shapes[made[part]] = shapes[memory]
                beginnings[made[part]] = None
                added.append((number, len(outputs)))
                outputs.append(made[part])
            places[place] = made[part]

    def placed(s: Statement) -> Statement:
        if isinstance(s, Store) and id(s) in places:
            return replace(s, memory=places[id(s)])
        return s

    body = rewritten(kernel.body, placed)
    kernel = replace(kernel, outputs=outputs, shapes=shapes, body=body, builder=builder)
    return GridKernel(kernel, beginnings), added


# Polynomials.


_ZERO = Form(0)


def _form(value: Value, forms: dict[Scalar, Form]) -> Form | None:
    if isinstance(value, Scalar):
        return forms.get(value)
    return Form(value) if type(value) is int else None


def _named(*names: str) -> Form:
    return Form(0, {tuple(sorted(names)): 1})


def _product(x: Form, y: Form) -> Form:
    total = Form(0, x.atoms)
    total = _ZERO.plus(total, y.constant).plus(y, x.constant)
    for a, n in x.atoms.items():
        for b, m in y.atoms.items():
            total = total.plus(_named(*a, *b), n * m)
    return total


# What an index may count: threads of the grid along an axis, of the block, or blocks; the form of
# their number, and the factors of how many there are.
_NUMBERINGS: list[tuple[frozenset[str], Form, set[str]]] = []
for _x in "xyz":
    _thread, _block = f"thread_{_x}", f"block_{_x}"
    _whole = _named(_thread).plus(_named(_block, f"block_size_{_x}"))
    _NUMBERINGS += [
        (frozenset({_thread, _block}), _whole, {f"block_size_{_x}", f"grid_size_{_x}"}),
        (frozenset({_thread}), _named(_thread), {f"block_size_{_x}"}),
        (frozenset({_block}), _named(_block), {f"grid_size_{_x}"}),
    ]


def _without(form: Form, factors: set[str]) -> Form:
    """Without multiples of the product of some factors."""
    left = {m: n for m, n in form.atoms.items() if not factors <= set(m)}
    return Form(form.constant, left)


_LENGTHS = ("length of ", "block_size_", "grid_size_")


def _is_same_for_all(monomial: _Monomial) -> bool:
    return all(atom.startswith((*_LENGTHS, "number ")) for atom in monomial)


def _is_sum_of_lengths(form: Form) -> bool:
    """Whether it is known to be no negative number."""
    known = (*_LENGTHS, "thread_", "block_")
    are_lengths = all(n > 0 and all(x.startswith(known) for x in m) for m, n in form.atoms.items())
    return form.constant >= 0 and are_lengths
