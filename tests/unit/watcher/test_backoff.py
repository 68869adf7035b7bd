"""How soon the next connection follows."""

from __future__ import annotations

import pytest

from capacityd.watcher.backoff import Backoff


@pytest.fixture(autouse=True)
def _longest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without jitter, each pause is the longest one possible."""
    monkeypatch.setattr("capacityd.watcher.backoff.random.uniform", lambda _, longest: longest)


def test_after_a_connection_that_worked_the_next_one_follows_at_once() -> None:
    backoff = Backoff()
    assert [backoff.pause(35.0) for _ in range(3)] == [0.0, 0.0, 0.0]


def test_the_pauses_after_failures_grow() -> None:
    backoff = Backoff()
    assert [backoff.pause(0.0) for _ in range(9)] == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    assert [backoff.pause(35.0), backoff.pause(0.0)] == [0.0, 0.5]


def test_short_connections_are_no_fast_loop() -> None:
    backoff = Backoff()
    assert [backoff.pause(1.1) for _ in range(5)] == [0.0, 0.5, 1.0, 2.0, 4.0]


def test_retry_after_replaces_the_pause() -> None:
    backoff = Backoff()
    assert backoff.pause(0.0, retry_after=7.0) == 7.0
    assert backoff.pause(0.0, retry_after=0.1) == 1.0
    assert backoff.pause(35.0, retry_after=7.0) == 7.0


def test_half_of_a_pause_is_random(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capacityd.watcher.backoff.random.uniform", lambda shortest, _: shortest)
    backoff = Backoff()
    assert [backoff.pause(0.0), backoff.pause(0.0)] == [0.25, 0.5]
