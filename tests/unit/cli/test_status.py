"""What `status` prints about the last pass and the service."""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from capacityd.cli.output.resource_rows import resource_rows
from capacityd.cli.output.status_report import StatusReport
from capacityd.config import load
from capacityd.config.saved import stamps_of
from capacityd.linux.unit import UnitState
from capacityd.model.errors import Cause
from capacityd.model.messages import ConfigFiles, ServiceStatus
from capacityd.model.plan import Action, Change, Health, MachineRecord
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.model.reasons import Activity
from capacityd.model.waits import Wait, WaitReason
from capacityd.worker.pass_state import OtherWriter, PassStatus
from tests.support.terminals import DEGRADED, HEALTHY, HEALTHY_NODE, NOW, RUNNING, UPTIME, ServiceFiles, shown

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
        (Quantity(2), {}, None, Action.KEEP, False),
        (Quantity(2), {}, 3, Action.HOLD, False),
        (Quantity(2), {NAME: (2, 3)}, 3, Action.HOLD, True),
        (Quantity(2), {}, 3, Action.REFUSE, False),
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
    (row,) = resource_rows(last_pass, HEALTHY_NODE if action else None, now=NOW, uptime=UPTIME)
    unknown = isinstance(reading, Unknown)
    assert (row.below_expect, row.degraded) == (reported, reported or unknown or action == Action.REFUSE)


def passed(**changes: Any) -> ServiceFiles:
    return ServiceFiles(replace(HEALTHY, **changes))


def running(**changes: Any) -> ServiceFiles:
    return ServiceFiles(service=replace(RUNNING, **changes))


def overwritten(value: str, allocatable: str | None) -> ServiceFiles:
    """A pass found that another writer had set allocatable to value. allocatable: its value now; None: unset."""
    now = {**(HEALTHY_NODE.allocatable or {}), NAME: allocatable}
    node = replace(HEALTHY_NODE, allocatable={name: text for name, text in now.items() if text is not None})
    return replace(passed(health=Health(not_allocatable={NAME: ("4", value)})), last_seen=node)


KEPT = "kept: a configuration file can't be read, and may configure it"
UNCONFIGURED = Change(NAME, Action.KEEP, "4", "4", "kept, because no resource is configured at all")
RISEN = Change(NAME, Action.SET, "4", "5", "the reading changed")
LOWERED = replace(HEALTHY_NODE, capacity={NAME: "3"}, allocatable={NAME: "3"})


@pytest.mark.parametrize(
    ("files", "status", "expected"),
    [
        (ServiceFiles(None, None), 1, "capacityd is not running; the Node keeps nothing that it has published\n"),
        (
            ServiceFiles(None, None, record=MachineRecord({NAME: 4})),
            1,
            "capacityd is not running\n\n! the Node keeps its capacity, but nothing updates it\n  → start it: ",
        ),
        (
            ServiceFiles(None, None, unit=UnitState(True, True, 1)),
            1,
            "that it has published\n\n! the service has published nothing\n  → it fails to start (exit status 1): ",
        ),
        (ServiceFiles(HEALTHY, None), 1, "capacityd is not running; this is its last known state\nlast pass 12 s ago"),
        (ServiceFiles(None), 0, "capacityd is running (PID 812), no reconcile pass completed yet\n"),
        (
            ServiceFiles(unit=UnitState(False, False, 0, active=True)),
            0,
            "disabled: it will not start at the next boot; to change that: `systemctl enable capacityd`\n\nRES",
        ),
        (
            ServiceFiles(),
            0,
            "(PID 812), healthy; Node n1\nlast pass 12 s ago (hardware), Node read 2 h ago, written 2 ",
        ),
        (passed(observe=True, changes=(RISEN,)), 0, "4            would be 5: the reading changed\n"),
        (replace(ServiceFiles(), last_seen=LOWERED), 0, "3         3            published as 4\n"),
        (running(overdue_at_uptime=0.0), 4, "! the next reconcile pass is overdue; the service may be stuck\n"),
        (running(error="refused"), 4, "\n\n! refused\n  → next attempt in 55 min or after an event\n"),
        (
            running(error="refused", pass_running=True),
            4,
            "\n\nerrors from before the running pass:\n! refused\n  → the next attempt runs now\n",
        ),
        (running(slow_activity=Activity.NODE, slow_since=NOW - 45), 0, "been running for 45 s: it waits for the API s"),
        (running(slow_activity=Activity.PROBE, slow_since=NOW - 150), 4, "\n! the reconcile pass has been running for"),
        (overwritten("0", "4"), 4, f"! {NAME}: published as 4, allocatable was 0 and has been restored\n"),
        (overwritten("none", "4"), 4, f"! {NAME}: published as 4, allocatable was none and has been restored\n"),
        (overwritten("1", "1"), 4, f"! {NAME}: published as 4, allocatable is 1\n"),
        (overwritten("none", None), 4, f"! {NAME}: published as 4, allocatable is unset\n"),
        (
            passed(condition_not_stored=True),
            4,
            "! the condition CapacityPublished on the Node is not the one that capacityd wrote\n  → look for ",
        ),
        (
            passed(changes=(Change(NAME, Action.KEEP, "4", "4", KEPT),), readings={}),
            0,
            f"{NAME}  -        4         4 ",
        ),
        (
            passed(changes=(UNCONFIGURED,), readings={}, health=Health(not_configured=(NAME,))),
            4,
            f"! no resource is configured, but the Node keeps {NAME}\n"
            "  → configure resources and run `systemctl reload capacityd`, or remove what is kept: `systemctl stop "
            "capacityd`, then `capacityd withdraw`\n",
        ),
    ],
)
def test_each_state_of_the_service_has_its_text_and_exit_status(
    files: ServiceFiles, status: int, expected: str
) -> None:
    """The output is consistent: the condition shows what the pass found, and by now the pass may have repaired it."""
    found, text = shown("status", files)
    assert (found, expected in text) == (status, True), text
    assert ("degraded" in text) is (status == 4)
    assert text.count("has been running for") <= 1  # an error, or a line at the top
    assert ("a pass runs now" in text) is (files.service is not None and files.service.pass_running)


