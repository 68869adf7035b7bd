"""The service's entries in a real journal, selected by message ID and field."""

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

    wrong = "/etc/capacityd/conf.d/70-x.toml"
    fresh.write(wrong, "[resources.x]\nusb = 4\n")
    fresh.run("systemctl", "reload", UNIT, status=1)
    assert fresh.active == "active", "a reload that fails changes nothing"
    wait_until(lambda: selected(fresh, f"CONFIG_FILE={wrong}"), PATIENCE, "the error is logged")
    errors = entries(fresh, EntryKind.CONFIGURATION_REJECTED)
    assert {(entry.get("CONFIG_FILE", ""), entry["PRIORITY"]) for entry in errors} == {(wrong, "3"), ("", "3")}
    output = fresh.journal()
    assert output.count(f"{wrong}:") == 1, "logged once, although the reload checks the configuration too"
    assert "Traceback" not in output
