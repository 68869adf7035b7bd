"""The package under a real dpkg and systemd: installation, upgrade, downgrade, removal, purge, and reinstallation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from capacityd.linux.systemd import EntryKind
from tests import ROOT
from tests.cluster.processes import PATIENCE, wait_until
from tests.package.api_server import api_server
from tests.package.console import UNIT
from tests.package.machine import Machine, tap
from tests.package.packages import Packages
from tests.package.service import SEATS_CONFIG, assert_no_warnings, publish_seats, published, start_service
from tests.support.pages import blocks


@pytest.mark.short
def test_a_life_from_installation_to_purge(fresh: Machine, packages: Packages) -> None:
    """The machine has a real NIC, and a real udevd that sends events."""
    seats, nics = "example.com/seats", "example.com/nics"
    config = (
        f'{SEATS_CONFIG}[resources."{nics}"]\nnic = {{ kind = "virtual", name = "tap*" }}\n'
        '[service]\nlower_after = "1s"\n'
    )
    fresh.install(packages.older)
    assert (fresh.active, fresh.enabled) == ("inactive", "disabled")
    assert fresh.out("find", "/usr/share/capacityd", "-name", "*.pyc").count("\n") > 100, "the modules are compiled"
    fresh.write("/srv/seats", "7\n")
    start_service(fresh, config)
    wait_until(lambda: published(fresh, seats) == "7", PATIENCE, "it has published")
    (entry,) = wait_until(
        lambda: logged(fresh, f"MESSAGE_ID={EntryKind.CHANGED.value}", f"RESOURCE={seats}"), PATIENCE, "it is logged"
    )
    assert (entry["OLD"], entry["NEW"], entry["PRIORITY"]) == ("none", "7", "5")
    with tap(fresh, "tap7"):
        wait_until(lambda: published(fresh, nics) == "1", PATIENCE, "it has the new NIC")
    wait_until(lambda: published(fresh, nics) in ("0", None), PATIENCE, "the NIC is gone")

    file = "/etc/capacityd/conf.d/60-test.toml"
    fresh.write(file, config.replace("path =", "pth ="))  # a misspelled key
    fresh.run("systemctl", "reload", UNIT, status=1)
    wait_until(lambda: logged(fresh, f"CONFIG_FILE={file}"), PATIENCE, "the error is logged")
    wait_until(lambda: "60-test.toml" in fresh.run("capacityd", "status", status=None).stdout, PATIENCE, "it is named")
    assert fresh.run("capacityd", "status", status=None).returncode != 0
    assert (fresh.active, published(fresh, seats)) == ("active", "7"), "the valid resources are still published"
    fresh.write("/srv/seats", "8\n")
    wait_until(lambda: published(fresh, seats) == "8", PATIENCE, "it still publishes")
    messages = [entry["MESSAGE"] for entry in logged(fresh, f"CONFIG_FILE={file}")]
    assert len(messages) == len({*messages}), "each is logged once, although the reload checks the configuration, too"
    fresh.write(file, config + '[resources."example.com/spare"]\nstatic = { quantity = 2 }\n')
    fresh.run("systemctl", "reload", UNIT)
    wait_until(lambda: published(fresh, "example.com/spare") == "2", PATIENCE, "it has the new configuration")
    wait_until(lambda: fresh.run("capacityd", "status", status=None).returncode == 0, PATIENCE, "nothing is wrong")

    before = fresh.main_pid
    fresh.install(packages.current)
    assert fresh.active == "active"
    assert fresh.main_pid != before
    fresh.wait_for_readings({seats: 8})
    fresh.dpkg("--remove", "capacityd")
    assert fresh.active == "inactive"
    assert not fresh.exists("/usr/share/capacityd")
    fresh.dpkg("--purge", "capacityd")
    assert fresh.exists(file), "the configuration stays"
    assert "Traceback" not in fresh.journal()


def logged(machine: Machine, *fields: str) -> list[dict[str, Any]]:
    """The journal's entries of the unit with these fields."""
    output = machine.out("journalctl", "--output=json", f"_SYSTEMD_UNIT={UNIT}", *fields)
    return [json.loads(line) for line in output.splitlines()]


@pytest.mark.whole
def test_the_autopkgtests_of_the_package_pass(fresh: Machine, packages: Packages) -> None:
    """The tests in packaging/deb/tests run with both packages, as under autopkgtest."""
    fresh.install(packages.current, packages.kubectl)
    for name in ("commands", "service"):
        output = fresh.run("sh", "-eu", fresh.put(packages.sources / "packaging/deb/tests" / name), deadline=300)
        assert name == "service" or output.stderr == "", "autopkgtest allows no output to standard error"


