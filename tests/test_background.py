"""A thread beside a block: awaited, and its error told."""

import threading

import pytest

from muntin.background import in_background


def test_the_block_and_the_work_run_at_once_and_the_end_waits():
    in_block, in_work, done = threading.Event(), threading.Event(), []

    def work():
        in_work.set()
        assert in_block.wait(60)
        done.append(threading.current_thread())

    with in_background(work):
        assert in_work.wait(60)
        in_block.set()
    assert done
    assert done[0] is not threading.current_thread()
    assert not done[0].is_alive()


def test_the_error_of_the_work_is_raised_at_the_end():
    reached = []
    with pytest.raises(ZeroDivisionError), in_background(lambda: 1 // 0):
        reached.append(True)
    assert reached


def test_the_error_of_the_block_wins_and_the_work_is_awaited():
    done = []

    def work():
        done.append(True)
        raise ZeroDivisionError

    with pytest.raises(KeyError), in_background(work):
        raise KeyError
    assert done
