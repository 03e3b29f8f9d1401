"""Random programs of up to 12 operations: values as NumPy's, gradients as PyTorch's, and the same
in forward mode.

    python tests/test_random_programs.py 20000

runs so many and prints the ones that failed.
"""

import functools
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import numba_grad as ng

torch = pytest.importorskip("torch")

# NumPy's of empty slices, PyTorch's of a variance of nothing.
pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

LONGEST = 12
# Of a value in between: of larger ones a few squares drown everything else.
LARGEST_VALUE, LARGEST_SIZE = 50.0, 200


class TorchByNumpysNames:
    """PyTorch's functions with NumPy's names and arguments, as far as programs use them."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    max, min = staticmethod(torch.amax), staticmethod(torch.amin)
    logaddexp = staticmethod(torch.logaddexp)
    concatenate = staticmethod(torch.cat)
    permute_dims = staticmethod(torch.permute)
    expand_dims = staticmethod(torch.unsqueeze)

    def var(self, x, axis, keepdims=False):
        return torch.var(x, dim=axis, correction=0, keepdim=keepdims)

    def std(self, x, axis, keepdims=False):
        return torch.std(x, dim=axis, correction=0, keepdim=keepdims)

    def norm(self, x, order, axis):
        return torch.linalg.vector_norm(x, order, dim=axis)

    def sort(self, x, axis):
        return torch.sort(x, dim=axis, stable=True).values

    def repeat(self, x, repeats, axis):
        return torch.repeat_interleave(x, repeats, dim=axis)

    def take(self, x, indices, axis):
        return torch.index_select(x, axis, torch.tensor(indices) % x.shape[axis])

    def pad(self, x, widths):
        return torch.nn.functional.pad(x, [n for pair in reversed(widths) for n in pair])

    def clip(self, x, low, high):
        return torch.clip(x, low, high)

    def where(self, condition, x, y):
        return torch.where(condition, *self._of_one_dtype(x, y))

    def matmul(self, x, y):
        return torch.matmul(*self._of_one_dtype(x, y))

    def tensordot(self, x, y, axes):
        return torch.tensordot(*self._of_one_dtype(x, y), axes)

    def einsum(self, subscripts, *operands):
        return torch.einsum(subscripts, *self._of_one_dtype(*operands))

    def solve(self, x, y):
        return torch.linalg.solve(*self._of_one_dtype(x, y))

    inv = staticmethod(torch.linalg.inv)

    def argsort(self, x, axis):
        return torch.argsort(x, dim=axis, stable=True)

    def take_along_axis(self, x, indices, axis):
        return torch.take_along_dim(x, indices, axis)

    def backwards(self, x):
        return torch.flip(x, (0,))

    def fft(self, name, x, **arguments):
        if "axis" in arguments:
            arguments["dim"] = arguments.pop("axis")
        return getattr(torch.fft, name)(x, **arguments)

    def picked(self, x, mask):
        return x[torch.from_numpy(mask)]

    def assigned(self, x, y, index):
        result = x.to(torch.promote_types(x.dtype, y.dtype)) + 0
        result[index] = y.to(result.dtype)
        return result

    def increased(self, x, y, index):
        result = x.to(torch.promote_types(x.dtype, y.dtype)) + 0
        result[index] += y
        result *= 0.5
        return result

    @staticmethod
    def _of_one_dtype(*tensors):
        dtype = functools.reduce(torch.promote_types, [x.dtype for x in tensors])
        return [x.to(dtype) for x in tensors]


class NumpyAndOurs:
    """NumPy's functions, which take our tensors; and what is not one function there."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def logsumexp(self, x, axis):
        return ng.logsumexp(x, axis) if isinstance(x, ng.Tensor) else np.logaddexp.reduce(x, axis)

    def norm(self, x, order, axis):
        return np.linalg.vector_norm(x, ord=order, axis=axis)

    solve, inv = staticmethod(np.linalg.solve), staticmethod(np.linalg.inv)

    def backwards(self, x):
        return x[::-1]

    def fft(self, name, x, **arguments):
        return getattr(np.fft, name)(x, **arguments)

    def picked(self, x, mask):
        return x[mask]

    def assigned(self, x, y, index):
        result = x.astype(np.result_type(x, y)) + 0
        result[index] = y
        return result

    def increased(self, x, y, index):
        result = x.astype(np.result_type(x, y)) + 0
        result[index] += y
        result *= 0.5
        return result


