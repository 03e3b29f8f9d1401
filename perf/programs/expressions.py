"""What takes a line or five: expressions, losses, layers."""

import math
from typing import Any

import numpy

from perf.programs import program
from perf.programs.special import special_functions


@program(lambda random, n: [random.normal(size=(n, 5)), random.normal(size=(n, 5))])
def sines_times_a_row(np: Any, x: Any, w: Any) -> Any:
    return np.sum(np.sin(x) * w[0])


@program(lambda random, n: [random.normal(size=(n, 5)), random.normal(size=(5, 5))])
def square_of_a_product(np: Any, x: Any, w: Any) -> Any:
    return np.sum((x @ w) ** 2)


@program(lambda random, n: [random.normal(size=(n, 5))])
def variance(np: Any, x: Any) -> Any:
    return np.sum(np.var(x, axis=0))


@program(lambda random, n: [random.normal(size=(n, 5))])
def norm(np: Any, x: Any) -> Any:
    return np.sqrt(np.sum(x**2))


@program(lambda random, n: [random.normal(size=(n, 5))])
def cumulative_sum_squared(np: Any, x: Any) -> Any:
    return np.sum(np.cumsum(x, axis=0) ** 2)


@program(lambda random, n: [random.normal(size=(n, 5))])
def where(np: Any, x: Any) -> Any:
    return np.sum(np.where(x > 0.5, x**3, -x))


@program(lambda random, n: [random.normal(size=n + 4)])
def rosenbrock(np: Any, x: Any) -> Any:
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


@program(lambda random, n: [random.normal(size=(n, 3))])
def all_pairs(np: Any, x: Any) -> Any:
    d = x[:, None, :] - x[None, :, :]
    r2 = np.sum(d**2, axis=2) + np.eye(x.shape[0])
    return 0.5 * np.sum(1.0 / r2**6 - 1.0 / r2**3)


