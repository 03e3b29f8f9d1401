"""Gradients at kinks, ties, nan and the ends of domains: ours, PyTorch's and JAX's, as data.

Each `Point` is a test (`test_special_points.py`) and a row of docs/numerics.md, which

    python -m tests.special_points

writes again. Imports neither this library nor the others before they are asked.
"""

import importlib
import math
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

TORCH_VERSION, JAX_VERSION = "2.13", "0.10.2"  # what gradients were found with
PAGE = Path(__file__).parents[1] / "docs" / "numerics.md"
BEGIN, END = "<!-- by python -m tests.special_points -->\n", "<!-- end -->\n"

inf, nan = math.inf, math.nan


@dataclass(frozen=True, slots=True)
class Point:
    """A function at one point: `function` of `x`, `y` and `z`, which are numbers or lists.

    A `gradient` has a part for each argument: that of the sum of all results, of their real parts
    where they are complex.
    """

    function: str
    at: tuple[Any, ...]
    value: Any
    gradient: tuple[Any, ...]
    torch_gradient: tuple[Any, ...] | None = None  # None: as ours
    jax_gradient: tuple[Any, ...] | None = None  # None: as ours
    why: str = ""  # why ours is not PyTorch's

    def arguments(self) -> list[np.ndarray]:
        """float64 or complex128."""
        return [np.asarray(x, np.result_type(np.asarray(x), np.float64)) for x in self.at]

    @property
    def torch(self) -> str | None:
        """The same function in PyTorch's names; None if it has none."""
        default = re.sub(r"\bspecial\.", "torch.special.", self.function)
        return IN_TORCH.get(self.function, re.sub(r"\b(np|ng)\.", "torch.", default))

    @property
    def jax(self) -> str | None:
        """The same in JAX's names; None if it has none."""
        return IN_JAX.get(self.function, self.function)

    def __str__(self) -> str:
        return f"{self.function} at {arguments_text(self.at)}"


