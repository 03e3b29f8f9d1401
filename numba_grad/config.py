"""Every setting, and every environment variable that sets it, in one record.

`config` is the record in force. Code reads it at the time of use; users change it with
`configure(...)`, as a statement or as a context manager. Not here: `NUMBA_GRAD_CUDA_COMPILER`
(`compiler/cuda/front_end.py`), which processes that help to compile have to know, too.
"""

import contextlib
import dataclasses
import operator
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numba_grad.errors import explain
from numba_grad.immutable import NamedTuple

ENGINES = ("native", "fused", "reference")
LOGS = ("progress", "compile", "off")
MAXIMUM_THREADS = 1024


# What a setting may be


class _Rule(NamedTuple):
    """What values a setting has; also as the text of an environment variable."""

    expected: str
    from_value: Callable[[Any], Any]  # raises TypeError or ValueError
    from_text: Callable[[str], Any]


def _integer(low: int, high: int | None = None) -> _Rule:
    def checked(value: Any) -> int:
        number = operator.index(value)
        if isinstance(value, bool) or number < low or (high is not None and number > high):
            raise ValueError
        return number

    limits = f"of at least {low}" if high is None else f"from {low} to {high}"
    return _Rule(f"an integer {limits}", checked, lambda text: checked(int(text)))


def _choice(allowed: dict[str, Any], expected: str) -> _Rule:
    def from_value(value: Any) -> Any:
        # By identity, or as text: 1 equals True.
        if any(value is x or (isinstance(x, str) and value == x) for x in allowed.values()):
            return value
        raise ValueError

    def from_text(text: str) -> Any:
        if text not in allowed:
            raise ValueError
        return allowed[text]

    return _Rule(expected, from_value, from_text)


def _path(value: Any) -> Path:
    return Path(value).expanduser()


_SWITCH = _choice({"0": False, "1": True}, "False or True, in the environment 0 or 1")
_RULES = {
    "engine": _choice({name: name for name in ENGINES}, " or ".join(map(repr, ENGINES))),
    "threads": _integer(1, MAXIMUM_THREADS),
    "cache_directory": _Rule("the path of a directory", _path, _path),
    "cache_bytes": _integer(0),
    "log": _choice({name: name for name in LOGS}, " or ".join(map(repr, LOGS))),
    "check_passes": _SWITCH,
    "unroll_extent": _integer(0, 1024),
    "specializations": _integer(1),
    "tf32": _SWITCH,
    "deterministic": _SWITCH,
    "mpi_checks": _SWITCH,
    "mpi_cuda_aware": _SWITCH,
}


def checked(operation: str, name: str, value: object) -> Any:
    """`value` as the setting `name` has it.

    Raises
    ------
    ValueError
        If it is not allowed.
    """
    rule = _RULES[name]
    try:
        return rule.from_value(value)
    except (TypeError, ValueError):
        problem = f"not a value of `{name}`"
        got: dict[str, object] = {name: repr(value)}
        raise ValueError(explain(operation, problem, got=got, expected=rule.expected)) from None


# From the environment


def _of_environment(name: str, variable: str, default: Callable[[], Any]) -> Any:
    text = os.environ.get(variable, "").strip()
    if not text:
        return default()
    rule = _RULES[name]
    try:
        return rule.from_text(text)
    except ValueError:
        raise ValueError(
            explain(
                "numba_grad",
                f"the environment variable {variable} is wrong",
                got={variable: repr(text)},
                expected=rule.expected,
                fix=f"unset {variable}",
            )
        ) from None


def _default_threads() -> int:
    """That of the first variable of other libraries that says it, else the CPUs that this process
    may run on."""
    for variable in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        # OpenMP takes a list, one number for each level. Whose variables these are says what is
        # wrong with them, and here they only suggest a number.
        text = os.environ.get(variable, "").split(",")[0].strip()
        if text.isdecimal() and int(text) > 0:
            return min(int(text), MAXIMUM_THREADS)
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), MAXIMUM_THREADS)
    return min(os.cpu_count() or 1, MAXIMUM_THREADS)