NUMPY, TORCH = NumpyAndOurs(), TorchByNumpysNames()

# Each makes a value of one or two earlier ones and a small number, with the functions of `m`. What
# does not fit, such as shapes that do not broadcast, raises. Arguments are brought to where a
# function is well conditioned: programs are about how operations fit together.
Statement = Callable[[Any, Any, Any, int], Any]


def axis_of(x: Any, k: int) -> int:
    """An axis of `x`, counted from either end."""
    return k % (2 * x.ndim) - x.ndim  # there may be none: ZeroDivisionError


def axes_of(x: Any, k: int) -> tuple[int, ...]:
    """Some axes of `x`, by the bits of k."""
    axes = tuple([axis for axis in range(x.ndim) if k >> axis & 1])
    if not axes:
        raise ValueError("no axes")
    return axes


def of_rank(x: Any, least: int) -> Any:
    if x.ndim < least:
        raise ValueError("too few axes")
    return x


def filled(x: Any) -> Any:
    if not x.ndim or 0 in x.shape:
        raise ValueError("PyTorch refuses it")
    return x


def rows_of(x: Any, k: int) -> list[int]:
    """Indices into the first axis, from both ends, some of them twice."""
    return [(k * j + 1) % len(x) * (-1) ** j for j in range(k % 4 + 1)]


def mask_of(x: Any, k: int) -> np.ndarray:
    shape = tuple(x.shape)
    return (np.arange(int(np.prod(shape))) * (k + 2) % 3 > 0).reshape(shape)


def is_complex(x: Any) -> bool:
    return "complex" in str(x.dtype)


def re(x: Any) -> Any:
    return x.real if is_complex(x) else x


def _unary(name: str) -> Statement:
    return lambda m, x, y, k: getattr(m, name)(0.5 * x)


def _of_positive(name: str) -> Statement:
    return lambda m, x, y, k: getattr(m, name)(1 + re(x * x.conj()))


def _with_steps(name: str) -> Statement:
    return lambda m, x, y, k: getattr(m, name)(re(x)) + x


def _of_two_reals(name: str) -> Statement:
    return lambda m, x, y, k: getattr(m, name)(re(x), re(y) + 0.1)


