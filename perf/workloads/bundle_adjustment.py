"""Reprojection errors and their Jacobian, as in ADBench: many small functions of 15 numbers each.

A camera has a rotation vector, a centre, a focal length, a principal point and two coefficients of
radial distortion. Each observation has its own row of camera, point and weight, already gathered.
(Srajer, Kukelova, Fitzgibbon 2018.)
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from perf.goals import LIKE_BY_HAND, NEVER_SLOWER, NO_MORE_MEMORY
from perf.implementations import Prepared, arrays, by_hand


class Size(NamedTuple):
    observations: int


TITLE = "Bundle adjustment (ADBench), residuals and their Jacobian"
SIZES = {
    "small": Size(observations=1_000),
    "medium": Size(observations=30_000),
    "large": Size(observations=300_000),
}
GOALS = [NEVER_SLOWER, LIKE_BY_HAND, NO_MORE_MEMORY]
PARTS = (3, 3, 1, 2, 2)  # of a camera
ALL = (0, 1, 2)


def inputs(size: Size) -> list[np.ndarray]:
    """Cameras, points, weights; where the points were seen. All points are in front of cameras."""
    rng = np.random.default_rng(0)
    (n,) = size
    cameras = [
        rng.normal(scale=0.2, size=(n, 3)),
        rng.normal(scale=0.1, size=(n, 3)),
        rng.uniform(0.5, 1.5, size=(n, 1)),
        rng.normal(scale=0.1, size=(n, 2)),
        rng.normal(scale=0.05, size=(n, 2)),
    ]
    points = np.concatenate([rng.normal(size=(n, 2)), rng.uniform(6.0, 10.0, size=(n, 1))], axis=1)
    weights = rng.uniform(0.5, 1.5, size=n)
    return [np.concatenate(cameras, axis=1), points, weights, rng.normal(scale=0.1, size=(n, 2))]


def minimal_bytes(size: Size) -> int:
    """17 numbers of an observation; 2 residuals and 30 derivatives."""
    return 8 * (17 + 32) * size.observations


def slices(camera: Any) -> list[Any]:
    """The parts of a camera."""
    ends = np.cumsum(PARTS)
    return [camera[..., end - part : end] for part, end in zip(PARTS, ends.tolist(), strict=True)]


def reprojection(np: Any, cross: Any, parts: Any = slices) -> Any:
    """The residual of one observation, or of many, in a library with NumPy's functions."""

    def dot(x: Any, y: Any) -> Any:
        return (x * y).sum(-1)[..., None]

    def residual(camera: Any, point: Any, weight: Any, observed: Any) -> Any:
        rotation, centre, focal, principal, radial = parts(camera)
        y = point - centre
        angle = np.sqrt(dot(rotation, rotation))
        axis = rotation / angle
        cosine = np.cos(angle)
        turned = y * cosine + cross(axis, y) * np.sin(angle) + axis * dot(axis, y) * (1.0 - cosine)
        flat = turned[..., :2] / turned[..., 2:]
        square = dot(flat, flat)
        distortion = 1.0 + radial[..., :1] * square + radial[..., 1:] * square * square
        return weight[..., None] * (focal * distortion * flat + principal - observed)

    return residual


def stacked_cross(np: Any) -> Any:
    """The cross product, for libraries that have none with a gradient."""

    def cross(x: Any, y: Any) -> Any:
        a, b, c = x[..., 0], x[..., 1], x[..., 2]
        d, e, f = y[..., 0], y[..., 1], y[..., 2]
        return np.stack([b * f - c * e, c * d - a * f, a * e - b * d], axis=-1)

    return cross


def with_value(residual: Any) -> Any:
    """For Jacobians with an auxiliary result."""

    def twice(*args: Any) -> tuple[Any, Any]:
        out = residual(*args)
        return out, out

    return twice


def joined(concatenate: Any, blocks: Sequence[Any]) -> Any:
    """The blocks for camera, point and weight side by side."""
    camera, point, weight = blocks
    return concatenate([camera, point, weight[..., None]], -1)


def numba_grad(size: Size) -> Prepared:
    """As JAX's users would write it."""
    import numba_grad as ng

    args = inputs(size)
    one = ng.jacobian(with_value(reprojection(np, stacked_cross(np))), argnums=ALL, has_aux=True)

    @ng.jit
    def f(*args: np.ndarray) -> tuple[Any, Any]:
        blocks, value = ng.vmap(one)(*args)
        return value, joined(np.concatenate, blocks)

    return Prepared(lambda: f(*args), arrays)


