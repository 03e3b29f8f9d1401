"""Small classes whose instances never change."""

import copy
import pickle
from dataclasses import field, replace

import pytest

from numba_grad.immutable import NamedTuple, immutable


@immutable
class Point:
    x: int
    y: int = 0
    names: tuple[str, ...] = field(default_factory=tuple)


@immutable
class Other:
    x: int
    y: int = 0
    names: tuple[str, ...] = ()


def test_instances_are_equal_by_class_and_fields() -> None:
    assert Point(1) == Point(1, 0, ())
    assert len({Point(1), Point(1, 0), Point(1, 2)}) == 2
    assert Point(1) != Other(1)
    assert replace(Point(1), y=3) == Point(1, 3)


def test_functions_are_those_of_the_class() -> None:
    @immutable
    class Pair:
        a: int
        b: int = 2

    @immutable
    class Triple(Pair):
        c: int = 3

    assert Triple(1).c == 3  # and not as the class that it is derived from
    assert (Pair(1).b, Pair(1)) == (2, Pair(a=1))
    assert Pair(1) != Triple(1)
    assert hash(Triple(1)) == hash(Triple(1, 2, 3))
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        Pair()  # type: ignore[call-arg]


def test_instances_show_their_fields_and_take_no_others() -> None:
    point = Point(1, names=("a",))
    assert repr(point) == "Point(x=1, y=0, names=('a',))"
    with pytest.raises(AttributeError):
        point.z = 1  # type: ignore[attr-defined]


def test_fields_are_matched_in_their_order() -> None:
    match Point(1, 2):
        case Point(x, y):
            assert (x, y) == (1, 2)


class Named(NamedTuple):
    """Three things."""

    first: int
    second: str = "b"
    third: tuple[int, ...] = ()

    @property
    def double(self) -> int:
        return 2 * self.first

    def count(self, value: object) -> int:
        return super().count(value) + 10


class Shown(NamedTuple):
    x: int

    def __repr__(self) -> str:
        return f"<{self.x}>"


def test_named_tuples_are_tuples() -> None:
    named = Named(1, third=(2,))
    assert named == (1, "b", (2,)) and isinstance(named, tuple)
    assert (named.first, named.second, named.third, named.double) == (1, "b", (2,), 2)
    assert named.count(1) == 11
    first, *rest = named
    assert (first, rest) == (1, ["b", (2,)])
    assert hash(named) == hash((1, "b", (2,)))
    assert not hasattr(named, "__dict__")
    with pytest.raises(AttributeError):
        named.first = 3  # type: ignore[misc]


def test_named_tuples_by_their_names() -> None:
    named = Named._make([1, "c", ()])
    assert named._fields == ("first", "second", "third")
    assert named._replace(first=4) == (4, "c", ()) and type(named._replace()) is Named
    assert named._asdict() == {"first": 1, "second": "c", "third": ()}
    assert repr(named) == "Named(first=1, second='c', third=())"
    assert repr(Shown(3)) == "<3>"
    with pytest.raises((TypeError, ValueError), match="fourth"):
        named._replace(fourth=1)
    with pytest.raises(TypeError, match=r"Named\.__new__\(\) missing 1 required .*'first'"):
        Named()  # type: ignore[call-arg]
    match named:
        case Named(first, _, third):
            assert (first, third) == (1, ())


def test_named_tuples_are_copied_and_pickled() -> None:
    named = Named(1, "c", (2,))
    for other in (copy.deepcopy(named), pickle.loads(pickle.dumps(named))):
        assert other == named and type(other) is Named
