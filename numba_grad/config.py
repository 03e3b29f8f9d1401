"""Every setting, and every environment variable that sets it, in one record.

`config` is the record in force. Code reads it at the time of use; users change it with
`configure(...)`, as a statement or as a context manager. Not here: `NUMBA_GRAD_CUDA_COMPILER`
(`compiler/cuda/front_end.py`), which processes that help to compile have to know, too.
"""

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ENGINES = ("native", "reference")


def _available_threads() -> int:
    """The first of the known variables that is set, else the CPUs this process may run on."""
    for name in ("NUMBA_GRAD_NUM_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(name, "").split(",")[0].strip()
        if text.isdigit() and int(text) > 0:
            return int(text)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cache_directory() -> Path:
    chosen = os.environ.get("NUMBA_GRAD_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "numba_grad"


def _choice(name: str, allowed: tuple[str, ...], default: str) -> str:
    value = os.environ.get(name, default)
    if value not in allowed:
        raise ValueError(f"{name}={value!r}: expected one of {', '.join(allowed)}")
    return value


def _integer(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    if not text:
        return default
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name}={text!r}: expected an integer") from None


@dataclass(slots=True)
class Config:
    """The settings in force. Environment variables are read once, at import."""

    engine: str = field(
        default_factory=lambda: _choice("NUMBA_GRAD_ENGINE", ENGINES, "native")
    )  # "reference" evaluates node by node with NumPy: for debugging and tests only
    threads: int = field(default_factory=_available_threads)  # NUMBA_GRAD_NUM_THREADS, ...
    cache_directory: Path = field(default_factory=_cache_directory)  # NUMBA_GRAD_CACHE_DIR
    cache_bytes: int = field(
        default_factory=lambda: _integer("NUMBA_GRAD_CACHE_BYTES", 1 << 30)
    )  # oldest files go first beyond this
    check_passes: bool = field(
        default_factory=lambda: os.environ.get("NUMBA_GRAD_CHECK_PASSES", "0") == "1"
    )  # verify the graph after each compiler pass
    unroll_extent: int = field(
        default_factory=lambda: _integer("NUMBA_GRAD_UNROLL_EXTENT", 16)
    )  # axes up to this long are unrolled, and are part of a kernel's identity
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
    if settings.get("engine", "native") not in ENGINES:
        raise ValueError(f"configure: engine={settings['engine']!r}: expected one of {ENGINES}")
    previous = {name: getattr(config, name) for name in settings}
    for name, value in settings.items():
        setattr(config, name, value)
    return _restoring(previous)
