"""Light, sound and images."""

from typing import Any

import numpy

from perf.programs import program

# A stack of thin films: matrices of all wavelengths, or their four entries.


def films(random: numpy.random.Generator, n: int) -> list[numpy.ndarray]:
    return [random.uniform(0.05, 0.15, size=n), random.uniform(1.3, 2.3, size=n)]


WAVELENGTHS = numpy.linspace(0.4, 0.7, 16)


@program(films)
def thin_films_by_matrices(np: Any, thickness: Any, index: Any) -> Any:
    total = np.array(numpy.tile(numpy.eye(2) + 0j, (len(WAVELENGTHS), 1, 1)))
    for j in range(thickness.shape[0]):
        phase = 2.0 * numpy.pi * index[j] * thickness[j] / np.array(WAVELENGTHS)
        c, s = np.cos(phase), np.sin(phase)
        upper = np.stack([c + 0j, 1j * s / index[j]], axis=1)
        lower = np.stack([1j * s * index[j], c + 0j], axis=1)
        total = total @ np.stack([upper, lower], axis=1)
    b = total[:, 0, 0] + 1.5 * total[:, 0, 1]
    c = total[:, 1, 0] + 1.5 * total[:, 1, 1]
    reflected = (b - c) / (b + c)
    return np.sum(np.abs(reflected) ** 2)


@program(films)
def thin_films_by_entries(np: Any, thickness: Any, index: Any) -> Any:
    total = 0.0
    for wavelength in WAVELENGTHS[::4]:
        a, b, c, d = 1.0 + 0j, 0j, 0j, 1.0 + 0j
        for j in range(thickness.shape[0]):
            phase = 2.0 * numpy.pi * index[j] * thickness[j] / wavelength
            co, si = np.cos(phase), 1j * np.sin(phase)
            down, up = si / index[j], si * index[j]
            a, b, c, d = a * co + b * up, a * down + b * co, c * co + d * up, c * down + d * co
        front, back = a + 1.5 * b, c + 1.5 * d
        total = total + np.abs((front - back) / (front + back)) ** 2
    return total


@program(
    lambda random, n: [
        numpy.array([0.03, -0.02, 0.025, -0.015]),
        numpy.array([2.0, 1.0, 2.0, 20.0]),
    ]
)
def rays_through_lenses(np: Any, curvatures: Any, distances: Any) -> Any:
    """Spherical surfaces, Snell's law, and the spot on the screen."""
    x, y = numpy.meshgrid(numpy.linspace(-2.0, 2.0, 5), numpy.linspace(-2.0, 2.0, 5))
    place = np.array(numpy.stack([x.ravel(), y.ravel(), numpy.zeros(25)], axis=1))
    way = np.array(numpy.tile([0.0, 0.05, numpy.sqrt(1.0 - 0.0025)], (25, 1)))
    indices = [1.0, 1.5, 1.0, 1.6, 1.0]
    for k in range(4):
        c = curvatures[k]
        # From the vertex: c * |p + t w|^2 = 2 (p + t w)_z.
        half = way[:, 2] - c * np.sum(place * way, axis=1)
        rest = c * np.sum(place**2, axis=1) - 2.0 * place[:, 2]
        t = rest / (half + np.sqrt(half**2 - c * rest))
        place = place + t[:, None] * way
        normal = np.array([0.0, 0.0, 1.0]) - c * place
        ratio = indices[k] / indices[k + 1]
        cosine = np.sum(way * normal, axis=1)
        bent = np.sqrt(1.0 - ratio**2 * (1.0 - cosine**2))
        way = ratio * way + (bent - ratio * cosine)[:, None] * normal
        place = place - distances[k] * np.array([0.0, 0.0, 1.0])
    at_screen = place - (place[:, 2] / way[:, 2])[:, None] * way
    spot = at_screen[:, :2] - np.mean(at_screen[:, :2], axis=0)
    return np.sum(spot**2) + np.sum(distances**2) * 1e-3


@program(lambda random, n: [random.uniform(size=(16, 16)), random.normal(size=(6, 16))], wrt=(0,))
def tomography(np: Any, image: Any, measured: Any) -> Any:
    """Radon's transform, by rotation with bilinear interpolation, and the misfit."""
    n = image.shape[0]
    center = 0.5 * (n - 1)
    rows, columns = numpy.meshgrid(numpy.arange(n) - center, numpy.arange(n) - center)
    sums = []
    for angle in numpy.linspace(0.0, numpy.pi, 6, endpoint=False):
        r = numpy.cos(angle) * rows - numpy.sin(angle) * columns + center
        c = numpy.sin(angle) * rows + numpy.cos(angle) * columns + center
        r, c = numpy.clip(r, 0.0, n - 1.001), numpy.clip(c, 0.0, n - 1.001)
        i, j = numpy.floor(r).astype(int), numpy.floor(c).astype(int)
        u, v = np.array(r - i), np.array(c - j)
        upper = (1.0 - v) * image[i, j] + v * image[i, j + 1]
        lower = (1.0 - v) * image[i + 1, j] + v * image[i + 1, j + 1]
        sums.append(np.sum((1.0 - u) * upper + u * lower, axis=0))
    residuals = np.stack(sums) - measured
    steps = np.sum(np.abs(image[1:] - image[:-1])) + np.sum(np.abs(image[:, 1:] - image[:, :-1]))
    return 0.5 * np.sum(residuals**2) + 0.1 * steps


@program(lambda random, n: [random.normal(size=(16, 16)), random.uniform(size=(16, 16))], wrt=(0,))
def hologram(np: Any, phase: Any, wanted: Any) -> Any:
    """Light behind a phase mask in three planes, by angular spectra."""
    waves = numpy.fft.fftfreq(16)
    squares = waves[:, None] ** 2 + waves[None, :] ** 2
    field = np.exp(1j * phase)
    total = 0.0
    for distance in (5.0, 10.0, 15.0):
        transfer = np.array(numpy.exp(-1j * numpy.pi * distance * squares))
        there = np.fft.ifft2(np.fft.fft2(field) * transfer)
        intensity = np.real(there) ** 2 + np.imag(there) ** 2
        total = total + np.mean((intensity / np.mean(intensity) - wanted) ** 2)
    return total
