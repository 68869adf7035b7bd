"""The package's life under a real dpkg and systemd: install, upgrade, downgrade, removal, purge, and again."""

from __future__ import annotations

import json

from tests.cluster.processes import PATIENCE, wait_until
from tests.package.console import UNIT
from tests.package.machine import Machine
from tests.package.packages import Packages
from tests.package.service import published, switch_on

SEATS = '[resources."example.com/seats"]\nfile = { path = "/srv/seats" }\n'


def enable(machine: Machine) -> None:
    """Configures it and switches it on, as one would; it has published when this returns."""
    machine.write("/srv/seats", "7\n")
    switch_on(machine, SEATS)
    wait_until(lambda: published(machine, "example.com/seats") == "7", PATIENCE, "it has published")
    machine.wait_for_readings({"example.com/seats": 7})  # it writes down what it has done after that


def quiet(machine: Machine) -> None:
    """The journal has nothing that one would have to explain."""
    output = machine.journal()
    assert "Traceback" not in output
    assert machine.run("journalctl", f"--unit={UNIT}", "--priority=warning", "--quiet").stdout == ""
    assert machine.out("systemctl", "--failed", "--quiet") == ""


def test_an_installation_is_off(fresh: Machine, packages: Packages) -> None:
    fresh.install(packages.current)
    assert (fresh.active, fresh.enabled) == ("inactive", "disabled")
    fresh.run("systemctl", "preset-all")
    assert fresh.enabled == "disabled"
    # What Debian's own infrastructure would run.
    test = packages.sources / "packaging/deb/tests/installed"
    fresh.run("sh", "-eu", fresh.put(test))
    assert fresh.out("find", "/usr/share/capacityd", "-name", "*.pyc").count("\n") > 100


def test_a_node_needs_no_more_than_it_depends_on(fresh: Machine, packages: Packages) -> None:
    """Nor a file of its own in /etc; every command works."""
    fresh.dpkg("--purge", "python3-prometheus-client")
    fresh.install(packages.current)
    fresh.run("capacityd", "config", "check")
    enable(fresh)
    assert fresh.out("capacityd", "probe", "--explain").startswith("example.com/seats: 7")
    assert "example.com/seats" in fresh.out("capacityd", "status")
    for command in ("config show", "config schema", "devices", "devices --toml", "record -"):
        fresh.run("capacityd", *command.split())
    anybody = ("setpriv", "--reuid=nobody", "--clear-groups", "capacityd")
    assert json.loads(fresh.out(*anybody, "status", "--json"))["service"]["pid"] == int(fresh.main_pid)
    assert "the service is already running" in fresh.run(*anybody, "run", status=1).stderr
    quiet(fresh)


def test_an_upgrade_leaves_alone_what_is_off(fresh: Machine, packages: Packages) -> None:
    fresh.install(packages.older)
    for package in (packages.current, packages.older):
        fresh.install(package)
        assert (fresh.active, fresh.enabled) == ("inactive", "disabled")
    enable(fresh)
    fresh.run("systemctl", "disable", "--now", UNIT)
    fresh.install(packages.current)
    assert (fresh.active, fresh.enabled) == ("inactive", "disabled")
    quiet(fresh)


def test_a_removal_stops_it_and_prints_how_to_withdraw(fresh: Machine, packages: Packages) -> None:
    fresh.install(packages.current)
    enable(fresh)
    assert '"capacityd withdraw"' in fresh.dpkg("--remove", "capacityd")
    assert fresh.active == "inactive"
    assert not fresh.exists("/run/capacityd")
    assert not fresh.exists("/usr/share/capacityd"), "no bytecode is left"
    assert fresh.exists("/etc/capacityd/conf.d/60-test.toml"), "what was configured stays"
    fresh.install(packages.current)
    assert (fresh.active, fresh.enabled) == ("active", "enabled"), "it was on, and is again"
    wait_until(lambda: published(fresh, "example.com/seats") == "7", PATIENCE, "it has published")
    quiet(fresh)


def test_a_purge_leaves_nothing(fresh: Machine, packages: Packages) -> None:
    before = everything(fresh)
    fresh.install(packages.current)
    fresh.write("/etc/capacityd/conf.d/60-seats.toml", SEATS)
    fresh.run("systemctl", "enable", "--now", UNIT)
    assert fresh.active == "active"
    fresh.dpkg("--purge", "capacityd")
    assert fresh.active == "inactive"
    assert fresh.run("systemctl", "cat", UNIT, status=None).returncode != 0
    fresh.run("rm", f"/root/{packages.current.name}")
    assert everything(fresh) - before == set()
    fresh.install(packages.older)
    assert (fresh.active, fresh.enabled) == ("inactive", "disabled"), "after a purge it is as new"


def everything(machine: Machine) -> set[str]:
    """All files but those in which Debian and the journal remember."""
    memory = (
        "/var/lib/dpkg/*",
        "/var/log/*",
        "/var/cache/*",
        "/run/log/*",
        "/run/systemd/*",
        "/run/user/*",
        "/var/tmp/*",
        "/tmp/*",
    )
    without = [word for path in memory for word in ("-not", "-path", path)]
    return set(machine.out("find", "/", "/run", "-xdev", *without).splitlines())