def test_nothing_happens_before_the_next_pass() -> None:
    """After an error, the next pass may come later than a pass would have. Without a service, none comes."""
    waits = (HELD, Wait(UPTIME + 20, WaitReason.EXPIRY, "example.com/nic-mbps"))
    held = replace(HEALTHY, waits=waits, changes=(Change(NAME, Action.HOLD, "4", "3", ""),))
    failing = replace(RUNNING, error="refused", next_reconcile=NOW + 40)
    text = shown("status", ServiceFiles(held, failing))[1]
    assert "held back for 40 s more" in text
    assert "example.com/nic-mbps: read again in 40 s" in text
    text = shown("status", ServiceFiles(held, None, record=MachineRecord({NAME: 4})))[1]
    assert "held back" not in text
    assert "read again" not in text


def test_after_a_withdrawal_no_advice_publishes_again() -> None:
    """The last pass's state says what the Node had before."""
    status, text = shown("status", ServiceFiles(HEALTHY, None, record=MachineRecord({}, node_uid="u")))
    assert (status, text) == (1, "capacityd is not running; the Node keeps nothing that it has published\n")
    observing = ServiceFiles(replace(HEALTHY, observe=True), None, last_seen=replace(HEALTHY_NODE, annotation=None))
    status, text = shown("status", observing)
    assert status == 1
    assert "that it has published; this is its last known state\n" in text
    assert "systemctl" not in text


def test_a_running_or_starting_unit_is_not_called_disabled() -> None:
    for unit in (UnitState(True, False, 0, active=True), UnitState(False, False, 0), None):
        assert "next boot" not in shown("status", ServiceFiles(unit=unit))[1]
    assert "next boot" not in shown("status", ServiceFiles(service=None, unit=UnitState(False, False, 0)))[1]


def test_files_that_have_changed_since_the_last_reload_are_named(tmp_path: Path) -> None:
    config, other = tmp_path / "60-x.toml", tmp_path / "70-y.toml"
    config.write_text('[service]\nresync = "1h"\n')
    digest = load(str(tmp_path)).config.digest
    files = ServiceFiles(
        replace(HEALTHY, configuration=digest),
        replace(RUNNING, configuration_files=ConfigFiles(str(tmp_path), stamps_of(str(tmp_path)))),
    )
    line = "changed since the last reload: {}; to use it: `systemctl reload capacityd`\n"

    assert "last reload" not in shown("status", files)[1]
    os.utime(config, (1, 1))
    config.write_text('# the same\n[service]\nresync = "1h"\n')
    assert "last reload" not in shown("status", files)[1]
    other.write_text("[kubernetes]\nobserve = true\n")
    status, text = shown("status", files)
    assert (status, line.format(f"{config}, {other}") in text) == (0, True), text
    other.unlink()
    config.write_text("= ")
    assert line.format(config) in shown("status", files)[1]
    assert json.loads(shown("status --json", files)[1])["changed_files"] == [str(config)]


@pytest.mark.parametrize("service", [RUNNING, None])
def test_the_error_of_the_last_pass_is_reported_until_the_service_has_one(service: ServiceStatus | None) -> None:
    files = ServiceFiles(replace(HEALTHY, error="refused"), service)
    assert json.loads(shown("status --json", files)[1])["error"] == "refused"


