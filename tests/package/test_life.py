"""The package's life under a real dpkg and systemd: install, upgrade, downgrade, removal, purge, and again."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from tests.cluster.processes import PATIENCE, wait_until
from tests.package.console import UNIT
from tests.package.machine import Machine
from tests.package.packages import OLDER, Packages, tools_of
from tests.package.service import published, switch_on

SEATS = '[resources."example.com/seats"]\nfile = { path = "/srv/seats" }\n'


def enable(machine: Machine) -> None:
    """Configures it and switches it on, as one would; it has published when this returns."""
    machine.write("/srv/seats", "7\n")
    switch_on(machine, SEATS)
    wait_until(lambda: published(machine, "example.com/seats") == "7", PATIENCE, "it has published")


def quiet(machine: Machine) -> None:
    """The journal has nothing that one would have to explain."""
    said = machine.journal()
    assert "Traceback" not in said
    assert machine.run("journalctl", f"--unit={UNIT}", "--priority=warning", "--quiet").stdout == ""
    assert machine.out("systemctl", "--failed", "--quiet") == ""


def test_an_installation_is_off(fresh: Machine, packages: Packages) -> None:
    fresh.install(packages.current, tools_of(packages.current))
    assert (fresh.active, fresh.enabled) == ("inactive", "disabled")
    fresh.run("systemctl", "preset-all")
    assert fresh.enabled == "disabled"
    # What Debian's own infrastructure would run.
    test = packages.sources / "packaging/deb/tests/installed"
    fresh.run("sh", "-eu", fresh.put(test))
    assert "capacityd.toml" in fresh.out("dpkg-query", "--show", "--showformat=${Conffiles}", "capacityd")
    assert fresh.out("sh", "-c", "ls /usr/share/capacityd/capacityd/__pycache__").count(".pyc") > 10
    assert fresh.out("sh", "-c", "ls /usr/share/capacityd/capacityd/inventory/__pycache__").count(".pyc") > 3


def test_a_node_needs_the_first_package_only(fresh: Machine, packages: Packages) -> None:
    """No rich, none of what only people need; what is asked of a node works, also on a terminal."""
    fresh.dpkg("--purge", "python3-rich")
    fresh.install(packages.current)
    enable(fresh)
    terminal = ("env", "FORCE_COLOR=1", "capacityd")
    assert fresh.out(*terminal, "probe", "--explain").startswith("example.com/seats: 7")
    assert "example.com/seats" in fresh.out(*terminal, "status")
    fresh.run(*terminal, "config", "show")
    anybody = ("setpriv", "--reuid=nobody", "--clear-groups", "capacityd")
    assert json.loads(fresh.out(*anybody, "status", "--json"))["service"]["pid"] == int(fresh.main_pid)
    assert "the service runs already" in fresh.run(*anybody, "run", status=1).stderr
    for command in ("devices", "record -", "config schema"):
        said = fresh.run(*terminal, *command.split(), status=2)
        what = command.removesuffix(" -")
        assert said.stderr == f"capacityd: {what} is in the package capacityd-tools: apt install capacityd-tools\n"
    quiet(fresh)


def test_the_tools_come_and_go_by_themselves(fresh: Machine, packages: Packages) -> None:
    fresh.install(packages.current)
    enable(fresh)
    pid, before = fresh.main_pid, everything(fresh)
    tools = fresh.put(tools_of(packages.current))
    fresh.dpkg("--install", tools)
    fresh.run("capacityd", "devices")
    fresh.dpkg("--purge", "capacityd-tools")
    fresh.run("capacityd", "devices", status=2)
    fresh.run("rm", tools)
    assert fresh.main_pid == pid
    assert {path for path in everything(fresh) ^ before if not path.startswith("/run/")} == set()
    quiet(fresh)


def test_an_upgrade_restarts_what_is_on(fresh: Machine, packages: Packages) -> None:
    fresh.install(packages.older, tools_of(packages.older))
    enable(fresh)
    for package in (packages.current, packages.older):
        before = fresh.main_pid
        fresh.install(package, tools_of(package))
        fresh.run("capacityd", "devices")
        assert (fresh.active, fresh.enabled) == ("active", "enabled")
        assert fresh.main_pid != before
        version = "0.0.9" if package == packages.older else packages.current.name.split("_")[1].partition("-")[0]
        assert fresh.out("capacityd", "--version") == f"capacityd {version}"
    assert published(fresh, "example.com/seats") == "7"
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


def test_a_removal_stops_it_and_says_how_to_withdraw(fresh: Machine, packages: Packages) -> None:
    fresh.install(packages.current)
    enable(fresh)
    said = fresh.dpkg("--remove", "capacityd")
    assert "Node node keeps example.com/seats." in said
    assert 'run "capacityd withdraw" before the removal' in said
    (command,) = (line for line in said.splitlines() if line.startswith("kubectl "))
    assert shlex.split(command)[:4] == ["kubectl", "patch", "node", "node"]
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
    debs = [fresh.put(packages.current), fresh.put(tools_of(packages.current))]
    fresh.dpkg("--install", *debs)
    fresh.write("/etc/capacityd/conf.d/60-seats.toml", SEATS)
    fresh.run("systemctl", "enable", "--now", UNIT)
    assert fresh.active == "active"
    fresh.dpkg("--purge", "capacityd", "capacityd-tools")
    assert fresh.active == "inactive"
    assert fresh.run("systemctl", "cat", UNIT, status=None).returncode != 0
    fresh.run("rm", *debs)
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


def test_older_is_older(packages: Packages) -> None:
    assert packages.older.name == f"capacityd_{OLDER}-1_all.deb"
    assert Path(packages.older) != packages.current
