"""Linear algebra and Fourier transforms by CuPy, on the memory and in the stream of a plan.

Results are packed as those of the CPU (`compiler/library_kernels`). What a matrix is wrong for is
found by waiting for the GPU, and then written to the error record: such a step is part of no
captured graph.
"""

import functools
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from numba_grad.errors import KernelError, explain
from numba_grad.fresh_thread import imported
from numba_grad.runtime.cuda.driver import current_driver
from numba_grad.runtime.cuda.streams import Stream

INSTALL = 'pip install "cupy-cuda13x[ctk]>=14"'


class Cupy:
    """The package, and what of it is elsewhere."""

    def __init__(self, package: Any, scipy_linalg: Any, raising: Callable[[], Any]) -> None:
        self.package = package
        self.scipy_linalg = scipy_linalg
        self.raising = raising  # a context in which a bad matrix is a LinAlgError


@functools.cache
def cupy() -> Cupy | None:
    """CuPy, if it is installed, works, and takes the streams of others as they are (from 14 on)."""
    try:
        package = imported("cupy")
        more = imported("cupyx")
        scipy_linalg = imported("cupyx.scipy.linalg")
    except ImportError:
        return None
    if not hasattr(package.cuda.Stream, "from_external"):
        return None
    return Cupy(package, scipy_linalg, lambda: more.errstate(linalg="raise"))


def words_of(shape: Sequence[int]) -> list[int]:
    """What stands in a step's words after the address of an array."""
    return [len(shape), *shape]


def call(name: str, *options: str) -> Callable[[Stream, Sequence[int]], None]:
    """The call of a step. `options` are the dtypes of its arrays, the result's last; then others.

    Words: the error record, the number of sites and the sites, the number of integers and these,
    then for each array its address, the number of its axes and their lengths.
    """
    function = _FUNCTIONS[name]
    dtypes = [np.dtype(option) for option in options if option in _DTYPES]
    more = [option for option in options if option not in _DTYPES]

    def run(stream: Stream, words: Sequence[int]) -> None:
        found = cupy()
        if found is None:
            raise KernelError(explain(name, "CuPy is gone since the plan was made", fix=INSTALL))
        package, device = found.package, stream.device.index
        rest = iter(words)
        record = next(rest)
        sites = _some(rest)
        integers = _some(rest)
        with package.cuda.Device(device), package.cuda.Stream.from_external(stream):
            arrays = []
            for dtype in dtypes:
                address, shape = next(rest), tuple(_some(rest))
                arrays.append(_array(package, device, address, shape, dtype))
            *inputs, out = arrays
            situation = _Situation(found, integers, more)
            try:
                with found.raising():
                    function(situation, out, *inputs)
            except np.linalg.LinAlgError as error:
                stack = _stack(inputs)
                if not isinstance(error, WrongMatrix):
                    error = WrongMatrix(_first_bad(situation, function, stack, out, inputs))
                count = int(np.prod(stack))
                _note(stream, record, sites[error.site], error.matrix, count)

    return run


_DTYPES = ("float32", "float64", "complex64", "complex128")


def _some(words: Iterator[int]) -> list[int]:
    return [next(words) for _ in range(next(words))]


def _array(package: Any, device: int, address: int, shape: tuple[int, ...], dtype: Any) -> Any:
    nbytes = int(np.prod(shape)) * dtype.itemsize
    if nbytes == 0:
        return package.empty(shape, dtype)
    memory = package.cuda.UnownedMemory(address, nbytes, None, device)
    return package.ndarray(shape, dtype, package.cuda.MemoryPointer(memory, 0))


class _Situation:
    """What functions are called with besides arrays."""

    def __init__(self, found: Cupy, integers: list[int], options: list[str]) -> None:
        self.xp = found.package
        self.scipy_linalg = found.scipy_linalg
        self.raising = found.raising
        self.integers = integers
        self.options = options


class WrongMatrix(np.linalg.LinAlgError):
    """A matrix, by its number, and which site tells of it."""

    def __init__(self, matrix: int, site: int = 0) -> None:
        super().__init__(f"matrix {matrix}")
        self.matrix, self.site = matrix, site


def _stack(inputs: list[Any]) -> tuple[int, ...]:
    return np.broadcast_shapes(*[x.shape[:-2] for x in inputs[:2]])


def _note(stream: Stream, record: int, site: int, matrix: int, count: int) -> None:
    """Write to the error record which matrix is the first bad one, unless it has an error."""
    driver = current_driver()
    before = np.zeros(8, np.int64)
    driver.copy_to_host(before.ctypes.data, record, before.nbytes, stream.handle)
    driver.synchronize_stream(stream.handle)
    if not before[0]:
        said = np.array([1, site, matrix, count], np.int64)
        driver.copy_to_device(record, said.ctypes.data, said.nbytes, stream.handle)


