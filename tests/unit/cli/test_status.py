"""What `status` makes of the last pass."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest

from capacityd import __version__
from capacityd.cli import run
from capacityd.cli.commands.status import _resources
from capacityd.model.codec import from_file, to_file
from capacityd.model.messages import ServiceStatus
from capacityd.model.plan import Action, Change, Health
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.model.reasons import Activity
from capacityd.model.waits import Wait, WaitReason
from capacityd.reconcile.memory import Memory
from capacityd.worker.pass_state import OtherWriter, PassState, PassStatus
from capacityd.worker.runtime_files import write_state
from tests.support.terminals import CASES, HEALTHY_NODE, world

NAME = "example.com/dongle"


HELD = Wait(9.0, WaitReason.LOWER_AFTER, NAME)
ABSENT = Absent("none")


@pytest.mark.parametrize(
    ("reading", "below", "expect", "action", "reported"),
    [
        (Quantity(2), {NAME: (2, 3)}, 3, Action.KEEP, True),
        (Quantity(2), {NAME: (2, 3)}, 2, Action.KEEP, False),
        (Quantity(2), {}, 3, Action.KEEP, True),
        (Quantity(2), {}, 3, None, True),
        (Quantity(2), {}, 2, None, False),
        (Quantity(2), {}, None, Action.KEEP, False),
        (Quantity(2), {}, 3, Action.HOLD, False),
        (Quantity(2), {NAME: (2, 3)}, 3, Action.HOLD, True),
        (Quantity(2), {}, 3, Action.REFUSE, False),
        (ABSENT, {NAME: (0, 3)}, 1, Action.KEEP, True),
        (ABSENT, {}, 1, None, True),
        (replace(ABSENT, applies=False), {}, 1, Action.KEEP, False),
        (Unknown("no"), {}, 3, Action.KEEP, False),
    ],
)
def test_expect_is_that_of_the_last_reload_though_the_node_was_not_read_since(
    reading: Reading, below: dict[str, tuple[int, int]], expect: int | None, action: Action | None, reported: bool
) -> None:
    """There may be no kubeconfig yet (action: None), or the API server may be unreachable."""
    last_pass = PassStatus(
        at=1.0,
        readings={NAME: reading},
        expect={} if expect is None else {NAME: expect},
        waits=(HELD,) if action is Action.HOLD else (),
        changes=(Change(NAME, action, "3", "2", ""),) if action else (),
        health=Health(below_expected=below),
        read_at=0.0,
    )
    (row,) = _resources(last_pass, HEALTHY_NODE if action else None)
    unknown = isinstance(reading, Unknown)
    assert (row.below_expect, row.degraded) == (reported, reported or unknown or action == Action.REFUSE)


@pytest.mark.parametrize(
    ("activity", "seconds", "code", "expected"),
    [
        (Activity.NODE, 45, 0, "the reconcile pass has been running for 45 s: it waits for the API server"),
        (Activity.PROBE, 45, 0, "the reconcile pass has been running for 45 s: it waits for a detector"),
        (Activity.NODE, 150, 4, "! the reconcile pass has been running for"),
        (Activity.CHECK, 150, 4, "! the check of the configuration has been running for"),
    ],
)
def test_a_pass_that_takes_long(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    activity: Activity,
    seconds: float,
    code: int,
    expected: str,
) -> None:
    with world(CASES["status-healthy"]) as folder:
        monkeypatch.setenv("RUNTIME_DIRECTORY", str(folder / "run"))
        path = folder / "run" / "service.json"
        status = from_file(ServiceStatus, path.read_bytes(), __version__)
        slow = replace(status, slow_activity=activity, slow_since=time.time() - seconds)
        path.write_bytes(to_file(slow, __version__))
        assert run(["status"]) == code
    assert expected in capsys.readouterr().out


def status_of(
    monkeypatch: pytest.MonkeyPatch,
    state: PassState,
    service: ServiceStatus | None = None,
    *options: str,
) -> int:
    """Runs `status` with what a pass and this service have left; returns the exit status."""
    with world(CASES["status-healthy"]) as folder:
        monkeypatch.setenv("RUNTIME_DIRECTORY", str(folder / "run"))
        write_state(str(folder / "run"), state)
        if service is not None:
            (folder / "run/service.json").write_bytes(to_file(service, __version__))
        return run(["status", *options])


KEPT = Change(NAME, Action.KEEP, "4", "4", "as published")
LAST_PASS = PassStatus(at=1.0, readings={NAME: Quantity(4)}, changes=(KEPT,), read_at=1.0)
LAST_SEEN = replace(HEALTHY_NODE, capacity={NAME: "4"}, allocatable={NAME: "4"}, annotation=json.dumps({NAME: 4}))
PUBLISHED = PassState(Memory(LAST_SEEN), LAST_PASS)


def with_status(**changes: Any) -> PassState:
    return replace(PUBLISHED, status=replace(LAST_PASS, **changes))


@pytest.mark.parametrize(
    ("now", "overwritten", "expected"),
    [
        ("4", "0", "published as 4, allocatable was 0 and has been restored"),
        ("4", "none", "published as 4, allocatable was none and has been restored"),
        ("1", "1", "published as 4, allocatable is 1"),
        (None, "none", "published as 4, allocatable is unset"),
    ],
)
def test_what_is_not_allocatable_does_not_contradict_itself(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    now: str | None,
    overwritten: str,
    expected: str,
) -> None:
    """The condition is about what was found; by then a repair may have written allocatable."""
    allocatable = {} if now is None else {NAME: now}
    state = with_status(health=Health(not_allocatable={NAME: ("4", overwritten)}))
    last_seen = replace(LAST_SEEN, allocatable=allocatable)
    assert status_of(monkeypatch, replace(state, memory=Memory(last_seen))) == 4
    assert f"! {NAME}: {expected}\n" in capsys.readouterr().out


def test_a_condition_that_is_not_stored(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(monkeypatch, PUBLISHED) == 0
    assert "healthy" in capsys.readouterr().out
    assert status_of(monkeypatch, with_status(condition_not_stored=True)) == 4
    text = capsys.readouterr().out
    assert "degraded" in text
    assert "! the condition CapacityPublished on the Node is not the one that capacityd wrote\n  → look for " in text


def test_resources_of_other_writers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Those that are configured have a row of their own, which says whose they are."""
    others = {
        "example.com/theirs": OtherWriter.UNKNOWN,
        NAME: OtherWriter.UNKNOWN,
        "nvidia.com/gpu": OtherWriter.DEVICE_PLUGIN,
    }
    state = with_status(others=others)
    assert status_of(monkeypatch, state) == 0
    text = capsys.readouterr().out
    assert "not capacityd's: example.com/theirs (another writer's), nvidia.com/gpu (a device plugin's)\n" in text
    assert status_of(monkeypatch, state, None, "--json") == 0
    assert json.loads(capsys.readouterr().out)["other_resources"] == {k: v.value for k, v in others.items()}


@pytest.mark.parametrize("running", [False, True])
def test_while_a_pass_runs_the_errors_are_those_from_before_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], running: bool
) -> None:
    service = ServiceStatus(1, time.time() + 90, 1e12, error="connection refused", pass_running=running)
    assert status_of(monkeypatch, PUBLISHED, service) == 4
    text = capsys.readouterr().out
    assert ("a pass runs now" in text) is running
    assert ("next pass in" in text) is not running
    before = "errors from before the running pass:\n" * running
    attempt = "the next attempt runs now" if running else "next attempt in "
    assert f"\n\n{before}! connection refused\n  → {attempt}" in text
