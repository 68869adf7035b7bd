"""What `status` prints about the last pass and the service."""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capacityd.cli.output.status_report import resource_rows
from capacityd.config.saved import stamps_of
from capacityd.linux.unit import UnitState
from capacityd.model.errors import Cause
from capacityd.model.key import Key
from capacityd.model.messages import ConfigFiles
from capacityd.model.node import ConditionReason
from capacityd.model.plan import Action, Trouble
from capacityd.model.reading import Quantity, Unknown
from capacityd.model.reasons import Activity
from capacityd.model.waits import Wait, WaitReason
from tests.support.terminals import DEGRADED, HEALTHY, NOW, RUNNING, UPTIME, ServiceFiles, change, kept, shown
from tests.unit.docs.test_manual import fields_of

NAME = "example.com/dongle"
DISABLED = UnitState(enabled=False, failing=False, exit_status=0)
FAILING = UnitState(enabled=True, failing=True, exit_status=1)
HELD = Wait(until=9.0, reason=WaitReason.LOWER_AFTER, key=Key(NAME))


def after_pass(**changes: Any) -> ServiceFiles:
    """The files after a pass that differs in these fields from a healthy one."""
    return ServiceFiles(replace(HEALTHY, **changes))


def while_running(**changes: Any) -> ServiceFiles:
    """The files while the service runs, with these fields of its status."""
    return ServiceFiles(service=replace(RUNNING, **changes))


UNCONFIGURED = Trouble(ConditionReason.CONFIGURATION_REJECTED, "kept, because nothing configures it", Key(NAME))
KEPT = kept(NAME, 4)
FOUR_TO_FIVE = change(Action.SET, NAME, stored=4, desired=5, published=5, reason="the reading differs")


@pytest.mark.parametrize(
    ("files", "status", "expected"),  # what the service has saved, the exit status, and a part of the text
    [
        (
            ServiceFiles(last_pass=None, service=None),
            1,
            "capacityd is not running; `sudo capacityd plan` shows what the Node keeps\n\n"
            "! the service does not run, so nothing updates the Node\n  → start it: `systemctl enable --now capacityd`",
        ),
        (ServiceFiles(last_pass=None, service=None, unit=FAILING), 1, "\n  → it fails to start (exit status 1): "),
        (ServiceFiles(service=None), 1, "capacityd is not running; this is its last known state\nlast pass 12 s ago"),
        (ServiceFiles(last_pass=None), 0, "capacityd is running (PID 812), no reconcile pass completed yet\n"),
        (
            ServiceFiles(unit=replace(DISABLED, active=True)),
            0,
            "disabled: it will not start at the next boot; to change that: `systemctl enable capacityd`\n\nRESOURCE",
        ),
        (
            ServiceFiles(),
            0,
            "(PID 812), healthy; Node n1\nlast pass 12 s ago (devices), Node read 2 h ago, written 2 d ago",
        ),
        (after_pass(observe=True, changes=(FOUR_TO_FIVE,)), 0, "4            would be 5: the reading differs\n"),
        (while_running(overdue_at_uptime=0.0), 4, "! the next reconcile pass is overdue; the service may be stuck\n"),
        (while_running(pass_running=True), 0, ", a pass runs now\n"),
        (while_running(error="refused"), 4, "\n\n! refused\n  → next attempt in 55 min or after an event\n"),
        (
            while_running(error="refused", pass_running=True),
            4,
            "\n\na pass runs now, so this may be out of date:\n! refused\n  → the next attempt runs now\n",
        ),
        (
            while_running(activity=Activity.NODE, busy_since=NOW - 45),
            4,
            "\n! the reconcile pass has been running for 45 s: it waits for the API server",
        ),
        (
            while_running(error="it lags", not_watched="refused"),
            4,
            "\n! the Node is not watched: refused\n"
            "  → passes read the Node instead: once a minute while something is wrong",
        ),
        (
            after_pass(troubles=(Trouble(ConditionReason.DENIED, "the condition CapacityPublished is denied: why"),)),
            4,
            "! the condition CapacityPublished is denied: why\n  → look for ",
        ),
        (
            after_pass(troubles=(Trouble(ConditionReason.OVERWRITTEN, "another writer keeps changing it"),)),
            4,
            "! another writer keeps changing it\n  → let each machine use its own Node",
        ),
        (
            after_pass(changes=(KEPT,), readings={}, troubles=(UNCONFIGURED,)),
            4,
            f"! {NAME}: not configured: kept, because nothing configures it\n"
            "  → configure resources and run `systemctl reload capacityd`, or remove what is kept: `systemctl stop "
            "capacityd`, then `capacityd withdraw`\n",
        ),
    ],
)
def test_each_state_of_the_service_has_its_text_and_exit_status(
    files: ServiceFiles, status: int, expected: str
) -> None:
    found_status, text = shown("status", files)
    assert found_status == status, text
    assert expected in text
    assert ("degraded" in text) is (status == 4)
    assert ("a pass runs now" in text) is (files.service is not None and files.service.pass_running)


