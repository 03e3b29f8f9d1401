"""Operations with kernels of their own -> steps: matrix products, linear algebra, Fourier
transforms, scans, sorts, scatters."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numba_grad.compiler import library_kernels
from numba_grad.compiler.library_kernels import Errors, LibraryCall, MatrixOperand, Memory, Symbol
from numba_grad.compiler.loop_nests.groups import Place
from numba_grad.compiler.steps.custom_kernel_steps import call_of_custom_kernel
from numba_grad.compiler.steps.matrix_steps import MATRIX_CALLS
from numba_grad.errors import InternalError
from numba_grad.graph.node import Node
from numba_grad.ops.fourier import scale_of
from numba_grad.runtime.plan import ErrorSite


@dataclass(frozen=True, slots=True)
class Pointer:
    """A word that points into memory."""

    source: object
    offset: int  # bytes


@dataclass(frozen=True, slots=True)
class Operand:
    """What a library call reads instead of a node: the memory of `base`, seen as `shape`, maybe
    transposed."""

    base: Node
    shape: tuple[int, ...]
    is_transposed: bool


def operand(x: Node) -> Operand:
    """Look through a swap of the last two axes, then through reshapes: both cost nothing."""
    is_transposed = is_matrix_transpose(x)
    if is_transposed:
        x = x.inputs[0]
    shape = x.shape
    while x.op.name == "reshape":
        x = x.inputs[0]
    return Operand(x, shape, is_transposed)


def is_matrix_transpose(node: Node) -> bool:
    """Whether `node` swaps the last two axes and nothing else."""
    if node.op.name != "transpose":
        return False
    rank = len(node.shape)
    return node.params["axes"] == (*range(rank - 2), rank - 1, rank - 2)


def memory_operands(node: Node) -> list[Node]:
    """The nodes that must be in memory before `node`."""
    match node.op.name:
        case "matmul":
            return [operand(x).base for x in node.inputs]
        case "matmul_add":
            addend, *factors = node.inputs
            return [addend, *[operand(x).base for x in factors]]
    return list(node.inputs)


@dataclass(frozen=True, slots=True)
class LoweredStep:
    """A kernel's source and words: integers, pointers, ("symbol", name), "errors", error sites."""

    source: str
    words: list[object]
    tasks: int
    grain: int
    written: frozenset[int]  # the words of the memory that it writes


def lower(
    node: Node, places: dict[Node, Place], temporary: Callable[[int], object]
) -> list[LoweredStep]:
    """The steps that compute `node` from its operands in memory."""
    in_place = node.op.name in IN_PLACE and places[node] == places[node.inputs[0]]
    if node.op.name == "custom_kernel":
        call = call_of_custom_kernel(node)
    else:
        call = call_of(node, library_kernels, in_place=in_place)
    return steps_of(call, node, places, temporary)


def call_of(node: Node, kernels: Any, *, in_place: bool) -> LibraryCall:
    """The call that computes `node`, of `kernels`: `library_kernels`, or what has functions of the
    same names for another kind of device."""
    if node.op.name in IN_PLACE:
        return IN_PLACE[node.op.name](kernels, node, in_place)
    if node.op.name in CALLS:
        return CALLS[node.op.name](kernels, node)
    raise InternalError(f"no kernel for {node}")


def steps_of(
    call: LibraryCall,
    node: Node,
    places: dict[Node, Place],
    temporary: Callable[[int], object],
) -> list[LoweredStep]:
    """The steps of a call, with pointers in place of the roles of memory."""
    inputs = [_pointer(places[x], x) for x in memory_operands(node)]
    output = _pointer(places[node], node)
    uses_scratch = any(
        isinstance(word, Memory) and word.role == "scratch"
        for step in call.steps
        for word in step.words
    )
    scratch = Pointer(temporary(call.scratch_bytes), 0) if uses_scratch else None

    def word(value: object) -> object:
        match value:
            case Memory(role, number, offset):
                target = {"input": inputs, "output": [output], "scratch": [scratch]}[role][number]
                assert target is not None
                return Pointer(target.source, target.offset + offset)
            case Symbol(name):
                return ("symbol", name)
            case Errors():
                return "errors"
        return value

    return [
        LoweredStep(
            step.source,
            [word(value) for value in step.words],
            step.tasks,
            step.grain,
            frozenset(
                [
                    number
                    for number, value in enumerate(step.words)
                    if isinstance(value, Memory) and value.role != "input"
                ]
            ),
        )
        for step in call.steps
    ]


def _pointer(place: Place, node: Node) -> Pointer:
    return Pointer(place.source, place.offset * node.dtype.itemsize)


def _matmul(kernels: Any, node: Node) -> LibraryCall:
    x, y = node.inputs
    return kernels.matmul_call(
        node.dtype, *extents_of_product(x, y), _matrix_operand(x), _matrix_operand(y)
    )


def _matmul_add(kernels: Any, node: Node, in_place: bool) -> LibraryCall:
    _, x, y = node.inputs
    return kernels.matmul_add_call(
        node.dtype,
        *extents_of_product(x, y),
        _matrix_operand(x),
        _matrix_operand(y),
        in_place=in_place,
    )


def extents_of_product(x: Node, y: Node) -> tuple[int, int, int]:
    """Rows, columns, and the length of the sums."""
    return x.shape[-2], y.shape[-1], x.shape[-1]