def test_errors_of_the_configuration_that_is_in_use_are_listed_once() -> None:
    """The errors of a resource, and of a file that can't be parsed and may configure another resource."""
    error = '[resources."example.com/gpu".pci] vndor: unknown key'
    changes = (Change("example.com/gpu", Action.KEEP, None, None, ""), Change(NAME, Action.KEEP, "4", "4", KEPT))
    last_pass = replace(HEALTHY, readings={"example.com/gpu": Unknown(error, Cause.CONFIGURATION)}, changes=changes)
    service = replace(RUNNING, configuration_errors=(f"c.toml:2: {error}", "d.toml:5: is not valid TOML"))
    status, text = shown("status", ServiceFiles(last_pass, service))
    assert (status, text.count("vndor"), KEPT in text) == (4, 1, True)
    assert text.endswith("! d.toml:5: is not valid TOML\n  → fix it, then run `systemctl reload capacityd`\n")


def test_what_nothing_configures_is_listed_as_unconfigured() -> None:
    files = passed(changes=(UNCONFIGURED,), readings={}, health=Health(not_configured=(NAME,)))
    (row,) = json.loads(shown("status --json", files)[1])["resources"]
    assert (row["reading"], row["not_configured"], row["degraded"]) == ("unconfigured", True, True)


def test_a_service_that_has_written_nothing_yet_is_running(tmp_path: Path) -> None:
    with (tmp_path / "service.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        status, text = shown("status --json", RUNTIME_DIRECTORY=str(tmp_path))
        assert (status, json.loads(text)["service"]) == (0, {"pid": None})
        assert "(PID ?), no reconcile pass completed yet" in shown("status", RUNTIME_DIRECTORY=str(tmp_path))[1]


def test_resources_of_other_writers_are_listed() -> None:
    """A configured resource has its own row, which names its writer."""
    others = {
        "a.example/theirs": OtherWriter.UNKNOWN,
        NAME: OtherWriter.UNKNOWN,
        "b.example/x": OtherWriter.DEVICE_PLUGIN,
    }
    status, text = shown("status", passed(others=others))
    assert status == 0
    assert "not capacityd's: a.example/theirs (another writer's), b.example/x (a device plugin's)\n" in text
    assert json.loads(shown("status --json", passed(others=others))[1])["other_resources"] == others


def test_json_has_every_field_of_the_report() -> None:
    status, text = shown("status --json", DEGRADED)
    report = json.loads(text)
    assert (status, report.keys()) == (4, {field.name for field in fields(StatusReport)})
    assert (report["node"], report["reasons"], report["last_reconcile"]) == ("n1", ["hardware"], NOW - 12)
    assert (report["next_reconcile"], report["service"]) == (NOW + 4, {"pid": 812})
    assert report["waits"][0] == {
        "reason": "lower_after",
        "name": NAME,
        "until": NOW + 8,
        "text": "held back for 8 s more, in case it comes back (lower_after)",
    }
    rows = {row["name"].partition("/")[2]: row for row in report["resources"]}
    flags = ("refused", "denied", "below_expect", "not_allocatable")
    assert {name: [flag for flag in flags if row[flag]] for name, row in rows.items()} == {
        "disk": ["denied"],
        "dongle": ["below_expect"],
        "gpu": ["refused"],
        "nic-mbps": ["not_allocatable"],
        "seats": [],
    }
    assert all(row["degraded"] for row in rows.values())
    assert (rows["seats"]["reading"], rows["seats"]["cause"]) == ("unknown", "unreadable")
    assert (rows["dongle"]["reading"], rows["dongle"]["expect"], rows["dongle"]["held_until"]) == (3, 5, NOW + 8)
    nic = rows["nic-mbps"]
    assert (nic["published"], nic["capacity"], nic["allocatable"], nic["overwritten"]) == (0, "0", None, "none")


def test_the_row_of_a_label_says_nothing_that_goes_without_saying() -> None:
    """It is kept as published, like its resource. Without a reading, the note says why it is kept."""
    label = f"label {NAME}"
    kept = Change(label, Action.KEEP, "2", "2", "as published")
    last_pass = replace(HEALTHY, readings={NAME: Quantity(2)}, changes=(replace(kept, name=NAME), kept))
    rows = {row.name: row for row in resource_rows(last_pass, HEALTHY_NODE, now=NOW, uptime=UPTIME)}
    assert [rows[name].note for name in (NAME, label)] == ["", ""]
    unread = replace(last_pass, readings={}, changes=(replace(kept, reason="the configuration has an error"),))
    (row,) = resource_rows(unread, HEALTHY_NODE, now=NOW, uptime=UPTIME)
    assert row.note == "the configuration has an error"
