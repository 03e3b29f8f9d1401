"""Adds to the image of kernels that `build.py` reads: what single operations need, in one file.

It is what files of their own hold once more, and never needed: what it lacks is read from its file,
and added when the process has gone on for a while, or ends.
"""

import marshal
from collections.abc import Iterable
from pathlib import Path

from numba_grad.compiler.building import cache
from numba_grad.compiler.building.build import (
    EMPTY_IMAGE,
    LoadedKernel,
    image_in,
    image_of,
    key_of_image,
)
from numba_grad.config import config
from numba_grad.locks import new_lock
from numba_grad.runtime import loader, object_files

# Beyond, an image would take a process longer than the files that it reads: it is begun anew.
_MOST_BYTES = 1 << 19

_lock = new_lock()
_wanted: dict[Path, dict[str, LoadedKernel]] = {}  # in the image of a directory, by key


def add(kernels: Iterable[LoadedKernel]) -> None:
    """Have later processes find these kernels in the image."""
    directory = config.cache_directory
    image = image_in(directory)
    own = {kernel.key: kernel for kernel in kernels if kernel.request not in image}
    if not own or not object_files.can_place():
        return
    with _lock:
        _wanted.setdefault(directory, {}).update(own)
    cache.write_later(key_of_image(), lambda: _with_wanted(directory))


def _with_wanted(directory: Path) -> bytes | None:
    """The image that is on disk now, maybe of another process, with what is wanted here."""
    with _lock:
        wanted = _wanted.pop(directory, {})
    content = cache.code_on_disk(key_of_image())
    is_large = content is not None and len(content) > _MOST_BYTES
    places, called, old = EMPTY_IMAGE if is_large else image_of(content)
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
    found = {
        tuple(kernel.request): (kernel.key, added[kernel.symbol])
        for kernel in new
        if kernel.symbol in added
    }
    return marshal.dumps((places | found, called, bytes(code)))
