"""Native walks of long graphs, compiled from the text of `walk_functions.py` and cached as any
kernel; and how such a text is read."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numba_grad.compiler.building import compile_log
from numba_grad.compiler.building.build import KernelRequest, build_requests, is_compiled
from numba_grad.fresh_thread import imported
from numba_grad.graph import walk
from numba_grad.runtime.native_engine import OBJECT_HEAD

if TYPE_CHECKING:
    from numba_grad.graph.native_walks import NativeWalks

_BEGINNING = "# From here on it is kernel language.\n"


def text_of_module(module: str, constants: dict[str, int], words: Sequence[type]) -> str:
    """The text of a module here, with what it imports from Python as numbers."""
    lines = [f"{name} = {value}\n" for name, value in constants.items()]
    for own in words:
        lines.append(f"class {own.__name__}:\n")
        named = getattr(own, "__members__", vars(own)).items()
        lines += [f"    {name} = {int(value)}\n" for name, value in named if name.isupper()]
    text = Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
    return "".join(lines) + text.partition(_BEGINNING)[2]


@functools.cache
def walk_requests() -> tuple[KernelRequest, ...]:
    """What walks of long graphs are compiled from, in the order of `NativeWalks`; nothing on a
    Python whose objects are not known."""
    if _layout() is None:
        return ()
    module = _walks_module()
    words = (module.WalkWord, module.WalkStatus)
    source = text_of_module("walk_functions", {"OBJECT_HEAD": OBJECT_HEAD}, words)
    # They wait for memory: LLVM's passes would save a tenth of a walk, and take the first program
    # on a machine 0.1 s.
    return (
        KernelRequest(source, "walk", "int64(int64)", is_quick=True),
        KernelRequest(source, "survey", "int64(int64)", is_quick=True),
        KernelRequest(source, "release", "int64(int64)", is_quick=True),
    )


def _walks_module() -> Any:
    # Most processes walk no long graph.
    return imported("numba_grad.graph.native_walks")


@functools.cache
def _layout() -> dict[int, int] | None:
    return _walks_module().layout()


_walks: "list[NativeWalks]" = []


def native_walks() -> "NativeWalks | None":
    """Those of this process; None where they are not compiled yet, as the engine's first program on
    a machine does, or cannot be."""
    known = _layout()
    if not _walks and known is not None and all(map(is_compiled, walk_requests())):
        with compile_log.report():
            functions = build_requests(walk_requests())
        addresses = [function.address for function in functions]
        _walks.append(_walks_module().NativeWalks(*addresses, known))
    return _walks[0] if _walks else None


walk.native_walks = native_walks
