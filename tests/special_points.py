"""Gradients at kinks, ties, nan and the ends of domains: ours, PyTorch's and JAX's, as data.

Each `Point` is a test (`test_special_points.py`) and a row of docs/numerics.md, which

    python -m tests.special_points

writes again. Imports neither this library nor the others before they are asked.
"""

import importlib
import math
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
    torch: str = ""  # the same function in PyTorch's names, if it has it
    torch_gradient: tuple[Any, ...] | None = None  # None: as ours
    jax: str | None = ""  # the same in JAX's names, where they are not NumPy's; None: has none
    jax_gradient: tuple[Any, ...] | None = None  # None: as ours
    why: str = ""  # why ours is not PyTorch's

    def arguments(self) -> list[np.ndarray]:
        """float64 or complex128."""
        return [np.asarray(x, np.result_type(np.asarray(x), np.float64)) for x in self.at]

    def __str__(self) -> str:
        return f"{self.function} at {arguments_text(self.at)}"


POINTS: dict[str, tuple[Point, ...]] = {
    "Extremes": (
        Point("np.maximum(x, y)", (1, 1), 1, (0.5, 0.5), torch="torch.maximum(x, y)"),
        Point(
            "np.maximum(x, y)",
            (nan, 1),
            nan,
            (1, 1),
            torch="torch.maximum(x, y)",
            jax_gradient=(0, 0),
        ),
        Point(
            "np.maximum(x, y)",
            (nan, nan),
            nan,
            (1, 1),
            torch="torch.maximum(x, y)",
            jax_gradient=(0, 0),
        ),
        Point("np.minimum(x, y)", (1, 1), 1, (0.5, 0.5), torch="torch.minimum(x, y)"),
        Point("np.fmax(x, y)", (1, 1), 1, (1, 0), torch="torch.fmax(x, y)", jax_gradient=(0, 1)),
        Point("np.fmax(x, y)", (nan, 1), 1, (0, 1), torch="torch.fmax(x, y)"),
        Point("np.fmax(x, y)", (nan, nan), nan, (1, 0), torch="torch.fmax(x, y)"),
        Point("np.fmin(x, y)", (1, 1), 1, (1, 0), torch="torch.fmin(x, y)", jax_gradient=(0, 1)),
        Point("np.fmin(x, y)", (nan, nan), nan, (1, 0), torch="torch.fmin(x, y)"),
        Point(
            "np.clip(x, 0, 1)",
            ([-1, 0, 1, 2, nan],),
            [0, 0, 1, 1, nan],
            ([0, 1, 1, 0, 0],),
            torch="torch.clip(x, 0, 1)",
            jax_gradient=([0, 0.5, 0.5, 0, 0],),
        ),
        Point(
            "np.clip(x, 1, 0)",
            ([-1, 0.5, 2],),
            [0, 0, 0],
            ([0, 0, 0],),
            torch="torch.clip(x, 1, 0)",
        ),
        Point(
            "np.clip(x, 0, None)",
            ([-1, 0, nan],),
            [0, 0, nan],
            ([0, 1, 0],),
            torch="torch.clip(x, 0)",
            jax_gradient=([0, 0.5, 0],),
        ),
        Point(
            "np.clip(x, y, z)",
            (0.5, 1, 1),
            1,
            (0, 0, 0),
            torch="torch.clip(x, y, z)",
            jax_gradient=(0, 0.5, 0.5),
        ),
        Point(
            "np.clip(x, y, z)",
            (1, 1, 1),
            1,
            (1, 0, 0),
            torch="torch.clip(x, y, z)",
            jax_gradient=(0.25, 0.25, 0.5),
        ),
        Point("np.clip(x, y, z)", (1.5, 2, 1), 1, (0, 0, 1), torch="torch.clip(x, y, z)"),
        Point("np.clip(x, y, z)", (1, nan, 2), nan, (0, 0, 0), torch="torch.clip(x, y, z)"),
        Point(
            "ng.relu(x)",
            ([0, nan],),
            [0, nan],
            ([0, 1],),
            torch="torch.relu(x)",
            jax="jax.nn.relu(x)",
            jax_gradient=([0, 0],),
        ),
        Point("np.max(x)", ([1, 1, 0],), 1, ([0.5, 0.5, 0],), torch="torch.amax(x, 0)"),
        Point(
            "np.max(x, axis=1)",
            ([[1, nan], [2, 2]],),
            [nan, 2],
            ([[nan, nan], [0.5, 0.5]],),
            torch="torch.amax(x, 1)",
        ),
        Point("np.min(x)", ([inf, inf],), inf, ([0.5, 0.5],), torch="torch.amin(x, 0)"),
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
        Point(
            "np.ptp(x)",
            ([1, 2, 2],),
            1,
            ([-1, 0.5, 0.5],),
            torch="torch.amax(x, 0) - torch.amin(x, 0)",
        ),
        Point("np.ptp(x)", ([1, 1],), 0, ([0, 0],), torch="torch.amax(x, 0) - torch.amin(x, 0)"),
        Point(
            "np.maximum.accumulate(x)",
            ([1, 1, 1],),
            [1, 1, 1],
            ([1, 1, 1],),
            torch="torch.cummax(x, 0).values",
            jax_gradient=([1.75, 0.75, 0.5],),
        ),
        Point(
            "ng.cummax(x)",
            ([1, nan, 2, nan],),
            [1, nan, nan, nan],
            ([1, 2, 0, 1],),
            torch="torch.cummax(x, 0).values",
            jax="jax.lax.cummax(x)",
            jax_gradient=([1, 0, 0, 0],),
        ),
        Point(
            "np.clip(x, 1, 1)",
            ([0.5, 1, 1.5, nan],),
            [1, 1, 1, nan],
            ([0, 1, 0, 0],),
            torch="torch.clip(x, 1, 1)",
            jax_gradient=([0, 0.25, 0, 0],),
        ),
        Point(
            "ng.cummin(x)",
            ([2, 1, 1, nan, 0],),
            [2, 1, 1, nan, nan],
            ([1, 1, 1, 2, 0],),
            torch="torch.cummin(x, 0).values",
            jax="jax.lax.cummin(x)",
            jax_gradient=([1, 1.5, 0.5, 0, 0],),
        ),
    ),
    "Order": (
        Point("np.median(x)", ([1, 1],), 1, ([0.5, 0.5],), torch="torch.quantile(x, 0.5)"),
        Point("np.median(x)", ([1, 1, 1],), 1, ([0, 1, 0],), torch="torch.quantile(x, 0.5)"),
        Point(
            "np.median(x)", ([0, 1, 1, 2],), 1, ([0, 0.5, 0.5, 0],), torch="torch.quantile(x, 0.5)"
        ),
        Point(
            "np.median(x)", ([0, 1, 1, 1],), 1, ([0, 0.5, 0.5, 0],), torch="torch.quantile(x, 0.5)"
        ),
        Point(
            "np.median(x)",
            ([nan, 1, 2],),
            nan,
            ([1, 0, 0],),
            torch="torch.quantile(x, 0.5)",
            jax_gradient=([0, 0, 0],),
        ),
        Point("np.median(x)", ([inf, inf],), inf, ([0.5, 0.5],), torch="torch.quantile(x, 0.5)"),
        Point("np.median(x)", ([1, inf],), inf, ([0.5, 0.5],), torch="torch.quantile(x, 0.5)"),
        Point(
            "np.nanmedian(x)",
            ([nan, 1, 1],),
            1,
            ([0, 0.5, 0.5],),
            torch="torch.nanquantile(x, 0.5)",
        ),
        Point(
            "np.quantile(x, 0.25)",
            ([1, 1, 2],),
            1,
            ([0.5, 0.5, 0],),
            torch="torch.quantile(x, 0.25)",
        ),
        Point(
            "np.quantile(x, 0.5, method='midpoint')",
            ([1, 1],),
            1,
            ([0.5, 0.5],),
            torch="torch.quantile(x, 0.5, interpolation='midpoint')",
        ),
        Point(
            "np.quantile(x, 0.5, method='lower')",
            ([1, 1],),
            1,
            ([1, 0],),
            torch="torch.quantile(x, 0.5, interpolation='lower')",
        ),
        Point(
            "np.quantile(x, y)", ([1, 2, 4], 0.5), 2, ([0, 1, 0], 0), torch="torch.quantile(x, y)"
        ),
        Point("np.quantile(x, y)", ([1, 2, 4], 1), 4, ([0, 0, 1], 0), torch="torch.quantile(x, y)"),
        Point("np.percentile(x, 30)", ([1, 1],), 1, ([0.7, 0.3],), torch="torch.quantile(x, 0.3)"),
        Point(
            "np.nanpercentile(x, 30)",
            ([nan, 1, 1],),
            1,
            ([0, 0.7, 0.3],),
            torch="torch.nanquantile(x, 0.3)",
        ),
        Point(
            "np.sort(x) * [1, 2, 3]",
            ([1, 1, 0],),
            [0, 2, 3],
            ([2, 3, 1],),
            torch="torch.sort(x, stable=True).values * torch.tensor([1, 2, 3])",
            jax="jnp.sort(x) * jnp.array([1, 2, 3])",
        ),
        Point(
            "np.sort(x) * [1, 2, 3]",
            ([nan, 1, nan],),
            [1, nan, nan],
            ([2, 1, 3],),
            torch="torch.sort(x, stable=True).values * torch.tensor([1, 2, 3])",
            jax="jnp.sort(x) * jnp.array([1, 2, 3])",
        ),
        Point(
            "np.partition(x, 1) * [1, 2, 3]",
            ([1, 1, 0],),
            [0, 2, 3],
            ([2, 3, 1],),
            jax="jnp.partition(x, 1) * jnp.array([1, 2, 3])",
            jax_gradient=([5, 0, 1],),
        ),
        Point(
            "ng.top_k(x, 1)[0]",
            ([1, 1, 0],),
            [1],
            ([1, 0, 0],),
            torch="torch.topk(x, 1).values",
            jax="jax.lax.top_k(x, 1)[0]",
        ),
    ),
    "Sizes and signs": (
        Point(
            "np.absolute(x)",
            ([0, -0.0, nan],),
            [0, 0, nan],
            ([0, 0, 0],),
            torch="torch.abs(x)",
            jax_gradient=([1, 1, -1],),
        ),
        Point("np.absolute(x)", ([0j],), [0], ([0j],), torch="torch.abs(x)"),
        Point("np.sign(x)", ([0, nan],), [0, nan], ([0, 0],), torch="torch.sign(x)"),
        Point("np.sign(x)", ([0j],), [0j], ([0j],), torch="torch.sgn(x)"),
        Point(
            "np.angle(x)",
            ([0, -1, nan],),
            [0, math.pi, nan],
            ([0, 0, 0],),
            torch="torch.angle(x)",
            jax_gradient=([nan, 0, nan],),
        ),
        Point(
            "np.angle(x)",
            ([0j],),
            [0],
            ([0j],),
            torch="torch.angle(x)",
            jax_gradient=([complex(nan, nan)],),
        ),
        Point(
            "np.hypot(x, y)",
            (0, 0),
            0,
            (0, 0),
            torch="torch.hypot(x, y)",
            torch_gradient=(nan, nan),
            jax_gradient=(0.5, 0.5),
            why="0 is a subgradient, as of PyTorch's norm at 0",
        ),
        Point(
            "np.arctan2(x, y)",
            (0, 0),
            0,
            (0, 0),
            torch="torch.arctan2(x, y)",
            jax_gradient=(nan, nan),
        ),
        Point(
            "np.copysign(x, y)",
            (0, 1),
            0,
            (0, 0),
            torch="torch.copysign(x, y)",
            jax_gradient=(1, 0),
        ),
        Point(
            "np.copysign(x, y)",
            (inf, -1),
            -inf,
            (-1, 0),
            torch="torch.copysign(x, y)",
            torch_gradient=(nan, 0),
            why="the slope is -1 up to infinity",
        ),
        Point(
            "np.linalg.norm(x)",
            ([0, 0],),
            0,
            ([0, 0],),
            torch="torch.linalg.vector_norm(x)",
            jax_gradient=([nan, nan],),
        ),
        Point(
            "np.linalg.norm(x, 1)",
            ([0, 0],),
            0,
            ([0, 0],),
            torch="torch.linalg.vector_norm(x, 1)",
            jax_gradient=([1, 1],),
        ),
        Point(
            "np.linalg.norm(x, 3)",
            ([0, 0],),
            0,
            ([0, 0],),
            torch="torch.linalg.vector_norm(x, 3)",
            jax_gradient=([nan, nan],),
        ),
        Point(
            "np.linalg.norm(x, np.inf)",
            ([0, 0],),
            0,
            ([0, 0],),
            torch="torch.linalg.vector_norm(x, torch.inf)",
            jax_gradient=([0.25, 0.25],),
        ),
        Point(
            "np.linalg.norm(x, -np.inf)",
            ([0, 0],),
            0,
            ([0, 0],),
            torch="torch.linalg.vector_norm(x, -torch.inf)",
            jax_gradient=([0.5, 0.5],),
        ),
        Point(
            "np.linalg.norm(x, 0.5)",
            ([0, 0],),
            0,
            ([0, 0],),
            torch="torch.linalg.vector_norm(x, 0.5)",
            jax_gradient=([nan, nan],),
        ),
        Point(
            "np.linalg.norm(x, -1)",
            ([0, 0],),
            0,
            ([0, 0],),
            torch="torch.linalg.vector_norm(x, -1)",
            jax_gradient=([nan, nan],),
        ),
        Point(
            "np.linalg.norm(x, 0)", ([0, 3],), 1, ([0, 0],), torch="torch.linalg.vector_norm(x, 0)"
        ),
        Point(
            "np.linalg.norm(x, 0.5)",
            ([4, 0],),
            4,
            ([1, 0],),
            torch="torch.linalg.vector_norm(x, 0.5)",
            jax_gradient=([1, inf],),
        ),
        Point(
            "np.linalg.norm(x, -1)",
            ([4, 0],),
            0,
            ([0, 0],),
            torch="torch.linalg.vector_norm(x, -1)",
            jax_gradient=([0, nan],),
        ),
        Point(
            "np.linalg.norm(x, 1)",
            ([nan, 1],),
            nan,
            ([0, 1],),
            torch="torch.linalg.vector_norm(x, 1)",
            jax_gradient=([-1, 1],),
        ),
        Point(
            "np.linalg.norm(x, np.inf)",
            ([1, -1],),
            1,
            ([0.5, -0.5],),
            torch="torch.linalg.vector_norm(x, torch.inf)",
        ),
        Point(
            "np.linalg.norm(x, np.inf)",
            ([nan, 1],),
            nan,
            ([0, 0],),
            torch="torch.linalg.vector_norm(x, torch.inf)",
            jax_gradient=([nan, nan],),
        ),
        Point(
            "np.linalg.norm(x, -np.inf)",
            ([nan, 1],),
            nan,
            ([0, 0],),
            torch="torch.linalg.vector_norm(x, -torch.inf)",
            jax_gradient=([nan, nan],),
        ),
        Point(
            "np.linalg.norm(x)",
            ([[0, 0], [0, 0]],),
            0,
            ([[0, 0], [0, 0]],),
            torch="torch.linalg.matrix_norm(x)",
            jax_gradient=([[nan, nan], [nan, nan]],),
        ),
        Point(
            "np.linalg.norm(x, 'nuc')",
            ([[0, 0], [0, 0]],),
            0,
            ([[1, 0], [0, 1]],),
            torch="torch.linalg.matrix_norm(x, 'nuc')",
        ),
        Point(
            "np.linalg.norm(x, 'nuc')",
            ([[1, 0], [0, 0]],),
            1,
            ([[1, 0], [0, 1]],),
            torch="torch.linalg.matrix_norm(x, 'nuc')",
        ),
        Point(
            "np.linalg.norm(x, 2)",
            ([[1, 0], [0, 1]],),
            1,
            ([[0.5, 0], [0, 0.5]],),
            torch="torch.linalg.matrix_norm(x, 2)",
        ),
        Point(
            "np.linalg.norm(x, 1)",
            ([[1, 0], [0, 1]],),
            1,
            ([[0.5, 0], [0, 0.5]],),
            torch="torch.linalg.matrix_norm(x, 1)",
            jax_gradient=([[0.5, 0.5], [0.5, 0.5]],),
        ),
        Point(
            "np.std(x)",
            ([1, 1],),
            0,
            ([0, 0],),
            torch="torch.std(x, correction=0)",
            jax_gradient=([nan, nan],),
        ),
        Point("np.std(x, ddof=1)", ([1],), nan, ([nan],), torch="torch.std(x, correction=1)"),
        Point("np.var(x)", ([1, 1],), 0, ([0, 0],), torch="torch.var(x, correction=0)"),
        Point("np.nanstd(x)", ([nan, 1, 1],), 0, ([0, 0, 0],), jax_gradient=([0, nan, nan],)),
        Point(
            "np.fabs(x)",
            ([0, nan, -inf],),
            [0, nan, inf],
            ([0, 0, -1],),
            torch="torch.abs(x)",
            jax_gradient=([1, -1, -1],),
        ),
        Point(
            "np.linalg.vector_norm(x)",
            ([0, 0],),
            0,
            ([0, 0],),
            torch="torch.linalg.vector_norm(x)",
            jax_gradient=([nan, nan],),
        ),
        Point(
            "np.linalg.vector_norm(x, ord=np.inf)",
            ([1, -1],),
            1,
            ([0.5, -0.5],),
            torch="torch.linalg.vector_norm(x, float('inf'))",
        ),
    ),
    "Steps": (
        Point("np.floor(x)", ([0, 1, -1],), [0, 1, -1], ([0, 0, 0],), torch="torch.floor(x)"),
        Point("np.ceil(x)", ([0, 1, -1],), [0, 1, -1], ([0, 0, 0],), torch="torch.ceil(x)"),
        Point("np.trunc(x)", ([0, 1, -1],), [0, 1, -1], ([0, 0, 0],), torch="torch.trunc(x)"),
        Point("np.rint(x)", ([0.5, 1.5],), [0, 2], ([0, 0],), torch="torch.round(x)"),
        Point("np.heaviside(x, y)", (0, 0.5), 0.5, (0, 1)),
        Point("np.remainder(x, y)", (4, 2), 0, (1, -2), torch="torch.remainder(x, y)"),
        Point("np.remainder(x, y)", (-4, 3), 2, (1, 2), torch="torch.remainder(x, y)"),
        Point("np.fmod(x, y)", (4, 2), 0, (1, -2), torch="torch.fmod(x, y)"),
        Point(
            "np.fmod(x, y)",
            (3, 0),
            nan,
            (1, nan),
            torch="torch.fmod(x, y)",
            torch_gradient=(1, -inf),
            jax_gradient=(1, -inf),
            why="the value is nan",
        ),
        Point("np.floor_divide(x, y)", (4, 2), 2, (0, 0)),
        Point("np.modf(x)[0]", ([1, -1],), [0, 0], ([1, 1],), torch="torch.frac(x)"),
        Point(
            "np.nextafter(x, y)",
            (1, 1),
            1,
            (1, 0),
            torch="torch.nextafter(x, y)",
            torch_gradient=(0, 0),
            jax=None,
            why="the neighbours move with x",
        ),
        Point(
            "np.nan_to_num(x)",
            ([nan, inf, 1],),
            [0, sys.float_info.max, 1],
            ([0, 0, 1],),
            torch="torch.nan_to_num(x)",
        ),
        Point(
            "np.interp(x, [0, 1, 2], [0, 1, 4])",
            ([0, 1, 2, 3],),
            [0, 1, 4, 4],
            ([1, 3, 0, 0],),
            jax="jnp.interp(x, jnp.array([0.,1,2]), jnp.array([0.,1,4]))",
            jax_gradient=([1, 3, 3, 0],),
        ),
        Point(
            "np.unwrap(x) * [1, 2]",
            ([0, math.pi],),
            [0, 2 * math.pi],
            ([3, 0],),
            jax="jnp.unwrap(x) * jnp.array([1, 2])",
        ),
    ),
    "Powers and products": (
        Point("np.sqrt(x)", ([0, -1],), [0, nan], ([inf, nan],), torch="torch.sqrt(x)"),
        Point(
            "np.sqrt(x)",
            ([0j],),
            [0j],
            ([complex(inf, nan)],),
            torch="torch.sqrt(x)",
            jax_gradient=([complex(nan, nan)],),
        ),
        Point("np.cbrt(x)", ([0],), [0], ([inf],)),
        Point(
            "np.reciprocal(x)",
            ([0, -0.0],),
            [inf, -inf],
            ([-inf, -inf],),
            torch="torch.reciprocal(x)",
        ),
        Point("x**0", ([0, nan],), [1, 1], ([0, 0],), torch="x**0"),
        Point("x**2", ([0, -1],), [0, 1], ([0, -2],), torch="x**2"),
        Point(
            "0.0**x",
            ([0, 1, -1],),
            [1, 0, inf],
            ([0, 0, -inf],),
            torch="0.0**x",
            jax_gradient=([0, 0, nan],),
        ),
        Point("np.power(x, y)", (0, 0), 1, (0, 0), torch="torch.pow(x, y)", jax_gradient=(nan, 0)),
        Point("np.power(x, y)", (0, 0.5), 0, (inf, 0), torch="torch.pow(x, y)"),
        Point("np.power(x, y)", (0, 1), 0, (1, 0), torch="torch.pow(x, y)"),
        Point("np.power(x, y)", (0, 2), 0, (0, 0), torch="torch.pow(x, y)"),
        Point(
            "np.power(x, y)",
            (0, -1),
            inf,
            (-inf, -inf),
            torch="torch.pow(x, y)",
            jax_gradient=(-inf, nan),
        ),
        Point("np.power(x, y)", (-1, 2), 1, (-2, nan), torch="torch.pow(x, y)"),
        Point("np.power(x, y)", (-1, 0.5), nan, (nan, nan), torch="torch.pow(x, y)"),
        Point("np.power(x, y)", (1, nan), 1, (nan, 0), torch="torch.pow(x, y)"),
        Point(
            "np.power(x, y)",
            (nan, 0),
            1,
            (0, nan),
            torch="torch.pow(x, y)",
            jax_gradient=(nan, nan),
        ),
        Point("np.power(x, y)", (1, inf), 1, (inf, 0), torch="torch.pow(x, y)"),
        Point(
            "np.where(x > 0, np.sqrt(x), 0)",
            ([0, 4],),
            [0, 2],
            ([nan, 0.25],),
            torch="torch.where(x > 0, torch.sqrt(x), 0)",
        ),
        Point("np.prod(x)", ([0, 2, 3],), 0, ([6, 0, 0],), torch="torch.prod(x)"),
        Point("np.cumprod(x)", ([0, 2, 3],), [0, 0, 0], ([9, 0, 0],), torch="torch.cumprod(x, 0)"),
        Point("np.prod(x)", ([0, 0, 3],), 0, ([0, 0, 0],), torch="torch.prod(x)"),
        Point("np.prod(x)", ([inf, 0],), nan, ([0, inf],), torch="torch.prod(x)"),
        Point("np.prod(x)", ([inf, 0, 2],), nan, ([0, inf, nan],), torch="torch.prod(x)"),
        Point(
            "np.prod(x)",
            ([inf, 0, 0],),
            nan,
            ([0, 0, 0],),
            torch="torch.prod(x)",
            jax_gradient=([0, nan, nan],),
        ),
        Point("np.cumprod(x)", ([0, 0, 3],), [0, 0, 0], ([1, 0, 0],), torch="torch.cumprod(x, 0)"),
        Point("np.nanprod(x)", ([nan, 0, 3],), 0, ([0, 3, 0],)),
        Point("np.nansum(x)", ([nan, 1],), 1, ([0, 1],), torch="torch.nansum(x)"),
        Point(
            "np.nanmean(x)",
            ([nan, nan],),
            nan,
            ([0, 0],),
            torch="torch.nanmean(x)",
            torch_gradient=([nan, nan],),
            why="nan is left out",
        ),
        Point(
            "np.linalg.det(x)",
            ([[1, 2], [2, 4]],),
            0,
            ([[4, -2], [-2, 1]],),
            torch="torch.linalg.det(x)",
            torch_gradient=([[0, 0], [0, 0]],),
            why="cofactors are finite",
        ),
        Point(
            "np.linalg.det(x)",
            ([[0, 0], [0, 0]],),
            0,
            ([[0, 0], [0, 0]],),
            torch="torch.linalg.det(x)",
        ),
        Point(
            "np.linalg.pinv(x)",
            ([[0, 0], [0, 0]],),
            [[0, 0], [0, 0]],
            ([[0, 0], [0, 0]],),
            torch="torch.linalg.pinv(x)",
        ),
        Point("np.divide(x, y)", (0, 0), nan, (inf, nan), torch="x / y"),
        Point("np.divide(x, y)", (1, 0), inf, (inf, -inf), torch="x / y"),
        Point("np.divide(x, y)", (1, inf), 0, (0, 0), torch="x / y"),
        Point(
            "np.float_power(x, y)",
            (0, 0),
            1,
            (0, 0),
            torch="torch.float_power(x, y)",
            jax_gradient=(nan, 0),
        ),
        Point("np.float_power(x, y)", (0, 1), 0, (1, 0), torch="torch.float_power(x, y)"),
    ),
    "Exponentials and logarithms": (
        Point("np.log(x)", ([0, -1],), [-inf, nan], ([inf, -1],), torch="torch.log(x)"),
        Point(
            "np.log(x)", ([0j],), [complex(-inf, 0)], ([complex(inf, nan)],), torch="torch.log(x)"
        ),
        Point("np.log1p(x)", ([-1, -2],), [-inf, nan], ([inf, -1],), torch="torch.log1p(x)"),
        Point("np.expm1(x)", ([-inf, inf],), [-1, inf], ([0, inf],), torch="torch.expm1(x)"),
        Point(
            "np.logaddexp(x, y)",
            (inf, 1),
            inf,
            (1, 0),
            torch="torch.logaddexp(x, y)",
            jax_gradient=(1, math.e),
        ),
        Point(
            "np.logaddexp(x, y)",
            (inf, inf),
            inf,
            (0.5, 0.5),
            torch="torch.logaddexp(x, y)",
            torch_gradient=(nan, nan),
            jax_gradient=(1, 1),
            why="half each, as of `maximum`",
        ),
        Point(
            "np.logaddexp(x, y)",
            (-inf, -inf),
            -inf,
            (0.5, 0.5),
            torch="torch.logaddexp(x, y)",
            torch_gradient=(nan, nan),
            jax_gradient=(nan, nan),
            why="half each, as of `maximum`",
        ),
        Point(
            "np.logaddexp2(x, y)",
            (-inf, -inf),
            -inf,
            (0.5, 0.5),
            torch="torch.logaddexp2(x, y)",
            torch_gradient=(nan, nan),
            jax_gradient=(nan, nan),
            why="half each, as of `maximum`",
        ),
        Point(
            "ng.softplus(x)",
            ([inf, -inf],),
            [inf, 0],
            ([1, 0],),
            torch="torch.nn.functional.softplus(x)",
            jax="jax.nn.softplus(x)",
        ),
        Point(
            "ng.logsumexp(x)",
            ([-inf, 0],),
            0,
            ([0, 1],),
            torch="torch.logsumexp(x, 0)",
            jax="jax.scipy.special.logsumexp(x)",
        ),
        Point(
            "ng.logsumexp(x)",
            ([-inf, -inf],),
            -inf,
            ([0, 0],),
            torch="torch.logsumexp(x, 0)",
            torch_gradient=([nan, nan],),
            jax="jax.scipy.special.logsumexp(x)",
            jax_gradient=([nan, nan],),
            why="what is masked out spoils nothing",
        ),
        Point(
            "ng.logsumexp(x)",
            ([inf, 0],),
            inf,
            ([nan, 0],),
            torch="torch.logsumexp(x, 0)",
            jax="jax.scipy.special.logsumexp(x)",
        ),
        Point(
            "ng.logcumsumexp(x)",
            ([-inf, 0],),
            [-inf, 0],
            ([0, 1],),
            torch="torch.logcumsumexp(x, 0)",
            torch_gradient=([nan, 1],),
            jax="jax.lax.cumlogsumexp(x)",
            jax_gradient=([1, 1],),
            why="what is masked out spoils nothing",
        ),
        Point(
            "ng.softmax(x) * [1, 2]",
            ([-inf, 0],),
            [0, 2],
            ([0, 0],),
            torch="torch.softmax(x, 0) * torch.tensor([1, 2])",
            jax="jax.nn.softmax(x) * jnp.array([1, 2])",
        ),
        Point(
            "ng.softmax(x) * [1, 2]",
            ([inf, 0],),
            [nan, nan],
            ([nan, nan],),
            torch="torch.softmax(x, 0) * torch.tensor([1, 2])",
            jax="jax.nn.softmax(x) * jnp.array([1, 2])",
        ),
        Point(
            "np.arcsin(x)",
            ([1, -1],),
            [math.pi / 2, -math.pi / 2],
            ([inf, inf],),
            torch="torch.arcsin(x)",
        ),
        Point("np.arccos(x)", ([1, -1],), [0, math.pi], ([-inf, -inf],), torch="torch.arccos(x)"),
        Point("np.arccosh(x)", ([1, -1],), [0, nan], ([inf, inf],), torch="torch.arccosh(x)"),
        Point("np.arctanh(x)", ([1, -1],), [inf, -inf], ([inf, inf],), torch="torch.arctanh(x)"),
        Point("np.sinc(x)", ([0],), [1], ([0],), torch="torch.sinc(x)"),
        Point(
            "np.exp2(x)",
            ([-inf, inf, nan],),
            [0, inf, nan],
            ([0, inf, nan],),
            torch="torch.exp2(x)",
        ),
        Point("np.log2(x)", ([0, inf],), [-inf, inf], ([inf, 0],), torch="torch.log2(x)"),
        Point("np.log10(x)", ([0, inf],), [-inf, inf], ([inf, 0],), torch="torch.log10(x)"),
        Point(
            "ng.log_softmax(x)",
            ([-inf, 0, 0],),
            [-inf, -math.log(2), -math.log(2)],
            ([1, -0.5, -0.5],),
            torch="torch.log_softmax(x, 0)",
            jax="jax.nn.log_softmax(x)",
        ),
    ),
    "Special functions": (
        Point(
            "special.xlogy(x, y)",
            (0, 0),
            0,
            (0, 0),
            torch="torch.special.xlogy(x, y)",
            torch_gradient=(0, nan),
            jax_gradient=(-inf, nan),
            why="0 for every y",
        ),
        Point(
            "special.xlogy(x, y)",
            (0, -1),
            0,
            (0, 0),
            torch="torch.special.xlogy(x, y)",
            jax_gradient=(nan, 0),
        ),
        Point("special.xlogy(x, y)", (0, nan), nan, (nan, nan), torch="torch.special.xlogy(x, y)"),
        Point("special.xlogy(x, y)", (1, 0), -inf, (-inf, inf), torch="torch.special.xlogy(x, y)"),
        Point(
            "special.xlog1py(x, y)",
            (0, -1),
            0,
            (0, 0),
            torch="torch.special.xlog1py(x, y)",
            torch_gradient=(0, nan),
            jax_gradient=(-inf, nan),
            why="0 for every y",
        ),
        Point(
            "special.entr(x)", ([0, -1],), [0, -inf], ([inf, nan],), torch="torch.special.entr(x)"
        ),
        Point("special.rel_entr(x, y)", (0, 0), 0, (nan, 0), jax_gradient=(0, 0)),
        Point("special.rel_entr(x, y)", (0, 1), 0, (-inf, 0), jax_gradient=(0, 0)),
        Point("special.kl_div(x, y)", (0, 1), 1, (-inf, 1), jax_gradient=(-1, 1)),
        Point(
            "special.gamma(x)", ([0, -1],), [inf, nan], ([-inf, nan],), jax_gradient=([nan, nan],)
        ),
        Point("special.rgamma(x)", ([0, -1],), [0, 0], ([1, -1],), jax=None),
        Point(
            "special.gammaln(x)",
            ([0, -1],),
            [inf, inf],
            ([-inf, nan],),
            torch="torch.special.gammaln(x)",
            jax_gradient=([nan, nan],),
        ),
        Point(
            "special.digamma(x)",
            ([0, -1],),
            [-inf, nan],
            ([inf, inf],),
            torch="torch.special.digamma(x)",
            torch_gradient=([inf, 6.580790147320947e32],),
            why="exactly at the pole",
        ),
        Point(
            "special.polygamma(1, x)",
            ([0],),
            [inf],
            ([-inf],),
            torch="torch.special.polygamma(1, x)",
            jax_gradient=([nan],),
        ),
        Point(
            "special.erfinv(x)",
            ([1, -1],),
            [inf, -inf],
            ([inf, inf],),
            torch="torch.special.erfinv(x)",
        ),
        Point(
            "special.ndtri(x)",
            ([0, 1],),
            [-inf, inf],
            ([inf, inf],),
            torch="torch.special.ndtri(x)",
            jax_gradient=([0, 0],),
        ),
        Point(
            "special.erfcx(x)",
            ([inf],),
            [0],
            ([0],),
            torch="torch.special.erfcx(x)",
            torch_gradient=([nan],),
            jax_gradient=([nan],),
            why="the limit",
        ),
        Point(
            "special.log_ndtr(x)",
            ([-inf],),
            [-inf],
            ([inf],),
            torch="torch.special.log_ndtr(x)",
            torch_gradient=([nan],),
            jax_gradient=([nan],),
            why="the limit",
        ),
        Point(
            "special.logit(x)",
            ([0, 1, 2],),
            [-inf, inf, nan],
            ([inf, inf, nan],),
            torch="torch.special.logit(x)",
            jax_gradient=([inf, inf, -0.5],),
        ),
        Point(
            "special.expit(x)", ([inf, -inf],), [1, 0], ([0, 0],), torch="torch.special.expit(x)"
        ),
        Point(
            "special.i0(x)", ([0],), [1], ([0],), torch="torch.special.i0(x)", jax_gradient=([1],)
        ),
        Point("special.i0e(x)", ([0],), [1], ([0],), torch="torch.special.i0e(x)"),
        Point("special.i1(x)", ([0],), [0], ([0.5],), torch="torch.special.i1(x)"),
        Point("special.j1(x)", ([0],), [0], ([0.5],), jax=None),
        Point("special.y0(x)", ([0],), [-inf], ([inf],), jax=None),
        Point("special.zeta(x, y)", (2, 0), inf, (nan, -inf)),
        Point("special.gammainc(x, y)", (1, 0), 0, (0, 1), jax_gradient=(0, nan)),
        Point("special.gammainc(x, y)", (2, inf), 1, (0, 0), jax_gradient=(nan, nan)),
        Point("special.betainc(x, y, z)", (1, 1, 0), 0, (0, 0, 1), jax=None),
        Point("special.exp1(x)", ([0],), [inf], ([-inf],)),
        Point("special.sici(x)[1]", ([0],), [-inf], ([inf],)),
        Point("special.lambertw(x).real", ([0],), [0], ([1],), jax=None),
        Point("special.erfcinv(x)", ([0, 2],), [inf, -inf], ([-inf, -inf],), jax=None),
        Point(
            "special.gammaincc(2, x)",
            ([0, inf],),
            [1, 0],
            ([0, 0],),
            torch="torch.special.gammaincc(torch.full_like(x, 2), x)",
            torch_gradient=([0, nan],),
            jax="special.gammaincc(2.0, x)",
            jax_gradient=([0, nan],),
            why="the limit",
        ),
        Point("special.expi(x)", ([0, -inf],), [-inf, 0], ([inf, 0],)),
        Point("special.iv(1, x)", ([0],), [0], ([0.5],), jax=None),
        Point("special.jv(0, x)", ([0],), [1], ([0],), jax=None),
        Point("special.jn(1, x)", ([0],), [0], ([0.5],), jax=None),
        Point("special.yn(0, x)", ([0],), [-inf], ([inf],), jax=None),
        Point("special.betaln(x, y)", (0, 1), inf, (-inf, 0), jax_gradient=(nan, nan)),
        Point("special.ndtr(x)", ([-inf, inf],), [0, 1], ([0, 0],), torch="torch.special.ndtr(x)"),
        Point("special.erf(x)", ([-inf, inf],), [-1, 1], ([0, 0],), torch="torch.erf(x)"),
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
    text = point.jax or point.function
    names = {"jax": jax, "np": jax.numpy, "jnp": jax.numpy, "special": jax.scipy.special}

    def total(*arguments: Any) -> Any:
        return eval(text, environment(arguments, **names)).sum().real

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