def numba_grad_batched(size: Size) -> Prepared:
    """As PyTorch's users would write it, outside of `jit`."""
    import numba_grad as ng

    residual = reprojection(np, stacked_cross(np))
    *variables, observed = inputs(size)
    leaves = [ng.tensor(x, requires_grad=True) for x in variables]
    cotangents = ng.tensor(rows_of_jacobian(size))

    def run() -> Any:
        value = residual(*leaves, observed)
        blocks = ng.autograd.grad(value, leaves, cotangents, is_grads_batched=True)
        jacobian = joined(np.concatenate, blocks)
        return value.detach().numpy(), np.swapaxes(jacobian.numpy(), 0, 1)

    return Prepared(run, arrays)


def rows_of_jacobian(size: Size) -> np.ndarray:
    """Cotangents, a batch of two: ones for the first component, and for the second."""
    return np.stack([np.tile(row, (size.observations, 1)) for row in np.eye(2)])


def torch_parts(camera: Any) -> Any:
    """`split` goes back as one concatenation, slices as a sum of padded arrays."""
    return camera.split(PARTS, -1)


def torch_batched(size: Size) -> Prepared:
    import torch

    torch.set_num_threads(2)
    residual = reprojection(torch, torch.linalg.cross, torch_parts)
    *variables, observed = [torch.tensor(x) for x in inputs(size)]
    leaves = [x.requires_grad_() for x in variables]
    cotangents = torch.tensor(rows_of_jacobian(size))

    def run() -> Any:
        value = residual(*leaves, observed)
        blocks = torch.autograd.grad(value, leaves, cotangents, is_grads_batched=True)
        return value, joined(torch.cat, blocks).transpose(0, 1)

    return Prepared(run, arrays)


def torch_compiled(size: Size) -> Prepared:
    import torch

    torch.set_num_threads(2)
    args = [torch.tensor(x) for x in inputs(size)]
    residual = with_value(reprojection(torch, torch.linalg.cross, torch_parts))
    mapped = torch.func.vmap(torch.func.jacrev(residual, argnums=ALL, has_aux=True))

    @torch.compile
    def f(*args: Any) -> tuple[Any, Any]:
        blocks, value = mapped(*args)
        return value, joined(torch.cat, blocks)

    return Prepared(lambda: f(*args), arrays)


def jax(size: Size) -> Prepared:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    args = [jax.device_put(x) for x in inputs(size)]
    residual = with_value(reprojection(jnp, jnp.cross))
    mapped = jax.vmap(jax.jacrev(residual, argnums=ALL, has_aux=True))

    @jax.jit
    def f(*args: Any) -> tuple[Any, Any]:
        blocks, value = mapped(*args)
        return value, joined(jnp.concatenate, blocks)

    return Prepared(lambda: jax.block_until_ready(f(*args)), arrays)


def autograd(size: Size) -> Prepared:
    """Two products of a cotangent and the Jacobian."""
    import autograd.numpy as anp
    from autograd import make_vjp

    residual = reprojection(anp, stacked_cross(anp))
    *variables, observed = inputs(size)
    cotangents = rows_of_jacobian(size)

    def run() -> Any:
        pull, value = make_vjp(lambda x: residual(*x, observed))(tuple(variables))
        rows = [joined(np.concatenate, pull(cotangent)) for cotangent in cotangents]
        return value, np.stack(rows, axis=1)

    return Prepared(run, arrays)


def drjit(size: Size) -> Prepared:
    """An array for each column, in and out: its own layout. Two backward passes, one kernel."""
    import drjit as dr
    from drjit.llvm.ad import Array2f64, Array3f64, Float64

    dr.set_thread_count(2)
    camera, point, weight, observed = inputs(size)
    columns = np.concatenate([camera, point, weight[:, None], observed], axis=1).T
    given = [Float64(np.ascontiguousarray(column)) for column in columns]
    dr.eval(*given)

    def run() -> Any:
        leaves = [Float64(x) for x in given[:15]]
        dr.enable_grad(*leaves)
        rotation, centre = Array3f64(*leaves[0:3]), Array3f64(*leaves[3:6])
        focal, principal, radial = leaves[6], Array2f64(*leaves[7:9]), leaves[9:11]
        y = Array3f64(*leaves[11:14]) - centre
        angle = dr.sqrt(dr.dot(rotation, rotation))
        axis = rotation / angle
        sine, cosine = dr.sincos(angle)
        turned = y * cosine + dr.cross(axis, y) * sine + axis * (dr.dot(axis, y) * (1.0 - cosine))
        flat = Array2f64(turned.x, turned.y) / turned.z
        square = dr.dot(flat, flat)
        distortion = 1.0 + radial[0] * square + radial[1] * square * square
        value = leaves[14] * (focal * distortion * flat + principal - Array2f64(*given[15:]))
        rows = []
        for component in value:
            dr.clear_grad(leaves)
            dr.backward(component, flags=dr.ADFlag.ClearInterior)
            rows.append([dr.grad(leaf) for leaf in leaves])
        dr.eval(value, rows)
        dr.sync_thread()
        return dr.detach(value), rows

    def results(out: Any) -> list[np.ndarray]:
        value, rows = out
        jacobian = np.stack([np.stack([np.asarray(x) for x in row], axis=1) for row in rows], 1)
        return [np.stack([np.asarray(x) for x in value], axis=1), jacobian]

    return Prepared(run, results)


