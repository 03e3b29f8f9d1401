"""Reading digits
=================
Train a 784-256-10 network, with a plain gradient loop and `.backward()`.

The digits are synthetic, of the shape of MNIST's: seven segments, shifted, under noise.
"""

import numpy as np

import numba_grad as ng

# Rows and columns of the segments, top, upper right, ..., upper left, middle; and which are lit.
SEGMENTS = [(5, 7, 9, 19), (5, 14, 17, 19), (14, 23, 17, 19), (21, 23, 9, 19)]
SEGMENTS += [(14, 23, 9, 11), (5, 14, 9, 11), (13, 15, 9, 19)]
LIT = ["012345", "12", "01346", "01236", "1256", "02356", "023456", "012", "0123456", "012356"]


def synthetic_digits(count, generator):
    """Images (count, 784) between 0 and about 1, and labels (count,)."""
    clean = np.zeros((10, 28, 28), np.float32)
    for digit, lit in enumerate(LIT):
        for top, bottom, left, right in (SEGMENTS[int(s)] for s in lit):
            clean[digit, top:bottom, left:right] = 1
    labels = generator.integers(0, 10, count)
    shifts = generator.integers(-3, 4, (count, 2))
    shifted = [np.roll(clean[k], s, axis=(0, 1)) for k, s in zip(labels, shifts, strict=True)]
    noise = 0.3 * generator.standard_normal((count, 784), dtype=np.float32)
    return np.stack(shifted).reshape(count, 784) + noise, labels


def initial_parameters(generator):
    """Weights and biases that require grad, scaled as by He et al. (2015)."""
    parameters = []
    for inputs, outputs in [(784, 256), (256, 10)]:
        weights = generator.standard_normal((inputs, outputs)) * np.sqrt(2 / inputs)
        parameters += [weights.astype(np.float32), np.zeros(outputs, np.float32)]
    return [ng.tensor(p, requires_grad=True) for p in parameters]


def logits(images, w1, b1, w2, b2):
    return ng.relu(images @ w1 + b1) @ w2 + b2


def cross_entropy(scores, labels):
    return -np.mean(ng.log_softmax(scores, axis=1)[np.arange(len(labels)), labels])


def train(images, labels, parameters, epochs, batch=100, rate=0.5):
    for epoch in range(epochs):
        for first in range(0, len(images), batch):
            some = slice(first, first + batch)
            loss = cross_entropy(logits(images[some], *parameters), labels[some])
            loss.backward()
            with ng.no_grad():
                for p in parameters:
                    p -= rate * p.grad
                    p.grad = None
        print(f"epoch {epoch + 1}: loss of the last batch {loss.item():.4f}")


def accuracy(images, labels, parameters):
    with ng.no_grad():
        return np.mean(np.argmax(logits(images, *parameters), axis=1) == labels).item()


def plot(parameters, path):
    """New digits, above each what the network reads."""
    from matplotlib.figure import Figure

    images, _ = synthetic_digits(20, np.random.default_rng(2))
    with ng.no_grad():
        read = np.argmax(logits(images, *parameters), axis=1).numpy()
    figure = Figure(figsize=(7, 2))
    for axes, image, digit in zip(figure.subplots(2, 10).flat, images, read, strict=True):
        axes.imshow(image.reshape(28, 28), cmap="gray_r")
        axes.set_title(digit, fontsize=8)
        axes.set_axis_off()
    figure.savefig(path, dpi=120)
    print(f"digits and what they are read as: {path}")


def main(epochs=5):
    """The parameters, and how many of new digits are read right."""
    generator = np.random.default_rng(1)
    images, labels = synthetic_digits(4000, generator)
    parameters = initial_parameters(generator)
    train(images, labels, parameters, epochs)
    result = accuracy(*synthetic_digits(1000, generator), parameters)
    print(f"accuracy on digits not seen before: {result:.1%}")
    return parameters, result


if __name__ == "__main__":
    parameters, _ = main()
    try:
        plot(parameters, "digits.png")
    except ImportError:
        print("no plot, which needs matplotlib: pip install matplotlib")