def test_a_wait_does_not_end_before_the_next_pass() -> None:
    """After an error, a wait lasts until the next pass, even if it should end earlier. Without a service, no wait
    is shown."""
    waits = (HELD, Wait(UPTIME + 20, WaitReason.READ, Key("example.com/nic-mbps")))
    held = replace(HEALTHY, waits=waits, changes=(replace(KEPT, action=Action.HOLD),))
    failing = replace(RUNNING, error="refused", next_pass=NOW + 40)
    text = shown("status", ServiceFiles(held, failing))[1]
    assert "held back for 40 s more" in text
    assert "example.com/nic-mbps: read again in 40 s" in text
    text = shown("status", ServiceFiles(held, None))[1]
    assert "held back" not in text
    assert "read again" not in text


def test_a_running_or_starting_unit_is_not_called_disabled() -> None:
    for unit in (replace(DISABLED, enabled=True, active=True), DISABLED, None):
        assert "next boot" not in shown("status", ServiceFiles(unit=unit))[1]
    assert "next boot" not in shown("status", ServiceFiles(service=None, unit=DISABLED))[1]


def test_files_that_have_changed_since_the_last_reload_are_named(tmp_path: Path) -> None:
    config, other = tmp_path / "60-x.toml", tmp_path / "70-y.toml"
    config.write_text('[service]\nresync = "1h"\n')
    files = while_running(configuration_files=ConfigFiles(str(tmp_path), stamps_of(str(tmp_path))))
    assert "newest" not in shown("status", files)[1]
    os.utime(config, (1, 1))
    other.write_text("[kubernetes]\nobserve = true\n")
    status, text = shown("status", files)
    problem = f"! the service does not use the newest configuration: {config}, {other}\n"
    assert status == 4
    assert f"{problem}  → run `systemctl reload capacityd`\n" in text


def test_errors_of_the_configuration_that_is_in_use_are_listed_once() -> None:
    """One error is also a resource's reading. The other is of a file that can't be parsed."""
    error = '[resources."example.com/gpu".pci] vndor: unknown key'
    last_pass = replace(HEALTHY, readings={"example.com/gpu": Unknown(error, Cause.CONFIGURATION)})
    service = replace(RUNNING, configuration_errors=(f"c.toml:2: {error}", "d.toml:5: is not valid TOML"))
    status, text = shown("status", ServiceFiles(last_pass, service))
    assert (status, text.count("vndor")) == (4, 1)
    assert "! d.toml:5: is not valid TOML\n  → fix it, then run `systemctl reload capacityd`\n\nRESOURCE" in text


def test_a_published_resource_without_a_configuration_is_listed_as_unconfigured() -> None:
    files = after_pass(changes=(KEPT,), readings={}, troubles=(UNCONFIGURED,))
    (row,) = json.loads(shown("status --json", files)[1])["resources"]
    assert (row["reading"], row["trouble"]) == ("unconfigured", "ConfigurationRejected")


def test_a_service_that_has_written_nothing_yet_is_running(tmp_path: Path) -> None:
    with (tmp_path / "service.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        status, text = shown("status --json", RUNTIME_DIRECTORY=str(tmp_path))
        assert (status, json.loads(text)["running"], json.loads(text)["pid"]) == (0, True, None)
        assert "(PID ?), no reconcile pass completed yet" in shown("status", RUNTIME_DIRECTORY=str(tmp_path))[1]


def test_every_field_of_the_json_is_on_the_page_about_json(capsys: pytest.CaptureFixture[str]) -> None:
    status, text = shown("status --json", DEGRADED)
    report = json.loads(text)
    assert status == 4
    assert report.keys() <= fields_of("status")
    assert (report["node"], report["reasons"], report["last_reconcile"]) == ("n1", ["devices"], NOW - 12)
    assert (report["next_reconcile"], report["running"], report["pid"]) == (NOW + 4, True, 812)
    assert report["waits"][0] == {
        "reason": "lower_after",
        "name": NAME,
        "kind": "resource",
        "until": NOW + 8,
        "text": "held back for 8 s more, in case it comes back (lower_after)",
    }
    rows = {row["name"].partition("/")[2]: row for row in report["resources"]}
    assert {name: row["trouble"] for name, row in rows.items()} == {
        "disk": "Denied",
        "dongle": "BelowExpected",
        "gpu": "Refused",
        "nic-mbps": None,
        "seats": "Unknown",
    }
    assert report["troubles"][-1] == {"reason": "BelowExpected", "name": NAME, "kind": "resource", "text": "4 of 5"}
    assert (rows["seats"]["reading"], rows["seats"]["cause"]) == ("unknown", "unreadable")
    assert (rows["dongle"]["reading"], rows["dongle"]["expect"]) == (3, 5)
    nic = rows["nic-mbps"]
    assert (nic["published"], nic["capacity"], nic["allocatable"]) == (0, "0", "0")
    first = "the API server in /etc/kubernetes/kubelet.conf refused the connection"
    assert report["problems"][0] == {"message": first, "advice": "next attempt in 4 s or after an event"}
    assert f"capacityd: {first}\n" in capsys.readouterr().err


def test_the_row_of_a_label_has_no_note() -> None:
    """The label is kept as published, like its resource."""
    label = replace(KEPT, key=Key(NAME).label)
    last_pass = replace(HEALTHY, readings={NAME: Quantity(4)}, changes=(KEPT, label))
    rows = {str(row.key): row for row in resource_rows(last_pass)}
    assert {name: (row.reading, row.capacity, row.allocatable, row.note) for name, row in rows.items()} == {
        NAME: (4, "4", "4", ""),
        f"label {NAME}": (None, "4", "4", ""),
    }