# Where names are not the same but for the module; None: not there, or without a derivative.
IN_TORCH: dict[str, str | None] = {
    "np.clip(x, 0, None)": "torch.clip(x, 0)",
    "np.max(x)": "torch.amax(x, 0)",
    "np.max(x, axis=1)": "torch.amax(x, 1)",
    "np.min(x)": "torch.amin(x, 0)",
    "np.ptp(x)": "torch.amax(x, 0) - torch.amin(x, 0)",
    "np.maximum.accumulate(x)": "torch.cummax(x, 0).values",
    "ng.cummax(x)": "torch.cummax(x, 0).values",
    "ng.cummin(x)": "torch.cummin(x, 0).values",
    "np.median(x)": "torch.quantile(x, 0.5)",
    "np.nanmedian(x)": "torch.nanquantile(x, 0.5)",
    "np.quantile(x, 0.5, method='midpoint')": "torch.quantile(x, 0.5, interpolation='midpoint')",
    "np.quantile(x, 0.5, method='lower')": "torch.quantile(x, 0.5, interpolation='lower')",
    "np.percentile(x, 30)": "torch.quantile(x, 0.3)",
    "np.nanpercentile(x, 30)": "torch.nanquantile(x, 0.3)",
    "np.sort(x) * [1, 2, 3]": "torch.sort(x, stable=True).values * torch.tensor([1, 2, 3])",
    "ng.top_k(x, 1)[0]": "torch.topk(x, 1).values",
    "np.sign(x)": "torch.sgn(x)",
    "np.std(x)": "torch.std(x, correction=0)",
    "np.std(x, ddof=1)": "torch.std(x, correction=1)",
    "np.var(x)": "torch.var(x, correction=0)",
    "np.fabs(x)": "torch.abs(x)",
    "np.rint(x)": "torch.round(x)",
    "np.modf(x)[0]": "torch.frac(x)",
    "np.power(x, y)": "torch.pow(x, y)",
    "np.cumprod(x)": "torch.cumprod(x, 0)",
    "ng.softplus(x)": "torch.nn.functional.softplus(x)",
    "ng.logsumexp(x)": "torch.logsumexp(x, 0)",
    "ng.logcumsumexp(x)": "torch.logcumsumexp(x, 0)",
    "ng.softmax(x) * [1, 2]": "torch.softmax(x, 0) * torch.tensor([1, 2])",
    "ng.log_softmax(x)": "torch.log_softmax(x, 0)",
    "special.gammaincc(2, x)": "torch.special.gammaincc(torch.full_like(x, 2), x)",
} | dict.fromkeys(
    [
        "np.nanmax(x)",
        "np.nanmin(x)",
        "np.partition(x, 1) * [1, 2, 3]",
        "np.nanstd(x)",
        "np.heaviside(x, y)",
        "np.floor_divide(x, y)",
        "np.interp(x, [0, 1, 2], [0, 1, 4])",
        "np.unwrap(x) * [1, 2]",
        "np.cbrt(x)",
        "np.nanprod(x)",
        "special.rel_entr(x, y)",
        "special.kl_div(x, y)",
        "special.gamma(x)",
        "special.rgamma(x)",
        "special.j1(x)",
        "special.y0(x)",
        "special.zeta(x, y)",
        "special.gammainc(x, y)",
        "special.betainc(x, y, z)",
        "special.exp1(x)",
        "special.sici(x)[1]",
        "special.lambertw(x).real",
        "special.erfcinv(x)",
        "special.expi(x)",
        "special.iv(1, x)",
        "special.k0(x)",
        "special.k1e(x)",
        "special.kv(x, y)",
        "special.kve(x, y)",
        "special.yv(1, x)",
        "special.jv(0, x)",
        "special.jn(1, x)",
        "special.yn(0, x)",
        "special.betaln(x, y)",
    ]
)
IN_JAX: dict[str, str | None] = {
    "ng.relu(x)": "jax.nn.relu(x)",
    "ng.cummax(x)": "jax.lax.cummax(x)",
    "ng.cummin(x)": "jax.lax.cummin(x)",
    "np.sort(x) * [1, 2, 3]": "jnp.sort(x) * jnp.array([1, 2, 3])",
    "np.partition(x, 1) * [1, 2, 3]": "jnp.partition(x, 1) * jnp.array([1, 2, 3])",
    "ng.top_k(x, 1)[0]": "jax.lax.top_k(x, 1)[0]",
    "np.interp(x, [0, 1, 2], [0, 1, 4])": "jnp.interp(x, jnp.array([0.,1,2]), jnp.array([0.,1,4]))",
    "np.unwrap(x) * [1, 2]": "jnp.unwrap(x) * jnp.array([1, 2])",
    "ng.softplus(x)": "jax.nn.softplus(x)",
    "ng.logsumexp(x)": "jax.scipy.special.logsumexp(x)",
    "ng.logcumsumexp(x)": "jax.lax.cumlogsumexp(x)",
    "ng.softmax(x) * [1, 2]": "jax.nn.softmax(x) * jnp.array([1, 2])",
    "ng.log_softmax(x)": "jax.nn.log_softmax(x)",
    "special.gammaincc(2, x)": "special.gammaincc(2.0, x)",
} | dict.fromkeys(
    [
        "np.nextafter(x, y)",
        "special.rgamma(x)",
        "special.j1(x)",
        "special.y0(x)",
        "special.betainc(x, y, z)",
        "special.lambertw(x).real",
        "special.erfcinv(x)",
        "special.iv(1, x)",
        "special.k0(x)",
        "special.k1e(x)",
        "special.kv(x, y)",
        "special.kve(x, y)",
        "special.yv(1, x)",
        "special.jv(0, x)",
        "special.jn(1, x)",
        "special.yn(0, x)",
    ]
)

