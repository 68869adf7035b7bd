"""The installed service. A drop-in gives it a Node in a file that it may write. All else is as packaged."""

from __future__ import annotations

import json

from tests.cluster.processes import PATIENCE, wait_until
from tests.package.console import UNIT
from tests.package.machine import Machine

SEATS_CONFIG = '[resources."example.com/seats"]\nfile = { path = "/srv/seats" }\n'
_DROP_IN = """\
[Service]
ExecStartPre=/bin/cp -n /etc/capacityd/node.json /run/capacityd/node.json
ExecStart=
ExecStart=/usr/bin/capacityd run --node-file /run/capacityd/node.json
"""


def start_service(machine: Machine, config: str) -> None:
    """Configures, enables and starts the service."""
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "node", "uid": "u-1"},
        "status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}},
    }
    machine.write("/etc/capacityd/conf.d/60-test.toml", config)
    machine.write("/etc/capacityd/node.json", json.dumps(node))
    drop_in(machine, "node", _DROP_IN)
    machine.run("systemctl", "enable", "--now", UNIT)


def drop_in(machine: Machine, name: str, text: str) -> None:
    """Adds a drop-in to the unit; the next start uses it."""
    machine.write(f"/etc/systemd/system/{UNIT}.d/{name}.conf", text)
    machine.run("systemctl", "daemon-reload")


def published(machine: Machine, name: str) -> str | None:
    """The resource's capacity in the file of the Node."""
    output = machine.run("cat", "/run/capacityd/node.json", status=None).stdout
    quantity: str | None = json.loads(output)["status"]["capacity"].get(name) if output else None
    return quantity


def publish_seats(machine: Machine) -> None:
    """Starts the service with the resource example.com/seats, and waits until its number (7) is published."""
    machine.write("/srv/seats", "7\n")
    start_service(machine, SEATS_CONFIG)
    wait_until(lambda: published(machine, "example.com/seats") == "7", PATIENCE, "it has published")
    machine.wait_for_readings({"example.com/seats": 7})  # the service saves its state after the write


def assert_no_warnings(machine: Machine) -> None:
    """Asserts that the journal has no warning, and that no unit has failed."""
    output = machine.journal()
    assert "Traceback" not in output
    warnings = machine.run("journalctl", f"--unit={UNIT}", "--priority=warning", "--quiet").stdout
    assert warnings == "", warnings
    assert machine.out("systemctl", "--failed", "--quiet") == ""
