"""Object files placed in memory without a linker: on Linux those of x86-64 that need no more than
their own code and constants, and functions of the process to call.

LLVM's linker takes 0.15 ms for a batch and 0.07 for each file, and a thread that no signal breaks
off: a quarter of a small first gradient, for kernels of a few hundred bytes. Here it is copying,
and distances from one place to another. What else a file may have, such as variables, tables of
addresses, or frames to unwind, is left to LLVM.
"""

import ctypes
import functools
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any

from numba_grad.runtime.addresses import address_of

Objects = Sequence[tuple[Sequence[str], bytes]]  # the symbols wanted of each, and its code
# The address of a function that is in none of the files; 0 if there is none.
Resolve = Callable[[str, bytes], int]

# The format is ELF, of 64 bits, the lowest byte first: the numbers are those of its specification.
_BEGINNING = struct.pack("<4s3B9x2H", b"\x7fELF", 2, 1, 1, 1, 62)  # to be linked, x86-64
_TABLE = struct.Struct("<40xQ10x2H")  # of a header: where sections are described, size, how many
# Of sections: type, what they are, start, size, link, info, alignment. Of symbols: text, info,
# section, value.
_SECTION = struct.Struct("<4xIQ8x2Q2IQ8x")
_SYMBOL = struct.Struct("<IBxHQ8x")
_RELOCATION = struct.Struct("<Q2Iq")
_DISTANCE = struct.Struct("<i")

_CONTENT, _SYMBOLS, _RELOCATIONS, _RELOCATIONS_IN_PLACE = 1, 2, 4, 9  # types of sections
_IN_MEMORY, _NOT_PLAIN = 0x2, 0x401  # what sections are; not plain: variables
_LAST_SECTION = 0xFEFF  # numbers beyond mean something else
_LAST_PLAIN = 3  # of the types of symbols: functions, objects and sections
_TO_DATA, _TO_CALLED = 2, 4  # relocations that are distances of 32 bits

_PAGE = 4096
# A jump to the address behind it: a function of the process may be farther away than 2 GB.
_FAR_JUMP = struct.Struct("<6sQ")
_ADDRESS = struct.Struct("<Q")
_JUMP = b"\xff\x25\0\0\0\0"


class _NotPlaceableError(Exception):
    """This file is for LLVM."""


def placed(objects: Objects, resolve: Resolve) -> dict[str, int]:
    """The addresses of the symbols that are wanted, of those files that need no linker."""
    if not can_place():
        return {}
    content = bytearray()
    places = append(content, objects, resolve)
    base = in_memory(content) if places else 0
    return {name: base + place for name, place in places.items()} if base else {}


def append(
    content: bytearray, objects: Objects, resolve: Resolve, called: dict[int, str] | None = None
) -> dict[str, int]:
    """Add files to what goes to memory together; where in it the symbols that are wanted of those
    files are that need no linker. `called` gets what they call, by where its address is."""
    places: dict[str, int] = {}
    for names, code in objects:
        length = len(content)
        own: dict[int, str] = {}
        try:
            places |= _append(content, names, code, resolve, own)
        except (_NotPlaceableError, struct.error, IndexError, ValueError):
            del content[length:]
        else:
            if called is not None:
                called |= own
    return places


def with_addresses(content: bytes, called: dict[int, str]) -> bytes | None:
    """The content, with the addresses that functions have in this process; None if it lacks one."""
    result = bytearray(content)
    for place, name in called.items():
        address = address_in_process(name)
        if not address:
            return None
        _ADDRESS.pack_into(result, place, address)
    return bytes(result)