def test_a_node_needs_no_more_than_it_depends_on(fresh: Machine, packages: Packages) -> None:
    """Every command works with only the declared dependencies, and without a file in /etc."""
    fresh.dpkg("--purge", "python3-prometheus-client")
    fresh.install(packages.current)
    fresh.run("capacityd", "config", "check")
    publish_seats(fresh)
    assert fresh.out("capacityd", "probe", "--explain").startswith("example.com/seats: 7")
    assert "example.com/seats" in fresh.out("capacityd", "status")
    for command in ("config show", "devices", "devices --toml", "record -"):
        fresh.run("capacityd", *command.split())
    anybody = ("setpriv", "--reuid=nobody", "--clear-groups", "capacityd")
    assert json.loads(fresh.out(*anybody, "status", "--json"))["pid"] == int(fresh.main_pid)
    assert "the service is already running" in fresh.run(*anybody, "run", status=1).stderr
    # network-online.target waits for all interfaces, for two minutes if one has no cable.
    assert fresh.run("systemctl", "is-active", "network-online.target", status=3).stdout == "inactive\n"
    assert fresh.run("systemd-analyze", "verify", "--man=no", UNIT).stderr == ""
    assert_no_warnings(fresh)


def test_a_missing_module_is_named_until_it_is_back(fresh: Machine, packages: Packages) -> None:
    fresh.install(packages.current)
    modules = "/usr/lib/python3/dist-packages"
    fresh.run("sh", "-ec", f"mkdir /root/hidden; mv {modules}/psutil* /root/hidden")
    fresh.run("systemctl", "start", UNIT, status=1)
    assert "has no Python module psutil: apt install python3-psutil" in fresh.journal()
    assert "Traceback" not in fresh.journal()
    fresh.run("sh", "-ec", f"mv /root/hidden/* {modules}")
    wait_until(lambda: fresh.active == "active", PATIENCE, "systemd has started it again")


def test_an_upgrade_leaves_a_stopped_service_stopped(fresh: Machine, packages: Packages) -> None:
    """An upgrade, a downgrade or a reinstallation does not publish withdrawn resources again."""
    fresh.install(packages.older)
    for package in (packages.current, packages.older):
        fresh.install(package)
        assert (fresh.active, fresh.enabled) == ("inactive", "disabled")
    publish_seats(fresh)
    fresh.run("systemctl", "stop", UNIT)
    journal = fresh.journal()
    for package in (packages.current, packages.current, packages.older):
        fresh.install(package)
        assert (fresh.active, fresh.enabled) == ("inactive", "enabled")
    fresh.run("systemctl", "disable", UNIT)
    fresh.dpkg("--remove", "capacityd")
    fresh.install(packages.current)
    assert (fresh.active, fresh.enabled) == ("inactive", "disabled")
    assert fresh.journal() == journal, "the service has not run in between"
    assert_no_warnings(fresh)


def test_an_upgrade_restarts_a_running_service(fresh: Machine, packages: Packages) -> None:
    """The command in docs/operations.md asks nothing about an edited configuration. It can repair a broken service."""
    page = blocks((ROOT / "docs/operations.md").read_text())
    upgrade = next(block.text for block in page if block.text.startswith("apt install"))
    downgrade = upgrade.replace("apt install", "apt install --yes --allow-downgrades")
    edited = '[resources."example.com/spare"]\nstatic = { quantity = 2 }\n'
    fresh.install(packages.older)
    fresh.write("/etc/capacityd/capacityd.toml", edited)
    publish_seats(fresh)
    for package, command in ((packages.current, upgrade), (packages.older, downgrade)):
        before, folder = fresh.main_pid, f"/build/{package.parent.name}"
        fresh.run("mkdir", "-p", folder)
        fresh.run("mv", fresh.put(package), folder)
        fresh.run("env", "-C", folder, "sh", "-e", text=command, deadline=300)
        version = package.name.split("_")[1].partition("-")[0]
        assert fresh.out("capacityd", "--version") == f"capacityd {version}"
        assert (fresh.active, fresh.enabled) == ("active", "enabled")
        assert fresh.main_pid != before
    assert fresh.out("cat", "/etc/capacityd/capacityd.toml") == edited.strip()
    wait_until(lambda: published(fresh, "example.com/seats") == "7", PATIENCE, "it has published")
    assert_no_warnings(fresh)

    fresh.run("systemctl", "disable", UNIT)
    fresh.run("rm", "/usr/share/capacityd/capacityd/service/main.py")
    fresh.run("systemctl", "restart", UNIT, status=None)
    wait_until(lambda: fresh.shown("NRestarts") != "0", PATIENCE, "systemd starts it again and again")
    fresh.install(packages.current)
    wait_until(lambda: fresh.active == "active", PATIENCE, "it runs again")
    assert fresh.enabled == "disabled"


