"""Syntax trees of texts that several threads parse at once."""

import ast
import gc
import threading
import time

import pytest

from numba_grad.syntax_trees import syntax_tree

TEXT = "x = " + " + ".join(f"f({i}, [a, b])" for i in range(300))


@pytest.fixture
def threads_change_over_in_collections():
    def let_others_run(phase, info):
        time.sleep(0)

    thresholds = gc.get_threshold()
    gc.callbacks.append(let_others_run)
    gc.set_threshold(20)
    yield
    gc.set_threshold(*thresholds)
    gc.callbacks.remove(let_others_run)


@pytest.mark.usefixtures("threads_change_over_in_collections")
def test_threads_at_other_depths_parse_at_once():
    expected = ast.dump(ast.parse(TEXT))
    different = []

    def work(depth):
        if depth:
            return work(depth - 1)
        for _ in range(15):
            tree = syntax_tree(TEXT)
            if ast.dump(tree) != expected:
                different.append(tree)
        finished.append(True)

    finished = []
    threads = [threading.Thread(target=work, args=(5 * number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(finished) == len(threads)
    assert not different


def test_errors_of_the_text_are_raised():
    with pytest.raises(SyntaxError):
        syntax_tree("x = (")
    with pytest.raises(SyntaxError):
        syntax_tree("x = 1", mode="eval")


def test_other_system_errors_are_raised(monkeypatch):
    def broken(text, mode):
        raise SystemError("something else")

    monkeypatch.setattr(ast, "parse", broken)
    with pytest.raises(SystemError, match="something else"):
        syntax_tree("x")
