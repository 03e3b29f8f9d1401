"""Operations with kernels of their own -> steps: matrix products, linear algebra, Fourier
transforms, scans, sorts, scatters."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from numba_grad.compiler.custom_kernel_steps import call_of_custom_kernel
from numba_grad.compiler.groups import Place
from numba_grad.compiler.library_kernels import (
    Errors,
    LibraryCall,
    MatrixOperand,
    Memory,
    Symbol,
    argsort_call,
    beta_moment_call,
    correlate_call,
    cumprod_call,
    cumsum_call,
    cumulative_position_call,
    fourier_call,
    gamma_draw_call,
    gamma_moment_call,
    hyp1f1_derivative_call,
    linear_recurrence_call,
    matmul_add_call,
    matmul_call,
    poisson_draw_call,
    scatter_call,
    searchsorted_call,
    zeta_derivative_call,
)
from numba_grad.compiler.matrix_steps import MATRIX_CALLS
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


def lower(
    node: Node, places: dict[Node, Place], temporary: Callable[[int], object]
) -> list[LoweredStep]:
    """The steps that compute `node` from its operands in memory."""
    if node.op.name in IN_PLACE:
        call = IN_PLACE[node.op.name](node, places[node] == places[node.inputs[0]])
    elif node.op.name in CALLS:
        call = CALLS[node.op.name](node)
    else:
        raise InternalError(f"no kernel for {node}")
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
        LoweredStep(step.source, [word(value) for value in step.words], step.tasks, step.grain)
        for step in call.steps
    ]


def _pointer(place: Place, node: Node) -> Pointer:
    return Pointer(place.source, place.offset * node.dtype.itemsize)


def _matmul(node: Node) -> LibraryCall:
    x, y = node.inputs
    return matmul_call(
        node.dtype, *extents_of_product(x, y), _matrix_operand(x), _matrix_operand(y)
    )


def _matmul_add(node: Node, in_place: bool) -> LibraryCall:
    _, x, y = node.inputs
    return matmul_add_call(
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


def _fft(node: Node) -> LibraryCall:
    inverse = node.params["inverse"]
    return _fourier(node, "ifft" if inverse else "fft", inverse=inverse)


def _rfft(node: Node) -> LibraryCall:
    is_odd = node.inputs[0].shape[node.params["axis"]] % 2
    return _fourier(node, "rfft_n_odd" if is_odd else "rfft_n_even")


def _irfft(node: Node) -> LibraryCall:
    return _fourier(node, "irfft", inverse=True)


def _fourier(node: Node, function: str, *, inverse: bool = False) -> LibraryCall:
    (x,) = node.inputs
    axis = node.params["axis"]
    points = (node if inverse else x).shape[axis]
    scale = scale_of(points, node.params["norm"], inverse=inverse)
    return fourier_call(function, x.dtype, node.dtype, x.shape, axis, node.shape[axis], scale)


def _gamma_draw(node: Node) -> LibraryCall:
    return gamma_draw_call(node.dtype, node.type.size)


def _poisson_draw(node: Node) -> LibraryCall:
    return poisson_draw_call(node.inputs[2].dtype, node.type.size)


def _gamma_moment(node: Node) -> LibraryCall:
    return gamma_moment_call(node.dtype, node.type.size, node.params["order"])


def _beta_moment(node: Node) -> LibraryCall:
    return beta_moment_call(node.dtype, node.type.size, **node.params)


def _zeta_derivative(node: Node) -> LibraryCall:
    return zeta_derivative_call(node.dtype, node.type.size, **node.params)


def _hyp1f1_derivative(node: Node) -> LibraryCall:
    return hyp1f1_derivative_call(node.dtype, node.type.size, **node.params)


def _cumsum(node: Node) -> LibraryCall:
    (x,) = node.inputs
    return cumsum_call(
        x.dtype, node.dtype, x.shape, node.params["axis"], reverse=node.params["reverse"]
    )


def _correlate(node: Node) -> LibraryCall:
    x, y = node.inputs
    size, offset = node.params["size"], node.params["offset"]
    return correlate_call(node.dtype, x.shape, y.shape[-1], size, offset=offset)


def _cumprod(node: Node) -> LibraryCall:
    (x,) = node.inputs
    return cumprod_call(x.dtype, node.dtype, x.shape, node.params["axis"])


def _linear_recurrence(node: Node) -> LibraryCall:
    axis, reverse = node.params["axis"], node.params["reverse"]
    return linear_recurrence_call(node.dtype, node.shape, axis, reverse=reverse)


def _cumulative_position(node: Node) -> LibraryCall:
    (x,) = node.inputs
    comparison = {"cumargmax": ">=", "cumargmin": "<="}[node.op.name]
    return cumulative_position_call(x.dtype, x.shape, node.params["axis"], comparison=comparison)


def _argsort(node: Node) -> LibraryCall:
    (x,) = node.inputs
    return argsort_call(x.dtype, x.shape, node.params["axis"], descending=node.params["descending"])


def _searchsorted(node: Node) -> LibraryCall:
    x, v = node.inputs
    return searchsorted_call(x.dtype, x.shape, v.type.size, right=node.params["right"])


def _scatter(node: Node, in_place: bool) -> LibraryCall:
    x, _, *indices = node.inputs
    count = len(indices)
    named = node.params.get("named_axes") or range(count)
    return scatter_call(
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
IN_PLACE: dict[str, Callable[[Node, bool], LibraryCall]] = {
    "matmul_add": _matmul_add,
    "scatter_add": _scatter,
    "scatter_set": _scatter,
}
CALLS: dict[str, Callable[[Node], LibraryCall]] = {
    "matmul": _matmul,
    "custom_kernel": call_of_custom_kernel,
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