POINTS: dict[str, tuple[Point, ...]] = {
    "Extremes": (
        Point("np.maximum(x, y)", (1, 1), 1, (0.5, 0.5)),
        Point("np.maximum(x, y)", (nan, 1), nan, (1, 1), jax_gradient=(0, 0)),
        Point("np.maximum(x, y)", (nan, nan), nan, (1, 1), jax_gradient=(0, 0)),
        Point("np.minimum(x, y)", (1, 1), 1, (0.5, 0.5)),
        Point("np.fmax(x, y)", (1, 1), 1, (1, 0), jax_gradient=(0, 1)),
        Point("np.fmax(x, y)", (nan, 1), 1, (0, 1)),
        Point("np.fmax(x, y)", (nan, nan), nan, (1, 0)),
        Point("np.fmin(x, y)", (1, 1), 1, (1, 0), jax_gradient=(0, 1)),
        Point("np.fmin(x, y)", (nan, nan), nan, (1, 0)),
        Point(
            "np.clip(x, 0, 1)",
            ([-1, 0, 1, 2, nan],),
            [0, 0, 1, 1, nan],
            ([0, 1, 1, 0, 0],),
            jax_gradient=([0, 0.5, 0.5, 0, 0],),
        ),
        Point("np.clip(x, 1, 0)", ([-1, 0.5, 2],), [0, 0, 0], ([0, 0, 0],)),
        Point(
            "np.clip(x, 0, None)",
            ([-1, 0, nan],),
            [0, 0, nan],
            ([0, 1, 0],),
            jax_gradient=([0, 0.5, 0],),
        ),
        Point("np.clip(x, y, z)", (0.5, 1, 1), 1, (0, 0, 0), jax_gradient=(0, 0.5, 0.5)),
        Point("np.clip(x, y, z)", (1, 1, 1), 1, (1, 0, 0), jax_gradient=(0.25, 0.25, 0.5)),
        Point("np.clip(x, y, z)", (1.5, 2, 1), 1, (0, 0, 1)),
        Point("np.clip(x, y, z)", (1, nan, 2), nan, (0, 0, 0)),
        Point("ng.relu(x)", ([0, nan],), [0, nan], ([0, 1],), jax_gradient=([0, 0],)),
        Point("np.max(x)", ([1, 1, 0],), 1, ([0.5, 0.5, 0],)),
        Point("np.max(x, axis=1)", ([[1, nan], [2, 2]],), [nan, 2], ([[nan, nan], [0.5, 0.5]],)),
        Point("np.min(x)", ([inf, inf],), inf, ([0.5, 0.5],)),
        Point("np.nanmax(x)", ([nan, 1, 1],), 1, ([0, 0.5, 0.5],)),
        Point("np.nanmax(x)", ([nan, nan],), nan, ([0, 0],)),
        Point("np.nanmax(x)", ([nan, -inf],), -inf, ([0, 1],), jax_gradient=([0, 0.5],)),
        Point(
            "np.nanmin(x)",
            ([inf, nan, inf],),
            inf,
            ([0.5, 0, 0.5],),
            jax_gradient=([1 / 3, 0, 1 / 3],),
        ),
        Point("np.ptp(x)", ([1, 2, 2],), 1, ([-1, 0.5, 0.5],)),
        Point("np.ptp(x)", ([1, 1],), 0, ([0, 0],)),
        Point(
            "np.maximum.accumulate(x)",
            ([1, 1, 1],),
            [1, 1, 1],
            ([1, 1, 1],),
            jax_gradient=([1.75, 0.75, 0.5],),
        ),
        Point(
            "ng.cummax(x)",
            ([1, nan, 2, nan],),
            [1, nan, nan, nan],
            ([1, 2, 0, 1],),
            jax_gradient=([1, 0, 0, 0],),
        ),
        Point(
            "np.clip(x, 1, 1)",
            ([0.5, 1, 1.5, nan],),
            [1, 1, 1, nan],
            ([0, 1, 0, 0],),
            jax_gradient=([0, 0.25, 0, 0],),
        ),
        Point(
            "ng.cummin(x)",
            ([2, 1, 1, nan, 0],),
            [2, 1, 1, nan, nan],
            ([1, 1, 1, 2, 0],),
            jax_gradient=([1, 1.5, 0.5, 0, 0],),
        ),
    ),
    "Order": (
        Point("np.median(x)", ([1, 1],), 1, ([0.5, 0.5],)),
        Point("np.median(x)", ([1, 1, 1],), 1, ([0, 1, 0],)),
        Point("np.median(x)", ([0, 1, 1, 2],), 1, ([0, 0.5, 0.5, 0],)),
        Point("np.median(x)", ([0, 1, 1, 1],), 1, ([0, 0.5, 0.5, 0],)),
        Point("np.median(x)", ([nan, 1, 2],), nan, ([1, 0, 0],), jax_gradient=([0, 0, 0],)),
        Point("np.median(x)", ([inf, inf],), inf, ([0.5, 0.5],)),
        Point("np.median(x)", ([1, inf],), inf, ([0.5, 0.5],)),
        Point("np.nanmedian(x)", ([nan, 1, 1],), 1, ([0, 0.5, 0.5],)),
        Point("np.quantile(x, 0.25)", ([1, 1, 2],), 1, ([0.5, 0.5, 0],)),
        Point("np.quantile(x, 0.5, method='midpoint')", ([1, 1],), 1, ([0.5, 0.5],)),
        Point("np.quantile(x, 0.5, method='lower')", ([1, 1],), 1, ([1, 0],)),
        Point("np.quantile(x, y)", ([1, 2, 4], 0.5), 2, ([0, 1, 0], 0)),
        Point("np.quantile(x, y)", ([1, 2, 4], 1), 4, ([0, 0, 1], 0)),
        Point("np.percentile(x, 30)", ([1, 1],), 1, ([0.7, 0.3],)),
        Point("np.nanpercentile(x, 30)", ([nan, 1, 1],), 1, ([0, 0.7, 0.3],)),
        Point("np.sort(x) * [1, 2, 3]", ([1, 1, 0],), [0, 2, 3], ([2, 3, 1],)),
        Point("np.sort(x) * [1, 2, 3]", ([nan, 1, nan],), [1, nan, nan], ([2, 1, 3],)),
        Point(
            "np.partition(x, 1) * [1, 2, 3]",
            ([1, 1, 0],),
            [0, 2, 3],
            ([2, 3, 1],),
            jax_gradient=([5, 0, 1],),
        ),
        Point("ng.top_k(x, 1)[0]", ([1, 1, 0],), [1], ([1, 0, 0],)),
    ),
    "Sizes and signs": (
        Point(
            "np.absolute(x)",
            ([0, -0.0, nan],),
            [0, 0, nan],
            ([0, 0, 0],),
            jax_gradient=([1, 1, -1],),
        ),
        Point("np.absolute(x)", ([0j],), [0], ([0j],)),
        Point("np.sign(x)", ([0, nan],), [0, nan], ([0, 0],)),
        Point("np.sign(x)", ([0j],), [0j], ([0j],)),
        Point(
            "np.angle(x)",
            ([0, -1, nan],),
            [0, math.pi, nan],
            ([0, 0, 0],),
            jax_gradient=([nan, 0, nan],),
        ),
        Point("np.angle(x)", ([0j],), [0], ([0j],), jax_gradient=([complex(nan, nan)],)),
        Point(
            "np.hypot(x, y)",
            (0, 0),
            0,
            (0, 0),
            torch_gradient=(nan, nan),
            jax_gradient=(0.5, 0.5),
            why="0 is a subgradient, as of PyTorch's norm at 0",
        ),
        Point("np.arctan2(x, y)", (0, 0), 0, (0, 0), jax_gradient=(nan, nan)),
        Point("np.copysign(x, y)", (0, 1), 0, (0, 0), jax_gradient=(1, 0)),
        Point(
            "np.copysign(x, y)",
            (inf, -1),
            -inf,
            (-1, 0),
            torch_gradient=(nan, 0),
            why="the slope is -1 up to infinity",
        ),
        Point("np.linalg.norm(x)", ([0, 0],), 0, ([0, 0],), jax_gradient=([nan, nan],)),
        Point("np.linalg.norm(x, 1)", ([0, 0],), 0, ([0, 0],), jax_gradient=([1, 1],)),
        Point("np.linalg.norm(x, 3)", ([0, 0],), 0, ([0, 0],), jax_gradient=([nan, nan],)),
        Point("np.linalg.norm(x, np.inf)", ([0, 0],), 0, ([0, 0],), jax_gradient=([0.25, 0.25],)),
        Point("np.linalg.norm(x, -np.inf)", ([0, 0],), 0, ([0, 0],), jax_gradient=([0.5, 0.5],)),
        Point("np.linalg.norm(x, 0.5)", ([0, 0],), 0, ([0, 0],), jax_gradient=([nan, nan],)),
        Point("np.linalg.norm(x, -1)", ([0, 0],), 0, ([0, 0],), jax_gradient=([nan, nan],)),
        Point("np.linalg.norm(x, 0)", ([0, 3],), 1, ([0, 0],)),
        Point("np.linalg.norm(x, 0.5)", ([4, 0],), 4, ([1, 0],), jax_gradient=([1, inf],)),
        Point("np.linalg.norm(x, -1)", ([4, 0],), 0, ([0, 0],), jax_gradient=([0, nan],)),
        Point("np.linalg.norm(x, 1)", ([nan, 1],), nan, ([0, 1],), jax_gradient=([-1, 1],)),
        Point("np.linalg.norm(x, np.inf)", ([1, -1],), 1, ([0.5, -0.5],)),
        Point("np.linalg.norm(x, np.inf)", ([nan, 1],), nan, ([0, 0],), jax_gradient=([nan, nan],)),
        Point(
            "np.linalg.norm(x, -np.inf)", ([nan, 1],), nan, ([0, 0],), jax_gradient=([nan, nan],)
        ),
        Point(
            "np.linalg.norm(x)",
            ([[0, 0], [0, 0]],),
            0,
            ([[0, 0], [0, 0]],),
            jax_gradient=([[nan, nan], [nan, nan]],),
        ),
        Point("np.linalg.norm(x, 'nuc')", ([[0, 0], [0, 0]],), 0, ([[1, 0], [0, 1]],)),
        Point("np.linalg.norm(x, 'nuc')", ([[1, 0], [0, 0]],), 1, ([[1, 0], [0, 1]],)),
        Point("np.linalg.norm(x, 2)", ([[1, 0], [0, 1]],), 1, ([[0.5, 0], [0, 0.5]],)),
        Point(
            "np.linalg.norm(x, 1)",
            ([[1, 0], [0, 1]],),
            1,
            ([[0.5, 0], [0, 0.5]],),
            jax_gradient=([[0.5, 0.5], [0.5, 0.5]],),
        ),
        Point("np.std(x)", ([1, 1],), 0, ([0, 0],), jax_gradient=([nan, nan],)),
        Point("np.std(x, ddof=1)", ([1],), nan, ([nan],)),
        Point("np.var(x)", ([1, 1],), 0, ([0, 0],)),
        Point("np.nanstd(x)", ([nan, 1, 1],), 0, ([0, 0, 0],), jax_gradient=([0, nan, nan],)),
        Point(
            "np.fabs(x)",
            ([0, nan, -inf],),
            [0, nan, inf],
            ([0, 0, -1],),
            jax_gradient=([1, -1, -1],),
        ),
        Point("np.linalg.vector_norm(x)", ([0, 0],), 0, ([0, 0],), jax_gradient=([nan, nan],)),
        Point("np.linalg.vector_norm(x, ord=np.inf)", ([1, -1],), 1, ([0.5, -0.5],)),
    ),
    "Steps": (
        Point("np.floor(x)", ([0, 1, -1],), [0, 1, -1], ([0, 0, 0],)),
        Point("np.ceil(x)", ([0, 1, -1],), [0, 1, -1], ([0, 0, 0],)),
        Point("np.trunc(x)", ([0, 1, -1],), [0, 1, -1], ([0, 0, 0],)),
        Point("np.rint(x)", ([0.5, 1.5],), [0, 2], ([0, 0],)),
        Point("np.heaviside(x, y)", (0, 0.5), 0.5, (0, 1)),
        Point("np.remainder(x, y)", (4, 2), 0, (1, -2)),
        Point("np.remainder(x, y)", (-4, 3), 2, (1, 2)),
        Point("np.fmod(x, y)", (4, 2), 0, (1, -2)),
        Point(
            "np.fmod(x, y)",
            (3, 0),
            nan,
            (1, nan),
            torch_gradient=(1, -inf),
            jax_gradient=(1, -inf),
            why="the value is nan",
        ),
        Point("np.floor_divide(x, y)", (4, 2), 2, (0, 0)),
        Point("np.modf(x)[0]", ([1, -1],), [0, 0], ([1, 1],)),
        Point(
            "np.nextafter(x, y)",
            (1, 1),
            1,
            (1, 0),
            torch_gradient=(0, 0),
            why="the neighbours move with x",
        ),
        Point("np.nan_to_num(x)", ([nan, inf, 1],), [0, sys.float_info.max, 1], ([0, 0, 1],)),
        Point(
            "np.interp(x, [0, 1, 2], [0, 1, 4])",
            ([0, 1, 2, 3],),
            [0, 1, 4, 4],
            ([1, 3, 0, 0],),
            jax_gradient=([1, 3, 3, 0],),
        ),
        Point("np.unwrap(x) * [1, 2]", ([0, math.pi],), [0, 2 * math.pi], ([3, 0],)),
    ),
    "Powers and products": (
        Point("np.sqrt(x)", ([0, -1],), [0, nan], ([inf, nan],)),
        Point(
            "np.sqrt(x)", ([0j],), [0j], ([complex(inf, nan)],), jax_gradient=([complex(nan, nan)],)
        ),
        Point("np.cbrt(x)", ([0],), [0], ([inf],)),
        Point("np.reciprocal(x)", ([0, -0.0],), [inf, -inf], ([-inf, -inf],)),
        Point("x**0", ([0, nan],), [1, 1], ([0, 0],)),
        Point("x**2", ([0, -1],), [0, 1], ([0, -2],)),
        Point("0.0**x", ([0, 1, -1],), [1, 0, inf], ([0, 0, -inf],), jax_gradient=([0, 0, nan],)),
        Point("np.power(x, y)", (0, 0), 1, (0, 0), jax_gradient=(nan, 0)),
        Point("np.power(x, y)", (0, 0.5), 0, (inf, 0)),
        Point("np.power(x, y)", (0, 1), 0, (1, 0)),
        Point("np.power(x, y)", (0, 2), 0, (0, 0)),
        Point("np.power(x, y)", (0, -1), inf, (-inf, -inf), jax_gradient=(-inf, nan)),
        Point("np.power(x, y)", (-1, 2), 1, (-2, nan)),
        Point("np.power(x, y)", (-1, 0.5), nan, (nan, nan)),
        Point("np.power(x, y)", (1, nan), 1, (nan, 0)),
        Point("np.power(x, y)", (nan, 0), 1, (0, nan), jax_gradient=(nan, nan)),
        Point("np.power(x, y)", (1, inf), 1, (inf, 0)),
        Point("np.where(x > 0, np.sqrt(x), 0)", ([0, 4],), [0, 2], ([nan, 0.25],)),
        Point("np.prod(x)", ([0, 2, 3],), 0, ([6, 0, 0],)),
        Point("np.cumprod(x)", ([0, 2, 3],), [0, 0, 0], ([9, 0, 0],)),
        Point("np.prod(x)", ([0, 0, 3],), 0, ([0, 0, 0],)),
        Point("np.prod(x)", ([inf, 0],), nan, ([0, inf],)),
        Point("np.prod(x)", ([inf, 0, 2],), nan, ([0, inf, nan],)),
        Point("np.prod(x)", ([inf, 0, 0],), nan, ([0, 0, 0],), jax_gradient=([0, nan, nan],)),
        Point("np.cumprod(x)", ([0, 0, 3],), [0, 0, 0], ([1, 0, 0],)),
        Point("np.nanprod(x)", ([nan, 0, 3],), 0, ([0, 3, 0],)),
        Point("np.nansum(x)", ([nan, 1],), 1, ([0, 1],)),
        Point(
            "np.nanmean(x)",
            ([nan, nan],),
            nan,
            ([0, 0],),
            torch_gradient=([nan, nan],),
            why="nan is left out",
        ),
        Point(
            "np.linalg.det(x)",
            ([[1, 2], [2, 4]],),
            0,
            ([[4, -2], [-2, 1]],),
            torch_gradient=([[0, 0], [0, 0]],),
            why="cofactors are finite",
        ),
        Point("np.linalg.det(x)", ([[0, 0], [0, 0]],), 0, ([[0, 0], [0, 0]],)),
        Point("np.linalg.pinv(x)", ([[0, 0], [0, 0]],), [[0, 0], [0, 0]], ([[0, 0], [0, 0]],)),
        Point("np.divide(x, y)", (0, 0), nan, (inf, nan)),
        Point("np.divide(x, y)", (1, 0), inf, (inf, -inf)),
        Point("np.divide(x, y)", (1, inf), 0, (0, 0)),
        Point("np.float_power(x, y)", (0, 0), 1, (0, 0), jax_gradient=(nan, 0)),
        Point("np.float_power(x, y)", (0, 1), 0, (1, 0)),
    ),
    "Exponentials and logarithms": (
        Point("np.log(x)", ([0, -1],), [-inf, nan], ([inf, -1],)),
        Point("np.log(x)", ([0j],), [complex(-inf, 0)], ([complex(inf, nan)],)),
        Point("np.log1p(x)", ([-1, -2],), [-inf, nan], ([inf, -1],)),
        Point("np.expm1(x)", ([-inf, inf],), [-1, inf], ([0, inf],)),
        Point("np.logaddexp(x, y)", (inf, 1), inf, (1, 0), jax_gradient=(1, math.e)),
        Point(
            "np.logaddexp(x, y)",
            (inf, inf),
            inf,
            (0.5, 0.5),
            torch_gradient=(nan, nan),
            jax_gradient=(1, 1),
            why="half each, as of `maximum`",
        ),
        Point(
            "np.logaddexp(x, y)",
            (-inf, -inf),
            -inf,
            (0.5, 0.5),
            torch_gradient=(nan, nan),
            jax_gradient=(nan, nan),
            why="half each, as of `maximum`",
        ),
        Point(
            "np.logaddexp2(x, y)",
            (-inf, -inf),
            -inf,
            (0.5, 0.5),
            torch_gradient=(nan, nan),
            jax_gradient=(nan, nan),
            why="half each, as of `maximum`",
        ),
        Point("ng.softplus(x)", ([inf, -inf],), [inf, 0], ([1, 0],)),
        Point("ng.logsumexp(x)", ([-inf, 0],), 0, ([0, 1],)),
        Point(
            "ng.logsumexp(x)",
            ([-inf, -inf],),
            -inf,
            ([0, 0],),
            torch_gradient=([nan, nan],),
            jax_gradient=([nan, nan],),
            why="what is masked out spoils nothing",
        ),
        Point("ng.logsumexp(x)", ([inf, 0],), inf, ([nan, 0],)),
        Point(
            "ng.logcumsumexp(x)",
            ([-inf, 0],),
            [-inf, 0],
            ([0, 1],),
            torch_gradient=([nan, 1],),
            jax_gradient=([1, 1],),
            why="what is masked out spoils nothing",
        ),
        Point("ng.softmax(x) * [1, 2]", ([-inf, 0],), [0, 2], ([0, 0],)),
        Point("ng.softmax(x) * [1, 2]", ([inf, 0],), [nan, nan], ([nan, nan],)),
        Point("np.arcsin(x)", ([1, -1],), [math.pi / 2, -math.pi / 2], ([inf, inf],)),
        Point("np.arccos(x)", ([1, -1],), [0, math.pi], ([-inf, -inf],)),
        Point("np.arccosh(x)", ([1, -1],), [0, nan], ([inf, inf],)),
        Point("np.arctanh(x)", ([1, -1],), [inf, -inf], ([inf, inf],)),
        Point("np.sinc(x)", ([0],), [1], ([0],)),
        Point("np.exp2(x)", ([-inf, inf, nan],), [0, inf, nan], ([0, inf, nan],)),
        Point("np.log2(x)", ([0, inf],), [-inf, inf], ([inf, 0],)),
        Point("np.log10(x)", ([0, inf],), [-inf, inf], ([inf, 0],)),
        Point(
            "ng.log_softmax(x)",
            ([-inf, 0, 0],),
            [-inf, -math.log(2), -math.log(2)],
            ([1, -0.5, -0.5],),
        ),
    ),
    "Special functions": (
        Point(
            "special.xlogy(x, y)",
            (0, 0),
            0,
            (0, 0),
            torch_gradient=(0, nan),
            jax_gradient=(-inf, nan),
            why="0 for every y",
        ),
        Point("special.xlogy(x, y)", (0, -1), 0, (0, 0), jax_gradient=(nan, 0)),
        Point("special.xlogy(x, y)", (0, nan), nan, (nan, nan)),
        Point("special.xlogy(x, y)", (1, 0), -inf, (-inf, inf)),
        Point(
            "special.xlog1py(x, y)",
            (0, -1),
            0,
            (0, 0),
            torch_gradient=(0, nan),
            jax_gradient=(-inf, nan),
            why="0 for every y",
        ),
        Point("special.entr(x)", ([0, -1],), [0, -inf], ([inf, nan],)),
        Point("special.rel_entr(x, y)", (0, 0), 0, (nan, 0), jax_gradient=(0, 0)),
        Point("special.rel_entr(x, y)", (0, 1), 0, (-inf, 0), jax_gradient=(0, 0)),
        Point("special.kl_div(x, y)", (0, 1), 1, (-inf, 1), jax_gradient=(-1, 1)),
        Point(
            "special.gamma(x)", ([0, -1],), [inf, nan], ([-inf, nan],), jax_gradient=([nan, nan],)
        ),
        Point("special.rgamma(x)", ([0, -1],), [0, 0], ([1, -1],)),
        Point(
            "special.gammaln(x)", ([0, -1],), [inf, inf], ([-inf, nan],), jax_gradient=([nan, nan],)
        ),
        Point(
            "special.digamma(x)",
            ([0, -1],),
            [-inf, nan],
            ([inf, inf],),
            torch_gradient=([inf, 6.580790147320947e32],),
            why="exactly at the pole",
        ),
        Point("special.polygamma(1, x)", ([0],), [inf], ([-inf],), jax_gradient=([nan],)),
        Point("special.erfinv(x)", ([1, -1],), [inf, -inf], ([inf, inf],)),
        Point("special.ndtri(x)", ([0, 1],), [-inf, inf], ([inf, inf],), jax_gradient=([0, 0],)),
        Point(
            "special.erfcx(x)",
            ([inf],),
            [0],
            ([0],),
            torch_gradient=([nan],),
            jax_gradient=([nan],),
            why="the limit",
        ),
        Point(
            "special.log_ndtr(x)",
            ([-inf],),
            [-inf],
            ([inf],),
            torch_gradient=([nan],),
            jax_gradient=([nan],),
            why="the limit",
        ),
        Point(
            "special.logit(x)",
            ([0, 1, 2],),
            [-inf, inf, nan],
            ([inf, inf, nan],),
            jax_gradient=([inf, inf, -0.5],),
        ),
        Point("special.expit(x)", ([inf, -inf],), [1, 0], ([0, 0],)),
        Point("special.i0(x)", ([0],), [1], ([0],), jax_gradient=([1],)),
        Point("special.i0e(x)", ([0],), [1], ([0],)),
        Point("special.i1(x)", ([0],), [0], ([0.5],)),
        Point("special.j1(x)", ([0],), [0], ([0.5],)),
        Point("special.y0(x)", ([0],), [-inf], ([inf],)),
        Point("special.zeta(x, y)", (2, 0), inf, (nan, -inf)),
        Point("special.gammainc(x, y)", (1, 0), 0, (0, 1), jax_gradient=(0, nan)),
        Point("special.gammainc(x, y)", (2, inf), 1, (0, 0), jax_gradient=(nan, nan)),
        Point("special.betainc(x, y, z)", (1, 1, 0), 0, (0, 0, 1)),
        Point("special.exp1(x)", ([0],), [inf], ([-inf],)),
        Point("special.sici(x)[1]", ([0],), [-inf], ([inf],)),
        Point("special.lambertw(x).real", ([0],), [0], ([1],)),
        Point("special.erfcinv(x)", ([0, 2],), [inf, -inf], ([-inf, -inf],)),
        Point(
            "special.gammaincc(2, x)",
            ([0, inf],),
            [1, 0],
            ([0, 0],),
            torch_gradient=([0, nan],),
            jax_gradient=([0, nan],),
            why="the limit",
        ),
        Point("special.expi(x)", ([0, -inf],), [-inf, 0], ([inf, 0],)),
        Point("special.iv(1, x)", ([0],), [0], ([0.5],)),
        Point("special.k0(x)", ([0, inf],), [inf, 0], ([-inf, 0],)),
        Point("special.k1e(x)", ([0],), [inf], ([-inf],)),
        Point("special.kv(x, y)", (1, 0), inf, (inf, -inf)),
        Point("special.kve(x, y)", (0, 0), inf, (0, -inf)),
        Point("special.yv(1, x)", ([0],), [-inf], ([inf],)),
        Point("special.jv(0, x)", ([0],), [1], ([0],)),
        Point("special.jn(1, x)", ([0],), [0], ([0.5],)),
        Point("special.yn(0, x)", ([0],), [-inf], ([inf],)),
        Point("special.betaln(x, y)", (0, 1), inf, (-inf, 0), jax_gradient=(nan, nan)),
        Point("special.ndtr(x)", ([-inf, inf],), [0, 1], ([0, 0],)),
        Point("special.erf(x)", ([-inf, inf],), [-1, 1], ([0, 0],)),
    ),
}