def _append(
    content: bytearray,
    names: Sequence[str],
    code: bytes,
    resolve: Resolve,
    called: dict[int, str],
) -> dict[str, int]:
    """Add a file to what goes to memory together; where in it the symbols of these names are."""
    if not code.startswith(_BEGINNING):
        raise _NotPlaceableError
    first, size, count = _TABLE.unpack_from(code)
    if size != _SECTION.size:
        raise _NotPlaceableError
    sections = [*_SECTION.iter_unpack(code[first : first + size * count])]
    starts = [_copied(content, code, *section) for section in sections]
    [(_, _, start, size, texts, _, _)] = [own for own in sections if own[0] == _SYMBOLS]
    texts = sections[texts][2]
    symbols = [*_SYMBOL.iter_unpack(code[start : start + size])]

    def place_of(number: int, *, is_called: bool = False) -> int:
        text, info, section, value = symbols[number]
        if section == 0 and is_called:
            start = texts + text
            name = code[start : code.index(b"\0", start)].decode()
            address = resolve(name, code)
            if not address:
                return -1
            place = _appended(content, _FAR_JUMP.pack(_JUMP, address), 8)
            called[place + len(_JUMP)] = name
            return place
        start = starts[section] if 0 < section <= _LAST_SECTION else -1
        return start + value if start >= 0 and info & 15 <= _LAST_PLAIN else -1

    places: dict[int, int] = {}  # of symbols, by number
    for kind, _, start, size, _, info, _ in sections:
        target = starts[info] if kind == _RELOCATIONS else -1
        if target < 0:
            continue
        for offset, how, number, addend in _RELOCATION.iter_unpack(code[start : start + size]):
            place = places.get(number)
            if place is None:
                place = places[number] = place_of(number, is_called=how == _TO_CALLED)
            if place < 0 or how not in (_TO_DATA, _TO_CALLED):
                raise _NotPlaceableError
            where = target + offset
            _DISTANCE.pack_into(content, where, place + addend - where)
    found = {}
    for name in names:
        text = code.index(b"\0%s\0" % name.encode(), texts) + 1 - texts
        [number] = [k for k, symbol in enumerate(symbols) if symbol[0] == text]
        found[name] = place_of(number)
    if min(found.values(), default=0) < 0:
        raise _NotPlaceableError
    return found


def _copied(
    content: bytearray,
    code: bytes,
    kind: int,
    flags: int,
    start: int,
    size: int,
    _link: int,
    _info: int,
    alignment: int,
) -> int:
    """Where a section is now; -1 if nothing of it is needed in memory."""
    if not flags & _IN_MEMORY:
        if kind == _RELOCATIONS_IN_PLACE:
            raise _NotPlaceableError
        return -1
    own = code[start : start + size]
    if kind != _CONTENT or flags & _NOT_PLAIN or alignment > _PAGE or len(own) < size:
        raise _NotPlaceableError
    return _appended(content, own, alignment)


def _appended(content: bytearray, own: bytes, alignment: int) -> int:
    content += bytes(-len(content) % max(alignment, 1))
    start = len(content)
    content += own
    return start


# Memory.

_READ, _WRITE, _EXECUTE = 1, 2, 4
_PRIVATE, _ANONYMOUS = 0x2, 0x20


@functools.cache
def can_place() -> bool:
    return sys.platform == "linux"


@functools.cache
def _process() -> Any:
    """All that the process has loaded, the C library for one."""
    found = ctypes.CDLL(None)
    found.mmap.restype = ctypes.c_void_p
    numbers = [ctypes.c_int] * 3
    found.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *numbers, ctypes.c_long]
    found.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return found


def in_memory(content: bytes | bytearray) -> int:
    """The address of a copy that can be run, and stays for the life of the process: plans hold
    addresses. 0 if there is no memory for it."""
    size = -(-len(content) // _PAGE) * _PAGE
    address = _process().mmap(None, size, _READ | _WRITE, _PRIVATE | _ANONYMOUS, -1, 0)
    if address is None or address == ctypes.c_void_p(-1).value:
        return 0
    ctypes.memmove(address, bytes(content), len(content))
    # Never to be written and run at a time.
    return 0 if _process().mprotect(address, size, _READ | _EXECUTE) else address


@functools.cache
def address_in_process(name: str) -> int:
    """Of a function of the process, such as `sin`; 0 if it has none of this name."""
    try:
        return address_of(getattr(_process(), name))
    except AttributeError:
        return 0