def _first_bad(
    s: "_Situation",
    function: Callable[..., None],
    stack: tuple[int, ...],
    out: Any,
    inputs: list[Any],
) -> int:
    """CuPy does not tell which matrix of a stack it is: one after the other is tried."""
    stacks = [s.xp.broadcast_to(x, (*stack, *x.shape[-2:])) for x in inputs[:2]]
    for number, place in enumerate(np.ndindex(*stack)):
        own = [s.xp.ascontiguousarray(x[place]) for x in stacks]
        rest = [x[place] for x in inputs[2:]]
        result = s.xp.empty(out.shape[len(stack) :], out.dtype)
        try:
            with s.raising():
                function(s, result, *own, *rest)
        except np.linalg.LinAlgError:
            return number
    return 0


# Functions: of the situation, the result and the inputs.


def _flat(xp: Any, x: Any, stack: tuple[int, ...]) -> Any:
    """A matrix, or a stack of them with one axis."""
    whole = xp.broadcast_to(x, (*stack, *x.shape[-2:]))
    count = int(np.prod(stack))
    return xp.ascontiguousarray(whole).reshape((count, *x.shape[-2:])[1 if count == 1 else 0 :])


def _solve(s: _Situation, out: Any, a: Any, b: Any) -> None:
    (is_adjoint,) = s.integers
    if is_adjoint:
        a = s.xp.conj(s.xp.swapaxes(a, -1, -2))
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    result = s.xp.linalg.solve(_flat(s.xp, a, stack), _flat(s.xp, b, stack))
    out[...] = result.reshape(out.shape)


def _inv(s: _Situation, out: Any, a: Any) -> None:
    out[...] = s.xp.linalg.inv(_flat(s.xp, a, a.shape[:-2])).reshape(out.shape)


def _solve_triangular(s: _Situation, out: Any, a: Any, b: Any) -> None:
    lower, unit_diagonal = map(bool, s.integers)
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if not unit_diagonal:
        diagonals = s.xp.diagonal(a, axis1=-2, axis2=-1)
        is_bad = s.xp.broadcast_to((diagonals == 0).any(-1), stack).reshape(-1)
        _check(is_bad, 0)
    a, b = (s.xp.broadcast_to(x, (*stack, *x.shape[-2:])) for x in (a, b))
    for place in np.ndindex(*stack):
        out[place] = s.scipy_linalg.solve_triangular(
            a[place], b[place], lower=lower, unit_diagonal=unit_diagonal
        )


def _check(is_bad: Any, site: int) -> None:
    """Raise for the first matrix that is; this waits for the GPU."""
    if bool(is_bad.any()):
        raise WrongMatrix(int(is_bad.argmax()), site)


def _cholesky(s: _Situation, out: Any, a: Any) -> None:
    out[...] = s.xp.tril(s.xp.linalg.cholesky(a))


def _det(s: _Situation, out: Any, a: Any) -> None:
    """By logarithms, which loses a digit or two of large and small ones."""
    if a.shape[-1] == 0:
        out[...] = 1
        return
    sign, logarithm = s.xp.linalg.slogdet(a)
    out[...] = sign * s.xp.exp(logarithm)


def _slogdet(s: _Situation, out: Any, a: Any) -> None:
    sign, logarithm = s.xp.linalg.slogdet(a) if a.shape[-1] else (1, 0)
    out[..., 0] = sign
    out[..., 1] = logarithm


def _lu(s: _Situation, out: Any, a: Any) -> None:
    m, n = a.shape[-2:]
    out[..., n] = s.xp.arange(m)
    for place in np.ndindex(*a.shape[:-2]):
        if n == 0:
            break
        factors, pivots = s.scipy_linalg.lu_factor(a[place], check_finite=False)
        out[(*place, slice(None), slice(0, n))] = factors
        out[(*place, slice(0, min(m, n)), n)] = pivots


def _qr(s: _Situation, out: Any, a: Any) -> None:
    (mode,) = s.options
    if mode == "r":
        out[...] = s.xp.linalg.qr(a, "r")
        return
    m = a.shape[-2]
    q, r = s.xp.linalg.qr(a, mode)
    out[..., :m, :] = q
    out[..., m:, :] = s.xp.swapaxes(r, -1, -2)


def _without_infinite(s: _Situation, a: Any, triangle: str = "") -> tuple[Any, Any]:
    """The matrices, with 0 in place of those that have an element that is not finite; and those."""
    read = {"": lambda x: x, "L": s.xp.tril, "U": s.xp.triu}[triangle](a)
    is_bad = ~s.xp.isfinite(read).all(axis=(-2, -1))
    return s.xp.where(is_bad[..., None, None], s.xp.zeros_like(a), a), is_bad