ALL = tuple(point for points in POINTS.values() for point in points)


# What the libraries give.


def environment(arguments: Any, **names: Any) -> dict[str, Any]:
    return dict(zip("xyz", arguments, strict=False)) | names


def value_here(point: Point, *arguments: Any) -> Any:
    """The function of this library's tensors; of arrays it is NumPy's if that has it."""
    ng = importlib.import_module("numba_grad")
    names = environment(arguments, np=np, ng=ng, special=ng.special)
    return eval(point.function, names)


def gradient_in_torch(point: Point) -> list[np.ndarray]:
    torch = importlib.import_module("torch")
    arguments = [torch.tensor(x, requires_grad=True) for x in point.arguments()]
    total = eval(point.torch, environment(arguments, torch=torch)).sum()
    found = [None] * len(arguments)
    if total.requires_grad:
        total = total.real if total.is_complex() else total
        found = torch.autograd.grad(total, arguments, allow_unused=True)
    # None: no derivative, 0 like here.
    pairs = zip(found, arguments, strict=True)
    return [(torch.zeros_like(x) if g is None else g).numpy(force=True) for g, x in pairs]


def gradient_in_jax(point: Point) -> list[np.ndarray]:
    jax = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    importlib.import_module("jax.scipy.special")
    names = {"jax": jax, "np": jax.numpy, "jnp": jax.numpy, "special": jax.scipy.special}

    def total(*arguments: Any) -> Any:
        return eval(point.jax, environment(arguments, **names)).sum().real

    arguments = [jax.numpy.asarray(x) for x in point.arguments()]
    found = jax.grad(total, tuple(range(len(arguments))))(*arguments)
    return [np.conj(np.asarray(g)) for g in found]  # JAX's of complex numbers is the conjugate