STATEMENTS: dict[str, Statement] = {
    **{
        name: _unary(name)
        for name in ("sin", "cos", "tanh", "arctan", "square", "arcsinh", "exp", "expm1", "sinh")
    },
    **{name: _of_positive(name) for name in ("log", "sqrt", "log1p", "log2", "reciprocal")},
    **{name: _with_steps(name) for name in ("floor", "ceil", "trunc", "sign")},
    **{
        name: _of_two_reals(name)
        for name in ("maximum", "minimum", "hypot", "logaddexp", "fmax", "copysign", "arctan2")
    },
    "arcsin": lambda m, x, y, k: m.arcsin(0.9 * m.sin(re(x))),
    "negative": lambda m, x, y, k: -x,
    "absolute": lambda m, x, y, k: abs(x),
    "integer power": lambda m, x, y, k: (0.3 * x) ** (k % 4),
    "real": lambda m, x, y, k: re(x) * 2,
    "imag": lambda m, x, y, k: x.imag if is_complex(x) else x - 1,
    "conjugate": lambda m, x, y, k: x.conj() * y,
    "make complex": lambda m, x, y, k: x + 1j * y,
    "clip": lambda m, x, y, k: m.clip(re(x), -1, k / 4),
    "add": lambda m, x, y, k: x + y,
    "subtract": lambda m, x, y, k: x - k * y,
    "multiply": lambda m, x, y, k: x * y,
    "divide": lambda m, x, y, k: x / (2 + re(y * y.conj())),
    "power": lambda m, x, y, k: (1.5 + m.sin(re(x))) ** m.cos(re(y)),
    "where": lambda m, x, y, k: m.where(re(x) > 0.1, x, y),
    "sum": lambda m, x, y, k: m.sum(x, axis=axes_of(x, k), keepdims=k % 3 == 0),
    "mean": lambda m, x, y, k: m.mean(x, axis=axes_of(x, k), keepdims=k % 3 == 0),
    "max": lambda m, x, y, k: m.max(re(x), axis=axes_of(x, k), keepdims=k % 3 == 0),
    "min": lambda m, x, y, k: m.min(re(x), axis=axis_of(x, k)),
    "prod": lambda m, x, y, k: m.prod(x, axis=axis_of(x, k)),
    "var": lambda m, x, y, k: m.var(x, axis=axes_of(x, k), keepdims=k % 3 == 0),
    "std": lambda m, x, y, k: m.std(x, axis=axis_of(x, k)),
    "norm": lambda m, x, y, k: m.norm(x, 1 + k % 3, axis_of(x, k)),
    "logsumexp": lambda m, x, y, k: m.logsumexp(re(x), axis_of(x, k)),
    "cumsum": lambda m, x, y, k: m.cumsum(x, axis_of(x, k)),
    "cumprod": lambda m, x, y, k: m.cumprod(x, axis_of(x, k)),
    "sort": lambda m, x, y, k: m.sort(re(x), axis=axis_of(x, k)),
    "permute": lambda m, x, y, k: m.permute_dims(x, [(j + k) % x.ndim for j in range(x.ndim)]),
    "reshape": lambda m, x, y, k: x.reshape((-1,) if k % 2 else (1, *x.shape)),
    "expand_dims": lambda m, x, y, k: m.expand_dims(x, k % (x.ndim + 1)),
    "squeeze": lambda m, x, y, k: m.squeeze(x),
    "flip": lambda m, x, y, k: m.flip(x, axes_of(x, k)),
    "roll": lambda m, x, y, k: m.roll(x, k, axis_of(x, k)),
    "tile": lambda m, x, y, k: m.tile(x, (k % 2 + 1, 2)),
    "repeat": lambda m, x, y, k: m.repeat(x, k % 3, axis_of(x, k)),
    "concatenate": lambda m, x, y, k: m.concatenate([x, y, x], axis_of(x, k)),
    "stack": lambda m, x, y, k: m.stack([x, y], k % (x.ndim + 1)),
    "broadcast": lambda m, x, y, k: m.broadcast_to(x, (2, *x.shape)),
    "diagonal": lambda m, x, y, k: m.diagonal(x, k % 3 - 1),
    "tril": lambda m, x, y, k: m.tril(of_rank(x, 2), k % 4 - 2),
    "triu": lambda m, x, y, k: m.triu(of_rank(x, 2), k % 4 - 2),
    "pad": lambda m, x, y, k: m.pad(of_rank(x, 1), [(0, 0)] * (x.ndim - 1) + [(k % 3, 1)]),
    "diff": lambda m, x, y, k: m.diff(x, axis=axis_of(x, k)),
    "step": lambda m, x, y, k: x[k % 2 :: 2],
    "last": lambda m, x, y, k: x[..., -1],
    "new axes": lambda m, x, y, k: x[None, ..., None],
    "slices": lambda m, x, y, k: x[..., 1:, : k + 1],
    "backwards": lambda m, x, y, k: m.backwards(x),
    "rows": lambda m, x, y, k: x[rows_of(x, k)],
    "pairs": lambda m, x, y, k: x[rows_of(x, k), k % x.shape[1]],
    "mask": lambda m, x, y, k: m.picked(x, mask_of(x, k)),
    "take": lambda m, x, y, k: m.take(filled(x), [0, -1, 0], axis_of(x, k)),
    "assign": lambda m, x, y, k: m.assigned(x, y, slice(k % 2, None, 2)),
    # PyTorch has no gradient for an element that is assigned twice.
    "assign rows": lambda m, x, y, k: m.assigned(x, y, [0, -1] if len(x) > 1 else [0]),
    "increase": lambda m, x, y, k: m.increased(x, y, (..., -1)),
    "matmul": lambda m, x, y, k: m.matmul(x, y),
    "outer": lambda m, x, y, k: m.tensordot(x, y, 0),
    "einsum": lambda m, x, y, k: m.einsum("...i,...i->...", x, y),
    "traces": lambda m, x, y, k: m.einsum("ij,kji->k", x, m.stack([x, y])),
    "fft": lambda m, x, y, k: m.fft("fft", filled(x), axis=axis_of(x, k)),
    "rfft": lambda m, x, y, k: m.fft("rfft", re(filled(x)), axis=axis_of(x, k)),
    "irfft": lambda m, x, y, k: m.fft("irfft", filled(x), n=k + 1, axis=axis_of(x, k)),
    "fftn": lambda m, x, y, k: m.fft("fftn", filled(x), norm="ortho"),
    "sinc": lambda m, x, y, k: m.sinc(re(x)),
    "quantile": lambda m, x, y, k: m.quantile(re(filled(x)), k / 11, axis_of(x, k)),
    "take along": lambda m, x, y, k: m.take_along_axis(
        filled(x), m.argsort(re(filled(y)), axis_of(x, k)), axis_of(x, k)
    ),
    "solve": lambda m, x, y, k: m.solve(m.matmul(x, x.mT) / 9 + m.eye(x.shape[-2]), x),
    "inverse": lambda m, x, y, k: m.inv(0.05 * m.sin(re(x)) + m.eye(x.shape[-1])),
}

