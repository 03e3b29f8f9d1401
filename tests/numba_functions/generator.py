"""Programs at random, as users write loops: nests, overwriting, branches, `while`, early exits,
callees, buffers that are swapped, slices, indices that are data.

A program is a tree of statements, so that one that fails can be made smaller by leaving parts out.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

N = 5  # the length of vectors, and of both axes of matrices

PARAMETERS = ("a", "b", "m", "p", "s", "t", "steps")
VECTORS, MATRICES, NUMBERS = ("a", "b"), ("m",), ("s", "t")


@dataclass(frozen=True)
class Statement:
    """A line, and for a compound statement what is indented under it."""

    line: str
    body: tuple["Statement", ...] | None = None
    needed: bool = False  # a loop would not end without it

    def text(self, depth: int) -> str:
        own = "    " * depth + self.line + "\n"
        if self.body is None:
            return own
        inner = "".join(part.text(depth + 1) for part in self.body)
        return own + (inner or "    " * (depth + 1) + "pass\n")


# So that all three are results, whatever else is done.
ALWAYS_WRITTEN = ("a[1] *= 0.9", "b[2] += 0.1 * s", "m[0, 3] -= 0.1 * b[2] * t")


@dataclass(frozen=True)
class RandomProgram:
    """A function of `PARAMETERS`, and others that it calls."""

    seed: int
    callees: tuple[str, ...]
    start: tuple[str, ...]  # variables
    body: tuple[Statement, ...]
    result: str

    @property
    def source(self) -> str:
        head = "import math\n\nimport numpy as np\nfrom numba import njit, prange\n"
        callees = "".join(f"\n\n@njit\n{text}" for text in self.callees)
        lines = "".join(f"    {line}\n" for line in (*ALWAYS_WRITTEN, *self.start))
        body = "".join(part.text(1) for part in self.body)
        result = f"    {self.result}\n" if self.result else ""
        return (
            f"{head}{callees}\n\n@njit\ndef program({', '.join(PARAMETERS)}):\n"
            f"{lines}{body}{result}"
        )

    def arguments(self) -> tuple[object, ...]:
        rng = np.random.default_rng(self.seed)
        return (
            rng.uniform(-1, 1, N),
            rng.uniform(-1, 1, N),
            rng.uniform(-1, 1, (N, N)),
            rng.integers(0, N, N),
            float(rng.uniform(-1, 1)),
            float(rng.uniform(0.5, 1.5)),
            3,
        )


CALLEES = (
    "def bent(x, y):\n    if x > y:\n        return x * 0.5 + y\n    return x - 0.3 * y * y\n",
    "def pair(x, y):\n    return x * y, math.tanh(x + y)\n",
    "def relax(v, w, k):\n"
    "    for i in range(1, v.shape[0] - 1):\n"
    "        v[i] = 0.4 * (v[i - 1] + v[i + 1]) + k * w[i]\n",
    "def weighted(v, w):\n"
    "    total = 0.0\n"
    "    for i in range(len(v)):\n"
    "        total += v[i] * w[i]\n"
    "    return total / len(v)\n",
    "def settled(x, most):\n"
    "    k = 0\n"
    "    while abs(math.cos(x) - x) > 1e-3 and k < most:\n"
    "        x = 0.5 * (x + math.cos(x))\n"
    "        k += 1\n"
    "    return x\n",
    "def smoothed(v):\n"
    "    out = np.empty_like(v)\n"
    "    last = v[-1]\n"
    "    for i, x in enumerate(v):\n"
    "        out[i] = 0.5 * (x + last)\n"
    "        last = x\n"
    "    return out\n",
)


@dataclass
class _Scope:
    """What may be named at a place."""

    vectors: list[str]
    matrices: list[str]
    numbers: list[str]  # floating
    indices: list[str]  # in range(N)
    loops: int = 0  # around it
    fresh: list[int] = field(default_factory=lambda: [0])

    def inner(self, loops: int = 0) -> "_Scope":
        return replace(
            self,
            loops=self.loops + loops,
            vectors=[*self.vectors],
            matrices=[*self.matrices],
            numbers=[*self.numbers],
            indices=[*self.indices],
        )

    def name(self, stem: str) -> str:
        self.fresh[0] += 1
        return f"{stem}{self.fresh[0]}"


class Generator:
    """Statements and expressions, from one source of chance."""

    def __init__(self, seed: int, size: int) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.size = size
        self.left = size

    def program(self) -> RandomProgram:
        scope = _Scope(["a", "b"], ["m"], ["s", "t"], [])
        start = ["x = s", "y = t * 0.5", "count = 0"]
        scope.numbers += ["x", "y"]
        for name, text in (("u", "a.copy()"), ("v", "np.zeros_like(b)"), ("w", "np.empty(len(a))")):
            if self.random.random() < 0.5:
                lines = f"{name} = {text}"
                if "empty" in text:
                    lines += f"\n    {name}[:] = b * 0.5"
                start.append(lines)
                scope.vectors.append(name)
        if self.random.random() < 0.3:
            start.append("z = np.zeros((len(a), b.shape[0]))")
            scope.matrices.append("z")
        body = self.block(scope, most=6)
        return RandomProgram(self.seed, CALLEES, tuple(start), body, self.result(scope))

    def result(self, scope: _Scope) -> str:
        locals_ = [v for v in scope.vectors if v not in VECTORS]
        choices = ["return x", "return x, y", "return x + y, count"]
        if locals_:
            choices += [f"return {locals_[0]}", f"return {locals_[-1]}, x"] * 2
        return self.random.choice(choices)

    def block(self, scope: _Scope, most: int) -> tuple[Statement, ...]:
        statements: list[Statement] = []
        for _ in range(self.random.randint(1, most)):
            if self.left <= 0:
                break
            self.left -= 1
            statements += self.statement(scope)
        return tuple(statements)

    def statement(self, scope: _Scope) -> list[Statement]:
        makers: list[tuple[int, Callable[[_Scope], list[Statement]]]] = [
            (4, self.assignment),
            (6, self.store),
            (3, self.augmented_store),
            (3, self.whole_array),
            (1, self.swap),
            (2, self.another_array),
            (2, self.call),
            (1, self.exchange),
        ]
        if scope.loops < 3:
            makers += [(6, self.for_loop), (2, self.while_loop), (4, self.branch)]
            makers += [(1, self.for_values), (1, self.row_view)]
        if scope.loops:
            makers += [(1, self.leave)]
        weights = [weight for weight, _ in makers]
        return self.random.choices([make for _, make in makers], weights)[0](scope)

    # Statements.

    def assignment(self, scope: _Scope) -> list[Statement]:
        name = self.random.choice(["x", "y"])
        form = self.random.randrange(5)
        if form == 0:
            return [Statement(f"{name} += 0.1 * {self.value(scope)}")]
        if form == 1:
            return [Statement(f"{name} *= {self.value(scope)}")]
        if form == 2:
            name = scope.name("c")
            line = Statement(f"{name} = {self.value(scope)}")
            scope.numbers.append(name)
            return [line]
        return [Statement(f"{name} = {self.value(scope)}")]

    def store(self, scope: _Scope) -> list[Statement]:
        return [Statement(f"{self.element(scope)} = {self.value(scope)}")]

    def augmented_store(self, scope: _Scope) -> list[Statement]:
        operator = self.random.choice(["+=", "+=", "-=", "*=", "/="])
        right = self.value(scope)
        if operator == "/=":
            right = f"(1.5 + abs({right}))"
        return [Statement(f"{self.element(scope)} {operator} {right}")]

    def whole_array(self, scope: _Scope) -> list[Statement]:
        one, two = (self.random.choice(scope.vectors) for _ in range(2))
        matrix = self.random.choice(scope.matrices)
        number, k = self.value(scope, 1), self.index(scope)
        lines = [
            f"{one}[1:-1] = 0.5 * ({two}[:-2] - {two}[2:])",
            f"{one}[1:] = {two}[:-1]",
            f"{one}[:] = {two} * {number}",
            f"{one} *= np.tanh({two})",
            f"{one}[:] = np.sin({two}) + {number}",
            f"{one}[::2] += {two}[::2] * {self.random.choice(scope.numbers)}",
            f"{one}[::-1] = {two} * 0.9",
            f"{matrix}[{k}] = {one}",
            f"{matrix}[{k}, :] += 0.3 * {one}",
            f"{matrix}[:, {k}] = {one} + {matrix}[{k}, :]",
            f"{matrix}[1:, :-1] -= 0.2 * {matrix}[:-1, 1:]",
            f"{one}[:] = 0.3 * ({matrix} @ {two})",
            f"{one}[:] = 0.4 * smoothed({two})",
            f"{one} -= {number}",
            f"{one}[{k}] = 0.3 * np.dot({one}, {two})",
            f"{one}[{k}] = 0.3 * np.sum({matrix}[{k}] * {two})",
            f"x = 0.3 * np.sum({one})",
            f"y = {one}.mean() + {two}.max()",
            f"{one}[:] = np.where({two} > {number}, {one}, 0.5 * {two})",
            f"{matrix} *= 0.8",
            f"{matrix}[:] = {matrix}.T",
            f"{matrix} -= 0.1 * np.outer({one}, {two})",
        ]
        return [Statement(self.random.choice(lines))]

    def swap(self, scope: _Scope) -> list[Statement]:
        if len(scope.vectors) < 2:
            return []
        one, two = self.random.sample(scope.vectors, 2)
        return [Statement(f"{one}, {two} = {two}, {one}")]

    def another_array(self, scope: _Scope) -> list[Statement]:
        """A variable that is given a new array, or seldom a second name of one."""
        own = [name for name in scope.vectors if name in ("u", "v", "w")]
        if not own:
            return []
        one, two = self.random.choice(own), self.random.choice(scope.vectors)
        forms = [
            f"{one} = {one} + 0.1 * {two}",
            f"{one} = np.sin({two}) * {self.random.choice(scope.numbers)}",
            f"{one} = {two}.copy()",
            f"{one} = 0.4 * smoothed({two})",
            f"{one} = 0.3 * ({self.random.choice(scope.matrices)} @ {two})",
            f"{one} = 0.5 * {two} if {self.condition(scope)} else {one} - 0.2 * {two}",
        ]
        if self.random.random() < 0.15:
            forms = [f"{one} = {two}"]
        return [Statement(self.random.choice(forms))]

    def exchange(self, scope: _Scope) -> list[Statement]:
        if self.random.random() < 0.5:
            return [Statement("x, y = y, 0.5 * x")]
        one, i, j = self.random.choice(scope.vectors), self.index(scope), self.index(scope)
        return [Statement(f"{one}[{i}], {one}[{j}] = {one}[{j}], {one}[{i}]")]

    def call(self, scope: _Scope) -> list[Statement]:
        one, two = (self.random.choice(scope.vectors) for _ in range(2))
        if one == two:
            two = next(v for v in scope.vectors if v != one)
        value = self.value(scope, 1)
        lines = [
            f"x, y = pair({value}, y)",
            f"relax({one}, {two}, {value})",
            f"x = settled({value}, steps)",
            f"y = weighted({one}, {two})",
            f"relax({self.random.choice(scope.matrices)}[{self.index(scope)}], {two}, 0.2)",
        ]
        return [Statement(self.random.choice(lines))]

    def for_loop(self, scope: _Scope) -> list[Statement]:
        inner = scope.inner(loops=1)
        i = scope.name("i")
        ranges = ["len(a)", "1, len(a) - 1", "a.shape[0] - 1, -1, -1", "0, len(b), 2", "steps"]
        ranges += [f"{k}" for k in scope.indices[-1:]] + [
            f"{k}, len(a)" for k in scope.indices[-1:]
        ]
        line = f"for {i} in range({self.random.choice(ranges)}):"
        inner.indices.append(i)
        return [Statement(line, self.block(inner, most=4))]

    def for_values(self, scope: _Scope) -> list[Statement]:
        inner = scope.inner(loops=1)
        value = scope.name("e")
        one, two = (self.random.choice(scope.vectors) for _ in range(2))
        if self.random.random() < 0.5:
            i = scope.name("i")
            line = f"for {i}, {value} in enumerate({one}):"
            inner.indices.append(i)
        else:
            other = scope.name("e")
            line = f"for {value}, {other} in zip({one}, {two}):"
            inner.numbers.append(other)
        inner.numbers.append(value)
        return [Statement(line, self.block(inner, most=3))]

    def while_loop(self, scope: _Scope) -> list[Statement]:
        inner = scope.inner(loops=1)
        k = scope.name("k")
        start, step = Statement(f"{k} = 0"), Statement(f"{k} += 1", needed=True)
        inner.indices.append(f"({k} % len(a))")
        body = self.block(inner, most=3)
        if self.random.random() < 0.5:
            condition = f"{k} < 4 and ({self.condition(scope)})"
            return [start, Statement(f"while {condition}:", (step, *body))]
        # Before the rest, which may say `continue`.
        condition = f"{k} > 3 or {self.condition(inner)}"
        leave = Statement(f"if {condition}:", (Statement("break", needed=True),), needed=True)
        return [start, Statement("while True:", (step, leave, *body))]

    def branch(self, scope: _Scope) -> list[Statement]:
        parts = [Statement(f"if {self.condition(scope)}:", self.block(scope.inner(), most=3))]
        if self.random.random() < 0.3:
            condition = self.condition(scope)
            parts.append(Statement(f"elif {condition}:", self.block(scope.inner(), most=2)))
        if self.random.random() < 0.6:
            parts.append(Statement("else:", self.block(scope.inner(), most=3)))
        return parts

    def row_view(self, scope: _Scope) -> list[Statement]:
        name = scope.name("r")
        matrix = self.random.choice(scope.matrices)
        line = Statement(f"{name} = {matrix}[{self.index(scope)}]")
        inner = scope.inner()
        inner.vectors.append(name)
        use = Statement(f"{name}[{self.index(scope)}] = {self.value(inner)}")
        return [line, use, Statement(f"{name} *= {self.value(inner, 1)}")]

    def leave(self, scope: _Scope) -> list[Statement]:
        kind = self.random.choice(["break", "continue", "count += 1"])
        return [Statement(f"if {self.condition(scope)}:", (Statement(kind),))]

    # Expressions.

    def element(self, scope: _Scope) -> str:
        if self.random.random() < 0.35:
            matrix = self.random.choice(scope.matrices)
            return f"{matrix}[{self.index(scope)}, {self.index(scope)}]"
        return f"{self.random.choice(scope.vectors)}[{self.index(scope)}]"

    def index(self, scope: _Scope) -> str:
        """An integer in range(N), or negative and as far from the end."""
        if not scope.indices or self.random.random() < 0.15:
            return self.random.choice(["0", "1", "-1", "2", "p[1]"])
        name = self.random.choice(scope.indices[-2:])
        form = self.random.randrange(8)
        if form == 0:
            return f"({name} + 1) % len(a)"
        if form == 1:
            return f"p[{name}]"
        if form == 2:
            return f"len(a) - 1 - {name}"
        if form == 3:
            return f"{name} - 1"
        return name

    def condition(self, scope: _Scope) -> str:
        left, right = self.atom(scope), self.value(scope, 1)
        form = self.random.randrange(6)
        if form == 0 and scope.indices:
            return f"{scope.indices[-1]} % 2 == 0"
        if form == 1:
            return f"{left} < {right} or {self.atom(scope)} > 0.8"
        if form == 2:
            return f"not {left} > {right}"
        if form == 3:
            return f"-0.7 < {left} < 0.6"
        return f"{left} {self.random.choice(['<', '>', '<=', '>='])} {right}"

    def atom(self, scope: _Scope) -> str:
        if self.random.random() < 0.45:
            return self.random.choice(scope.numbers)
        return self.element(scope)

    def value(self, scope: _Scope, depth: int = 2) -> str:
        if depth == 0 or self.random.random() < 0.2:
            return self.atom(scope)
        x, y = self.value(scope, depth - 1), self.value(scope, depth - 1)
        forms = [
            f"{x} + {y}",
            f"{x} - {y}",
            f"0.7 * ({x}) * ({y})",
            f"0.5 * ({x} + {y})",
            f"math.sin({x})",
            f"math.tanh({x} - {y})",
            f"({x}) / (1.0 + ({y}) ** 2)",
            f"np.sqrt(1.0 + ({x}) ** 2)",
            f"np.exp(-abs({x}))",
            f"max({x}, {y})",
            f"min({x}, 0.5)",
            f"bent({x}, {y})",
            f"({x} if {self.condition(scope)} else {y})",
            f"abs({x})",
            f"-({x})",
            f"0.3 * ({x}) ** 3",
            f"({x}) * {self.random.uniform(-1, 1):.2f}",
            f"weighted({scope.vectors[0]}, {scope.vectors[-1]})",
        ]
        return self.random.choice(forms)


# Numba inlines a comprehension, and then leaves out writes to what `for` goes through, such as the
# rows of a matrix: so comprehensions stand in functions of their own.
MORE_CALLEES = (
    "def chosen(v, least):\n"
    "    found = [0.5 * x + least for x in v if x > least]\n"
    "    found.append(least)\n"
    "    return sum(found) / len(found)\n",
    "def first_above(v, least, k=2):\n"
    "    for i in range(len(v)):\n"
    "        if v[i] > least:\n"
    "            return v[i] * 0.5\n"
    "        least -= 0.1 * v[i - k]\n"
    "    return least\n",
    "def mixed(v, w, factor=0.5):\n"
    "    kept = v * factor\n"
    "    for i in range(len(v)):\n"
    "        if kept[i] < 0.0:\n"
    "            continue\n"
    "        v[i] = kept[i] - 0.3 * w[-1 - i]\n"
    "    return kept[1] + v[0] * w[2]\n",
)


class WideGenerator(Generator):
    """As users write, too: lists, tuples of arrays, steps that are data, early returns, arrays of
    indices and masks, `np.ndindex`, `prange`, callees that write and return."""

    def program(self) -> RandomProgram:
        made = super().program()
        return replace(made, callees=(*made.callees, *MORE_CALLEES))

    def result(self, scope: _Scope) -> str:
        return "return x, y"

    def statement(self, scope: _Scope) -> list[Statement]:
        if self.random.random() < 0.5:
            return super().statement(scope)
        makers = [
            self.by_steps,
            self.by_arrays,
            self.list_of_numbers,
            self.tuple_of_numbers,
            self.local_array,
            self.another_call,
        ]
        if scope.loops < 2:
            makers += [self.loop_over_places, self.loop_over_arrays, self.parallel_loop]
            makers += [self.loop_with_range]
        if scope.loops:
            makers += [self.early_return]
        return self.random.choice(makers)(scope)

    def step(self, scope: _Scope) -> str:
        steps = ["steps", "(1 - steps)", "p[0] + 1", "-1 - p[2]", "2", "-3"]
        steps += [f"1 + {k} % 3" for k in scope.indices[-1:]]
        return self.random.choice(steps)

    def by_steps(self, scope: _Scope) -> list[Statement]:
        one, two = (self.random.choice(scope.vectors) for _ in range(2))
        matrix, k = self.random.choice(scope.matrices), self.index(scope)
        step = scope.name("h")
        lines = [
            f"{one}[::{step}] *= 0.8",
            f"{one}[1::{step}] = {two}[1::{step}] * 0.7",
            f"{one}[::{step}] += 0.1 * {self.value(scope, 1)}",
            f"{matrix}[::{step}, {k}] = {matrix}[::{step}, 1] * {self.atom(scope)}",
            f"x = 0.2 * np.sum({one}[{k}:{self.index(scope)}:{step}])",
            f"{matrix}[{k}][::{step}] -= 0.2 * {two}[::{step}]",
            f"y = 0.3 * np.sum({matrix}[::{step}, ::-1] ** 2)",
        ]
        return [Statement(f"{step} = {self.step(scope)}"), Statement(self.random.choice(lines))]

    def by_arrays(self, scope: _Scope) -> list[Statement]:
        one, two = (self.random.choice(scope.vectors) for _ in range(2))
        matrix, k = self.random.choice(scope.matrices), self.index(scope)
        value = self.value(scope, 1)
        lines = [
            f"{one}[:] = {two}[p] * 0.9",
            f"{one}[p] = {two}.copy()",
            f"{one}[p] += 0.2 * {two}",
            f"{one}[{two} > {value}] = {self.atom(scope)}",
            f"{one}[{one} < {self.atom(scope)}] *= 0.5",
            f"x = 0.3 * {one}[{two} > -0.2].sum()",
            f"{matrix}[:, p] = {matrix}.copy()",
            f"{matrix}[p] = 0.9 * {matrix}",
            f"{matrix}[p, {k}] = {one} * 0.4",
            f"{matrix}[{k}, p] += 0.1 * {two}",
            f"{one}[:] = {one}[np.argsort({two})]",
            f"{one}.sort()",
            f"y = {one}[np.argmax({two})] + 0.1 * np.min({matrix})",
            f"{one}[:] = 0.4 * np.cumsum({two})",
            f"{one}[:-1] = np.diff({two})",
            f"{matrix}[:] = np.roll({matrix}, 2)",
            f"{one}[:] = np.clip({two}, -0.5, {self.atom(scope)})",
            f"np.multiply({one}, 0.9, {two})",
        ]
        return [Statement(self.random.choice(lines))]

    def list_of_numbers(self, scope: _Scope) -> list[Statement]:
        name, k, other = scope.name("found"), scope.name("i"), scope.name("e")
        vector = self.random.choice(scope.vectors)
        inner = scope.inner(loops=1)
        inner.indices.append(k)
        value = self.value(inner, 1)
        append = Statement(f"{name}.append({value})")
        use = self.random.choice(
            [
                f"x = 0.2 * sum({name})",
                f"y = 0.5 * {name}[-1] - {name}[0] * 0.1",
                f"x += 0.1 * {name}[len({name}) // 2] * len({name})",
                f"{vector}[1] = 0.3 * np.array({name}).sum()",
            ]
        )
        start = Statement(f"{name} = [{self.atom(scope)}]")
        form = self.random.randrange(4)
        if form == 0:
            return [Statement(f"x = chosen({vector}, {self.value(scope, 1)})")]
        if form == 1:
            branch = Statement(f"if {self.condition(inner)}:", (append,))
            return [start, Statement(f"for {k} in range(len(a)):", (branch,)), Statement(use)]
        if form == 2:
            inner_loop = Statement(f"for {other} in range({k}):", (append,))
            return [start, Statement(f"for {k} in range(len(a)):", (inner_loop,)), Statement(use)]
        grow = Statement(f"for {k} in range(steps):", (Statement(use), append))
        return [
            start,
            grow,
            Statement(f"for {other} in {name}:", (Statement(f"x += 0.1 * {other}"),)),
        ]

    def tuple_of_numbers(self, scope: _Scope) -> list[Statement]:
        name, one = scope.name("pair"), self.random.choice(scope.vectors)
        i, j = self.index(scope), self.index(scope)
        made = Statement(f"{name} = ({self.value(scope, 1)}, {self.value(scope, 1)}, {one}[{i}])")
        uses = [
            f"x, y = {name}[1], 0.5 * {name}[0]",
            f"{one}[{j}] = {name}[2] * 0.3",
            f"x = 0.3 * {name}[({i}) % 3]",
            f"x, _, y = {name}",
        ]
        return [made, Statement(self.random.choice(uses))]

    def local_array(self, scope: _Scope) -> list[Statement]:
        name = scope.name("w")
        one = self.random.choice(scope.vectors)
        forms = ["np.zeros(len(a))", f"{one} * {self.value(scope, 1)}", f"{one}[::-1].copy()"]
        forms += [f"np.full(5, {self.atom(scope)})", f"np.linspace({self.atom(scope)}, 0.5, 5)"]
        inner = scope.inner()
        inner.vectors.append(name)
        lines = [Statement(f"{name} = {self.random.choice(forms)}")]
        lines += [Statement(f"{name}[{self.index(inner)}] += {self.value(inner, 1)}")]
        use = [f"x = 0.2 * {name}.sum()", f"{one}[:] = {name}", f"{one} += 0.3 * {name}[::-1]"]
        return [*lines, Statement(self.random.choice(use))]

    def another_call(self, scope: _Scope) -> list[Statement]:
        one, two = (self.random.choice(scope.vectors) for _ in range(2))
        if one == two:
            two = next(v for v in scope.vectors if v != one)
        lines = [
            f"x = first_above({one}, {self.value(scope, 1)})",
            f"y = first_above({self.random.choice(scope.matrices)}[1], {self.atom(scope)}, k=1)",
            f"x = first_above({one}[::-1], 0.1) * 0.5",
        ]
        return [Statement(self.random.choice(lines))]

    def loop_over_places(self, scope: _Scope) -> list[Statement]:
        inner = scope.inner(loops=2)
        i, j = scope.name("i"), scope.name("j")
        value, matrix = scope.name("e"), self.random.choice(scope.matrices)
        form = self.random.randrange(4)
        if form == 3:
            inner.numbers.append(value)
            line = f"for {value} in {matrix}.flat:"
            return [Statement(line, self.block(inner, most=2))]
        inner.indices += [i, j]
        line = f"for {i}, {j} in np.ndindex({matrix}.shape):"
        if form == 1:
            inner.numbers.append(value)
            line = f"for ({i}, {j}), {value} in np.ndenumerate({matrix}):"
        if form == 2:
            line = f"for {i}, {j} in np.ndindex(steps, len(a) - 1):"
        first = Statement(f"{matrix}[{i}, {j}] *= 0.9")
        return [Statement(line, (first, *self.block(inner, most=2)))]

    def loop_over_arrays(self, scope: _Scope) -> list[Statement]:
        inner = scope.inner(loops=1)
        name, value = scope.name("r"), scope.name("e")
        one, two = (self.random.choice(scope.vectors) for _ in range(2))
        lines = [
            f"for {name} in ({one}, {two}, {one}):",
            f"for {name} in {self.random.choice(scope.matrices)}:",
            f"for {value}, {name} in zip((0.5, -0.3), ({two}, {one})):",
        ]
        line = self.random.choice(lines)
        if "zip" in line:
            inner.numbers.append(value)
        use = Statement(f"x += 0.1 * {name}[{self.index(scope)}] * {name}[2]")
        write = Statement(f"{name}[{self.index(inner)}] *= {self.value(inner, 1)}")
        return [Statement(line, (use, write, *self.block(inner, most=2)))]

    def parallel_loop(self, scope: _Scope) -> list[Statement]:
        i, (one, two) = scope.name("i"), (self.random.choice(scope.vectors) for _ in range(2))
        forms = [
            (f"{one}[{i}] = 0.5 * {one}[{i}] + 0.1 * {self.atom(scope)}",),
            (f"{one}[{i}] = bent({one}[{i}], {two}[{i}])",),
            (f"x += 0.1 * {one}[{i}]",),
        ]
        lines = self.random.choice(forms)
        return [Statement(f"for {i} in prange(len(a)):", tuple(map(Statement, lines)))]

    def loop_with_range(self, scope: _Scope) -> list[Statement]:
        inner = scope.inner(loops=1)
        i, k, value = scope.name("i"), scope.name("k"), scope.name("e")
        one = self.random.choice(scope.vectors)
        lines = [
            f"for {k}, {i} in enumerate(range(len(a) - 1, 0, -2)):",
            f"for {i}, {value} in zip(range(4, -1, -steps), {one}):",
            f"for {i}, ({k}, {value}) in zip(range(1, 5, 2), enumerate({one}[1:])):",
        ]
        line = self.random.choice(lines)
        inner.indices += [i, *([k] if k in line else [])]
        if value in line:
            inner.numbers.append(value)
        return [Statement(line, self.block(inner, most=3))]

    def early_return(self, scope: _Scope) -> list[Statement]:
        result = self.random.choice(["return y, x", f"return {self.value(scope, 1)}, x"])
        return [Statement(f"if {self.condition(scope)}:", (Statement(result),))]


def random_program(seed: int, size: int = 12, *, is_wide: bool = False) -> RandomProgram:
    return (WideGenerator if is_wide else Generator)(seed, size).program()


# Making them smaller.


def smaller(statements: Sequence[Statement]) -> Iterator[tuple[Statement, ...]]:
    """All ways to leave out one statement, or all but what is indented under it."""
    for k, statement in enumerate(statements):
        before, after = tuple(statements[:k]), tuple(statements[k + 1 :])
        if not statement.needed:
            yield before + after
        if statement.body is not None and not statement.needed:
            yield before + statement.body + after
            for body in smaller(statement.body):
                yield (*before, replace(statement, body=body), *after)


def reduced(program: RandomProgram, fails: Callable[[RandomProgram], bool]) -> RandomProgram:
    """A smallest part of a program that still fails."""
    while True:
        candidates = [replace(program, body=body) for body in smaller(program.body)]
        candidates += [
            replace(program, start=program.start[:k] + program.start[k + 1 :])
            for k in range(len(program.start))
        ]
        candidates += [
            replace(program, callees=program.callees[:k] + program.callees[k + 1 :])
            for k in range(len(program.callees))
        ]
        if program.result not in ("", "return x"):
            candidates.append(replace(program, result="return x"))
        if program.result == "return x":
            candidates.append(replace(program, result=""))
        found = next((candidate for candidate in candidates if fails(candidate)), None)
        if found is None:
            return program
        program = found
