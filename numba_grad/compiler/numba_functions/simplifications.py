"""A function's tree, written so that its derivatives become simpler.

    unrolled       loops of very few passes, over the components of a vector, are written out
    forwarded      what a variable was given is used in its place, where that is known
    selected       branches that only choose between numbers become selects: no jump that a
                   processor may guess wrong, in either sweep, and no flag on a tape
    accumulated    `a[i] = a[i] + x` becomes `a[i] += x`, whose adjoint leaves the cotangent of
                   `a[i]` as it is
    narrowed       a variable that each pass of a loop gives a value first is one of the pass: no
                   value, and no cotangent, comes from the pass before
    split          a loop is cut at the pass that writes what all passes read
                   (`split_at_elements.py`)
    hoisted        what a loop does in each pass alike is done once (`invariants.py`)

Values are bitwise those of before.
"""

from collections import Counter
from collections.abc import Collection, Sequence

from numba_grad.compiler.numba_functions.analyses import written
from numba_grad.compiler.numba_functions.builder import Builder
from numba_grad.compiler.numba_functions.invariants import hoisted
from numba_grad.compiler.numba_functions.regions import (
    FLOATS,
    Allocate,
    Define,
    For,
    If,
    Load,
    Memory,
    Scalar,
    Size,
    Statement,
    Store,
    Value,
    While,
    defined,
    nested,
    operands,
    substituted,
    walk,
    with_regions,
)
from numba_grad.compiler.numba_functions.scalar_operations import dtype_of
from numba_grad.compiler.numba_functions.split_at_elements import split_at_elements

