"""Installs, uses, upgrades and removes the package on each distribution, with its own Python, libraries and systemd."""

from __future__ import annotations

import pytest

from tests.cluster.processes import PATIENCE, wait_until
from tests.package.machine import machine
from tests.package.packages import Packages
from tests.package.service import assert_no_warnings, published, start_service
from tests.package.trees import UBUNTU

METRICS = "/var/lib/prometheus/node-exporter/capacityd.prom"
# The detectors that need no hardware.
CONFIG = f"""\
[resources."example.com/seats"]
static = {{ quantity = 7 }}
[resources."example.com/run-mib"]
filesystem = {{ kind = "memory", mount = "/run" }}
measure = "size"
unit = "MiB"
[resources."example.com/links"]
nic = {{ kind = "virtual" }}
[resources."example.com/printed"]
exec = {{ command = ["/bin/echo", "3"] }}
[resources."example.com/tty"]
udev = {{ subsystem = "tty" }}
[service]
textfile = "{METRICS}"
"""


@pytest.mark.parametrize("release", ["12", *sorted(UBUNTU)])
def test_the_package_works(release: str, packages: Packages) -> None:
    with machine(release) as node:
        node.run("mkdir", "-p", "/var/lib/prometheus/node-exporter")
        node.install(packages.older)
        assert (node.active, node.enabled) == ("inactive", "disabled")
        start_service(node, CONFIG)
        wait_until(lambda: published(node, "example.com/seats") == "7", PATIENCE, "it has published")
        wait_until(lambda: node.exists(METRICS), PATIENCE, "it has written the metrics")
        assert ',resource="example.com/seats"} 7.0' in node.out("cat", METRICS)
        before = node.main_pid
        node.install(packages.current)
        wait_until(lambda: node.active == "active" and node.main_pid != before, PATIENCE, "it is restarted")
        node.wait_for_readings({"example.com/seats": 7})
        readings = node.readings()
        assert readings["example.com/printed"] == 3
        assert all(isinstance(value, int) for value in readings.values()), readings
        for command in ("devices", "devices --toml", "record -", "config check", "probe --explain"):
            node.run("capacityd", *command.split())
        node.run("capacityd", "probe", "--as-service")
        assert_no_warnings(node)
        node.run("systemctl", "disable", "--now", "capacityd")
        node.dpkg("--purge", "capacityd")
        assert not node.exists("/usr/share/capacityd")