def _matrix_operand(x: Node) -> MatrixOperand:
    found = operand(x)
    return MatrixOperand(found.shape[:-2], found.is_transposed)


def _fft(kernels: Any, node: Node) -> LibraryCall:
    inverse = node.params["inverse"]
    return _fourier(kernels, node, "ifft" if inverse else "fft", inverse=inverse)


def _rfft(kernels: Any, node: Node) -> LibraryCall:
    is_odd = node.inputs[0].shape[node.params["axis"]] % 2
    return _fourier(kernels, node, "rfft_n_odd" if is_odd else "rfft_n_even")


def _irfft(kernels: Any, node: Node) -> LibraryCall:
    return _fourier(kernels, node, "irfft", inverse=True)


def _fourier(kernels: Any, node: Node, function: str, *, inverse: bool = False) -> LibraryCall:
    (x,) = node.inputs
    axis = node.params["axis"]
    points = (node if inverse else x).shape[axis]
    scale = scale_of(points, node.params["norm"], inverse=inverse)
    return kernels.fourier_call(
        function, x.dtype, node.dtype, x.shape, axis, node.shape[axis], scale
    )


def _gamma_draw(kernels: Any, node: Node) -> LibraryCall:
    return kernels.gamma_draw_call(node.dtype, node.type.size)


def _poisson_draw(kernels: Any, node: Node) -> LibraryCall:
    return kernels.poisson_draw_call(node.inputs[2].dtype, node.type.size)


def _gamma_moment(kernels: Any, node: Node) -> LibraryCall:
    return kernels.gamma_moment_call(node.dtype, node.type.size, node.params["order"])


def _beta_moment(kernels: Any, node: Node) -> LibraryCall:
    return kernels.beta_moment_call(node.dtype, node.type.size, **node.params)


def _zeta_derivative(kernels: Any, node: Node) -> LibraryCall:
    return kernels.zeta_derivative_call(node.dtype, node.type.size, **node.params)


def _hyp1f1_derivative(kernels: Any, node: Node) -> LibraryCall:
    return kernels.hyp1f1_derivative_call(node.dtype, node.type.size, **node.params)


def _cumsum(kernels: Any, node: Node) -> LibraryCall:
    (x,) = node.inputs
    return kernels.cumsum_call(
        x.dtype, node.dtype, x.shape, node.params["axis"], reverse=node.params["reverse"]
    )


def _correlate(kernels: Any, node: Node) -> LibraryCall:
    x, y = node.inputs
    size, offset = node.params["size"], node.params["offset"]
    return kernels.correlate_call(node.dtype, x.shape, y.shape[-1], size, offset=offset)


def _cumprod(kernels: Any, node: Node) -> LibraryCall:
    (x,) = node.inputs
    return kernels.cumprod_call(x.dtype, node.dtype, x.shape, node.params["axis"])


def _linear_recurrence(kernels: Any, node: Node) -> LibraryCall:
    axis, reverse = node.params["axis"], node.params["reverse"]
    return kernels.linear_recurrence_call(node.dtype, node.shape, axis, reverse=reverse)


def _cumulative_position(kernels: Any, node: Node) -> LibraryCall:
    (x,) = node.inputs
    comparison = {"cumargmax": ">=", "cumargmin": "<="}[node.op.name]
    return kernels.cumulative_position_call(
        x.dtype, x.shape, node.params["axis"], comparison=comparison
    )


def _argsort(kernels: Any, node: Node) -> LibraryCall:
    (x,) = node.inputs
    return kernels.argsort_call(
        x.dtype, x.shape, node.params["axis"], descending=node.params["descending"]
    )


def _searchsorted(kernels: Any, node: Node) -> LibraryCall:
    x, v = node.inputs
    return kernels.searchsorted_call(x.dtype, x.shape, v.type.size, right=node.params["right"])


def _scatter(kernels: Any, node: Node, in_place: bool) -> LibraryCall:
    x, _, *indices = node.inputs
    count = len(indices)
    named = node.params.get("named_axes") or range(count)
    return kernels.scatter_call(
        node.dtype,
        [i.dtype for i in indices],
        x.shape[:count],
        indices[0].type.size,
        math.prod(x.shape[count:]),
        adds=node.op.name == "scatter_add",
        in_place=in_place,
        sites=[ErrorSite("index", node.op.name, axis) for axis in named],
    )


# Those that may go to the memory of their first input.
IN_PLACE: dict[str, Callable[[Any, Node, bool], LibraryCall]] = {
    "matmul_add": _matmul_add,
    "scatter_add": _scatter,
    "scatter_set": _scatter,
}
CALLS: dict[str, Callable[[Any, Node], LibraryCall]] = {
    "matmul": _matmul,
    "fft": _fft,
    "rfft": _rfft,
    "irfft": _irfft,
    "correlate": _correlate,
    "gamma_draw": _gamma_draw,
    "gamma_moment": _gamma_moment,
    "beta_moment": _beta_moment,
    "zeta_derivative": _zeta_derivative,
    "hyp1f1_derivative": _hyp1f1_derivative,
    "poisson_draw": _poisson_draw,
    "cumsum": _cumsum,
    "cumprod": _cumprod,
    "linear_recurrence": _linear_recurrence,
    "cumargmax": _cumulative_position,
    "cumargmin": _cumulative_position,
    "argsort": _argsort,
    "searchsorted": _searchsorted,
    **MATRIX_CALLS,
}
