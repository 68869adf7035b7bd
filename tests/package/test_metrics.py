"""The metrics file for node_exporter: the service writes it from its sandbox, and another user reads it."""

from __future__ import annotations

import re

from capacityd.linux.systemd import EntryKind
from tests.cluster.processes import PATIENCE, wait_until
from tests.package.console import UNIT
from tests.package.machine import Machine
from tests.package.packages import Packages
from tests.package.service import drop_in, start_service

FOLDER = "/var/lib/prometheus/node-exporter"
SEATS = "example.com/seats"


def config(path: str) -> str:
    return f'[resources."{SEATS}"]\nfile = {{ path = "/srv/seats" }}\n[service]\ntextfile = "{path}"\n'


def read(machine: Machine, path: str) -> list[str]:
    """The published number in the file, as another user reads it. []: there is no file."""
    output = machine.run("setpriv", "--reuid=nobody", "--clear-groups", "cat", path, status=None).stdout
    return re.findall(rf'^capacityd_resource_published{{.*resource="{SEATS}".*}} (\S+)$', output, re.MULTILINE)


def logged(machine: Machine) -> list[str]:
    return machine.out("journalctl", "--output=cat", f"MESSAGE_ID={EntryKind.DEGRADED.value}").splitlines()


def test_metrics_are_written_moved_and_removed(fresh: Machine, packages: Packages) -> None:
    # The folders as prometheus-node-exporter creates them.
    fresh.run("install", "-d", "-o", "daemon", "-g", "daemon", "/var/lib/prometheus")
    fresh.run("install", "-d", FOLDER)
    fresh.install(packages.current)
    fresh.write("/srv/seats", "7\n")
    path = f"{FOLDER}/capacityd.prom"
    start_service(fresh, config(path))
    wait_until(lambda: read(fresh, path) == ["7.0"], PATIENCE, "the first pass is in it")
    fresh.write("/srv/seats", "9\n")
    wait_until(lambda: read(fresh, path) == ["9.0"], PATIENCE, "the next pass is in it, too")
    assert logged(fresh) == []

    elsewhere = "/srv/metrics/capacityd.prom"
    fresh.run("mkdir", "/srv/metrics")
    fresh.write("/etc/capacityd/conf.d/60-test.toml", config(elsewhere))
    fresh.run("systemctl", "reload", UNIT)
    output = wait_until(lambda: logged(fresh), PATIENCE, "it logs that it can't write there")
    assert output[0].startswith(f"{elsewhere} could not be written: Read-only file system; the sandbox of")
    assert not fresh.exists(path), "the file that is no longer updated is removed"
    fresh.write("/srv/seats", "11\n")
    fresh.wait_for_readings({SEATS: 11})
    drop_in(fresh, "metrics", "[Service]\nReadWritePaths=/srv/metrics\n")
    fresh.run("systemctl", "restart", UNIT)
    wait_until(lambda: read(fresh, elsewhere) == ["11.0"], PATIENCE, "with the drop-in, it can write there")
    assert output == logged(fresh)[:1]

    assert "Traceback" not in fresh.journal()
    fresh.run("ln", "-s", "/srv/seats", path)
    fresh.dpkg("--remove", "capacityd")
    assert fresh.out("ls", "-A", "/srv/metrics") == ""
    assert fresh.exists(path), "another's file stays"
