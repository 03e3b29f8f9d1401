"""Whole programs that carry state from pass to pass: parameters changed in place, gradients of
gradients, hooks that differentiate, functions that step back in time."""

import numpy as np

from tests.autograd.torch_contract.scenarios import scenario


def _parameters(lib, seed, *shapes):
    random = np.random.default_rng(seed)
    return [lib.tensor(0.5 * random.normal(size=shape), requires_grad=True) for shape in shapes]


def _logistic(lib, x):
    return 1 / (1 + lib.exp(-x))


@scenario
def momentum_in_place_with_clipped_gradients(lib):
    random = np.random.default_rng(0)
    weights = _parameters(lib, 1, (5, 8), (8, 2))
    velocities = [lib.tensor(np.zeros(w.shape)) for w in weights]
    losses = []
    for number in range(12):
        x, y = lib.tensor(random.normal(size=(16, 5))), lib.tensor(random.normal(size=(16, 2)))
        loss = ((_logistic(lib, x @ weights[0]) @ weights[1] - y) ** 2).mean() / 3
        loss.backward()
        if number % 3 < 2:  # gradients of three batches add up
            continue
        norm = lib.sqrt(sum((w.grad**2).sum() for w in weights))
        with lib.no_grad():
            for w, velocity in zip(weights, velocities, strict=True):
                w.grad *= min(1.0, 0.1 / norm.item())
                velocity *= 0.9
                velocity += w.grad
                w -= velocity
                w.grad *= 0
        losses.append(lib.array(loss))
    return losses, weights, [w.grad for w in weights]


@scenario
def two_players_in_turn(lib):
    random = np.random.default_rng(2)
    generator, judge = _parameters(lib, 3, (3, 4), (4,))
    losses = []
    for _ in range(5):
        made = lib.tensor(random.normal(size=(8, 3))) @ generator
        seen = lib.tensor(random.normal(size=(8, 4)) + 1)
        loss = (_logistic(lib, made.detach() @ judge) - _logistic(lib, seen @ judge)).mean()
        loss.backward()
        with lib.no_grad():
            judge -= judge.grad
        judge.grad = None
        judge.requires_grad_(False)
        loss = -_logistic(lib, made @ judge).mean()  # of what was recorded before the change
        loss.backward()
        judge.requires_grad_(True)
        with lib.no_grad():
            generator -= generator.grad
        generator.grad = None
        losses += [lib.array(loss), judge.grad]
    return losses, generator, judge


@scenario
def penalty_of_a_gradient(lib):
    random = np.random.default_rng(4)
    inner, outer = _parameters(lib, 5, (4, 6), (6,))
    results = []
    for _ in range(3):
        x = lib.tensor(random.normal(size=(7, 4)), requires_grad=True)
        score = _logistic(lib, x @ inner) @ outer
        (slope,) = lib.autograd.grad(score.sum(), [x], create_graph=True)
        ((lib.sqrt((slope**2).sum(1)) - 1) ** 2).mean().backward()
        with lib.no_grad():
            inner -= inner.grad
            outer -= outer.grad
        results += [inner.grad, outer.grad, x.grad]
        inner.grad = outer.grad = None
    return results, inner, outer


@scenario
def steps_of_descent_are_differentiated(lib):
    """MAML: https://arxiv.org/abs/1703.03400"""
    random = np.random.default_rng(6)
    start = _parameters(lib, 7, (2, 5), (5,))
    total = 0
    for _ in range(3):
        x, y = lib.tensor(random.normal(size=(9, 2))), lib.tensor(random.normal(size=9))
        fast = start
        for _ in range(3):
            loss = ((_logistic(lib, x @ fast[0]) @ fast[1] - y) ** 2).mean()
            slopes = lib.autograd.grad(loss, fast, create_graph=True)
            fast = [w - 0.1 * slope for w, slope in zip(fast, slopes, strict=True)]
        total = total + ((_logistic(lib, x @ fast[0]) @ fast[1] - y) ** 2).mean()
    return total, lib.autograd.grad(total, start)


