"""Small programs in plain NumPy, as people write them: what `perf/first_gradient.py` measures.

A program is a function of a namespace and arrays, `f(np, x, ...)`; the namespace is that of the
library at hand. Where to start reading: `expressions.py`. Numbers that are not arrays, such as how
many steps a loop makes, are keyword arguments; a program that names several numbers of steps is
as many programs. What a library cannot express is written for it once more, or left out:

    @program(inputs=lambda random, n: [random.normal(size=n)])
    def squares(np, x): ...

    @squares.written_for("jax")
    def _(np, x): ...

    squares.left_out("autograd", "has no ...")
"""

import importlib
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

Function = Callable[..., Any]
Inputs = Callable[[np.random.Generator, int], Sequence[np.ndarray]]

GRADIENT = "gradient"  # value and gradients
HESSIAN = "Hessian"  # of the first argument
OWN = "own"  # it asks for gradients itself: `f(np, value_and_grad, x, ...)` gives a list of arrays
DOUBLE = "gradient of a gradient"  # value and gradient of the squares of the gradient

SMALL = (
    "expressions",
    "loops",
    "states",
    "recurrences",
    "algebra",
    "orders",
    "looks",
    "control_flow",
)
# As scientists write them: longer, of many operations that differ.
SCIENCE = (
    "fields",
    "algorithms",
    "mechanics",
    "optics",
    "rates",
    "estimation",
    "markets",
    "learning",
)
WHOLE = "whole"
FEWER_STEPS = 12  # for tests, and where only the operations matter


@dataclass(slots=True)
class Program:
    name: str
    group: str
    function: Function
    inputs: Inputs
    size: int = 6  # what `inputs` is given
    numbers: dict[str, Any] = field(default_factory=dict)
    wrt: Sequence[int] | None = None  # by default every argument
    kind: str = GRADIENT
    tolerance: float = 1e-6  # of values and gradients, relative to the largest of each array
    looks: bool = False  # at values, to decide how it goes on: nothing that a jit can trace
    others: dict[str, Function] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def function_for(self, library: str) -> Function:
        """Of arrays alone."""
        f = self.others.get(library, self.function)
        return lambda np, *arrays: f(np, *arrays, **self.numbers)

    def arguments(self, size: int | None = None) -> list[np.ndarray]:
        """The same ones each time."""
        random = np.random.default_rng(zlib.crc32(self.group.encode()))
        return list(self.inputs(random, self.size if size is None else size))

    def variables(self, arguments: Sequence[Any]) -> Sequence[int]:
        return range(len(arguments)) if self.wrt is None else self.wrt

    def in_short(self) -> "Program":
        """With fewer steps."""
        numbers = dict(self.numbers)
        if "steps" in numbers:
            numbers["steps"] = min(numbers["steps"], FEWER_STEPS)
        return replace(self, numbers=numbers)

    @property
    def steps(self) -> int:
        return self.numbers.get("steps", 0)


class Family(list[Program]):
    """The programs of one function, for each number of steps."""

    def written_for(self, *libraries: str) -> Callable[[Function], Function]:
        def decorate(f: Function) -> Function:
            for member in self:
                member.others |= dict.fromkeys(libraries, f)
            return f

        return decorate

    def left_out(self, library: str, reason: str) -> None:
        for member in self:
            member.reasons[library] = reason


_collected: dict[str, list[Program]] = {}


def program(
    inputs: Inputs, steps: int | Sequence[int] = (), **properties: Any
) -> Callable[[Function], Family]:
    """Decorates the function."""

    def decorate(f: Function) -> Family:
        group = f.__module__.rpartition(".")[2]
        title = f.__name__.replace("_", " ")
        base = Program(title, group, f, inputs, **properties)
        family = Family([base])
        if steps:
            every = (steps,) if isinstance(steps, int) else steps
            family[:] = [
                replace(
                    base,
                    name=f"{title}, {count} steps",
                    numbers=base.numbers | {"steps": count},
                    others={},
                    reasons={},
                )
                for count in every
            ]
        _collected.setdefault(group, []).extend(family)
        return family

    return decorate


def programs(groups: Sequence[str] = SMALL) -> list[Program]:
    for group in groups:
        importlib.import_module(f"perf.programs.{group}")
    return [each for group in groups for each in _collected[group]]


def program_named(name: str) -> Program:
    for group in (*SMALL, *SCIENCE, WHOLE):
        for each in programs([group]):
            if each.name == name:
                return each
    raise ValueError(f"no program {name!r}")
