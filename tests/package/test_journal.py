"""The service's entries in a real journal, found by message ID and field."""

from __future__ import annotations

import json
from typing import Any

from capacityd.linux.systemd import EntryKind
from tests.cluster.processes import PATIENCE, wait_until
from tests.package.console import UNIT
from tests.package.machine import Machine
from tests.package.packages import Packages
from tests.package.service import enable


def entries(machine: Machine, kind: EntryKind) -> list[dict[str, Any]]:
    return selected(machine, f"MESSAGE_ID={kind.value}")


def selected(machine: Machine, match: str) -> list[dict[str, Any]]:
    query = [match, f"_SYSTEMD_UNIT={UNIT}"]
    output = machine.out("journalctl", "--output=json", *query)
    return [json.loads(line) for line in output.splitlines()]


def test_each_kind_of_entry_is_in_the_journal(fresh: Machine, packages: Packages) -> None:
    fresh.install(packages.current)
    enable(fresh)
    (entry,) = wait_until(lambda: entries(fresh, EntryKind.CHANGED), PATIENCE, "a change is logged")
    expected = {
        "MESSAGE": "example.com/seats: none → 7 (newly published)",
        "RESOURCE": "example.com/seats",
        "NODE": "node",
        "OLD": "none",
        "NEW": "7",
        "REASON": "newly published",
        "PRIORITY": "5",
        "SYSLOG_IDENTIFIER": "capacityd",
    }
    assert expected.items() <= entry.items()

    wrong, foreign, ignored = (f"/etc/capacityd/conf.d/{name}" for name in ("70-x.toml", "80-y.toml", "90-z.conf"))
    fresh.write(wrong, "[resources.x]\nusb = 4\n")
    fresh.write(foreign, "[kubernetes]\nobserve = true\n", "600")
    fresh.run("chown", "1000", foreign)
    fresh.write(ignored, "")
    fresh.run("systemctl", "reload", UNIT, status=1)
    assert fresh.active == "active", "a reload that fails changes nothing"
    wait_until(lambda: selected(fresh, f"CONFIG_FILE={ignored}"), PATIENCE, "the errors are logged")
    errors = {entry.get("CONFIG_FILE", ""): entry for entry in entries(fresh, EntryKind.CONFIGURATION_REJECTED)}
    assert {entry["PRIORITY"] for entry in errors.values()} == {"3"}
    assert errors.keys() == {wrong, foreign, ignored, ""}
    message = f"{foreign}: does not belong to root (owner uid 1000, mode 0600), but the configuration names programs "
    message += f"that run as root: chown root {foreign}"
    assert errors[foreign]["MESSAGE"] == message
    checked = fresh.run("capacityd", "config", "check", status=2).stderr.splitlines()
    assert message in checked, "root, who can read the file, is told the same"

    output = fresh.journal()
    assert output.count(f"{wrong}:") == 1, "the check of the reload logs nothing of its own"
    assert "Traceback" not in output