def test_a_removal_says_what_stays_on_the_node(fresh: Machine, packages: Packages) -> None:
    """A removal leaves the Node as it is. After a new installation, `withdraw` works from the Node's annotation."""
    kept = "keeps 1 resource and the condition CapacityPublished; to remove them: install capacityd again and run"
    seats = "example.com/seats"
    with api_server(fresh) as server:
        before = server.capacity
        fresh.install(packages.current)
        fresh.write("/srv/seats", "7\n")
        fresh.write("/etc/capacityd/conf.d/60-test.toml", SEATS_CONFIG)
        fresh.run("systemctl", "enable", "--now", UNIT)
        wait_until(lambda: server.capacity.get(seats) == "7", PATIENCE, "it has published")
        assert printed(fresh.dpkg("--remove", "capacityd")) == [f"capacityd: Node n1 {kept} `capacityd withdraw`"]
        assert fresh.active == "inactive"
        assert not fresh.exists("/run/capacityd")
        assert not fresh.exists("/usr/share/capacityd"), "no bytecode is left"
        fresh.install(packages.current)
        assert (fresh.active, fresh.enabled) == ("inactive", "enabled"), "it starts at the next boot"
        fresh.run("systemctl", "start", UNIT)
        fresh.wait_for_readings({seats: 7})
        assert_no_warnings(fresh)

        (line,) = printed(fresh.dpkg("--purge", "capacityd"))
        assert line.startswith("capacityd: Node n1 keeps 1 resource ")
        assert server.capacity[seats] == "7"
        fresh.install(packages.current)
        fresh.run("capacityd", "withdraw")
        assert server.capacity == before
        assert printed(fresh.dpkg("--purge", "capacityd")) == [], "nothing is left on the Node"


def printed(output: str) -> list[str]:
    """The lines of dpkg's output that the package's own scripts have printed."""
    return [line for line in output.splitlines() if not line.startswith(("(Reading", "Removing", "Purging", "dpkg: "))]


def test_a_removal_does_not_need_a_working_program(fresh: Machine, packages: Packages) -> None:
    fresh.install(packages.current)
    fresh.run("sh", "-ec", "printf '#!/bin/sh\\nsleep 1000\\n' >/usr/bin/capacityd")
    fresh.dpkg("--remove", "capacityd")
    assert not fresh.exists("/usr/bin/capacityd")


def test_a_purge_leaves_the_administrators_files(fresh: Machine, packages: Packages) -> None:
    """A purge removes all files of the package and the service."""
    before = everything(fresh)
    fresh.install(packages.current)
    fresh.write("/etc/capacityd/conf.d/60-seats.toml", SEATS_CONFIG)
    fresh.write("/etc/capacityd/kubeconfig", "a credential\n", "600")
    fresh.run("systemctl", "enable", "--now", UNIT)
    assert fresh.active == "active"
    fresh.dpkg("--purge", "capacityd")
    assert fresh.active == "inactive"
    assert fresh.run("systemctl", "cat", UNIT, status=None).returncode != 0
    fresh.run("rm", f"/root/{packages.current.name}")
    kept = {"/etc/capacityd/conf.d/60-seats.toml", "/etc/capacityd/kubeconfig"}
    assert everything(fresh) - before == {"/etc/capacityd", "/etc/capacityd/conf.d"} | kept
    fresh.install(packages.older)
    assert (fresh.active, fresh.enabled) == ("inactive", "disabled"), "after a purge, a new installation is disabled"
    fresh.run("rm", *kept)
    fresh.dpkg("--purge", "capacityd")
    assert not fresh.exists("/etc/capacityd"), "a purge removes the empty folder"


def everything(machine: Machine) -> set[str]:
    """All files, without those that dpkg, the journal, systemd and udev change."""
    folders = "/var/lib/dpkg /var/log /var/cache /run/log /run/systemd /run/udev /run/user /var/tmp /tmp"
    without = [word for folder in folders.split() for word in ("-not", "-path", f"{folder}/*")]
    return set(machine.out("find", "/", "/run", "-xdev", *without).splitlines())
