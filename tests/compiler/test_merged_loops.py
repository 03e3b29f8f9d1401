"""Loops are merged only where no condition, known or not, looks at one of them."""

import numpy as np

import numba_grad as ng


def fluxes(u, c, d):
    across = np.pad(c * (u[:, 1:] - u[:, :-1]), ((0, 0), (1, 1)))
    down = np.pad(d * (u[1:] - u[:-1]), ((1, 1), (0, 0)))
    return ((u + across[:, 1:] - across[:, :-1] + down[1:] - down[:-1]) ** 2).sum()


def test_adjoints_of_slices_on_either_axis_match_the_reference():
    rng = np.random.default_rng(0)
    arguments = [rng.normal(size=shape) for shape in ((20, 22), (20, 21), (19, 22))]
    gradient = ng.jit(ng.grad(fluxes, argnums=(0, 1, 2)))(*arguments)
    with ng.configure(engine="reference"):
        expected = [g.detach().numpy() for g in ng.grad(fluxes, argnums=(0, 1, 2))(*arguments)]
    for found, wanted in zip(gradient, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