@scenario
def a_hook_solves_for_the_cotangent_of_a_fixed_point(lib):
    """Deep equilibrium models: https://arxiv.org/abs/1909.01377"""
    matrix, source = _parameters(lib, 8, (4, 4), (4,))
    with lib.no_grad():
        state = source * 0
        for _ in range(40):
            state = _logistic(lib, 0.5 * matrix @ state + source)
    state = _logistic(lib, 0.5 * matrix @ state + source)
    start = state.detach().clone().requires_grad_()
    again = _logistic(lib, 0.5 * matrix.detach() @ start + source.detach())

    def solve(g):
        found = g
        for _ in range(40):
            found = lib.autograd.grad(again, start, found, retain_graph=True)[0] + g
        return found

    state.register_hook(solve)
    (state**2).sum().backward()
    return state, matrix.grad, source.grad


@scenario
def a_hook_is_the_optimizer(lib):
    parameters = _parameters(lib, 9, (4,), (4,), (4,))

    def step(p):
        with lib.no_grad():
            p -= 0.1 * p.grad
        p.grad = None

    for p in parameters:
        p.register_post_accumulate_grad_hook(step)
    losses = []
    for _ in range(5):
        a, b, c = parameters
        loss = ((a * b - c) ** 2).sum() + (a**2).sum()
        loss.backward()
        losses.append(lib.array(loss))
    return losses, parameters, [p.grad for p in parameters]


@scenario
def a_function_steps_back_in_time(lib):
    """Neural ODEs: https://arxiv.org/abs/1806.07366"""

    class Flow(lib.Function):
        @staticmethod
        def forward(ctx, state, matrix):
            for _ in range(8):
                state = state + 0.1 * _logistic(lib, state @ matrix)
            ctx.save_for_backward(state, matrix)
            return state

        @staticmethod
        def backward(ctx, g):
            state, matrix = ctx.saved_tensors
            total = 0 * matrix
            for _ in range(8):
                with lib.enable_grad():
                    x, m = (t.detach().requires_grad_() for t in (state, matrix))
                    speed = _logistic(lib, x @ m)
                    by_state, by_matrix = lib.autograd.grad(speed, [x, m], g)
                state = state - 0.1 * speed.detach()
                g, total = g + 0.1 * by_state, total + 0.1 * by_matrix
            return g, total

    state, matrix = _parameters(lib, 10, (2, 3), (3, 3))
    (Flow.apply(state, matrix) ** 2).sum().backward()
    return state.grad, matrix.grad


@scenario
def a_recurrence_is_cut_and_goes_on(lib):
    random = np.random.default_rng(11)
    inner, outer = _parameters(lib, 12, (3, 3), (3,))
    state, loss, results = lib.tensor(np.zeros(3)), 0, []
    for number in range(1, 13):
        state = _logistic(lib, state @ inner + lib.tensor(random.normal(size=3)))
        loss = loss + (state @ outer - 0.3) ** 2
        if number % 4:
            continue
        loss.backward()
        state, results, loss = state.detach(), [*results, inner.grad, outer.grad], 0
        with lib.no_grad():
            inner -= 0.1 * inner.grad
            outer -= 0.1 * outer.grad
        inner.grad = outer.grad = None
    return results, inner, outer


@scenario
def a_quasi_newton_method_with_its_line_search(lib):
    x = lib.tensor([-1.2, 1.0, -0.5, 2.0], requires_grad=True)

    def loss_and_slope():
        x.grad = None
        loss = (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()
        loss.backward()
        return loss.item(), x.grad.clone()

    loss, slope = loss_and_slope()
    inverse, losses = lib.tensor(np.eye(4)), []
    for _ in range(10):
        before, direction, size = x.detach().clone(), -(inverse @ slope), 1.0
        for _ in range(30):
            with lib.no_grad():
                x[:] = before + size * direction
            tried, slope_there = loss_and_slope()
            if tried <= loss + 1e-4 * size * (slope @ direction).item():
                break
            size /= 2
        moved, bent = x.detach() - before, slope_there - slope
        loss, slope, curvature = tried, slope_there, moved @ bent
        if curvature.item() > 1e-10:
            across = lib.tensor(np.eye(4)) - moved[:, None] * bent / curvature
            inverse = across @ inverse @ across.T + moved[:, None] * moved / curvature
        losses.append(lib.tensor(loss))
    return losses, x