# The table.


def number_text(x: complex) -> str:
    if isinstance(x, complex):
        real, imag = number_text(x.real), number_text(x.imag)
        return (
            f"{real}{'' if imag.startswith('-') else '+'}{imag}j" if imag != "0" else f"{real}+0j"
        )
    if x == math.pi or x == -math.pi:
        return "pi" if x > 0 else "-pi"
    return f"{x:.3g}" if x else "-0" if math.copysign(1, x) < 0 else "0"


def text_of(x: Any) -> str:
    return f"[{', '.join(map(text_of, x))}]" if isinstance(x, list) else number_text(x)


def arguments_text(values: tuple[Any, ...]) -> str:
    return ", ".join(map(text_of, values))


def compared(gradient: tuple[Any, ...] | None) -> str:
    return "=" if gradient is None else arguments_text(gradient)


def row(point: Point) -> str:
    torch = compared(point.torch_gradient) if point.torch else ""
    jax = "" if point.jax is None else compared(point.jax_gradient)
    cells = (
        f"`{point.function}`",
        arguments_text(point.at),
        arguments_text(point.gradient),
        torch,
        jax,
        point.why,
    )
    return f"| {' | '.join(cells)} |"


def table() -> str:
    parts = [f"PyTorch is {TORCH_VERSION}, JAX {JAX_VERSION} with 64-bit numbers.\n"]
    for title, points in POINTS.items():
        parts.append(f"### {title}\n")
        parts.append(
            "| function | at | gradient | PyTorch | JAX | why |\n|---|---|---|---|---|---|"
        )
        parts += [row(point) for point in points]
        parts.append("")
    return "\n".join(parts)


def page() -> str:
    """docs/numerics.md with the table as it should be."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page())