@program(lambda random, n: [random.normal(size=shape) for shape in ((n, 4), (4, 8), 8, (8, 2), 2)])
def two_layers(np: Any, x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    return np.mean((np.tanh(x @ w1 + b1) @ w2 + b2) ** 2)


@program(
    lambda random, n: [
        random.normal(size=(n, 4)),
        random.normal(size=(4, 3)),
        numpy.eye(3)[random.integers(0, 3, n)],
    ],
    wrt=(0, 1),
)
def softmax_cross_entropy(np: Any, x: Any, w: Any, labels: Any) -> Any:
    scores = x @ w
    scores = scores - np.max(scores, axis=1, keepdims=True)
    log_p = scores - np.log(np.sum(np.exp(scores), axis=1, keepdims=True))
    return -np.mean(np.sum(labels * log_p, axis=1))


@program(lambda random, n: [random.normal(size=shape) for shape in ((n, 5), 5, 5)])
def layer_normalization(np: Any, x: Any, scale: Any, shift: Any) -> Any:
    mean = np.mean(x, axis=1, keepdims=True)
    spread = np.mean((x - mean) ** 2, axis=1, keepdims=True)
    y = (x - mean) / np.sqrt(spread + 1e-5) * scale + shift
    return np.sum(y**3)


@program(lambda random, n: [random.normal(size=(n, 5)), random.normal(size=(5, 4))])
def einsum(np: Any, x: Any, w: Any) -> Any:
    return np.sum(np.einsum("ij,jk,ik->i", x, w, x @ w) ** 2)


@program(lambda random, n: [random.normal(size=n + 4)])
def sorted_differences(np: Any, x: Any) -> Any:
    y = np.sort(x)
    return np.sum((y[1:] - y[:-1]) ** 2) + np.median(x)


sorted_differences.left_out("autograd", "no derivative of median")


@program(lambda random, n: [random.uniform(0.0, 4.0, size=n), random.normal(size=5)])
def interpolation(np: Any, x: Any, values: Any) -> Any:
    return np.sum(np.interp(x, np.linspace(0.0, 4.0, 5), values) ** 2)


interpolation.left_out("autograd", "no derivative of interp")


@program(lambda random, n: [random.normal(size=4), random.normal(size=n)])
def polynomial(np: Any, coefficients: Any, x: Any) -> Any:
    return np.sum(np.polyval(coefficients, x) ** 2)


polynomial.left_out("autograd", "no derivative of polyval")


@program(lambda random, n: [random.uniform(0.5, 3.0, size=n), random.uniform(0.5, 3.0, size=n)])
def special_function(np: Any, a: Any, x: Any) -> Any:
    special = special_functions(np)
    return np.sum(special.gammaln(a) + special.erf(x) * special.digamma(a))


@program(lambda random, n: [random.normal(size=(n, 5)).astype("float32")], tolerance=1e-4)
def float32_swish(np: Any, x: Any) -> Any:
    return np.sum(x / (1.0 + np.exp(-x)))


@program(lambda random, n: [random.normal(size=n), random.normal(size=n)])
def complex_waves(np: Any, amplitude: Any, phase: Any) -> Any:
    z = amplitude * np.exp(1j * phase)
    return np.sum(np.abs(z + 0.5 * z**2) ** 2) + np.real(np.sum(z))


@program(lambda random, n: [random.normal(size=n + 2)])
def power_spectrum(np: Any, x: Any) -> Any:
    spectrum = np.fft.fft(x)
    weights = np.linspace(0.0, 1.0, x.shape[0])
    return np.sum(weights * np.abs(spectrum) ** 2)


@program(lambda random, n: [random.normal(size=(n, 3))])
def masked_mean(np: Any, x: Any) -> Any:
    return np.mean(x[x > 0.0] ** 2)


masked_mean.left_out("jax", "the number of true elements is a shape")


@program(
    lambda random, n: [random.normal(size=(7, 4)), random.normal(size=4)],
    numbers={"rows": [3, 1, 4, 1, 5, 0, 2, 6, 5, 3]},
)
def rows_by_index(np: Any, table: Any, w: Any, rows: Any) -> Any:
    return np.sum(np.tanh(table[numpy.array(rows)] @ w))


@program(lambda random, n: [random.uniform(80.0, 120.0, size=n), random.uniform(0.1, 0.5, size=n)])
def black_scholes(np: Any, price: Any, volatility: Any) -> Any:
    special = special_functions(np)
    strike, rate, time = 100.0, 0.02, 0.5
    spread = volatility * math.sqrt(time)
    d1 = (np.log(price / strike) + (rate + 0.5 * volatility**2) * time) / spread
    d2 = d1 - spread

    def normal(d: Any) -> Any:
        return 0.5 * (1.0 + special.erf(d / math.sqrt(2.0)))

    return np.sum(price * normal(d1) - strike * math.exp(-rate * time) * normal(d2))


@program(
    lambda random, n: [
        random.normal(size=4),
        random.normal(size=(n, 4)),
        random.integers(0, 2, size=n) * 2.0 - 1.0,
    ],
    wrt=(0,),
)
def logistic_regression(np: Any, w: Any, x: Any, labels: Any) -> Any:
    return np.mean(np.log1p(np.exp(-labels * (x @ w)))) + 0.01 * np.dot(w, w)


@program(lambda random, n: [random.normal(size=shape) for shape in ((n, 2), (3, 2), 3)])
def gaussian_mixture(np: Any, x: Any, means: Any, weights: Any) -> Any:
    squares = np.sum((x[:, None, :] - means[None, :, :]) ** 2, axis=2)
    scores = weights - 0.5 * squares
    top = np.max(scores, axis=1)
    return -np.sum(top + np.log(np.sum(np.exp(scores - top[:, None]), axis=1)))


@program(lambda random, n: [random.normal(size=(n, 4)) for _ in range(3)])
def attention(np: Any, queries: Any, keys: Any, values: Any) -> Any:
    scores = queries @ keys.T / math.sqrt(queries.shape[1])
    weights = np.exp(scores - np.max(scores, axis=1, keepdims=True))
    weights = weights / np.sum(weights, axis=1, keepdims=True)
    return np.sum((weights @ values) ** 2)


@program(lambda random, n: [random.normal(size=(n + 2, n + 2)), random.normal(size=(3, 3))])
def convolution_by_slices(np: Any, image: Any, kernel: Any) -> Any:
    rows, columns = image.shape[0] - 2, image.shape[1] - 2
    out = 0.0
    for i in range(3):
        for j in range(3):
            out = out + kernel[i, j] * image[i : i + rows, j : j + columns]
    return np.sum(np.tanh(out))


@program(lambda random, n: [random.normal(size=(n, 4))])
def huber_by_pieces(np: Any, x: Any) -> Any:
    size = np.abs(x)
    return np.sum(np.where(size < 1.0, 0.5 * x**2, size - 0.5)) + np.sum(np.maximum(x, 0.1))


@program(lambda random, n: [random.normal(size=(n, 4))])
def reshaped_and_joined(np: Any, x: Any) -> Any:
    halves = np.concatenate([x[:, :2], np.sin(x[:, 2:])], axis=1)
    flat = np.reshape(halves.T, (-1,))
    return np.sum(np.outer(flat, np.flipud(flat)) ** 2) + np.prod(x[0])


@program(
    lambda random, n: [random.normal(size=shape).astype("float32") for shape in ((n, 4), (4, 3))],
    tolerance=1e-4,
)
def float32_layer(np: Any, x: Any, w: Any) -> Any:
    return np.mean(np.maximum(x @ w, 0.0) ** 2)


@program(lambda random, n: [random.normal(size=(n, 3)), random.normal(size=(n, 3))])
def complex_products(np: Any, real: Any, imaginary: Any) -> Any:
    a = real + 1j * imaginary
    product = np.conj(a).T @ a
    return np.sum(np.abs(product) ** 2) + np.real(product[0, 1])
