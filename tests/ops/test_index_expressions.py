"""Reading, assignment and numpy.add.at against NumPy, for generated shapes and kinds of index."""

import re

import hypothesis
import hypothesis.extra.numpy as numpy_strategies
import numpy as np
import pytest
from hypothesis import strategies

from numba_grad.compiler.reference_engine import evaluate_with_numpy
from numba_grad.errors import ShapeError, TracingError
from numba_grad.graph.node import Node, leaf
from numba_grad.graph.walk import toposort
from numba_grad.ops import elementwise, leaves, reductions  # noqa: F401
from numba_grad.ops.index_expressions import (
    add_at_index,
    assign_index,
    normalize_index,
    take_index,
)

settings = hypothesis.settings(max_examples=2 * hypothesis.settings.default.max_examples)

shapes = numpy_strategies.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4)


def known_value(node):
    return node.value


def computed(node):
    return evaluate_with_numpy([node])[0]


def numbered(shape):
    """An array whose elements tell where they come from."""
    return np.arange(1.0, 1 + np.prod(shape, dtype=int)).reshape(shape)


@strategies.composite
def index_arrays(draw, size, common):
    """An integer array for an axis of this size, of a shape that broadcasts to `common`."""
    own = common[draw(strategies.integers(0, len(common))) :]
    own = tuple(draw(strategies.sampled_from((1, n))) for n in own)
    elements = strategies.integers(-size, size - 1)
    return draw(numpy_strategies.arrays(np.int64, own, elements=elements))


@strategies.composite
def mixed_indices(draw, shape):
    """Integers, slices, index arrays, masks, None, bools and an Ellipsis in any order."""
    common = draw(numpy_strategies.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3))
    entries = []
    rest = list(shape)
    while rest:
        kinds = ["slice", "None"] if 0 in rest else ["slice", "integer", "array", "array", "None"]
        if draw(strategies.integers(0, 9)) == 0:
            break
        kind = draw(strategies.sampled_from(kinds))
        if kind == "None":
            entries.append(None)
            continue
        size = rest.pop(0)
        if kind == "slice":
            entries.append(draw(strategies.slices(size)))
        elif kind == "integer":
            entries.append(draw(strategies.integers(-size, size - 1)))
        else:
            entries.append(draw(index_arrays(size, common)))
    if rest and draw(strategies.booleans()):
        entries.append(Ellipsis)
    elif not rest and draw(strategies.integers(0, 3)) == 0:
        entries.insert(draw(strategies.integers(0, len(entries))), Ellipsis)
    if draw(strategies.integers(0, 9)) == 0:
        place = draw(strategies.integers(0, len(entries)))
        entries.insert(place, draw(strategies.booleans()))
    return tuple(entries)


@strategies.composite
def masked_indices(draw, shape):
    """One mask over some neighbouring axes, slices elsewhere."""
    first = draw(strategies.integers(0, len(shape) - 1))
    last = draw(strategies.integers(first, len(shape)))
    mask = draw(numpy_strategies.arrays(bool, shape[first:last]))
    before = [draw(strategies.slices(n)) for n in shape[:first]]
    after = [draw(strategies.slices(n)) for n in shape[last:]]
    if draw(strategies.booleans()):
        before.insert(0, None)
    if draw(strategies.booleans()):
        after = [Ellipsis]
    return (*before, mask, *after)


def any_indices(shape):
    basic = numpy_strategies.basic_indices(shape, allow_newaxis=True)
    return strategies.one_of(basic, mixed_indices(shape), masked_indices(shape))


cases = shapes.flatmap(lambda s: strategies.tuples(strategies.just(s), any_indices(s)))


def with_nodes(index, seed=0):
    """Some of the index arrays given as nodes, whose value is not known while recording."""
    rng = np.random.default_rng(seed)
    entries = index if isinstance(index, tuple) else (index,)
    return tuple(
        leaf(entry) if isinstance(entry, np.ndarray) and rng.random() < 0.6 else entry
        for entry in entries
    )


