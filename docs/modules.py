"""Write the map of the package, docs/modules.md, from the first sentences of its modules.

    python docs/modules.py

Run it after adding, moving or renaming a module.
"""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "numba_grad"
MAP = Path(__file__).parent / "modules.md"

INTRODUCTION = """# Modules

What each module of `numba_grad` holds: its first sentence, by `python docs/modules.py`.
A folder comes after those that it imports (`tests/test_layers.py` has the table).
[How it works](how_it_works.md) goes through them in the order in which a computation does.
"""
LAYERS = ("graph", "ops", "transforms", "runtime", "compiler", "autograd", "frontend", "numpy")


def first_sentence(path: Path) -> str:
    """Of the docstring: what lives there."""
    source = path.read_text()
    text = ast.get_docstring(ast.parse(source))
    behind = re.search(r"from numba_grad\.(\S+) import __doc__", source)
    if text is None and behind is not None:
        return f"The public name of `{behind[1].replace('.', '/')}.py`."
    if text is None:
        sys.exit(f"{path}: a module begins with a sentence that says what it holds")
    paragraph = " ".join(text.partition("\n\n")[0].split())
    return re.split(r"(?<=[.?])\s+(?=[A-Z`])", paragraph)[0]


def cell(text: str) -> str:
    return text.replace("|", r"\|")


def section(folder: Path) -> list[str]:
    """A folder, then those inside of it."""
    depth = len(folder.relative_to(PACKAGE).parts)
    name = "" if folder == PACKAGE else f"`{folder.relative_to(PACKAGE).as_posix()}/`"
    lines = [f"{'#' * min(3, depth + 1)} {name or 'Beside the folders'}", ""]
    if depth:
        lines += [first_sentence(folder / "__init__.py"), ""]
    modules = [path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
    if modules:
        lines += ["| module | what it holds |", "|---|---|"]
        lines += [f"| `{path.name}` | {cell(first_sentence(path))} |" for path in modules]
        lines.append("")
    inside = [path.parent for path in sorted(folder.glob("*/__init__.py"))]
    if folder == PACKAGE:
        assert {path.name for path in inside} == set(LAYERS)
        inside = [folder / name for name in LAYERS]
        lines[0] = "## Beside the folders"
    return lines + [line for path in inside for line in section(path)]


def page() -> str:
    return "\n".join([INTRODUCTION, *section(PACKAGE)]).rstrip() + "\n"


def main() -> None:
    if "--check" in sys.argv[1:]:
        if MAP.read_text() != page():
            sys.exit("docs/modules.md is not what the modules say: python docs/modules.py")
    else:
        MAP.write_text(page())


if __name__ == "__main__":
    main()
