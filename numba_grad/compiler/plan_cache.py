"""Plans on disk, named by the structure of their graph: a process that meets a graph which another
has compiled reads the plan, and lowers nothing.

    key_of   what a plan depends on, as a digest that is the same in every process
    read     the plan of a key, with its kernels loaded
    write    a plan, as arrays and JSON

A plan is stored without its kernels, whose keys it names: they are files of their own in the same
directory. Where one of these is missing, the plan counts as missing.
"""

import functools
import json
import marshal
import math
import os
import struct
import time
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np

from numba_grad.compiler.building import cache
from numba_grad.compiler.compiled_program import CompiledProgram
from numba_grad.compiler.partition.flat_graph import FlatGraph, Signatures, targets_of
from numba_grad.config import config
from numba_grad.errors import InternalError, KernelError
from numba_grad.graph.node import ARGUMENT, Node, Op
from numba_grad.graph.types import Type, as_dtype
from numba_grad.graph.walk import in_order_of_recording, toposort
from numba_grad.runtime.plan import ErrorSite, JointOutputs, Plan, check_plan

# A plan that takes a larger part of the cache's bound than this would push out the kernels.
_MOST_OF_CACHE = 1 / 16


class _NotStorableError(Exception):
    """Something has no name that holds in another process."""


# Keys.


def key_of(graph: FlatGraph, target: str) -> str | None:
    """The name of the plan for `graph`, equal in every process; None if it is not kept on disk.

    That is so for graphs with parts that are known by their identity alone, such as a user's
    kernel, and while passes are checked: a plan from disk has been through none.
    """
    environment_now = environment()
    if environment_now is None:
        return None
    try:
        meanings = _digests_of_signatures(graph.table, graph.signatures)
    except _NotStorableError:
        return None
    # Inputs count as the first nodes: when a number was recorded that other graphs use as well
    # depends on these.
    is_own = np.ones(len(graph.nodes), bool)
    is_own[graph.inputs] = False
    positions = np.empty(len(graph.nodes), np.int32)
    positions[graph.inputs] = np.arange(len(graph.inputs))
    positions[is_own] = np.arange(len(graph.inputs), len(graph.nodes))
    digest = cache.new_digest()
    for part in (
        canonical(
            (target, config.engine, config.unroll_extent, tuple(map(_described, graph.types)))
        ),
        meanings[is_own].tobytes(),
        np.diff(graph.starts)[is_own].tobytes(),
        positions[graph.edges].tobytes(),
        positions[graph.outputs].tobytes(),
    ):
        digest.update(b"%d:" % len(part))
        digest.update(part)
    return cache.key_of("plan", environment_now, digest.hexdigest())


def environment() -> str | None:
    """What all plans and all that is found in graphs depend on; None where nothing is kept."""
    if config.check_passes:
        return None
    try:
        return _environment(config.cache_directory)
    except _NotStorableError:
        return None


_DIGEST = np.dtype("V16")


def _digests_of_signatures(table: Signatures, signatures: np.ndarray) -> np.ndarray:
    """What each node does. The numbers themselves depend on what the process met first."""
    is_used = np.bincount(signatures) > 0
    used = np.flatnonzero(is_used).tolist()
    digests = b"".join([_digest_of_signature(table, number) for number in used])
    # Where in these the digest of a number is.
    places = np.cumsum(is_used) - 1
    return np.frombuffer(digests, _DIGEST)[places[signatures]]


def _digest_of_signature(table: Signatures, number: int) -> bytes:
    found = table.digests.get(number)
    if found is None:
        meaning = table.meanings[number]
        text = _plain(meaning) or canonical(meaning)
        found = table.digests[number] = cache.new_digest(text).digest()[:16]
    return found


# Of these and of tuples of these `marshal` has one text in this version of its format, which tells
# each from every other.
_FLAT = frozenset({int, bool, float, str, bytes, NoneType})
_MARSHAL_FORMAT = 2
_MARSHALLED = b"marshal"


def _plain(meaning: Any) -> bytes | None:
    """What `canonical` is for, of an operation whose params are numbers, texts, and tuples of
    these, as most are: in a quarter of the time."""
    if meaning.__class__ is not tuple:
        return None
    op, *params = meaning
    if not isinstance(op, Op):
        return None
    for param in params:
        if param.__class__ is not tuple:  # which result of a call it is
            return None
        value = param[1]
        if value.__class__ is tuple:
            if not _FLAT.issuperset(map(type, value)):
                return None
        elif value.__class__ not in _FLAT:
            return None
    return b"plain " + marshal.dumps((op.name, params), _MARSHAL_FORMAT)


