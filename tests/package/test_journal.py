"""The service's entries in a real journal: found by message id and field."""

from __future__ import annotations

import json
from typing import Any

from capacityd.linux.systemd import EntryKind
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


def entries(machine: Machine, kind: EntryKind) -> list[dict[str, Any]]:
    query = [f"MESSAGE_ID={kind.value}", f"_SYSTEMD_UNIT={UNIT}"]
    output = machine.out("journalctl", "--output=json", *query)
    logged: list[dict[str, Any]] = [json.loads(line) for line in output.splitlines()]
    return [{"RESOURCE": "", **entry} for entry in logged]


def wait_for(machine: Machine, kind: EntryKind, resource: str, count: int) -> list[dict[str, Any]]:
    """Waits until this number of entries is about the resource, and returns them."""

    def there() -> list[dict[str, Any]]:
        matching = [e for e in entries(machine, kind) if e["RESOURCE"] == resource]
        return matching if len(matching) >= count else []

    matching: list[dict[str, Any]] = wait_until(there, PATIENCE, f"{count} entries of {kind.name} for {resource}")
    assert len(matching) == count
    return matching


def test_entries(fresh: Machine, packages: Packages) -> None:
    fresh.install(packages.current)
    fresh.write("/srv/seats", "7\n")
    fresh.write("/usr/local/bin/count", "#!/bin/sh\necho no number\n", "755")
    switch_on(fresh, CONFIG, capacity={THEIRS: "9"})
    (entry,) = wait_for(fresh, EntryKind.CHANGED, SEATS, 1)
    assert {key: entry[key] for key in ("NODE", "OLD", "NEW", "REASON", "PRIORITY", "SYSLOG_IDENTIFIER")} == {
        "NODE": "node",
        "OLD": "none",
        "NEW": "7",
        "REASON": "found",
        "PRIORITY": "5",
        "SYSLOG_IDENTIFIER": "capacityd",
    }
    assert entry["MESSAGE"] == f"{SEATS}: none → 7 (found)"
    (refused,) = wait_for(fresh, EntryKind.REFUSED, THEIRS, 1)
    assert (refused["OLD"], refused["PRIORITY"]) == ("9", "4")
    (unknown,) = wait_for(fresh, EntryKind.UNKNOWN, PROGRAM, 1)
    assert "no number" in unknown["REASON"]
    assert unknown["CAUSE"] == "program_failed"

    fresh.write("/usr/local/bin/count", "#!/bin/sh\necho 2\n", "755")
    fresh.write("/srv/seats", "5\n")
    wait_for(fresh, EntryKind.HELD, SEATS, 1)
    wait_for(fresh, EntryKind.KNOWN, PROGRAM, 1)
    lowered = wait_for(fresh, EntryKind.CHANGED, SEATS, 2)[1]
    assert (lowered["OLD"], lowered["NEW"]) == ("7", "5")
    assert len(wait_for(fresh, EntryKind.REFUSED, THEIRS, 1)) == 1, "what has been logged is not logged again"

    wrong, foreign, ignored = (f"/etc/capacityd/conf.d/{name}" for name in ("70-x.toml", "80-y.toml", "90-z.conf"))
    fresh.write(wrong, "[resources.x]\nusb = 4\n")
    fresh.write(foreign, "[kubernetes]\nobserve = true\n", "600")
    fresh.run("chown", "1000", foreign)
    fresh.write(ignored, "")
    fresh.run("systemctl", "reload", UNIT, status=1)
    assert fresh.active == "active", "a reload that fails changes nothing"
    warnings = wait_until(lambda: entries(fresh, EntryKind.CONFIGURATION_WARNING), PATIENCE, "the errors are logged")
    assert [(entry["CONFIG_FILE"], entry["PRIORITY"]) for entry in warnings] == [(ignored, "4")]
    errors = {entry.get("CONFIG_FILE", ""): entry for entry in entries(fresh, EntryKind.CONFIGURATION_ERROR)}
    assert {entry["PRIORITY"] for entry in errors.values()} == {"3"}
    assert errors.keys() == {wrong, foreign, ""}
    message = f"{foreign}: does not belong to root (owner {{}}, mode 0600), but it can name programs that run as root: "
    message += f"chown root {foreign}"
    assert errors[foreign]["MESSAGE"] == message.format("another user"), "the service's user namespace has root only"
    checked = fresh.run("capacityd", "config", "check", status=2).stderr.splitlines()
    assert message.format("uid 1000") in checked, "root, who can read the file, is told the same"

    output = fresh.journal()
    assert output.count(f"{wrong}:") == 1, "the check of the reload logs nothing of its own"
    assert "Traceback" not in output
    fresh.run("rm", wrong, foreign, ignored)
    fresh.run("systemctl", "reload", UNIT)
