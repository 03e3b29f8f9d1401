"""The kernels on disk as one file, for other machines of the same kind.

A zip archive, whose directory tells names and sizes before anything is decompressed. Its
`manifest.json` says what the kernels are for; the other members are files as in the cache
directory, each with its checksum. Checksums tell what is damaged, not who made it: an archive holds
code, and who imports one trusts it as a program.
"""

import json
import secrets
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numba_grad.compiler.building import cache
from numba_grad.compiler.cuda import build as cuda_build
from numba_grad.config import config
from numba_grad.errors import ArchiveError, KernelError, explain
from numba_grad.immutable import immutable

_FORMAT = "numba_grad kernels, format 1"
_MANIFEST = "manifest.json"
# Bytes of a member: the largest kernels have some MB.
_MOST_BYTES = 64 << 20
_MOST_BYTES_OF_MANIFEST = 1 << 20


@immutable
class ExportedKernels:
    kernels: int
    bytes: int  # of the archive


@immutable
class ImportedKernels:
    new: int
    known: int
    left_out: str  # what is not for this machine, and why


def environments() -> dict[str, cache.Environment]:
    """What kernels are for, here, by kind of device."""
    found = {"CPU": cache.processors_environment()}
    try:
        found["CUDA"] = cuda_build.environment()
    except KernelError:  # there is no compiler, so there are no kernels
        return found
    return found


def export_to(path: Path) -> ExportedKernels:
    """Write the kernels of this machine and these versions; the same ones give the same bytes.

    Raises
    ------
    ArchiveError
        If there are none.
    OSError
        If the file cannot be written.
    """
    own = environments()
    prefixes = tuple([cache.prefix_of(cache.identity_of(x)) for x in own.values()])
    keys = sorted(key for key in cache.stored_keys() if key.startswith(prefixes))
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}.temporary")
    count = 0
    try:
        with zipfile.ZipFile(temporary, "x", zipfile.ZIP_DEFLATED) as archive:
            manifest = {"format": _FORMAT, "environments": own}
            _add(archive, _MANIFEST, json.dumps(manifest, indent=2).encode())
            for key in keys:
                content = cache.content_of(key)
                if content is not None and cache.code_in(key, content) is not None:
                    _add(archive, f"{key}.object", content)
                    count += 1
        if not count:
            problem = "no kernels of this machine and these versions"
            got: dict[str, object] = {"cache directory": config.cache_directory}
            fix = "python -m numba_grad warm script.py, which fills it"
            raise ArchiveError(explain("cache export", problem, got=got, fix=fix))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return ExportedKernels(count, path.stat().st_size)


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    # Without the time of day.
    archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)


def import_from(path: Path) -> ImportedKernels:
    """Put the kernels of an archive into the cache directory: those that are for this machine.

    Raises
    ------
    ArchiveError
        If none is, or if the archive is none, or damaged: then nothing is imported.
    OSError
        If the file cannot be read, or the directory not be written.
    """
    if not cache.is_usable():
        raise ArchiveError(
            explain(
                "cache import",
                "the cache directory cannot be used",
                got={"cache directory": config.cache_directory},
                expected="a directory that you, and nobody else, can write to",
                fix="NUMBA_GRAD_CACHE_DIR=... of another one",
            )
        )
    try:
        with zipfile.ZipFile(path) as archive:
            return _import(archive, path)
    except ArchiveError:
        raise
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError) as error:
        raise _damaged(path, str(error)) from None


def _import(archive: zipfile.ZipFile, path: Path) -> ImportedKernels:
    kernels = _kernels_of(archive, path)
    differences: list[dict[str, object]] = []
    prefixes = []
    own = environments()
    for kind, environment in _environments_of(archive, path).items():
        prefix = cache.prefix_of(cache.identity_of(environment))
        if own.get(kind) == environment:
            prefixes.append(prefix)
        elif any(key.startswith(prefix) for key in kernels):
            differences.append(_differences(kind, environment, own.get(kind, {})))
    got: dict[str, object] = {name: x for found in differences for name, x in found.items()}
    wanted = {key: info for key, info in kernels.items() if key.startswith(tuple(prefixes))}
    if not wanted:
        raise ArchiveError(
            explain(
                "cache import",
                f"no kernels in {path} are for this machine and these versions",
                got=got,
                expected="the same processor features and versions as where it was exported",
            )
        )
    for _ in _contents(archive, path, kernels):  # before anything is written
        pass
    new = 0
    for key, code in _contents(archive, path, wanted):
        if cache.peek(key) is None:
            cache.store(key, code)
            new += 1
    problem = f"{len(kernels) - len(wanted)} of {len(kernels)} kernels are not for this machine"
    left_out = explain("cache import", problem, got=got) if len(kernels) > len(wanted) else ""
    return ImportedKernels(new, len(wanted) - new, left_out)


