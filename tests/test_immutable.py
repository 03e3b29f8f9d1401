"""Small classes whose instances never change."""

from dataclasses import field, replace

import pytest

from numba_grad.immutable import immutable


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
