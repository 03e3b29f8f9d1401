"""Object code on disk, one file per kernel, named by content: no index, no lock, no pickle.
Plans lie beside it (`plan_cache.py`).

Any number of processes may share a directory. A file is complete or absent, because it is renamed
into place; one that fails its checksum counts as absent and is written again.
"""

import atexit
import contextlib
import functools
import importlib.util
import os
import re
import stat
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import llvmlite

from numba_grad import forks
from numba_grad.compiler.building import processor
from numba_grad.config import config
from numba_grad.fresh_thread import make_old, unbroken
from numba_grad.immutable import NamedTuple
from numba_grad.locks import new_lock

try:
    # BLAKE2 is a part of Python. `hashlib` has it as well, and loads OpenSSL, which takes as long
    # as a dozen of our modules; Python's `random` goes past it in the same way.
    from _blake2 import blake2b
except ImportError:  # another Python
    from hashlib import blake2b

_MAGIC = b"numba_grad object code, format 1\n"
_CHECKSUM_BYTES = 32
_ENTRY_NAME = re.compile(r"[0-9a-f]{64}\.object")
_TEMPORARY_NAME = re.compile(r"[0-9a-f]{64}\.[0-9a-f]+\.temporary")

_TOUCH_SECONDS = 3600.0  # a hit refreshes the time of a file older than this: seldom a write
_ABANDONED_SECONDS = 3600.0  # a temporary file older than this is from a process that died
# To measure a directory of thousands of files takes longer than most first gradients. So one write
# in 16 does, of those of all processes, and who has written this part of the bound. From then on
# sizes are added up; other processes write too, so it is measured again now and then.
_LAST_DIGIT_OF_MEASURING = "0"
_PART_OF_BOUND = 1 / 64
_WRITES_PER_SCAN = 200

_TO_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0)  # which Windows has

_lock = new_lock()
_warned: set[Path] = set()
_hits = 0
_misses = 0


@dataclass(slots=True, eq=False)
class _Measured:
    """The size of one directory when last measured, if ever, and what this process wrote since."""

    total: int | None = None
    written: int = 0
    writes: int = 0


_measured: dict[Path, _Measured] = {}


class CacheStatistics(NamedTuple):
    """The cache directory now, and the lookups of this process."""

    directory: Path
    files: int
    bytes: int
    hits: int
    misses: int


# Keys. The first digits say for what the code is: which processor, compilers, and versions.

_DIGITS_OF_ENVIRONMENT = 16

Environment = dict[str, str]  # all that code depends on besides its source, for people to read


def new_digest(content: bytes = b"") -> blake2b:
    """A digest of 32 bytes, as keys and checksums are; more content can be added to it."""
    return blake2b(content, digest_size=_CHECKSUM_BYTES)


def key_of(*parts: str) -> str:
    """The name of what these texts compile to, here and with the versions in use."""
    return key_in(_processors_identity(), *parts)


def key_in(identity: bytes, *parts: str) -> str:
    """The same for code that is not for this CPU: `identity` is that of its environment."""
    digest = new_digest(identity)
    # Lengths go in, so that moving text from one part to the next changes the key.
    for part in parts:
        data = part.encode()
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return prefix_of(identity) + digest.hexdigest()[_DIGITS_OF_ENVIRONMENT:]


@functools.cache
def prefix_of(identity: bytes) -> str:
    """How all keys in an environment begin."""
    return new_digest(identity).hexdigest()[:_DIGITS_OF_ENVIRONMENT]


def identity_of(environment: Environment) -> bytes:
    return new_digest(repr(sorted(environment.items())).encode()).digest()


def processors_environment() -> Environment:
    """What code for this CPU depends on."""
    system, name, features = _target_description().split(" ", 2)
    compiler = Path(__file__).parents[1]
    # The language and the code generator by their text: a change during development counts as
    # much as a release.
    names = (
        "code_generation.py",
        "kernel_language/*.py",
        "elementary/*.py",
    )
    return {
        "system": system,
        "processor": name,
        "features": features,
        "llvmlite": llvmlite.__version__,
        "Numba": _numba_version(),
        "code generator": text_identity(
            sorted(path for name in names for path in compiler.glob(name))
        ),
    }


def _target_description() -> str:
    """What LLVM says of this machine. Once it was asked on a running system, its answer is on disk:
    to import llvmlite is half of a first gradient whose kernels are there."""
    system = processor.running_system()
    if system is None:
        return _description_by_llvm()
    key = key_in(identity_of({"llvmlite": llvmlite.__version__, "system": system}), "target")
    known = peek(key)
    if known is not None:
        return known.decode()
    description = _description_by_llvm()
    if is_usable():
        with contextlib.suppress(OSError):
            store(key, description.encode())
    return description


def _description_by_llvm() -> str:
    # llvmlite's import and its lock are not what an interrupt may break off.
    description = unbroken("target", _ask_llvm)
    make_old()  # llvmlite
    return description