SHAPES = [(2, 3), (3,), (3, 3), (), (2, 1, 3), (4, 2), (1,), (0, 3)]
REFUSALS = (ValueError, IndexError, TypeError, ZeroDivisionError, np.linalg.LinAlgError)
Line = tuple[str, int, int, int]
lines = st.tuples(
    st.sampled_from(sorted(STATEMENTS)), st.integers(0, 5), st.integers(0, 5), st.integers(0, 11)
)
inputs = st.lists(st.sampled_from(SHAPES), min_size=2, max_size=3)
lengths = st.integers(1, LONGEST)  # short and long ones alike
programs = st.tuples(inputs, lengths.flatmap(lambda n: st.lists(lines, min_size=n, max_size=n)))


@dataclass
class Program:
    """The lines that NumPy takes, and what it makes of them."""

    arrays: list[np.ndarray]
    lines: list[Line] = field(default_factory=list)
    refused: list[tuple[int, Line]] = field(default_factory=list)  # after so many lines


def made(shapes: Sequence[tuple[int, ...]], given_lines: Sequence[Line]) -> tuple[Program, list]:
    """A program without the lines that raise or explode, and its values by NumPy."""
    rng = np.random.default_rng(len(given_lines))
    program = Program([np.asarray(rng.normal(size=shape)) for shape in shapes])
    values: list[Any] = list(program.arrays)
    with np.errstate(all="ignore"):
        for line in given_lines:
            try:
                value = np.asarray(applied(NUMPY, values, line))
            except REFUSALS:
                program.refused.append((len(program.lines), line))
                continue
            if value.size > LARGEST_SIZE or not np.all(np.abs(value) < LARGEST_VALUE):
                continue
            # Of equal numbers it is 0 or some 1e-17, by rounding: a root where it has no slope.
            if line[0] == "std" and np.any(value < 1e-6):
                continue
            program.lines.append(line)
            values.append(value)
    return program, values


def applied(module: Any, values: list, line: Line) -> Any:
    name, a, b, k = line
    recent = values[-6:]  # so that programs are deep
    return STATEMENTS[name](module, recent[a % len(recent)], recent[b % len(recent)], k)


def evaluated(module: Any, program: Program, leaves: list) -> list:
    values = list(leaves)
    for line in program.lines:
        values.append(applied(module, values, line))
    return values


def loss_of(values: list, weight: Callable[[Any], Any]) -> Any:
    """A number that depends on each element of the last values, and on each in its own way."""
    total = 0.0
    for value in values[-3:]:
        total = total + (re(value * value.conj()) * weight(value)).sum() + (re(value)).sum()
    return total


def weights(value: Any) -> np.ndarray:
    shape = tuple(value.shape)
    return np.asarray(1 + np.cos(np.arange(int(np.prod(shape)))).reshape(shape))


def check(program: Program, values: list, *, jitted: bool = False) -> None:
    leaves = [torch.from_numpy(array).requires_grad_() for array in program.arrays]
    loss_of(
        evaluated(TORCH, program, leaves), lambda value: torch.from_numpy(weights(value))
    ).backward()
    if jitted:
        arrays = tuple(program.arrays)
        run = ng.jit(lambda *leaves: evaluated(NUMPY, program, list(leaves)))
        ours = [np.asarray(x) for x in run(*arrays)]
        gradient = ng.grad(
            lambda *leaves: loss_of(evaluated(NUMPY, program, list(leaves)), weights),
            argnums=tuple(range(len(arrays))),
        )
        gradients = list(ng.jit(gradient)(*arrays))
    else:
        tensors = [ng.tensor(array, requires_grad=True) for array in program.arrays]
        recorded = evaluated(NUMPY, program, tensors)
        loss_of(recorded, weights).backward()
        ours = [x.detach().numpy() for x in recorded]
        gradients = [ng.zeros(x.shape) if x.grad is None else x.grad for x in tensors]
    for line, found, expected in zip(
        [None] * len(leaves) + program.lines, ours, values, strict=True
    ):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape), line
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9, err_msg=str(line))
    for found, leaf in zip(gradients, leaves, strict=True):
        expected = np.zeros(leaf.shape) if leaf.grad is None else leaf.grad.numpy()
        scale = max(1.0, float(np.abs(expected).max(initial=0)))
        np.testing.assert_allclose(
            np.asarray(found) / scale, expected / scale, rtol=1e-8, atol=1e-8
        )