def expected_read(shape, index):
    """NumPy's answer; examples that NumPy refuses are not counted."""
    try:
        return np.asarray(numbered(shape)[index])
    except IndexError:
        with pytest.raises(IndexError):
            normalize_index(index, shape)
        hypothesis.reject()


def fitting_value(rng, shape):
    """An array that broadcasts to `shape`: axes left out or of size 1, or further ones before."""
    own = [1 if rng.random() < 0.3 else n for n in shape]
    own = own[int(rng.integers(0, len(own) + 1)) :] if rng.random() < 0.4 else own
    own = [1, *own] if shape and rng.random() < 0.1 and own == list(shape) else own
    return rng.standard_normal(own)


@hypothesis.given(cases)
@settings
def test_reading_matches_numpy(case):
    shape, index = case
    expected = expected_read(shape, index)
    x = leaf(numbered(shape))
    for own in (index, with_nodes(index)):
        node = take_index(x, own, known_value)
        assert node is not x
        np.testing.assert_array_equal(computed(node), expected, strict=True)
    assert normalize_index(index, shape).shape == expected.shape


@hypothesis.given(cases, strategies.integers(0, 1000))
@settings
def test_assignment_matches_numpy(case, seed):
    shape, index = case
    v = fitting_value(np.random.default_rng(seed), expected_read(shape, index).shape)
    x = numbered(shape)
    expected = x.copy()
    try:
        expected[index] = v
    except TypeError:  # NumPy wants no more than one axis in a value for a lone mask
        hypothesis.reject()
    for own in (index, with_nodes(index, seed)):
        node = assign_index(leaf(x), own, leaf(v), known_value)
        np.testing.assert_array_equal(computed(node), expected, strict=True)


@hypothesis.given(cases, strategies.integers(0, 1000))
@settings
def test_addition_matches_numpy(case, seed):
    shape, index = case
    v = fitting_value(np.random.default_rng(seed), expected_read(shape, index).shape)
    x = numbered(shape)
    expected = x.copy()
    target = expected_read(shape, index).shape
    np.add.at(expected, index, v.reshape(v.shape[max(v.ndim - len(target), 0) :]))
    for own in (index, with_nodes(index, seed)):
        node = add_at_index(leaf(x), own, leaf(v), known_value)
        np.testing.assert_allclose(computed(node), expected, rtol=1e-13)


@hypothesis.given(case=cases, seed=strategies.integers(0, 1000))
@hypothesis.settings(settings, max_examples=hypothesis.settings.default.max_examples)
def test_adjoints(case, seed, check_adjoint):
    shape, index = case
    rng = np.random.default_rng(seed)
    v = fitting_value(rng, expected_read(shape, index).shape)
    x = rng.standard_normal(shape)
    own = with_nodes(index, seed)
    check_adjoint(lambda x: take_index(x, own, known_value), x, rng=rng)
    check_adjoint(lambda x, v: assign_index(x, own, v, known_value), x, v, rng=rng)
    check_adjoint(lambda x, v: add_at_index(x, own, v, known_value), x, v, rng=rng)


@pytest.mark.parametrize(
    ("index", "shape"),
    [
        (np.bool_(True), (1, 2, 3, 4)),
        (np.array(False), (0, 2, 3, 4)),
        (np.int8(-1), (3, 4)),
        (np.array(1), (3, 4)),
        ([1, 0, 1], (3, 3, 4)),
        ([], (0, 3, 4)),
        ([True, False], (1, 3, 4)),
        (((0, 1), (2, 0)), (2, 4)),
        ((slice(np.int64(1), None), ...), (1, 3, 4)),
        (np.array([0, 1], np.uint64), (2, 3, 4)),
        (np.array([[0, 1]])[:, ::-1], (1, 2, 3, 4)),
    ],
)
def test_forms_of_indices(index, shape):
    x = numbered((2, 3, 4))
    assert x[index].shape == shape
    np.testing.assert_array_equal(computed(take_index(leaf(x), index)), x[index], strict=True)