# What is in an archive, which may have been made to do harm.


def _damaged(path: Path, why: str) -> ArchiveError:
    problem = f"{path} is damaged, or not what `cache export` writes: {why}"
    return ArchiveError(
        explain("cache import", problem, fix="export it again; nothing was imported")
    )


def _kernels_of(archive: zipfile.ZipFile, path: Path) -> dict[str, zipfile.ZipInfo]:
    """The members that are kernels, by key."""
    found: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        if info.filename == _MANIFEST:
            continue
        if not cache.is_entry_name(info.filename):
            raise _damaged(path, f"{info.filename[:100]!r} is no name of a kernel")
        key = info.filename.partition(".")[0]
        if key in found:
            raise _damaged(path, f"two kernels are called {key}")
        found[key] = info
    total = sum(info.file_size for info in found.values())
    if total > config.cache_bytes:
        raise ArchiveError(
            explain(
                "cache import",
                f"the kernels in {path} are more than the cache holds",
                got={"bytes": total},
                expected=f"at most {config.cache_bytes}, which is `cache_bytes`",
                fix=f"NUMBA_GRAD_CACHE_BYTES={2 * total}",
            )
        )
    return found


def _environments_of(archive: zipfile.ZipFile, path: Path) -> dict[str, cache.Environment]:
    try:
        info = archive.getinfo(_MANIFEST)
        manifest = json.loads(_content(archive, path, info, _MOST_BYTES_OF_MANIFEST))
    except (KeyError, RecursionError, UnicodeDecodeError, json.JSONDecodeError):
        raise _damaged(path, "it has no manifest that can be read") from None
    found: Any = None
    if isinstance(manifest, dict) and manifest.get("format") == _FORMAT:
        found = manifest.get("environments")
    if not (_has_plain_names(found) and all(_is_environment(x) for x in found.values())):
        raise _damaged(path, f"its manifest is not of the format {_FORMAT!r}")
    return found


def _is_environment(found: Any) -> bool:
    return _has_plain_names(found) and all(isinstance(x, str) for x in found.values())


def _has_plain_names(found: Any) -> bool:
    return isinstance(found, dict) and all(name.replace(" ", "").isalnum() for name in found)


def _contents(
    archive: zipfile.ZipFile, path: Path, kernels: dict[str, zipfile.ZipInfo]
) -> Iterator[tuple[str, bytes]]:
    for key, info in kernels.items():
        code = cache.code_in(key, _content(archive, path, info))
        if code is None:
            raise _damaged(path, f"the checksum of {key} is wrong")
        yield key, code


def _content(
    archive: zipfile.ZipFile, path: Path, info: zipfile.ZipInfo, limit: int = _MOST_BYTES
) -> bytes:
    # Of other ways to compress, some take as much memory as the archive says.
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & 1:
        raise _damaged(path, f"{info.filename} is encrypted, or compressed in another way")
    if info.file_size > limit:
        raise _damaged(path, f"{info.file_size} bytes in {info.filename}")
    with archive.open(info) as file:
        # Without a number of bytes, what is longer than it says would be decompressed whole.
        content = file.read(info.file_size + 1)
    if len(content) != info.file_size:
        raise _damaged(path, f"{info.filename} is not as long as it says")
    return content


def _differences(kind: str, there: cache.Environment, here: cache.Environment) -> dict[str, object]:
    """What to show of two environments."""
    if not here:
        return {kind: "no kernels are compiled for it here"}
    shown: dict[str, object] = {}
    for name in sorted({*there, *here}):
        others, own = there.get(name, "nothing"), here.get(name, "nothing")
        if name == "features":
            others, own = _without_common(others, own)
        if others != own:
            shown[f"{kind}, {name}"] = f"{others[:300]!a} in the archive, {own[:300]!a} here"
    return shown


def _without_common(there: str, here: str) -> tuple[str, str]:
    """What each of two processors has, and the other one has not."""
    first, second = (
        {x.removeprefix("+") for x in features.split(",") if x.startswith("+")}
        for features in (there, here)
    )
    return _listed(first - second), _listed(second - first)


def _listed(features: set[str]) -> str:
    return " ".join(sorted(features)) or "no others"
