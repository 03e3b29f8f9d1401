"""Several threads run backward passes at once."""

import numpy as np

import numba_grad as ng
from tests.threads import run_in_threads


def test_shared_leaves_get_every_contribution():
    x = ng.tensor([1.0, 2.0], requires_grad=True)

    def work(number):
        for _ in range(50):
            (x * float(number + 1)).sum().backward()

    run_in_threads(work, range(4))
    np.testing.assert_array_equal(x.grad, [500.0, 500.0])


def test_hooks_of_shared_leaves_run_once_per_pass():
    x = ng.tensor([1.0, 2.0], requires_grad=True)
    calls = []
    x.register_hook(lambda g: calls.append(1))
    run_in_threads(lambda number: [(x * x).sum().backward() for _ in range(20)], range(4))
    assert len(calls) == 80


def test_one_retained_graph_in_several_threads():
    x = ng.tensor([1.0, 2.0], requires_grad=True)
    loss = np.exp(x * x).sum()
    expected = ng.autograd.grad(loss, x, retain_graph=True)[0].numpy()
    found = {}

    def work(number):
        found[number] = [ng.autograd.grad(loss, x, retain_graph=True)[0].numpy() for _ in range(20)]

    run_in_threads(work, range(4))
    for gradients in found.values():
        for g in gradients:
            np.testing.assert_array_equal(g, expected)


def test_new_threads_record():
    x = ng.tensor([1.0, 2.0], requires_grad=True)
    seen = []
    with ng.no_grad():
        run_in_threads(lambda number: seen.append((x * 2).requires_grad), range(1))
    assert seen == [True]


def test_anomaly_detection_of_one_thread_leaves_results_of_others_right():
    x = ng.tensor([1.0, 2.0], requires_grad=True)

    def work(number):
        for _ in range(10):
            if number == 0:
                with ng.autograd.detect_anomaly():
                    (x * x).sum().backward()
            else:
                (x * x).sum().backward()

    run_in_threads(work, range(3))
    np.testing.assert_array_equal(x.grad, 30 * np.array([2.0, 4.0]))
