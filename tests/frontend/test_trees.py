"""Nested containers of arrays."""

import collections
import dataclasses

import pytest

from numba_grad.frontend.inputs import trees

Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass(frozen=True)
class Model:
    weights: object
    bias: object
    name: str = dataclasses.field(default="linear", metadata={"static": True})


@dataclasses.dataclass
class Checked:
    value: object

    def __post_init__(self):
        if not isinstance(self.value, float):
            raise TypeError("value")


TREE = {"b": [1, (2, None)], "a": Model(3, Point(4, Model(5, 6, name="inner")))}


def test_leaves_come_from_left_to_right_with_dicts_by_key():
    leaves, _ = trees.flatten(TREE)
    assert leaves == [3, 4, 5, 6, 1, 2]


def test_a_tree_is_put_back_as_it_was():
    leaves, structure = trees.flatten(TREE)
    assert trees.unflatten(structure, leaves) == TREE


def test_structures_are_keys():
    first, second = trees.flatten(TREE)[1], trees.flatten(TREE)[1]
    assert first == second
    assert hash(first) == hash(second)
    assert first != trees.flatten({**TREE, "a": Model(3, 4)})[1]


def test_static_fields_are_part_of_the_structure():
    a, b = trees.flatten(Model(1, 2, name="a"))[1], trees.flatten(Model(1, 2, name="b"))[1]
    assert a != b


def test_dataclasses_are_put_back_without_their_checks():
    leaves, structure = trees.flatten(Checked(1.0))
    assert leaves == [1.0]
    assert trees.unflatten(structure, ["anything"]).value == "anything"


def test_leaves_are_named_as_a_user_would_write_them():
    _, structure = trees.flatten(TREE)
    assert trees.leaf_names(structure, "p")[1:4] == [
        "p['a'].bias.x",
        "p['a'].bias.y.weights",
        "p['a'].bias.y.bias",
    ]


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        (0, [0] * 6),
        (None, [None] * 6),
        ({"a": None, "b": 1}, [None] * 4 + [1, 1]),
        ({"a": Model(0, None), "b": [2, (3, None)]}, [0, None, None, None, 2, 3]),
    ],
)
def test_a_prefix_stands_for_the_leaves_below(prefix, expected):
    assert trees.broadcast_prefix(prefix, TREE) == expected


def test_what_is_no_prefix_is_refused():
    with pytest.raises(ValueError, match="tuple"):
        trees.broadcast_prefix({"a": 0, "b": [1, (2,)]}, TREE)
