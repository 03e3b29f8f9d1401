"""Write the table of primitives, docs/operations.md, from their records and docs/numerics.md.

    python docs/operations.py

Run it after adding an operation or measuring one again.
"""

import re
import sys
from pathlib import Path

import numba_grad  # noqa: F401, which has the operations of loops and branches
from numba_grad.graph.node import Op
from numba_grad.ops import all_ops

HERE = Path(__file__).parent
TABLE = HERE / "operations.md"

INTRODUCTION = """# Operations

The primitives, from their records in `numba_grad/ops/`, by `python docs/operations.py`. Every
public function is made of these, and has the derivatives that they have. Inputs are cast to a
dtype that NumPy would compute in, so that functions take more dtypes than primitives.

*Derivatives*: rules are written in primitives, so that one that has a rule has derivatives of any
order; first and second ones are tested against finite differences. What a derivative is at a
kink, a tie or a step is in [Numerics](numerics.md). *Kinks*: arguments where a function has no
derivative, and a subgradient is taken. *Error*: the largest found, in units in the last place of
float64 and of float32, where it was measured for the primitive by itself; [Numerics](numerics.md)
says how, and has the accuracy of the others.
"""

FAMILIES = {
    "elementwise": "Element by element",
    "reduction": "Reductions",
    "scan": "Scans",
    "sort": "Sorting and searching",
    "movement": "Movement",
    "indexing": "Indexing",
    "contraction": "Contraction",
    "library": "Linear algebra, Fourier transforms, random numbers",
    "literal": "Constants",
    "iota": "Constants",
    "call": "Graphs within graphs",
    "control": "Programs within programs",
    "custom kernel": "Users' kernels",
    "transfer": "Between devices",
}

# Names of sets of NumPy's type characters.
DTYPES = (
    ("?", "bool"),
    ("bhilqBHILQ", "integers"),
    ("il", "int32, int64"),
    ("l", "int64"),
    ("LQ", "uint64"),
    ("e", "float16, bfloat16"),
    ("fd", "float32, float64"),
    ("FD", "complex"),
)


def operations() -> list[Op]:
    """All of them but leaves, which hold what users pass."""
    return [op for op in all_ops().values() if op.family != "leaf"]


def dtypes_of(op: Op) -> str:
    remaining, names = op.dtypes, []
    for characters, name in DTYPES:
        if set(characters) <= set(remaining):
            names.append(name)
            remaining = "".join(c for c in remaining if c not in characters)
    if remaining:
        sys.exit(f"{op.name}: no name for the dtypes {remaining!r}")
    return ", ".join(names)


def derivatives_of(op: Op) -> str:
    if op.vjp is None:
        reason = op.extras.get("no_vjp") or "the result is an integer"
        return f"none: {reason}"
    missing = op.extras.get("no_derivative", {})
    return "any order" + "".join(f"; not by {name}" for name in missing)


def measured_errors() -> dict[str, str]:
    """Units in the last place, by the name of the function, from the tables of numerics.md."""
    errors: dict[str, str] = {}
    columns: list[int] = []
    for line in (HERE / "numerics.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if "float64: ulp" in cells:
            columns = [cells.index(f"float{bits}: ulp") for bits in (64, 32)]
        elif not line.startswith("|"):
            columns = []
        elif columns and re.match(r"\d", cells[columns[0]]):
            names = [name.strip() for name in cells[0].split(",")]
            # A row of several functions has an error for each, or one for all of them.
            values = [cells[column].split(", ") for column in columns]
            for place, name in enumerate(names):
                errors[name] = ", ".join(v[min(place, len(v) - 1)] for v in values if v[0])
    return errors


def row(op: Op, errors: dict[str, str]) -> str:
    kinks = ", ".join(f"{kink:g}" for kink in op.kinks)
    error = errors.get(op.name) or errors.get(op.name.replace("arc", "a", 1), "")
    return f"| `{op.name}` | {dtypes_of(op)} | {derivatives_of(op)} | {kinks} | {error} |"


def page() -> str:
    errors = measured_errors()
    parts = [INTRODUCTION]
    ops = operations()
    unknown = {op.family for op in ops} - set(FAMILIES)
    if unknown:
        sys.exit(f"no heading for {', '.join(sorted(unknown))}")
    for heading in dict.fromkeys(FAMILIES.values()):
        members = sorted(
            (op for op in ops if FAMILIES[op.family] == heading), key=lambda op: op.name
        )
        parts.append(f"## {heading}\n")
        parts.append(
            "| operation | dtypes | derivatives | kinks | error, ulp |\n|---|---|---|---|---|"
        )
        parts += [row(op, errors) for op in members]
        parts.append("")
    return "\n".join(parts)


def main() -> None:
    if "--check" in sys.argv[1:]:
        if TABLE.read_text() != page():
            sys.exit("docs/operations.md is not what the records say: python docs/operations.py")
    else:
        TABLE.write_text(page())


if __name__ == "__main__":
    main()