def test_one_and_true_are_different_indices():
    assert normalize_index(1, (3,)).shape == ()
    assert normalize_index(True, (3,)).shape == (1, 3)
    assert normalize_index((slice(1, 2),), (3,)).shape == (1,)
    with pytest.raises(TypeError, match="slice indices must be integers"):
        normalize_index((slice(1.0, 2.0),), (3,))


def test_known_indices_are_not_checked_by_kernels():
    x = leaf(numbered((4, 3)))
    known = take_index(x, np.array([-1, 2]))
    assert known.params == {"checked": False}
    np.testing.assert_array_equal(known.inputs[1].value, [3, 2])
    assert take_index(x, leaf(np.array([-1, 2]))).params == {"checked": True}


def test_index_arrays_are_copied():
    i = np.array([0, 1])
    node = take_index(leaf(numbered((4,))), i)
    i[:] = 3
    np.testing.assert_array_equal(computed(node), [1, 2])


def test_kernels_name_the_axis_of_the_user():
    x = leaf(numbered((4, 3)))
    node = take_index(x, (slice(None), leaf(np.array([0, 3]))))
    text = "gather: index 3 is out of bounds for axis 1 with size 3"
    with pytest.raises(IndexError, match=re.escape(text)):
        computed(node)


@pytest.mark.parametrize(
    ("index", "error", "text"),
    [
        (3, IndexError, "index: index 3 is out of bounds for axis 0 with size 3\n  expected: -3"),
        ((0, -5), IndexError, "index: index -5 is out of bounds for axis 1 with size 4"),
        (
            (slice(None), np.array([1, 4])),
            IndexError,
            "index: index 4 is out of bounds for axis 1 with size 4",
        ),
        ([2**63], IndexError, "index: index 9223372036854775808 is out of bounds for axis 0"),
        ((0, 0, 0), IndexError, "index: too many indices\n  shape        : (3, 4)"),
        ((..., 0, ...), IndexError, "index: more than one ..."),
        (1.0, IndexError, "index: not an index"),
        ("a", IndexError, "index: not an index"),
        (np.array([1.0]), IndexError, "float64 array"),
        ([[1], [1, 2]], IndexError, "index: not an index"),
        (leaf(np.array([1.0])), IndexError, "index: not an index"),
        (slice(None, None, 0), ValueError, "slice step cannot be zero"),
        (
            np.ones((3, 2), bool),
            IndexError,
            "index: the mask does not have the shape of the axes it indexes\n  mask : (3, 2)",
        ),
        (
            ([0, 1], [0, 1, 2]),
            IndexError,
            "index: index arrays do not broadcast together\n  index of axis 0 : (2,)",
        ),
        (
            leaf(np.ones(3, bool)),
            TracingError,
            "index: the shape of the result depends on the value of the mask",
        ),
    ],
)
def test_refusals(index, error, text):
    with pytest.raises(error, match=re.escape(text)):
        take_index(leaf(np.ones((3, 4))), index)


@pytest.mark.parametrize("write", [assign_index, add_at_index])
@pytest.mark.parametrize("index", [slice(2), [0, 1]])
def test_value_of_another_shape(write, index):
    text = "assignment: v does not broadcast to the shape of x[index]\n  x[index] : (2, 4)"
    with pytest.raises(ShapeError, match=re.escape(text)):
        write(leaf(np.ones((3, 4))), index, leaf(np.ones(3)))


@pytest.mark.parametrize("v", [np.array(7.0), np.array([7.0]), np.array([[7.0, 8.0]])])
def test_assignment_through_a_mask_needs_no_value_of_it(v):
    x = numbered((2, 3, 2))
    mask = x[..., 0] > 4
    expected = x.copy()
    expected[mask, :] = v

    def refuse(node: Node) -> np.ndarray:
        raise AssertionError(f"the value of {node} was asked for")

    node = assign_index(leaf(x), (leaf(mask), slice(None)), leaf(v), refuse)
    np.testing.assert_array_equal(computed(node), expected)