def canonical(value: object) -> bytes:
    """Text that tells one value from every other: 1 from True and 1.0, 0.0 from -0.0.

    Of what has no such text, `_NotStorableError` is raised.
    """
    parts: list[bytes] = []
    _append(value, parts)
    return b"".join(parts)


_NAMES = {kind: kind.__name__.encode() for kind in (str, bytes, tuple, list)}


def _append(value: Any, parts: list[bytes]) -> None:
    # By class: a derived one may mean something else by the same number.
    kind = value.__class__
    if kind is str or kind is bytes:
        text = value.encode() if kind is str else value
        parts.append(b"%s%d:%s" % (_NAMES[kind], len(text), text))
    elif kind is tuple or kind is list:
        if _FLAT.issuperset(map(type, value)):  # the common case
            parts.append(_MARSHALLED + marshal.dumps(value, _MARSHAL_FORMAT))
            return
        parts.append(b"%s%d:" % (_NAMES[kind], len(value)))
        for item in value:
            _append(item, parts)
    elif kind is int:
        parts.append(b"i%d;" % value)
    elif kind is float:
        parts.append(b"f" + struct.pack("<d", value))
    elif value is None or kind is bool:
        parts.append(b"%s;" % repr(value).encode())
    elif kind is Op or isinstance(value, np.dtype):
        parts.append(_named(value))
    elif kind is Type:
        parts.append(_of_type(value))
    elif hasattr(value, "arguments") and hasattr(value, "outputs"):
        parts.append(b"call" + _digest_of_call(value))
    else:
        raise _NotStorableError


@functools.cache
def _named(value: Op | np.dtype) -> bytes:
    return canonical(("op" if isinstance(value, Op) else "dtype", value.name))


@functools.cache
def _of_type(type: Type) -> bytes:
    return canonical(_described(type))


def _described(type: Type) -> tuple[Any, ...]:
    return (type.shape, type.dtype, type.device)


def digest_of_call(target: Any) -> bytes | None:
    """A digest of a graph's structure, equal in every process; None if it has none."""
    try:
        return _digest_of_call(target)
    except _NotStorableError:
        return None


_digests_of_calls: weakref.WeakKeyDictionary[Any, bytes] = weakref.WeakKeyDictionary()


def _digest_of_call(target: Any) -> bytes:
    """A traced function that another graph calls. What it calls itself comes first: functions may
    call each other deeper than Python's stack."""
    stack = [] if target in _digests_of_calls else [target]
    while stack:
        reached = toposort(stack[-1].outputs)
        called = [
            target
            for node in reached
            if node.op.family == "call"
            for target in targets_of(node)
            if target not in _digests_of_calls
        ]
        if called:
            stack += called
        else:
            last = stack.pop()
            described = canonical(_described_call(last, reached))
            _digests_of_calls[last] = cache.new_digest(described).digest()
    return _digests_of_calls[target]


def _described_call(target: Any, reached: Sequence[Node]) -> tuple[Any, ...]:
    """Its own graph, which was walked from its outputs, in the order of recording."""
    nodes = in_order_of_recording({*reached, *target.arguments})
    positions = {node: k for k, node in enumerate(nodes)}

    def described(node: Node) -> tuple[Any, ...]:
        if node.op is ARGUMENT:
            return ("argument", node.type)
        if node.value is not None:
            raise _NotStorableError
        meaning = (node.op, *node.params.items())
        return (_plain(meaning) or meaning, tuple([positions[x] for x in node.inputs]))

    return (
        "call",
        target.name,
        [described(node) for node in nodes],
        [positions[node] for node in target.arguments],
        [positions[node] for node in target.outputs],
    )


# What all keys depend on.

# Of these a plan knows nothing, nor what was found in a graph: they make graphs.
_ABOVE = ("frontend", "autograd", "numpy")
_imported_ns = time.time_ns()


@functools.cache
def _environment(directory: Path) -> str:
    """The compiler itself, by the text of its files: a rule that was edited must not meet plans of
    what it was.

    Raises
    ------
    _NotStorableError
        If there are no files, or one changed since this process imported it, maybe: then it runs
        another text.
    """
    package = Path(__file__).parent.parent
    try:
        files = sorted(_files(str(package)))
    except OSError:  # in an archive
        files = []
    if not files or any(max(s.st_mtime_ns, s.st_ctime_ns) > _imported_ns for _, s in files):
        raise _NotStorableError
    # Reading them takes five times as long as this look, so their digest is on disk as well.
    looks = [(name, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino) for name, s in files]
    remembered = cache.key_of("text of the compiler", str(package), repr(looks))
    found = cache.read(remembered)
    if found is None:
        digest = cache.new_digest()
        for name, _ in files:
            text = (package / name).read_bytes()
            digest.update(b"%s %d:" % (name.encode(), len(text)))
            digest.update(text)
        found = digest.digest()
        cache.write(remembered, found)
    return f"{found.hex()} numpy {np.__version__}"