def _ask_llvm() -> str:
    from numba_grad.compiler import code_generation

    return code_generation.target_description()


@functools.cache
def _processors_identity() -> bytes:
    return identity_of(processors_environment())


def text_identity(paths: Iterable[Path]) -> str:
    digest = new_digest()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _numba_version() -> str:
    """What Numba's version file says. Importing Numba costs 0.3 s, `importlib.metadata` 12 ms."""
    spec = importlib.util.find_spec("numba")
    if spec is not None and spec.origin is not None:
        version_file = Path(spec.origin).with_name("_version.py")
        if version_file.exists():
            version = re.search(r'"version": "([^"]+)"', version_file.read_text())
            return f"{version[1] if version else 'unknown'} {text_identity([version_file])}"
    from importlib import metadata

    return metadata.version("numba")


def is_entry_name(name: str) -> bool:
    """Whether a file of the cache directory may be called so."""
    return _ENTRY_NAME.fullmatch(name) is not None


# Reading and writing.


def path_of(key: str) -> Path:
    return Path(_path_of(key))


def _path_of(key: str) -> str:
    """As text: to make the object takes as long as to open the file."""
    return f"{config.cache_directory}{os.sep}{key}.object"


def contains(key: str) -> bool:
    """Whether there is a file, or will be, without a look inside."""
    return key in _waiting or os.path.exists(_path_of(key))  # noqa: PTH110


def read(key: str) -> bytes | None:
    """The object code stored under `key`, or None."""
    global _hits, _misses
    code = peek(key)
    with _lock:
        if code is None:
            _misses += 1
        else:
            _hits += 1
    return code


def peek(key: str) -> bytes | None:
    """The same, which does not count as a lookup."""
    if key in _waiting:
        write_waiting()
    content, age = _content_and_age(key)
    code = None if content is None else code_in(key, content)
    if code is not None and age > _TOUCH_SECONDS:
        with contextlib.suppress(OSError):
            os.utime(_path_of(key))
    return code


def content_of(key: str) -> bytes | None:
    """What the file of `key` holds, if it can be read."""
    if key in _waiting:
        write_waiting()
    return _content_and_age(key)[0]


def code_on_disk(key: str) -> bytes | None:
    """The object code that the file of `key` has now, whatever waits to be written."""
    content = _content_and_age(key)[0]
    return None if content is None else code_in(key, content)


def _content_and_age(key: str) -> tuple[bytes | None, float]:
    """What the file of `key` holds, if it can be read, and the seconds since it was written."""
    if not _is_trusted(config.cache_directory):
        return None, 0.0
    try:
        # Without an object for the file, which takes as long as all else.
        number = os.open(_path_of(key), _TO_READ)
    except OSError:  # there is none, or another process removed it
        return None, 0.0
    try:
        status = os.fstat(number)
        return os.read(number, status.st_size), time.time() - status.st_mtime
    except OSError:
        return None, 0.0
    finally:
        os.close(number)


def code_in(key: str, content: bytes) -> bytes | None:
    """The object code in the content of the file of `key`, or None if that is damaged."""
    code = content[len(_MAGIC) + _CHECKSUM_BYTES :]
    return code if content[: -len(code) or None] == _header(key, code) else None


def write(key: str, code: bytes) -> None:
    """Store object code, unless the directory does not allow it."""
    directory = config.cache_directory
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_trusted(directory):
            store(key, code)
    except OSError as error:
        _warn_once(directory, f"cannot be written ({error})")


# What nobody waits for: a tenth of a first gradient would go to writing its plan. It is written
# when the process has gone on for a while, or ends; whoever asks for it before has it written.

_SECONDS_LATER = 0.25
_waiting: dict[str, tuple[Path, Callable[[], bytes | None]]] = {}
_writing = new_lock()


def write_later(key: str, code: Callable[[], bytes | None]) -> None:
    """Store what `code` gives, if anything, in a while: unless another directory is in force by
    then."""
    global _writer
    _waiting[key] = config.cache_directory, code
    if not _writer.is_alive():  # as in a forked child
        _writer = _Writer()
        try:
            _writer.start()
        except RuntimeError:  # too many threads, or Python ends
            write_waiting()
            return
    _writer.is_wanted.set()


@atexit.register
def write_waiting() -> None:
    """Store all that waits, now."""
    with _writing:
        for key, (directory, code) in list(_waiting.items()):
            content = code() if directory == config.cache_directory else None
            if content is not None:
                write(key, content)
            _waiting.pop(key, None)


class _Writer(threading.Thread):
    """Writes what waits. It ends before a fork; when Python ends, `write_waiting` has been called,
    and it has nothing to do."""

    def __init__(self) -> None:
        super().__init__(name="numba_grad writes plans", daemon=True)
        self.is_wanted, self.is_ended = threading.Event(), threading.Event()

    def run(self) -> None:
        while self.is_wanted.wait() and not self.is_ended.wait(_SECONDS_LATER):
            self.is_wanted.clear()
            # Just now: what was cleared may be that it is wanted for its end.
            if self.is_ended.is_set():
                return
            # Somebody may have made a warning an error, which nobody would see here.
            with contextlib.suppress(RuntimeWarning):
                write_waiting()

    def end(self) -> None:
        if self.is_alive():
            self.is_ended.set()
            self.is_wanted.set()
            self.join()


