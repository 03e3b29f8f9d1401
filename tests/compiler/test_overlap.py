"""Messages under way while steps compute: what may be moved, and what is."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import numba_grad as ng
from numba_grad.compiler.loop_nests.kernel_ir import IndexValue, Load
from numba_grad.compiler.programs import compile_program
from numba_grad.compiler.segment_memory import External
from numba_grad.compiler.steps.accesses import accesses_of, row_count
from numba_grad.compiler.steps.library_steps import Pointer
from numba_grad.compiler.steps.overlap import Unit, overlapped
from numba_grad.compiler.steps.schedule import Phase, ScheduledStep
from numba_grad.graph import order
from numba_grad.graph.node import OPS, argument, numbers
from numba_grad.graph.types import array_type
from numba_grad.ops.communication import Chain, PlaceWord, exchange
from numba_grad.ops.families import reshape
from numba_grad.runtime.plan import Tasks

FLOAT = np.dtype(np.float64)
N = 200


# Any order that is chosen computes the same.


def unit(phase, reads, writes, time, number):
    words = [number, *[Pointer(External(k), 0) for k in (*reads, *writes)]]
    written = frozenset(range(1 + len(reads), len(words)))
    step = ScheduledStep(
        "", words, Tasks(1, 1), [], int(10 * time), 0, written=written, phase=phase
    )
    return Unit(step, lambda memory: (memory.number, 0), 0)


def after(units):
    """What is in memory in the end: of each what was done to it, with what. Nobody may write
    to what is on its way, nor touch where it goes, before the end."""
    memory = {}
    under_way = {}
    communicated = []
    for x in units:
        number, *pointers = x.step.words
        numbers = [p.memory.number for p in pointers]
        reads = [k for k, p in zip(numbers, range(1, 99), strict=False) if p not in x.step.written]
        writes = numbers[len(reads) :]
        seen = tuple(memory.get(k) for k in reads)
        if x.step.phase in (Phase.START, Phase.WHOLE):
            communicated.append(number)
        if x.step.phase is Phase.END:
            assert under_way.pop(number) == (seen[:-1], tuple(memory[k] for k in writes))
        for k in writes:
            memory[k] = hash((number, k, seen, memory.get(k)))
        if x.step.phase is Phase.START:
            under_way[number + 1] = seen, tuple(memory[k] for k in writes[:-1])
    assert not under_way
    return memory, communicated


@st.composite
def programs_with_messages(draw):
    memories = st.lists(st.integers(0, 7), max_size=2, unique=True)
    units = []
    for number in range(0, 2 * draw(st.integers(2, 14)), 2):
        kind = draw(st.sampled_from(["plain", "plain", "plain", "messages", "whole"]))
        reads, writes = draw(memories), draw(memories)
        time = draw(st.sampled_from([10, 1_000, 200_000]))
        if kind == "messages":
            own = [20 + number]  # their requests
            received = [k for k in writes if k not in reads]
            units.append(unit(Phase.START, reads, [*received, *own], 0, number))
            units.append(unit(Phase.END, [*reads, *own], received, 0, number + 1))
        else:
            phase = Phase.NONE if kind == "plain" else Phase.WHOLE
            units.append(unit(phase, reads, writes, time, number))
    return units


@settings(max_examples=3 * settings.default.max_examples)
@given(programs_with_messages())
def test_another_order_computes_the_same(units):
    moved = overlapped(units)
    assert sorted(map(id, moved)) == sorted(map(id, units))
    assert after(moved) == after(units)


# What kernels touch: never more than what is said.


def stencil(u):
    around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
    return around * u[1:-1, 1:-1]


def padded(u):
    return stencil(np.pad(u, 1)) * u


def ringed(u, row):
    u = u + 0 * u
    u[0] = row
    u[-1] = 2 * row
    return stencil(u)


KERNELS = {
    "stencil": (stencil, (24, 20)),
    "padded": (padded, (24, 20)),
    "rolled": (lambda u: np.roll(u, 1, axis=0) - u, (24, 20)),
    "transposed": (lambda u: u.T * 2 + u, (20, 20)),
    "rows put in": (ringed, (24, 20), (20,)),
    "one axis": (lambda u: np.pad(u, 2)[4:] - u, (300,)),
    "three axes": (lambda u: np.pad(u[1:] - u[:-1], ((1, 0), (0, 0), (0, 2))), (18, 19, 20)),
    "components": (lambda u: np.stack([u[:, 0] - u[:, 1], u.sum(axis=1)], axis=1), (40, 3)),
    "gathered": (lambda u, k: u[k] + 1, (24, 20), (30,)),
    "adjoint": (ng.grad(lambda u: (padded(u) ** 2).sum()), (24, 20)),
}


def steps_of(name):
    f, *shapes = KERNELS[name]
    arrays = [np.ones(shape) for shape in shapes]
    if name == "gathered":
        arrays[1] = np.arange(30) % 24
    steps = ng.jit(f).lower(*arrays)._kernel_steps()
    return [step for step in steps if step.loop_nest is not None and step.loop_nest.axes]


def touched(nest, rows):
    """The elements that the rows of a loop nest touch, by going through it."""
    names = {word.name: word.value for word in nest.words}
    found = set()

    def value(text, point):
        return int(text) if text.isdecimal() else math.prod(point[k] for k in text.split(" * "))

    def place(index, point):
        if any(k not in point for text, _ in index.terms for k in text.split(" * ")):
            return None  # of an index that is computed
        return index.constant + sum(f.value * value(text, point) for text, f in index.terms)

    def note(lets, stores, point):
        for let in lets:
            if isinstance(let.expression, Load):
                buffer = let.expression.buffer
                found.add((buffer.word, place(let.expression.position, point), False))
            if isinstance(let.expression, IndexValue):
                where = place(let.expression.index, point)
                point |= {} if where is None else {let.name: where}
        for store in stores:
            found.add((store.buffer.word, place(store.position, point), True))

    extents = [range(axis.extent) for axis in nest.axes]
    extents[0] = range(*rows)
    for where in itertools.product(*extents):
        point = {**names, **{a.variable: k for a, k in zip(nest.axes, where, strict=True)}}
        for variant in nest.variants:
            holds = [
                value(r.start, point) <= point[r.variable] < value(r.stop, point)
                for r in variant.where
            ]
            if all(holds):
                break
        for level in variant.lets:
            note(level, [], point)
        for piece in variant.pieces:
            if value(piece.start, point) <= where[-1] < value(piece.stop, point):
                note(piece.body.lets, piece.body.stores, point)
    return found


@pytest.mark.thorough(but="^(adjoint|rows put in|padded|gathered)$")
@pytest.mark.parametrize("name", KERNELS)
def test_bounds_of_what_a_kernel_touches(name):
    is_exact = []
    for step in steps_of(name):
        nest = step.loop_nest
        extent = nest.axes[0].extent
        cuts = [
            (0, extent),
            (0, 1),
            (1, extent - 1),
            (extent // 3, extent // 2),
            (extent - 1, extent),
        ]
        for rows in cuts if row_count(step) else cuts[:1]:
            accesses = accesses_of(step, lambda source: (source, 0), rows)
            elements = touched(nest, rows)
            for number, word in enumerate(step.words):
                if not isinstance(word, Pointer):
                    continue
                for is_written in (False, True):
                    size = next(b.dtype.itemsize for b in nest.buffers if b.word == number)
                    places = [
                        k
                        for which, k, written in elements
                        if (which, written) == (number, is_written)
                    ]
                    own = [word.offset + size * k for k in places if k is not None]
                    if None in places:
                        own += [-(1 << 60), 1 << 60]
                    said = [
                        a
                        for a in accesses
                        if a.memory == word.memory and (a.is_written or not is_written)
                    ]
                    for first in own:
                        assert any(a.first <= first and first + size <= a.end for a in said)
                    is_exact += [
                        min(own) == a.first and max(own) + size == a.end
                        for a in said
                        if own and a.is_written == is_written
                    ]
    has_computed_indices = name in ("gathered", "rolled")
    assert sum(is_exact) > (0 if has_computed_indices else len(is_exact) / 2)


# Plans.


def with_ghosts(u, chain):
    """`halo_exchange` of the first axis, between ranks that are read when the plan runs."""
    rows, columns = u.shape
    one = {"sizes": (1, columns), "steps": (1, 1)}
    sent, kept = [
        OPS["concatenate"](
            *[
                reshape(OPS["slice"](u, starts=(first, 0), **one), (1, 1, columns))
                for first in firsts
            ],
            axis=0,
        )
        for firsts in ((1, rows - 2), (rows - 1, 0))
    ]
    (received,) = chain(exchange, [sent, kept], {"backward": False})
    for k, first in enumerate((rows - 1, 0)):
        row = reshape(
            OPS["slice"](received, starts=(k, 0, 0), sizes=(1, 1, columns), steps=(1,) * 3),
            (1, columns),
        )
        u = OPS["update_slice"](u, row, starts=(first, 0), steps=(1, 1))
    return u


def compiled(f, *shapes):
    """The steps of a function of nodes and of a chain: of each its phase, what it computes, and
    its tasks."""
    arguments = [argument(array_type(shape, FLOAT)) for shape in shapes]
    place = numbers(np.zeros(PlaceWord.PEERS + 2 * PlaceWord.OF_PEER, np.int64))
    token = argument(order.TOKEN)
    chain = Chain(place, token)
    outputs = [*f(chain, *arguments), chain.token]
    program = compile_program([*arguments, place, token], outputs, with_segments=True)
    found = []
    for step in (step for segment in program.segments for step in segment.steps):
        first = step.words[1] if step.parts else 0
        source = step.parts[0].source if step.parts else step.source
        what = source.partition("# ")[2].partition(":")[0].split("\n")[0]
        found.append((step.phase, what, range(first, first + step.launch.number)))
    return found


def of_tensors(f):
    """A function of tensors, as one of nodes."""
    return lambda *nodes: f(*[ng.Tensor(node) for node in nodes])._node


def test_the_interior_is_computed_while_ghosts_are_under_way():
    def f(chain, u):
        u = OPS["multiply"](u, u)
        return [of_tensors(stencil)(with_ghosts(u, chain))]

    steps = compiled(f, (N, N))
    phases = [phase for phase, *_ in steps]
    start, end = phases.index(Phase.START), phases.index(Phase.END)
    interior = [tasks for _, what, tasks in steps[start + 1 : end] if what == "multiply"]
    rim = [tasks for _, what, tasks in steps[end:] if what == "multiply"]
    assert [len(interior), len(rim)] == [1, 2], steps
    assert sorted(itertools.chain(*interior, *rim)) == list(range((N - 2) ** 2))
    assert interior == [range(N - 2, (N - 3) * (N - 2))]  # all but a row at either end


def test_what_needs_nothing_of_the_messages_is_computed_meanwhile():
    def f(chain, u, v, w):
        before = OPS["exp"](v)  # recorded before the messages
        u = with_ghosts(u, chain)
        return [before, OPS["sin"](w), OPS["multiply"](u, u)]

    # Of few rows, which have no interior that is worth it.
    steps = compiled(f, (3, 20), (30, 20), (20, 30))
    phases = [phase for phase, *_ in steps]
    start, end = phases.index(Phase.START), phases.index(Phase.END)
    assert {what for _, what, _ in steps[start + 1 : end]} == {"exp", "sin"}, steps


def test_messages_of_two_fields_are_under_way_together():
    def f(chain, u, v):
        u, v = with_ghosts(u, chain), with_ghosts(v, chain)
        return [OPS["multiply"](u, u), OPS["multiply"](v, v)]

    phases = [phase for phase, *_ in compiled(f, (3, 20), (3, 30)) if phase is not Phase.NONE]
    assert phases == [Phase.START, Phase.START, Phase.END, Phase.END]


def test_what_all_ranks_do_together_stays_in_order():
    def f(chain, u):
        y = chain.sum(u)
        u = with_ghosts(u, chain)
        return [y, chain.sum(u), u]

    phases = [phase for phase, *_ in compiled(f, (3, 20)) if phase is not Phase.NONE]
    assert phases == [Phase.WHOLE, Phase.START, Phase.END, Phase.WHOLE]