def _eigh(s: _Situation, out: Any, a: Any) -> None:
    triangle = "L" if s.integers[0] else "U"
    a, is_bad = _without_infinite(s, a, triangle)
    n = a.shape[-1]
    values, vectors = s.xp.linalg.eigh(a, triangle)
    out[..., :n, :] = vectors
    out[..., n, :] = values
    out[...] = s.xp.where(is_bad[..., None, None], np.nan, out)


def _eigvalsh(s: _Situation, out: Any, a: Any) -> None:
    triangle = "L" if s.integers[0] else "U"
    a, is_bad = _without_infinite(s, a, triangle)
    out[...] = s.xp.where(is_bad[..., None], np.nan, s.xp.linalg.eigvalsh(a, triangle))


def _general_eigenvalues(s: _Situation, a: Any, name: str) -> Any:
    _check(~s.xp.isfinite(a).all(axis=(-2, -1)).reshape(-1), 0)
    function = getattr(s.xp.linalg, name, None)
    if function is None:
        raise KernelError(
            explain(
                name, "this CuPy has none on CUDA devices", fix='pip install "cupy-cuda13x>=14"'
            )
        )
    try:
        return function(a)
    except np.linalg.LinAlgError:
        raise WrongMatrix(0, 1) from None


def _eig(s: _Situation, out: Any, a: Any) -> None:
    n = a.shape[-1]
    values, vectors = _general_eigenvalues(s, a, "eig")
    out[..., :n, :] = vectors
    out[..., n, :] = values


def _eigvals(s: _Situation, out: Any, a: Any) -> None:
    out[...] = _general_eigenvalues(s, a, "eigvals")


def _decomposed(s: _Situation, a: Any, *, full: bool) -> tuple[Any, Any, Any]:
    """U, singular values, V^H; NaN of a matrix with an infinite element."""
    _check(s.xp.isnan(a).any(axis=(-2, -1)).reshape(-1), 0)
    a, is_bad = _without_infinite(s, a)
    parts = s.xp.linalg.svd(a, full_matrices=full)
    axes = (is_bad[..., None, None], is_bad[..., None], is_bad[..., None, None])
    u, values, vh = (s.xp.where(b, np.nan, x) for b, x in zip(axes, parts, strict=True))
    return u, values, vh


def _svd(s: _Situation, out: Any, a: Any) -> None:
    m, n = a.shape[-2:]
    out[...] = 0
    if min(m, n) == 0:  # with "full": the identities
        out[..., :m, :m] = s.xp.eye(m)
        out[..., m : m + n, :n] = s.xp.eye(n)
        return
    u, values, vh = _decomposed(s, a, full=s.options == ["full"])
    out[..., :m, : u.shape[-1]] = u
    out[..., m : m + n, : vh.shape[-2]] = _adjoint(s, vh)
    out[..., m + n, : min(m, n)] = values


def _svdvals(s: _Situation, out: Any, a: Any) -> None:
    _check(s.xp.isnan(a).any(axis=(-2, -1)).reshape(-1), 0)
    a, is_bad = _without_infinite(s, a)
    values = s.xp.linalg.svd(a, compute_uv=False)
    out[...] = s.xp.where(is_bad[..., None], np.nan, values)


def _adjoint(s: _Situation, x: Any) -> Any:
    return s.xp.swapaxes(x, -1, -2).conj()


def _lstsq(s: _Situation, out: Any, a: Any, b: Any, tolerance: Any) -> None:
    if min(a.shape[-2:]) == 0:
        out[...] = 0
        return
    u, values, vh = _decomposed(s, a, full=False)
    is_small = values <= tolerance[..., None] * values[..., :1]
    inverse = s.xp.where(is_small, 0, 1 / s.xp.where(is_small, 1, values))[..., None]
    out[...] = _adjoint(s, vh) @ (inverse.astype(a.dtype) * (_adjoint(s, u) @ b))


def _phase(s: _Situation, u: Any, vh: Any) -> Any:
    """det(u) det(vh), of size 1."""
    return (s.xp.linalg.slogdet(u)[0] * s.xp.linalg.slogdet(vh)[0])[..., None, None]


def _cofactor(s: _Situation, out: Any, a: Any) -> None:
    u, values, vh = _decomposed(s, a, full=False)
    is_own = s.xp.eye(a.shape[-1], dtype=bool)
    others = s.xp.where(is_own, 1, values[..., None, :]).prod(-1)[..., None, :].astype(a.dtype)
    out[...] = _phase(s, u, vh) * ((u * others) @ vh).conj()


