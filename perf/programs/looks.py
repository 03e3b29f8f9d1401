"""Programs that look at values to decide how they go on."""

from typing import Any

from perf.programs import program


@program(lambda random, n: [random.uniform(0.5, 2.0, size=n)], looks=True)
def newton_until_it_converges(np: Any, a: Any) -> Any:
    x = a
    for _ in range(50):
        new = x - (x**3 + x - a) / (3.0 * x**2 + 1.0)
        if np.max(np.abs(new - x)) < 1e-10:
            break
        x = new
    return np.sum(new)


@program(lambda random, n: [random.uniform(0.5, 1.5, size=4)], looks=True)
def adaptive_steps(np: Any, p: Any) -> Any:
    def slope(y: Any) -> Any:
        return np.stack([p[0] * y[0] - p[1] * y[0] * y[1], p[2] * y[0] * y[1] - p[3] * y[1]])

    y, t, h = np.array([1.0, 0.5]), 0.0, 0.1
    while t < 1.0:
        h = min(h, 1.0 - t)
        k1 = slope(y)
        k2 = slope(y + h * k1)
        error = np.max(np.abs(0.5 * h * (k2 - k1)))
        if error < 1e-2:
            y, t = y + 0.5 * h * (k1 + k2), t + h
            h = 1.2 * h
        else:
            h = 0.5 * h
    return np.sum(y**2)


@program(lambda random, n: [random.normal(size=(n, n)), random.normal(size=n)], looks=True)
def fixed_point_until_it_converges(np: Any, w: Any, b: Any) -> Any:
    x = np.zeros(b.shape[0])
    while True:
        new = np.tanh(0.1 * (w @ x) + b)
        if np.max(np.abs(new - x)) < 1e-8:
            return np.sum(new**2)
        x = new


@program(lambda random, n: [random.normal(size=n)], looks=True)
def descent_with_a_line_search(np: Any, x: Any) -> Any:
    def height(x: Any) -> Any:
        return np.sum((x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    target = np.ones(x.shape[0])
    for _ in range(5):
        step = 1.0
        while height(x + step * (target - x)) > height(x) and step > 1e-3:
            step = 0.5 * step
        x = x + 0.5 * step * (target - x)
    return height(x)


@program(lambda random, n: [random.uniform(0.5, 1.0, size=3)], looks=True)
def ray_marching_with_a_break(np: Any, sphere: Any) -> Any:
    total = 0.0
    for angle in (0.0, 0.1, 0.2):
        direction = np.array([angle, 0.5 * angle, 1.0])
        point = np.array([0.5, 0.5, -3.0])
        for _ in range(40):
            distance = np.sqrt(np.sum((point - sphere) ** 2)) - 0.5
            if distance < 1e-4 or distance > 10.0:
                break
            point = point + distance * direction / 1.1
        total = total + point[2]
    return total


@program(lambda random, n: [random.normal(size=(n, n)), random.normal(size=n)], looks=True)
def conjugate_gradients(np: Any, w: Any, b: Any) -> Any:
    matrix = w @ w.T / b.shape[0] + np.eye(b.shape[0])
    x, r = np.zeros(b.shape[0]), b
    p, square = r, np.sum(r * r)
    for _ in range(2 * b.shape[0]):
        image = matrix @ p
        rate = square / np.sum(p * image)
        x, r = x + rate * p, r - rate * image
        new = np.sum(r * r)
        if np.sqrt(new) < 1e-10:
            break
        p, square = r + new / square * p, new
    return np.sum(x**2)


@program(lambda random, n: [random.uniform(0.5, 1.5, size=2)], looks=True)
def newton_of_two_scalars(np: Any, a: Any) -> Any:
    x, y = a[0], a[1]
    for _ in range(30):
        f, g = x**2 + y**2 - a[0] - 2.0, x * y - 0.1 * a[1]
        determinant = 2.0 * x**2 - 2.0 * y**2
        dx = (x * f - 2.0 * y * g) / determinant
        dy = (2.0 * x * g - y * f) / determinant
        x, y = x - dx, y - dy
        if np.abs(dx) + np.abs(dy) < 1e-10:
            break
    return x + 2.0 * y


@program(lambda random, n: [random.uniform(0.5, 1.5, size=4)], looks=True)
def adaptive_steps_in_a_list(np: Any, p: Any) -> Any:
    states, t, h = [np.array([1.0, 0.5])], 0.0, 0.05
    while t < 1.0:
        h = min(h, 1.0 - t)
        y = states[-1]
        change = h * np.stack([p[0] * y[0] - p[1] * y[0] * y[1], p[2] * y[0] * y[1] - p[3] * y[1]])
        if np.max(np.abs(change)) < 0.05:
            states.append(y + change)
            t, h = t + h, 1.1 * h
        else:
            h = 0.5 * h
    return np.sum(np.stack(states) ** 2)