# What may be computed although its branch is not taken: it costs no more than a jump, and a
# cotangent of 0 gives a cotangent of 0, whatever the arguments are.
_HARMLESS = {
    *("add", "subtract", "negative", "positive", "cast", "select", "maximum", "minimum"),
    *("less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "not", "bool"),
    *("bitwise_and", "bitwise_or", "bitwise_xor"),
}
# What conditions may be computed with beside: no cotangent comes to it.
_HARMLESS_IN_CONDITIONS = {*("multiply", "absolute", "sign", "isnan", "isfinite", "isinf")}
_LONGEST_BRANCH = 8
# Vectors have two to four components. Loops of more passes stay loops: text and tapes grow.
_MOST_PASSES = 4
_LONGEST_WRITTEN_OUT = 64  # statements


def simplified(
    body: list[Statement],
    builder: Builder,
    results: Collection[Memory],
    *,
    of_thread: bool = False,
) -> list[Statement]:
    """The statements, in fewer branches and with fewer variables; `results` are looked at later.

    `of_thread`: they are those of one thread of many, which share arrays.
    """
    straight = accumulated(forwarded(selected(unrolled(body, builder), builder)))
    cut = split_at_elements(narrowed(straight, results), builder)
    return hoisted(cut, builder, of_thread=of_thread)


# Loops over components.


def unrolled(statements: Sequence[Statement], builder: Builder) -> list[Statement]:
    """With the passes of short loops one after the other."""
    result: list[Statement] = []
    for s in statements:
        s = with_regions(s, lambda region: unrolled(region, builder))
        passes = _few_passes(s) if isinstance(s, For) else None
        if passes is None:
            result.append(s)
            continue
        assert isinstance(s, For)
        for index in passes:
            made = [x for inner in walk(s.body) if (x := defined(inner)) is not None]
            names: dict[Scalar, Value] = {x: builder.scalar(x.dtype) for x in made}
            result += substituted(s.body, names | {s.index: index})
    return result


def _few_passes(loop: For) -> range | None:
    """Its passes, if they are few and short."""
    ends = loop.start, loop.stop, loop.step
    if loop.leave is not None or loop.is_parallel or not all(type(x) is int for x in ends):
        return None
    passes = range(*ends)  # type: ignore[arg-type]
    is_straight = all(isinstance(s, Define | Size | Load | Store) for s in loop.body)
    is_short = len(passes) <= _MOST_PASSES and len(passes) * len(loop.body) <= _LONGEST_WRITTEN_OUT
    return passes if is_straight and is_short else None


# Branches that choose.


def selected(statements: Sequence[Statement], builder: Builder) -> list[Statement]:
    """With selects in place of branches that choose between numbers."""
    result: list[Statement] = []
    for s in statements:
        s = with_regions(s, lambda region: selected(region, builder))
        if isinstance(s, If) and _chooses(s.then) and _chooses(s.otherwise):
            result += _choice(s.condition, s.then, s.otherwise, builder)
            continue
        result.append(s)
    return result


def _chooses(branch: Sequence[Statement]) -> bool:
    if len(branch) > _LONGEST_BRANCH:
        return False
    stored = {s.value for s in branch if isinstance(s, Store)}  # and what it is computed from
    for s in reversed(branch):
        if isinstance(s, Define):
            numbers = [x for x in s.arguments if not isinstance(x, Scalar)]
            is_harmless = s.operation in _HARMLESS or (s.operation == "multiply" and numbers)
            if not is_harmless and (
                s.target in stored or s.operation not in _HARMLESS_IN_CONDITIONS
            ):
                return False
            if s.target in stored and s.target.dtype in FLOATS:
                stored |= set(s.arguments)
        elif not isinstance(s, Load | Store | Allocate) or s.memory.rank:
            return False
    return True


def _choice(
    condition: Value, then: list[Statement], otherwise: list[Statement], builder: Builder
) -> list[Statement]:
    result: list[Statement] = []
    with builder.region(result):
        ends = [_straight(branch, builder) for branch in (then, otherwise)]
        # Its own variables end with a branch.
        own = {s.memory for s in (*then, *otherwise) if isinstance(s, Allocate)}
        for memory in sorted({*ends[0], *ends[1]} - own, key=lambda m: m.name):
            values = [end.get(memory) for end in ends]
            former = builder.load(memory) if None in values else 0
            first, second = (former if x is None else x for x in values)
            chosen = builder.scalar(memory.dtype)
            builder.body.append(Define(chosen, "select", (condition, first, second)))
            builder.store(memory, (), chosen)
    return result


def _straight(branch: list[Statement], builder: Builder) -> dict[Memory, Value]:
    """Write the definitions of a branch; what its variables are at its end, of their dtypes."""
    ends: dict[Memory, Value] = {}
    names: dict[Scalar, Value] = {}

    def of(value: Value) -> Value:
        return names.get(value, value) if isinstance(value, Scalar) else value

    for s in branch:
        if isinstance(s, Define):
            builder.body.append(Define(s.target, s.operation, tuple(map(of, s.arguments))))
        elif isinstance(s, Load):
            if s.memory in ends:
                names[s.target] = ends[s.memory]
            else:
                builder.body.append(s)
        elif isinstance(s, Allocate):
            ends[s.memory] = _converted(s.fill or 0.0, s.memory.dtype, builder)
        else:
            assert isinstance(s, Store)
            value = of(s.value)
            if s.is_added:
                former = ends[s.memory] if s.memory in ends else builder.load(s.memory)
                value = builder.define("add", former, value)
            ends[s.memory] = _converted(value, s.memory.dtype, builder)
    return ends


def _converted(value: Value, dtype: str, builder: Builder) -> Value:
    if dtype_of(value) == dtype:
        return value
    if isinstance(value, Scalar) or dtype not in ("bool", "int64", "float64"):
        return builder.define("cast", value, dtype=dtype)
    return {"bool": bool, "int64": int, "float64": float}[dtype](value)


# Variables.


def forwarded(statements: list[Statement]) -> list[Statement]:
    """With loads of variables whose value is known replaced by it."""
    names: dict[Scalar, Value] = {}
    result = _forwarded(statements, {}, names)
    while any(isinstance(x, Scalar) and x in names for x in names.values()):
        names |= {s: names[x] for s, x in names.items() if isinstance(x, Scalar) and x in names}
    return substituted(result, names)


def _forwarded(
    statements: list[Statement], known: dict[Memory, Value], names: dict[Scalar, Value]
) -> list[Statement]:
    result: list[Statement] = []
    for s in statements:
        if isinstance(s, Load) and s.memory in known:
            names[s.target] = known[s.memory]
            continue
        if isinstance(s, Load) and not s.memory.rank:
            known[s.memory] = s.target
        elif isinstance(s, Store) and not s.memory.rank:
            known.pop(s.memory, None)
            if not s.is_added and dtype_of(s.value) == s.memory.dtype:
                known[s.memory] = s.value
        elif isinstance(s, Allocate) and not s.memory.rank:
            known.pop(s.memory, None)
        elif nested(s):
            stored = written([s]) | {x.memory for x in walk([s]) if isinstance(x, Allocate)}
            is_loop = isinstance(s, For | While)
            before = {m: x for m, x in known.items() if not (is_loop and m in stored)}

            def inside(region: list[Statement], before: dict = before) -> list[Statement]:
                return _forwarded(region, dict(before), names)

            s = with_regions(s, inside)
            for memory in stored:
                known.pop(memory, None)
        result.append(s)
    return result


# Variables of a pass.


def narrowed(statements: list[Statement], results: Collection[Memory]) -> list[Statement]:
    """With variables made in the loops that alone use them, where each pass writes them first."""
    into: dict[int, list[Statement]] = {}  # by the loop
    for s in statements:
        if not isinstance(s, Allocate) or s.memory.rank or s.memory in results:
            continue
        users = [other for other in statements if other is not s and _uses(other, s.memory)]
        if len(users) == 1 and _is_of_a_pass(s.memory, users[0]):
            into.setdefault(id(users[0]), []).append(s)
    moved = {id(s) for variables in into.values() for s in variables}
    result: list[Statement] = []
    for s in statements:
        if id(s) in moved:
            continue
        variables = into.get(id(s), [])
        result.append(
            with_regions(s, lambda region, own=variables: narrowed([*own, *region], results))
        )
    return result


def _is_of_a_pass(memory: Memory, s: Statement) -> bool:
    """Whether a loop's passes hand nothing on in a variable that they alone use."""
    if not isinstance(s, For | While) or s.leave == memory:
        return False
    first, *rest = [inner for inner in s.body if _uses(inner, memory)]
    if isinstance(first, Store):
        return not first.is_added
    return not rest and _is_of_a_pass(memory, first)


def _uses(statement: Statement, memory: Memory) -> bool:
    return any(
        (isinstance(s, Load | Store | Allocate) and s.memory == memory)
        or (isinstance(s, For | While) and s.leave == memory)
        for s in walk([statement])
    )


# Sums in place.


def accumulated(body: list[Statement]) -> list[Statement]:
    """With `a[i] += x` in place of a load, a sum of it that nothing else reads, and a store."""
    uses = Counter(x for s in walk(body) for x in operands(s) if isinstance(x, Scalar))
    return _accumulated(body, uses)


def _accumulated(statements: list[Statement], uses: Counter[Scalar]) -> list[Statement]:
    loads: dict[Scalar, Load] = {}
    sums: dict[Scalar, Define] = {}
    dropped: set[int] = set()
    result: list[Statement] = []
    for s in statements:
        s = with_regions(s, lambda region: _accumulated(region, uses))
        if isinstance(s, Load) and uses[s.target] == 1 and s.memory.dtype in FLOATS:
            loads[s.target] = s
        elif isinstance(s, Define) and s.operation in ("add", "subtract") and uses[s.target] == 1:
            sums[s.target] = s
        elif isinstance(s, Store) and not s.is_added and isinstance(s.value, Scalar):
            total = sums.get(s.value)
            found = _in_place(s, total, loads) if total is not None else None
            if found is not None and total is not None:
                load, part = found
                dropped |= {id(load), id(total)}
                if total.operation == "subtract":
                    opposite = Define(total.target, "negative", (part,))
                    result.append(opposite)
                    part = total.target
                s = Store(s.memory, s.indices, part, is_added=True)
        changed = written([s])
        loads = {target: load for target, load in loads.items() if load.memory not in changed}
        result.append(s)
    return [s for s in result if id(s) not in dropped]


def _in_place(store: Store, total: Define, loads: dict[Scalar, Load]) -> tuple[Load, Value] | None:
    """The load that a sum is of, of what it is stored to, and what is added."""
    first, second = total.arguments
    pairs = [(first, second), (second, first)] if total.operation == "add" else [(first, second)]
    for x, part in pairs:
        load = loads.get(x) if isinstance(x, Scalar) else None
        if load is None or load.memory != store.memory or load.indices != store.indices:
            continue
        if dtype_of(part) == "float64" or dtype_of(part) == load.memory.dtype:
            return load, part
    return None
