"""Layouts and recipes of single operations: their words lead to the elements, wherever they are."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numba_grad.compiler.first_tier.layouts import (
    NO_ELEMENTS,
    ONE_ELEMENT,
    broadcast,
    elementwise_loops,
    loops_over,
    strides_of,
)
from numba_grad.compiler.first_tier.recipes import CONSTANTS, OWN_WORDS, Recipe
from numba_grad.compiler.first_tier.uses import Uses
from numba_grad.compiler.operation_kernels import POINTERS
from numba_grad.runtime.plan import PlanBuilder

DTYPES = [np.dtype(name) for name in ("float64", "float32", "bool", "complex128")]
SHAPES = st.lists(st.sampled_from([0, 1, 1, 2, 3, 4]), max_size=4).map(tuple)


def places_by_loops(loops, operands):
    """The bytes that each pointer is moved by, element by element, as `WALK` goes through loops."""
    if loops is NO_ELEMENTS:
        return []
    if loops is ONE_ELEMENT:
        return [(0,) * operands]
    count = len(loops) // (1 + POINTERS)
    steps = np.array(loops[count:]).reshape(count, POINTERS)
    assert not steps[:, operands:].any()
    passes = itertools.product(*map(range, loops[:count]))
    return [tuple((np.array(own) @ steps[:, :operands]).tolist()) for own in passes]


def places_by_strides(shape, layouts, dtypes):
    return [
        tuple(
            sum(k * s for k, s in zip(index, strides, strict=True)) * dtype.itemsize
            for strides, dtype in zip(layouts, dtypes, strict=True)
        )
        for index in np.ndindex(*shape)
    ]


def strides_for(shape):
    contiguous = strides_of(shape)
    reversed_axes = strides_of(shape[::-1])[::-1]
    return st.sampled_from(
        [
            contiguous,
            reversed_axes,
            tuple(2 * s for s in contiguous),
            tuple(-s for s in contiguous),
            (0,) * len(shape),
            (*contiguous[:-1], 0) if shape else (),
        ]
    )


@given(st.data())
def test_joined_loops_go_through_the_same_elements_in_the_same_order(data):
    shape = data.draw(SHAPES)
    count = data.draw(st.integers(1, POINTERS))
    layouts = [data.draw(strides_for(shape)) for _ in range(count)]
    dtypes = [data.draw(st.sampled_from(DTYPES)) for _ in range(count)]
    loops = loops_over(shape, layouts, dtypes)
    assert places_by_loops(loops, count) == places_by_strides(shape, layouts, dtypes)


@given(st.data())
def test_elementwise_loops_are_those_over_broadcast_operands(data):
    shape = data.draw(SHAPES)
    dtype = data.draw(st.sampled_from(DTYPES))
    operands = []
    for _ in range(data.draw(st.integers(0, POINTERS - 1))):
        own_shape = data.draw(st.sampled_from([shape, shape[1:], tuple(1 for _ in shape)]))
        own = data.draw(strides_for(own_shape)), data.draw(st.sampled_from(DTYPES))
        operands.append((own_shape, *own))
    loops = elementwise_loops(shape, strides_of(shape), dtype, tuple(operands))
    layouts = [strides_of(shape), *[broadcast(s, own, len(shape)) for s, own, _ in operands]]
    dtypes = [dtype, *[own for _, _, own in operands]]
    assert loops == loops_over(shape, layouts, dtypes)
    assert places_by_loops(loops, len(layouts)) == places_by_strides(shape, layouts, dtypes)


WORDS, FUNCTIONS = 9, 8  # bases of a plan


def recipe_of(operands, temporaries=(), **content):
    recipe = Recipe(operands)
    recipe.temporaries += temporaries
    for name, numbers in content.items():
        getattr(recipe, name).extend(numbers)
    return recipe


ADDITION = recipe_of(
    operands=2,
    temporaries=[16],
    steps=[3, 0, 1, 1],
    words=[0, 7, 0, 0, 0],
    relocations=[0, -1, FUNCTIONS, 24, 2, 2, 0, 0, 3, 0, 0, 8, 4, 1, 0, 0],
)
TWO_STEPS = recipe_of(
    operands=1,
    steps=[0, 0, 2, 4, 5, 2, 1, 1],
    words=[0, 5, 0],
    relocations=[0, 0, 0, 0, 2, -1, OWN_WORDS, 8],
)
ROW = recipe_of(operands=0, steps=[-2, 0, 1, 1], words=[0])


def test_uses_are_written_out_one_after_the_other():
    uses = Uses(WORDS)
    for recipe, places in (
        (ADDITION, [(1, 100), (2, 200), (4, 0)]),
        (TWO_STEPS, [(4, 0)]),
        (ADDITION, [(1, 104), (4, 0), (4, 64)]),
    ):
        uses.recipes.append(recipe)
        uses.places += places
    steps, words, relocations = uses.written_out()
    assert steps.tolist() == [[3, 0, 1, 1], [0, 5, 2, 4], [5, 7, 1, 1], [3, 8, 1, 1]]
    assert words.tolist() == [*ADDITION.words, *TWO_STEPS.words, *ADDITION.words]
    assert relocations.tolist() == [
        *([0, FUNCTIONS, 24], [2, 4, 0], [3, 1, 108], [4, 2, 200]),
        *([5, 4, 0], [7, WORDS, 8 * 5 + 8]),
        *([8, FUNCTIONS, 24], [10, 4, 64], [11, 1, 112], [12, 4, 0]),
    ]


def test_rows_lead_past_what_was_used_since():
    uses = Uses(WORDS)
    uses.recipes.append(ROW)
    uses.recipes += [TWO_STEPS, ROW]
    uses.places.append((4, 0))
    uses.skip(0, 0)  # past three steps
    uses.recipes.append(ROW)
    uses.skip(2, 0)  # past one
    uses.skip(3, 0)  # past none
    _, words, _ = uses.written_out()
    assert words.tolist() == [3, *TWO_STEPS.words, 1, 0]


@pytest.mark.parametrize("recipes", [[], [ROW]])
def test_what_has_no_addresses_is_written_out_as_well(recipes):
    uses = Uses(WORDS)
    uses.recipes += recipes
    steps, words, relocations = uses.written_out()
    shapes = [(len(recipes), 4), (len(recipes),), (0, 3)]
    assert [steps.shape, words.shape, relocations.shape] == shapes


def test_few_and_many_uses_are_the_same_plan(monkeypatch):
    constants = np.array([5, 6], np.int64).tobytes()
    constant = recipe_of(0, steps=[1, 0, 1, 1], words=[0, 9], relocations=[0, -1, CONSTANTS, 8])
    plans = []
    for few in (0, 100):
        monkeypatch.setattr("numba_grad.compiler.first_tier.uses._FEW", few)
        builder = PlanBuilder(1, [((3,), np.dtype("float64"))])
        for number in range(6):
            builder.kernel(f"kernel {number}")
        builder.step(2, [3, (0, 8)])
        uses = Uses(builder.words)
        uses.recipes += [ROW, ADDITION, constant, TWO_STEPS, constant]
        uses.skip(0, 0)
        uses.places += [(0, 8), (1, 0), (2, 64), (2, 128)]
        uses.append_to(builder, constants)
        plans.append(builder)
    first, second = plans
    assert first._steps == second._steps
    assert first._words == second._words
    assert first._relocations == second._relocations
    assert second._words[-2:].tolist() == [5, 6]