def _cofactor_in_direction(s: _Situation, out: Any, a: Any, e: Any) -> None:
    u, values, vh = _decomposed(s, a, full=False)
    n = a.shape[-1]
    i, j, k = np.ogrid[:n, :n, :n]
    is_own = s.xp.asarray((k == i) | (k == j))
    is_diagonal = s.xp.eye(n, dtype=bool)
    others = s.xp.where(is_own, 1, values[..., None, None, :]).prod(-1)
    others = s.xp.where(is_diagonal, 0, others).astype(a.dtype)
    turned = _adjoint(s, u) @ e @ _adjoint(s, vh)
    diagonal = others @ s.xp.diagonal(turned, axis1=-2, axis2=-1)[..., None]
    change = s.xp.where(is_diagonal, diagonal, 0) - others * s.xp.swapaxes(turned, -1, -2)
    out[...] = _phase(s, u, vh) * (u.conj() @ change @ vh.conj())


# Higham, The scaling and squaring method for the matrix exponential revisited (2005).
_PADE_13 = [
    *(64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0),
    *(129060195264000.0, 10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0),
    *(40840800.0, 960960.0, 16380.0, 182.0, 1.0),
]
_LARGEST_NORM = 5.371920351148152


def _expm(s: _Situation, out: Any, a: Any) -> None:
    xp, n, c = s.xp, a.shape[-1], _PADE_13
    a, is_bad = _without_infinite(s, a)
    a = a.reshape((-1, n, n))
    norm = xp.abs(a).sum(-1).max(-1)
    squarings = xp.maximum(xp.ceil(xp.log2(xp.maximum(norm / _LARGEST_NORM, 1))), 0)
    scaled = a * xp.exp2(-squarings)[:, None, None].astype(a.dtype)
    one = xp.eye(n, dtype=a.dtype)
    two = scaled @ scaled
    four = two @ two
    six = two @ four
    odd = six @ (c[13] * six + c[11] * four + c[9] * two)
    odd = scaled @ (odd + c[7] * six + c[5] * four + c[3] * two + c[1] * one)
    even = six @ (c[12] * six + c[10] * four + c[8] * two)
    even = even + c[6] * six + c[4] * four + c[2] * two + c[0] * one
    result = xp.linalg.solve(even - odd, even + odd)
    # Of a triangular matrix zeros and exponentials, as on the CPU.
    below = xp.tri(n, k=-1, dtype=bool)
    has_below, has_above = ((a != 0)[:, side].any(-1)[:, None, None] for side in (below, below.T))
    result = xp.where((below & ~has_below) | (below.T & ~has_above), 0, result)
    is_known = xp.eye(n, dtype=bool) & ~(has_below & has_above)
    known = xp.where(is_known, a, 0)

    def with_diagonal(result: Any, squarings: Any) -> Any:
        halved = known * xp.exp2(-squarings)[:, None, None].astype(a.dtype)
        return xp.where(is_known, xp.exp(halved), result)

    result = with_diagonal(result, squarings)
    for number in range(int(squarings.max())):
        is_more = (squarings > number)[:, None, None]
        squared = with_diagonal(result @ result, xp.maximum(squarings - number - 1, 0))
        result = xp.where(is_more, squared, result)
    out[...] = xp.where(is_bad[..., None, None], np.nan, result.reshape(out.shape))


def _fourier(s: _Situation, out: Any, x: Any) -> None:
    axis, points, bits = s.integers
    (function,) = s.options
    (scale,) = struct.unpack("d", struct.pack("q", bits))
    if function == "irfft":
        result = s.xp.fft.irfft(x, points, axis, norm="forward")
    elif function == "ifft":
        result = s.xp.fft.ifft(x, axis=axis, norm="forward")
    else:
        result = getattr(s.xp.fft, function.partition("_")[0])(x, axis=axis)
    out[...] = result if scale == 1 else result * scale


_FUNCTIONS: dict[str, Callable[..., None]] = {
    "cholesky": _cholesky,
    "cofactor": _cofactor,
    "cofactor_in_direction": _cofactor_in_direction,
    "det": _det,
    "eig": _eig,
    "eigh": _eigh,
    "eigvals": _eigvals,
    "eigvalsh": _eigvalsh,
    "expm": _expm,
    "fourier": _fourier,
    "inv": _inv,
    "lstsq": _lstsq,
    "lu": _lu,
    "qr": _qr,
    "slogdet": _slogdet,
    "solve": _solve,
    "solve_triangular": _solve_triangular,
    "svd": _svd,
    "svdvals": _svdvals,
}