def check_tangents(program: Program, *, jitted: bool = False) -> None:
    """Forward mode says what reverse mode says, of the loss and of its gradient."""

    def loss(*leaves: Any) -> Any:
        return loss_of(evaluated(NUMPY, program, list(leaves)), weights)

    arrays = tuple(program.arrays)
    directions = tuple(np.asarray(np.sin(1 + np.arange(x.size))).reshape(x.shape) for x in arrays)
    gradient = ng.grad(loss, argnums=tuple(range(len(arrays))))
    run = ng.jit if jitted else lambda f: f
    _, tangent = run(lambda *x: ng.jvp(loss, x, directions))(*arrays)
    _, forward = run(lambda *x: ng.jvp(gradient, x, directions))(*arrays)
    along = ng.grad(lambda *x: ng.jvp(loss, x, directions)[1], argnums=tuple(range(len(arrays))))
    reverse = run(along)(*arrays)
    slopes = [np.asarray(g) * v for g, v in zip(gradient(*arrays), directions, strict=True)]
    pairs = [
        (tangent, sum(s.sum() for s in slopes), max(abs(s).sum() for s in slopes)),
        *[
            (f, r, np.abs(np.asarray(r)).max(initial=0))
            for f, r in zip(forward, reverse, strict=True)
        ],
    ]
    for found, expected, size in pairs:
        scale = max(1.0, float(size))
        np.testing.assert_allclose(
            np.asarray(found) / scale, np.asarray(expected) / scale, rtol=1e-8, atol=1e-8
        )


def check_refusals(program: Program, values: list) -> None:
    """What NumPy refuses is refused by us."""
    for after, line in program.refused:
        known = [ng.tensor(value) for value in values[: len(program.arrays) + after]]
        try:
            result = np.asarray(applied(NUMPY, known, line))
        except REFUSALS:
            continue
        raise AssertionError(f"NumPy refuses {line}; we make {result!r} of it")


def check_described(description: tuple) -> None:
    program, values = made(*description)
    with np.errstate(all="ignore"):
        check(program, values)
        check_tangents(program)
        check_refusals(program, values)


QUIET = settings(deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.thorough(but="^100$")
@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.thorough(rare=True))])
def test_programs_have_numpys_values_and_torchs_gradients(count):
    """Node by node: what is recorded, and its derivatives. Kernels are below."""

    @settings(QUIET, max_examples=count)
    @given(programs)
    def have(description):
        with ng.configure(engine="reference"):
            check_described(description)

    have()


# Without shrinking: each attempt would compile kernels.
@pytest.mark.thorough
@settings(QUIET, max_examples=25, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(programs)
def test_compiled_programs_have_numpys_values_and_torchs_gradients(description):
    program, values = made(*description)
    with np.errstate(all="ignore"), ng.configure(engine="native"):
        check(program, values, jitted=True)
        check_tangents(program, jitted=True)


def main(count: int) -> None:
    """Run `count` programs to the end, whatever fails."""
    failures: list[str] = []
    start = time.perf_counter()

    @settings(QUIET, max_examples=count, phases=[Phase.generate], derandomize=False, database=None)
    @given(programs)
    def run(description):
        try:
            check_described(description)
        except Exception as error:
            failures.append(f"{description}\n{type(error).__name__}: {error}\n")

    with warnings.catch_warnings(), ng.configure(engine="reference"):
        warnings.simplefilter("ignore")
        run()
    sys.stdout.write("\n".join(failures[:40]))
    seconds = time.perf_counter() - start
    sys.stdout.write(f"{count} programs, {len(failures)} failures, {seconds:.0f} s\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