def hand_written(size: Size) -> Prepared:
    """Each row of the Jacobian of the projection goes back through the rotation."""
    import numba

    (n,) = size

    @numba.njit(parallel=n >= 10_000, fastmath=True)
    def kernel(
        cameras: np.ndarray,
        points: np.ndarray,
        weights: np.ndarray,
        observed: np.ndarray,
        residuals: np.ndarray,
        jacobian: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        for i in numba.prange(n):
            r0, r1, r2 = cameras[i, 0], cameras[i, 1], cameras[i, 2]
            y0 = points[i, 0] - cameras[i, 3]
            y1 = points[i, 1] - cameras[i, 4]
            y2 = points[i, 2] - cameras[i, 5]
            focal, k1, k2 = cameras[i, 6], cameras[i, 9], cameras[i, 10]
            angle = math.sqrt(r0 * r0 + r1 * r1 + r2 * r2)
            inverse = 1.0 / angle
            w0, w1, w2 = r0 * inverse, r1 * inverse, r2 * inverse
            sine, cosine = math.sin(angle), math.cos(angle)
            c0, c1, c2 = w1 * y2 - w2 * y1, w2 * y0 - w0 * y2, w0 * y1 - w1 * y0
            along = w0 * y0 + w1 * y1 + w2 * y2
            rest = along * (1.0 - cosine)
            x = y0 * cosine + c0 * sine + w0 * rest
            y = y1 * cosine + c1 * sine + w1 * rest
            z = 1.0 / (y2 * cosine + c2 * sine + w2 * rest)
            p, q = x * z, y * z
            square = p * p + q * q
            distortion = 1.0 + square * (k1 + k2 * square)
            slope = 2.0 * (k1 + 2.0 * k2 * square)
            for row in range(2):
                here = p if row == 0 else q
                error = focal * distortion * here + cameras[i, 7 + row] - observed[i, row]
                scale = weights[i] * focal
                # The derivatives by p and q, then by x, y and z.
                d_p, d_q = scale * slope * here * p, scale * slope * here * q
                if row == 0:
                    d_p += scale * distortion
                else:
                    d_q += scale * distortion
                m0, m1, m2 = d_p * z, d_q * z, -(d_p * p + d_q * q) * z
                # Back through the rotation: turned the other way.
                n0, n1, n2 = w1 * m2 - w2 * m1, w2 * m0 - w0 * m2, w0 * m1 - w1 * m0
                m_along = w0 * m0 + w1 * m1 + w2 * m2
                m_rest = m_along * (1.0 - cosine)
                b0 = m0 * cosine - n0 * sine + w0 * m_rest
                b1 = m1 * cosine - n1 * sine + w1 * m_rest
                b2 = m2 * cosine - n2 * sine + w2 * m_rest
                d_angle = (
                    cosine * (c0 * m0 + c1 * m1 + c2 * m2)
                    - sine * (y0 * m0 + y1 * m1 + y2 * m2)
                    + sine * along * m_along
                )
                v0 = sine * (y1 * m2 - y2 * m1) + m0 * rest + m_rest * y0
                v1 = sine * (y2 * m0 - y0 * m2) + m1 * rest + m_rest * y1
                v2 = sine * (y0 * m1 - y1 * m0) + m2 * rest + m_rest * y2
                radially = d_angle - (w0 * v0 + w1 * v1 + w2 * v2) * inverse
                residuals[i, row] = weights[i] * error
                out = jacobian[i, row]
                out[0] = w0 * radially + v0 * inverse
                out[1] = w1 * radially + v1 * inverse
                out[2] = w2 * radially + v2 * inverse
                out[3], out[4], out[5] = -b0, -b1, -b2
                out[6] = weights[i] * distortion * here
                out[7] = weights[i] if row == 0 else 0.0
                out[8] = weights[i] if row == 1 else 0.0
                out[9] = scale * here * square
                out[10] = scale * here * square * square
                out[11], out[12], out[13] = b0, b1, b2
                out[14] = error
        return residuals, jacobian

    return by_hand(kernel, *inputs(size), np.zeros((n, 2)), np.zeros((n, 2, 15)))


IMPLEMENTATIONS = {
    "numba_grad": numba_grad,
    "numba_grad, is_grads_batched": numba_grad_batched,
    "by hand": hand_written,
    "torch": torch_batched,
    "torch.compile": torch_compiled,
    "jax": jax,
    "drjit": drjit,
    "autograd": autograd,
}
