"""The service's entries in a real journal: found by message id and field."""

from __future__ import annotations

import json
from typing import Any

from capacityd.worker.journal import MESSAGE_IDS
from tests.cluster.processes import PATIENCE, wait_until
from tests.package.console import UNIT
from tests.package.machine import Machine
from tests.package.packages import Packages
from tests.package.service import switch_on

SEATS, PROGRAM, THEIRS = "example.com/seats", "example.com/program", "example.com/theirs"
CONFIG = f"""\
[resources."{SEATS}"]
file = {{ path = "/srv/seats" }}
[resources."{PROGRAM}"]
exec = {{ command = ["/usr/local/bin/count"] }}
[resources."{THEIRS}"]
static = {{ quantity = 3 }}
[service]
lower_after = "1s"
lower_after_boot = "1s"
"""


def entries(machine: Machine, kind: str) -> list[dict[str, Any]]:
    query = [f"MESSAGE_ID={MESSAGE_IDS[kind]}", f"_SYSTEMD_UNIT={UNIT}"]
    output = machine.out("journalctl", "--output=json", *query)
    found: list[dict[str, Any]] = [json.loads(line) for line in output.splitlines()]
    return [{"RESOURCE": "", **entry} for entry in found]


def wait_for(machine: Machine, kind: str, resource: str, count: int) -> list[dict[str, Any]]:
    """Until there are so many of a resource."""

    def there() -> list[dict[str, Any]]:
        found = [e for e in entries(machine, kind) if e["RESOURCE"] == resource]
        return found if len(found) >= count else []

    found: list[dict[str, Any]] = wait_until(there, PATIENCE, f"{count} entries of {kind} for {resource}")
    assert len(found) == count
    return found


def test_entries(fresh: Machine, packages: Packages) -> None:
    fresh.install(packages.current)
    fresh.write("/srv/seats", "7\n")
    fresh.write("/usr/local/bin/count", "#!/bin/sh\necho no number\n", "755")
    switch_on(fresh, CONFIG, capacity={THEIRS: "9"})
    (found,) = wait_for(fresh, "changed", SEATS, 1)
    assert {key: found[key] for key in ("NODE", "OLD", "NEW", "REASON", "PRIORITY", "SYSLOG_IDENTIFIER")} == {
        "NODE": "node",
        "OLD": "none",
        "NEW": "7",
        "REASON": "found",
        "PRIORITY": "5",
        "SYSLOG_IDENTIFIER": "capacityd",
    }
    assert found["MESSAGE"] == f"{SEATS}: none → 7 (found)"
    (refused,) = wait_for(fresh, "refused", THEIRS, 1)
    assert (refused["OLD"], refused["PRIORITY"]) == ("9", "4")
    (unknown,) = wait_for(fresh, "unknown", PROGRAM, 1)
    assert "no number" in unknown["REASON"]
    assert unknown["CAUSE"] == "program_failed"

    fresh.write("/usr/local/bin/count", "#!/bin/sh\necho 2\n", "755")
    fresh.write("/srv/seats", "5\n")
    wait_for(fresh, "held", SEATS, 1)
    wait_for(fresh, "known", PROGRAM, 1)
    lowered = wait_for(fresh, "changed", SEATS, 2)[1]
    assert (lowered["OLD"], lowered["NEW"]) == ("7", "5")
    assert len(wait_for(fresh, "refused", THEIRS, 1)) == 1, "what has been logged is not logged again"

    fresh.write("/etc/capacityd/conf.d/70-wrong.toml", "[resources.x]\nusb = 4\n")
    fresh.run("systemctl", "reload", UNIT)
    errors = wait_until(lambda: entries(fresh, "configuration error"), PATIENCE, "the errors are logged")
    assert errors[0]["CONFIG_FILE"] == "/etc/capacityd/conf.d/70-wrong.toml"
    assert errors[0]["PRIORITY"] == "3"

    assert "Traceback" not in fresh.journal()
