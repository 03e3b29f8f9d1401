"""Static arguments of jitted functions: how they are named, and told apart."""

from dataclasses import dataclass, field

import numpy as np
import pytest

import numba_grad as ng


@dataclass(frozen=True)
class Setting:
    value: object


def told_apart(k):
    """Something that Python computes of a static argument."""
    while isinstance(k, Setting | tuple | frozenset):
        [k] = [k.value] if isinstance(k, Setting) else k
    return 10.0 * isinstance(k, bool) + 20.0 * isinstance(k, float) + np.copysign(1.0, k)


@pytest.mark.parametrize("around", [lambda k: k, lambda k: (k,), lambda k: frozenset([k]), Setting])
def test_equal_values_of_different_types_differ(around):
    f = ng.jit(lambda x, k: x * told_apart(k), static_argnums=1)
    for k in (1, True, 1.0, 0.0, -0.0, 1):
        assert f(1.0, around(k)) == told_apart(k)


@dataclass
class WithSetting:
    value: object
    static: object = field(metadata={"static": True})


def test_equal_static_fields_of_different_types_differ():
    f = ng.jit(lambda x: x.value * told_apart(x.static))
    for k in (1, True, 1.0, 0.0, -0.0, (1,), (1.0,), np.float32(0.0), np.float32(-0.0)):
        assert f(WithSetting(1.0, k)) == told_apart(k)


def test_a_class_is_a_static_argument():
    f = ng.jit(lambda x, k: x * (k is Setting), static_argnums=1)
    assert f(2.0, Setting) == 2.0
    assert f(2.0, float) == 0.0


@pytest.mark.parametrize(
    "static",
    [{"static_argnums": 1}, {"static_argnums": -1}, {"static_argnames": "how"}],
)
def test_they_are_given_by_position_and_by_name(static):
    def f(x, how="sum"):
        return getattr(np, how)(x)

    jitted = ng.jit(f, **static)
    x = np.arange(1.0, 4.0)
    assert jitted(x) == jitted(x, "sum") == jitted(x=x, how="sum") == 6.0
    assert jitted(x, "max") == jitted(x, how="max") == jitted(how="max", x=x) == 3.0


def test_those_that_are_given_by_name_only():
    def f(x, /, *, how):
        return getattr(np, how)(x)

    assert ng.jit(f, static_argnames=["how"])(np.arange(3.0), how="max") == 2.0


def test_of_any_number_of_arguments_the_last_one():
    def f(*args):
        return sum(args[:-1]) * len(args[-1])

    assert ng.jit(f, static_argnums=-1)(1.0, 2.0, "abc") == 9.0
    assert ng.jit(f, static_argnums=-1)(1.0, "abc") == 3.0


def test_what_is_no_parameter_is_refused():
    def f(a, b, *, c=1):
        return a

    with pytest.raises(ValueError, match=r"static_argnames means no parameter .*\n.*'d'"):
        ng.jit(f, static_argnames=("b", "d"))
    with pytest.raises(ValueError, match=r"static_argnums means no parameter .*\n.* 2\n.*c=1"):
        ng.jit(f, static_argnums=2)
    ng.jit(lambda a, **options: a, static_argnames="d")
    ng.jit(lambda *args: args[0], static_argnums=7)
