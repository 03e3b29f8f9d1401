"""Object code to callable addresses, by copying it (`object_files.py`) or by LLVM's linker: a warm
start never imports Numba.

llvmlite itself, 20 ms, is imported when the linker is needed.
"""

import functools
import itertools
import sys
from collections.abc import Sequence
from typing import Any

from numba_grad import forks
from numba_grad.errors import KernelError
from numba_grad.fresh_thread import unbroken
from numba_grad.locks import new_lock
from numba_grad.runtime import object_files, special_functions
from numba_grad.runtime.object_files import Objects


def _llvms_lock() -> Any:
    """What whoever is inside of LLVM, which runs without the GIL, has: a lock of llvmlite's."""
    library = getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None)
    return None if library is None else library._lock._lock


forks.wait_for(_llvms_lock)

_lock = new_lock()
_library_numbers = itertools.count()
_libraries: list[Any] = []  # code stays loaded for the life of the process: plans hold addresses


@functools.cache
def _linker() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        reloc="pic", codemodel="small"
    )
    # JITLink places an object's code and constants together, so that near addresses always reach.
    # The older linker can put them more than 2 GB apart, and then aborts the process.
    return llvm.create_lljit_compiler(machine, use_jit_link=True, suppress_errors=True)


# The engine's `SharedWord`s, as the code of users' kernels knows them.
SHARED_WORDS = "engine_shared_words"
_given: dict[str, int] = {}


def give_symbol(name: str, address: int) -> None:
    """Let objects that are loaded from now on refer to an address by name."""
    _given[name] = address


def _needed(objects: Objects) -> dict[str, int]:
    """What the objects need beyond the symbols of the process."""
    needed: dict[str, int] = {}
    for _, code in objects:
        needed |= special_functions.needed_by(code)
        needed |= {name: address for name, address in _given.items() if name.encode() in code}
    return needed


def load(objects: Objects) -> dict[str, int]:
    """Addresses of exported functions by symbol, for each (symbols, object code).

    Raises
    ------
    KernelError
        If an object is damaged, or needs a symbol that this process does not have.
    """
    addresses = object_files.placed(objects, _resolved)
    left = [own for own in objects if not all(symbol in addresses for symbol in own[0])]
    if left:
        # llvmlite's lock is not one that an interrupt leaves free.
        wanted = tuple([symbol for symbols, _ in left for symbol in symbols])
        addresses |= unbroken(("load", wanted), lambda: _loaded(left, wanted))
    return addresses


def _resolved(name: str, code: bytes) -> int:
    """The address of a function that object code calls; 0 if it is for LLVM to find."""
    if name in _given:
        return _given[name]
    needed = special_functions.needed_by(code)
    return needed[name] if name in needed else object_files.address_in_process(name)


def resolved_anywhere(name: str, code: bytes) -> int:
    """The same of a function that every process has, such as those of the C library."""
    if name in _given or name in special_functions.needed_by(code):
        return 0
    return object_files.address_in_process(name)


def _loaded(objects: Objects, wanted: Sequence[str]) -> dict[str, int]:
    import llvmlite.binding as llvm

    builder = llvm.JITLibraryBuilder().add_current_process()
    for _, code in objects:
        builder.add_object_img(code)
    for symbol in wanted:
        builder.export_symbol(symbol)
    for name, address in _needed(objects).items():
        builder.import_symbol(name, address)
    with _lock:
        try:
            library = builder.link(_linker(), f"numba_grad_{next(_library_numbers)}")
        except RuntimeError as error:
            names = ", ".join(wanted)
            raise KernelError(f"load: cannot link {names}: {error}") from error
        _libraries.append(library)
    return {symbol: library[symbol] for symbol in wanted}
