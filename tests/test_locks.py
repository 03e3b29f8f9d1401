"""Locks that forked children find open, and that interrupts do not leave locked."""

import multiprocessing
import os
import sys
import threading

import pytest

from numba_grad.locks import new_lock
from tests.threads import run_in_threads

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


def in_a_child(target):
    child = multiprocessing.get_context("fork").Process(target=target)
    child.start()
    child.join(30)
    assert child.exitcode == 0


def test_a_child_may_take_what_another_thread_held():
    lock = new_lock()
    held, done = threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            done.wait(60)

    def take():
        with lock:
            pass

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    try:
        in_a_child(take)
    finally:
        done.set()
        thread.join()


def test_a_child_of_the_thread_that_holds_it_leaves_it_in_peace():
    lock = new_lock()

    def take_again():
        with lock:
            pass

    with lock, lock:
        in_a_child(take_again)


def test_threads_exclude_each_other():
    lock, total = new_lock(), [0]

    def count(_):
        for _ in range(2000):
            with lock:
                seen = total[0]
                total[0] = seen + 1

    run_in_threads(count, range(4))
    assert total[0] == 8000


def test_no_python_runs_in_which_an_interrupt_could_leave_it_locked():
    lock = new_lock()
    frames = []

    def note(frame, event, argument):
        if event == "call":
            frames.append(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        with lock:
            pass
    finally:
        sys.setprofile(before)
    assert frames == []
