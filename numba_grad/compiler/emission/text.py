"""Source text of any target: lines, indented, and indices."""

from collections.abc import Iterator
from contextlib import contextmanager

from numba_grad.compiler.loop_nests.iteration_spaces import Index


class SourceText:
    """Lines of Python, indented by nesting `block`s."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """A compound statement: `header` ends with a colon."""
        self.line(header)
        self._depth += 1
        before = len(self._lines)
        yield
        if len(self._lines) == before:
            self.line("pass")
        self._depth -= 1

    def __str__(self) -> str:
        return "\n".join(self._lines) + "\n"


def index_text(index: Index) -> str:
    """An index: every number in it is meant to be seen."""
    parts = []
    for name, factor in index.terms:
        if factor.value == 1:
            parts.append(name)
        elif factor.value == -1:
            parts.append(f"-{name}")
        else:
            parts.append(f"{factor.value} * {name}")
    if index.literal or not parts:
        parts.append(str(index.literal))
    return " + ".join(parts).replace("+ -", "- ")