def test_assigned_value_takes_the_dtype_of_the_array():
    node = assign_index(leaf(np.zeros(3, np.float32)), 1, leaf(np.array(2.5)))
    assert node.dtype == np.float32
    np.testing.assert_array_equal(computed(node), [0, 2.5, 0])


def test_overwritten_history_stays_in_the_graph():
    x = leaf(np.ones(3), requires_grad=True)
    assert assign_index(x, slice(None), leaf(np.zeros(3))).requires_grad


def operations(node: Node) -> set[str]:
    return {x.op.name for x in toposort([node])}


ROWS, COLUMNS = np.arange(12), np.arange(20)
BY_MESH = np.meshgrid((ROWS + 1) % 12, COLUMNS - 1, indexing="ij")
NEIGHBOURS = {
    "around": (ROWS + 1) % 12,
    "before, from the end": ROWS - 1,
    "to the end": np.minimum(ROWS + 2, 11),
    "inside": ROWS[1:-1] - 1,
    "of columns": (slice(None), (COLUMNS - 3) % 20),
    "of a row": (3, (COLUMNS + 1) % 20),
    "of rows in a column": ((ROWS + 1) % 12, 3),
    "far axes": (0, slice(None), np.arange(9) - 1),
    "of a region": (slice(1, 11), COLUMNS - 1, slice(None, None, -1)),
    "with a new axis": (None, (ROWS + 1) % 12),
    "both": np.ix_((ROWS + 1) % 12, (COLUMNS - 2) % 20),
    "mesh": tuple(BY_MESH),
    "windows": (slice(None), (COLUMNS[:, None] + [-1, 0, 1]) % 20),
    "many windows": (0, np.arange(9)[:, None] + np.arange(12)),
    "in a list": np.array([ROWS - 1, ROWS, (ROWS + 1) % 12]),
    "one, in a list": (slice(None), [-1]),
    "one, in a list, beside a number": (1, slice(None), [4]),
    "two, in a list": [3, 4],
}


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_neighbours_of_all_elements_are_slices(name):
    x = np.random.default_rng(0).normal(size=(12, 20, 9))
    index = NEIGHBOURS[name]
    node = take_index(leaf(x), index)
    assert "gather" not in operations(node)
    np.testing.assert_array_equal(computed(node), x[index])


OF_TWO_AXES = {"both", "mesh", "windows", "many windows", "in a list"}


@pytest.mark.parametrize("name", [x for x in NEIGHBOURS if x not in OF_TWO_AXES])
def test_neighbours_of_all_elements_are_written_as_slices(name):
    random = np.random.default_rng(0)
    x, index = random.normal(size=(12, 20, 9)), NEIGHBOURS[name]
    v = random.normal(size=x[index].shape)
    for assign in (assign_index, add_at_index):
        node = assign(leaf(x), index, leaf(v))
        assert not {"scatter_set", "scatter_add"} & set(operations(node))
        expected = x.copy()
        if assign is assign_index:
            expected[index] = v
        else:
            np.add.at(expected, index, v)
        np.testing.assert_array_equal(computed(node), expected)


OTHERS = {
    "a batch": np.arange(4, 9),  # a program for each would be many
    "all but one": np.delete(np.arange(40), 3),
    "far away": (np.arange(40) + 20) % 40,
    "backwards": np.arange(40)[::-1],
    "in no order": np.random.default_rng(0).permutation(40),
    "on the diagonal": (np.arange(40), np.arange(40)),
    "few": np.array([1, 2, 0]),
    "one": np.array([3]),
    "in a list, not in order": [2, 1],
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_indices_are_data(name):
    x = np.random.default_rng(0).normal(size=(40, 40))
    index = OTHERS[name]
    node = take_index(leaf(x), index)
    assert "gather" in operations(node)
    np.testing.assert_array_equal(computed(node), x[index])
