"""Where a loop or a branch is in the user's source, and messages that say so."""

import linecache
from dataclasses import dataclass, replace
from pathlib import Path

from numba_grad.errors import explain


@dataclass(frozen=True, slots=True)
class Site:
    """A statement or an expression that may depend on values that are not there yet.

    The names are those of variables, in order.
    """

    kind: str  # "while", "for", "if", "and", ...
    file: str
    line: int
    assigned: tuple[str, ...] = ()  # inside of it
    changed: tuple[str, ...] = ()  # in place: x[i] = 1, x.a = 1, x += 1
    foreign: tuple[str, ...] = ()  # of these, those that are not the function's own
    read_after: frozenset[str] = frozenset()  # assigned ones, that may be read after it
    carried: frozenset[str] = frozenset()  # of a loop: those, and what the next step may read
    filled: frozenset[str] = frozenset()  # of ours: read only where they have a value
    # The function's own that it reads alone; a function that is called may change them in place.
    read: frozenset[str] = frozenset()
    # Whether the function has returned for certain after the sides of a branch: False's, True's.
    returns: tuple[bool, bool] = (False, False)
    obstacle: str = ""  # around it: "try"

    def changing(self, name: str) -> "Site":
        """The same place, where a variable that was only read is changed in place."""
        alone = frozenset([name])
        return replace(
            self,
            changed=(*self.changed, name),
            read_after=self.read_after | alone,
            carried=self.carried | alone,
            read=self.read - alone,
        )

    @property
    def place(self) -> str:
        """As in "`while` in newton.py, line 12"."""
        return f"`{self.kind}` in {Path(self.file).name}, line {self.line}"

    def explain(
        self,
        problem: str,
        *,
        got: dict[str, object] | None = None,
        expected: str = "",
        fix: str = "",
    ) -> str:
        """A message about this place, with the user's own line."""
        text = linecache.getline(self.file, self.line).strip()
        shown: dict[str, object] = {f"line {self.line}": text} if text else {}
        return explain(
            self.place, problem, got={**shown, **(got or {})}, expected=expected, fix=fix
        )

    def refusal(self, name: str, problem: str, fix: str) -> str:
        """What is the matter with a variable where the condition is not known."""
        return self.explain(f"the condition is known at run time only; `{name}` {problem}", fix=fix)

    def instead_of_growing(self, name: str) -> str:
        """What to type where a list grows."""
        if self.kind == "while":  # with as many steps as a value says
            return (
                f"{name} = np.full(n, np.nan, like=x) before the loop, with room for as many steps "
                f"as there can be, and {name}[k] = ...; k += 1 in it"
            )
        if self.kind == "for":
            return (
                f"ng.scan, which stacks what the steps return, as np.stack({name}) would; or "
                f"{name} = np.zeros((n, ...), like=x) before the loop, and {name}[i] = ..."
            )
        return f"{name}.append(x if ... else np.nan), which grows either way"
