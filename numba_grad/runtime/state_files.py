"""Files that hold states of loops while a plan runs: mapped into memory, and gone afterwards.

A file has no name from the start, so that nothing of it is left however the process ends. All of
its space is reserved before it is used: a disk that is full would end the process at a write.
"""

import errno
import mmap
import os
import tempfile

import numpy as np

from numba_grad.errors import explain

PREFIX = "file."  # of the symbols of plans that stand for files
_ZEROS = 1 << 24  # bytes that are written at a time where space cannot be reserved


def symbol_of(number: int, nbytes: int, directory: str) -> str:
    """The symbol of the file of this number of a plan."""
    return f"{PREFIX}{number}.{nbytes}.{directory}"


class StateFile:
    """A block in which so many bytes of a file in a directory are memory, at `address`.

    Raises
    ------
    OSError
        If the directory is not there or cannot be written to, or the disk has no room.
    """

    def __init__(self, symbol: str) -> None:
        _, _, nbytes, directory = symbol.split(".", 3)
        self._nbytes, self._directory = max(int(nbytes), 1), directory

    def __enter__(self) -> "StateFile":
        try:
            with tempfile.TemporaryFile(dir=self._directory) as file:
                _reserve(file.fileno(), self._nbytes)
                self._memory = mmap.mmap(file.fileno(), self._nbytes)
        except OSError as error:
            is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            raise OSError(
                error.errno,
                explain(
                    "memory",
                    "no room on the disk for the states of a loop"
                    if is_full
                    else f"no file can be made for the states of a loop: {error.strerror}",
                    got={"directory": self._directory, "bytes": self._nbytes},
                    fix="fewer bytes in memory='disk:PATH:BYTES', or another path",
                ),
            ) from None
        self.address = np.frombuffer(self._memory, np.uint8, 1).ctypes.data
        return self

    def __exit__(self, *error: object) -> None:
        self._memory.close()


def _reserve(file: int, nbytes: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, nbytes)
        return
    for first in range(0, nbytes, _ZEROS):
        os.write(file, bytes(min(_ZEROS, nbytes - first)))