def _files(folder: str, prefix: str = "") -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield prefix + entry.name, entry.stat()
            elif entry.is_dir() and entry.name not in (*_ABOVE, "__pycache__"):
                yield from _files(entry.path, f"{prefix}{entry.name}/")


# Reading and writing.

_ARRAYS = ("steps", "words", "relocations")
_COLUMNS = {"steps": (4,), "words": (), "relocations": (3,)}
_COMPRESSION = 1  # of zlib


def read(key: str, stored_kernels: Callable[[Sequence[str]], list[Any]]) -> CompiledProgram | None:
    """The plan that is stored under `key`, ready to run; None if there is none, or not whole."""
    content = cache.read(key)
    if content is None:
        return None
    try:
        program = _decoded(content, stored_kernels)
        check_plan(program.plan)
    except (ValueError, KeyError, TypeError, zlib.error, InternalError, KernelError):
        # The checksum was right, so this was written by something else than what reads it; or a
        # kernel is missing.
        return None
    return program


def write(key: str, program: CompiledProgram) -> None:
    """Store a plan whose kernels have keys, in a while."""
    plan = program.plan
    if any(site.exception is not None for site in plan.sites) or plan.accesses is not None:
        return
    cache.write_later(key, lambda: _encoded(plan, program.joined_elements))


def _encoded(plan: Plan, joined_elements: int) -> bytes | None:
    """None if it would be too large."""
    arrays = [getattr(plan, name) for name in _ARRAYS]
    described = {
        "kernels": [kernel.key for kernel in plan.kernels],
        "input_count": plan.input_count,
        "outputs": [(shape, dtype.name) for shape, dtype in plan.outputs],
        "arena_bytes": plan.arena_bytes,
        "symbols": plan.symbols,
        "joint": [(joint.places, joint.nbytes) for joint in plan.joint],
        "sites": [(site.kind, site.operation, site.axis) for site in plan.sites],
        "lengths": [len(array) for array in arrays],
        "joined elements": joined_elements,
    }
    text = json.dumps(described).encode()
    parts = [
        struct.pack("<q", len(text)),
        text,
        *[_differences(array).astype("<i8").tobytes() for array in arrays],
    ]
    content = zlib.compress(b"".join(parts), _COMPRESSION)
    return content if len(content) <= _MOST_OF_CACHE * config.cache_bytes else None


def _differences(array: np.ndarray) -> np.ndarray:
    """Of neighbours in each column. Steps of a loop differ by what is the same from pass to pass:
    so zlib takes half the time, to a third of the bytes."""
    return np.diff(array.T, prepend=0)


def _sums(differences: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The array of these `_differences`."""
    columns = differences.reshape(shape[::-1])
    return np.ascontiguousarray(np.cumsum(columns, axis=-1).T)


def _decoded(
    content: bytes, stored_kernels: Callable[[Sequence[str]], list[Any]]
) -> CompiledProgram:
    data = zlib.decompress(content)
    (length,) = struct.unpack_from("<q", data)
    described = json.loads(data[8 : 8 + length])
    arrays = {}
    start = 8 + length
    for name, rows in zip(_ARRAYS, described["lengths"], strict=True):
        shape = (rows, *_COLUMNS[name])
        count = math.prod(shape)
        arrays[name] = _sums(np.frombuffer(data, "<i8", count, start).astype(np.int64), shape)
        start += 8 * count
    plan = Plan(
        **arrays,
        kernels=tuple(stored_kernels(described["kernels"])),
        input_count=described["input_count"],
        outputs=tuple([(tuple(s), as_dtype(name)) for s, name in described["outputs"]]),
        arena_bytes=described["arena_bytes"],
        symbols=tuple(described["symbols"]),
        sites=tuple([ErrorSite(*site) for site in described["sites"]]),
        joint=tuple([JointOutputs(tuple(map(tuple, p)), n) for p, n in described["joint"]]),
    )
    return CompiledProgram(plan, joined_elements=described["joined elements"])