_writer = _Writer()
forks.call_last(lambda: _writer.end())


def store(key: str, code: bytes) -> None:
    """Store object code in the directory, which is there.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    directory = config.cache_directory
    temporary = directory / f"{key}.{os.urandom(8).hex()}.temporary"
    try:
        with open(temporary, "xb", opener=_only_for_the_user) as file:
            file.write(_header(key, code) + code)
        temporary.replace(_path_of(key))
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _bound_size(directory, key, len(_MAGIC) + _CHECKSUM_BYTES + len(code))


def _only_for_the_user(path: str | Path, flags: int) -> int:
    return os.open(path, flags, 0o600)


def stored_keys() -> set[str]:
    """Of all kernels in the directory."""
    write_waiting()
    found = (path for path, _ in _entries(config.cache_directory))
    return {path.stem for path in found if path.suffix == ".object"}


def _header(key: str, code: bytes) -> bytes:
    # The key is part of the checksum: a file under another's name is not that kernel.
    return _MAGIC + new_digest(key.encode() + code).digest()


# Trust: the directory holds code that this process will run.


def is_usable() -> bool:
    """Whether what one process writes, another will read."""
    directory = config.cache_directory
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return False
    return _is_trusted(directory) and os.access(directory, os.W_OK)


def _is_trusted(directory: Path) -> bool:
    """False if others could have put code there; a missing directory is harmless."""
    if not hasattr(os, "getuid"):
        return True  # Windows: the profile's own access rights protect it
    try:
        status = os.stat(directory)  # noqa: PTH116, twice as fast as the path's own
    except OSError:
        return True
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        _warn_once(directory, "is refused: other users can write to it, and it holds code")
        return False
    if status.st_uid not in (os.getuid(), 0):
        _warn_once(directory, "is refused: it belongs to another user, and it holds code")
        return False
    return True


def _warn_once(directory: Path, problem: str) -> None:
    if directory in _warned:
        return
    _warned.add(directory)
    warnings.warn(
        f"numba_grad: the cache directory {directory} {problem}. Kernels are kept in memory only, "
        f"and every process compiles again. Set NUMBA_GRAD_CACHE_DIR to a directory of your own.",
        RuntimeWarning,
        stacklevel=2,
    )


# Size.


def _entries(directory: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """The files of the cache, and nothing else that may lie in its directory."""
    try:
        found = list(os.scandir(directory))
    except OSError:
        return
    for entry in found:
        if _ENTRY_NAME.fullmatch(entry.name) or _TEMPORARY_NAME.fullmatch(entry.name):
            with contextlib.suppress(OSError):  # another process removed it
                yield Path(entry.path), entry.stat(follow_symlinks=False)


def _bound_size(directory: Path, key: str, nbytes: int) -> None:
    """Account for one written file, and remove the oldest ones when the bound is passed."""
    with _lock:
        measured = _measured.setdefault(directory, _Measured())
        measured.written += nbytes
        measured.writes += 1
        if measured.total is None:
            is_much = measured.written > _PART_OF_BOUND * config.cache_bytes
            if not is_much and not key.endswith(_LAST_DIGIT_OF_MEASURING):
                return
        if measured.total is None or measured.writes > _WRITES_PER_SCAN:
            measured.total = sum(status.st_size for _, status in _entries(directory))
            measured.written = measured.writes = 0
        if measured.total + measured.written > config.cache_bytes:
            _measured[directory] = _Measured(_evict(directory))


def _evict(directory: Path) -> int:
    """Remove the oldest files down to nine tenths of the bound; the bytes that are left."""
    now = time.time()
    entries = sorted(_entries(directory), key=lambda entry: entry[1].st_mtime)
    total = sum(status.st_size for _, status in entries)
    for path, status in entries:
        is_temporary = path.suffix == ".temporary"
        if is_temporary and now - status.st_mtime < _ABANDONED_SECONDS:
            continue
        if is_temporary or total > 0.9 * config.cache_bytes:
            path.unlink(missing_ok=True)
            total -= status.st_size
    return total


def statistics() -> CacheStatistics:
    write_waiting()
    directory = config.cache_directory
    sizes = [status.st_size for _, status in _entries(directory)]
    return CacheStatistics(directory, len(sizes), sum(sizes), _hits, _misses)


def clear() -> int:
    """Remove all cached kernels; returns how many. Kernels already loaded keep working."""
    write_waiting()
    directory = config.cache_directory
    removed = 0
    for path, _ in list(_entries(directory)):
        with contextlib.suppress(OSError):
            path.unlink()
            removed += 1
    with _lock:
        _measured.pop(directory, None)
    return removed