def _default_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "numba_grad"


_VARIABLES: dict[str, tuple[str, Callable[[], Any]]] = {
    "engine": ("NUMBA_GRAD_ENGINE", lambda: "native"),
    "threads": ("NUMBA_GRAD_NUM_THREADS", _default_threads),
    "cache_directory": ("NUMBA_GRAD_CACHE_DIR", _default_directory),
    "cache_bytes": ("NUMBA_GRAD_CACHE_BYTES", lambda: 1 << 30),
    "log": ("NUMBA_GRAD_LOG", lambda: "progress"),
    "check_passes": ("NUMBA_GRAD_CHECK_PASSES", lambda: False),
    "unroll_extent": ("NUMBA_GRAD_UNROLL_EXTENT", lambda: 16),
    "specializations": ("NUMBA_GRAD_SPECIALIZATIONS", lambda: 256),
    "mpi_checks": ("NUMBA_GRAD_MPI_CHECKS", lambda: False),
    "mpi_cuda_aware": ("NUMBA_GRAD_MPI_CUDA_AWARE", lambda: False),
}


def _reader(name: str) -> Callable[[], Any]:
    return lambda: _of_environment(name, *_VARIABLES[name])


@dataclass(slots=True)
class Config:
    """The settings in force. Environment variables are read once, at import.

    Raises
    ------
    ValueError
        If one of these is wrong.
    """

    # "fused" compiles a graph as a whole the first time already; "reference" evaluates node by node
    # with NumPy: for debugging and tests only
    engine: str = field(default_factory=_reader("engine"))
    threads: int = field(default_factory=_reader("threads"))
    cache_directory: Path = field(default_factory=_reader("cache_directory"))
    # oldest files go first beyond this
    cache_bytes: int = field(default_factory=_reader("cache_bytes"))
    # "compile": a line on standard error for each program that is compiled, beside the progress of
    # those that take long, at a terminal; "off": neither
    log: str = field(default_factory=_reader("log"))
    # verify the graph after each compiler pass
    check_passes: bool = field(default_factory=_reader("check_passes"))
    # axes up to this long are unrolled, and are part of a kernel's identity
    unroll_extent: int = field(default_factory=_reader("unroll_extent"))
    # signatures that a jitted function keeps; beyond, those that were not called for longest go
    specializations: int = field(default_factory=_reader("specializations"))
    # compare what ranks are about to communicate, when it is recorded
    mpi_checks: bool = field(default_factory=_reader("mpi_checks"))
    # MPI takes memory of GPUs where it is: without copies in the memory of the host
    mpi_cuda_aware: bool = field(default_factory=_reader("mpi_cuda_aware"))
    tf32: bool = False  # on GPUs: cuBLAS may round factors in float32 products to 11 bits
    deterministic: bool = True  # on GPUs: where False, scatter_add adds in any order, by atomics


config = Config()


@contextlib.contextmanager
def _restoring(previous: dict[str, object]) -> Iterator[Config]:
    try:
        yield config
    finally:
        for name, value in previous.items():
            setattr(config, name, value)


def configure(**settings: object) -> contextlib.AbstractContextManager[Config]:
    """Change settings for the whole process at once; as a context manager, until its end.

    Raises
    ------
    TypeError
        If a name is not a setting.
    ValueError
        If a value is not allowed.
    """
    known = {f.name for f in dataclasses.fields(Config)}
    for name in settings:
        if name not in known:
            raise TypeError(f"configure: no setting {name!r}; there are {', '.join(sorted(known))}")
    new = {name: checked("configure", name, value) for name, value in settings.items()}
    previous = {name: getattr(config, name) for name in new}
    for name, value in new.items():
        setattr(config, name, value)
    return _restoring(previous)
