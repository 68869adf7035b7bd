"""The time limit of an action. tests/unit/cli/test_exit.py has requests whose response arrives byte by byte."""

from __future__ import annotations

import threading

import pytest

from capacityd.node.deadline import DeadlineExceeded, run_within


def test_an_action_in_time_has_its_outcome_and_a_late_one_is_an_error() -> None:
    def fail() -> None:
        raise TimeoutError("its own")

    assert run_within(10.0, lambda: 3) == 3
    with pytest.raises(TimeoutError, match="its own"):
        run_within(10.0, fail)
    with pytest.raises(DeadlineExceeded, match=r"within 0\.1 s"):
        run_within(0.1, threading.Event().wait)
