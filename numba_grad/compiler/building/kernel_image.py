"""The kernels of single operations that this machine has met, in one file, as they lie in memory.

All first gradients need some of them, a file each of a few hundred bytes: to name, read, check and
place ten took a tenth of a small one. The image takes a process as long as three of them. It is
what the files hold once more, and never needed: what it lacks is read from its file, and added when
the process ends.
"""

import marshal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from numba_grad.compiler.building import cache
from numba_grad.config import config
from numba_grad.locks import new_lock
from numba_grad.runtime import loader, object_files

if TYPE_CHECKING:
    from numba_grad.compiler.building.build import LoadedKernel

# Beyond, an image would take a process longer than the files that it reads: it is begun anew.
_MOST_BYTES = 1 << 19

Request = tuple[str, str, str, bool]  # what a `KernelRequest` is
Places = dict[Request, tuple[str, int]]  # the key of a kernel, and where in the image it is
# Its places, what of the process it calls, by where the addresses of that are, and the image.
_Image = tuple[Places, dict[int, str], bytes]
_EMPTY: _Image = {}, {}, b""

_lock = new_lock()
_wanted: dict[Path, "dict[str, LoadedKernel]"] = {}  # in the image of a directory, by key


def read() -> Places:
    """The kernels of the image, if there is one: with their addresses."""
    content = cache.peek(_key()) if object_files.can_place() else None
    places, called, code = _decoded(content)
    placed = object_files.with_addresses(code, called) if places else None
    base = object_files.in_memory(placed) if placed else 0
    if not base:
        return {}
    return {request: (key, base + place) for request, (key, place) in places.items()}


def add(kernels: "Iterable[LoadedKernel]") -> None:
    """Have the image on disk have these as well, in a while."""
    own = {kernel.key: kernel for kernel in kernels}
    if not own or not object_files.can_place():
        return
    directory = config.cache_directory
    with _lock:
        _wanted.setdefault(directory, {}).update(own)
    cache.write_later(_key(), lambda: _with_wanted(directory))


def _key() -> str:
    return cache.key_of("image of kernels", f"marshal {marshal.version}", sys.version)


def _decoded(content: bytes | None) -> _Image:
    if content is None:
        return _EMPTY
    try:
        places, called, code = marshal.loads(content)
    except (ValueError, EOFError, TypeError):  # it was written by something else
        return _EMPTY
    return places, called, code


def _with_wanted(directory: Path) -> bytes | None:
    """The image that is on disk now, maybe of another process, with what is wanted here."""
    with _lock:
        wanted = _wanted.pop(directory, {})
    content = cache.code_on_disk(_key())
    is_large = content is not None and len(content) > _MOST_BYTES
    places, called, old = _EMPTY if is_large else _decoded(content)
    new = [kernel for kernel in wanted.values() if tuple(kernel.request) not in places]
    by_code: dict[bytes, list[LoadedKernel]] = {}  # what was compiled together has the same
    for kernel in new:
        if (own := cache.code_on_disk(kernel.key)) is not None:
            by_code.setdefault(own, []).append(kernel)
    objects = [([kernel.symbol for kernel in own], code) for code, own in by_code.items()]
    code, called = bytearray(old), dict(called)
    added = object_files.append(code, objects, loader.resolved_anywhere, called)
    if not added:
        return None
    own = {
        tuple(kernel.request): (kernel.key, added[kernel.symbol])
        for kernel in new
        if kernel.symbol in added
    }
    return marshal.dumps((places | own, called, bytes(code)))
