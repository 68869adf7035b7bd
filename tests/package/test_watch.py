"""The installed service's watcher, in the unit's sandbox, with a Node on a fake API server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.processes import PATIENCE, wait_until
from tests.package.api_server import ApiServer, api_server
from tests.package.console import UNIT
from tests.package.machine import Machine, machine
from tests.package.packages import Packages
from tests.package.service import SEATS_CONFIG

SEATS = "example.com/seats"


@pytest.fixture(scope="module")
def watched(packages: Packages) -> Iterator[tuple[Machine, ApiServer]]:
    """A machine whose service has published its resource."""
    with machine("13") as running, api_server(running) as server:
        running.install(packages.current)
        running.write("/srv/seats", "7\n")
        running.write("/etc/capacityd/conf.d/60-test.toml", SEATS_CONFIG)
        running.run("systemctl", "enable", "--now", UNIT)
        wait_until(lambda: server.capacity.get(SEATS) == "7", PATIENCE, "it has published")
        wait_watched(running)
        yield running, server
        assert "Traceback" not in running.journal()


def wait_watched(machine: Machine) -> None:
    wait_until(lambda: machine.status().get("watched_since"), PATIENCE, "the Node is watched")


def processes(machine: Machine) -> dict[str, str]:
    """The command line of each process of the unit, by PID."""
    pids = machine.run("cat", f"/sys/fs/cgroup/system.slice/{UNIT}/cgroup.procs", status=None).stdout.split()
    return {pid: machine.run("cat", f"/proc/{pid}/cmdline", status=None).stdout for pid in pids}


def watcher(machine: Machine) -> str:
    """The PID of the watcher. The command line of the service contains that of the watcher."""
    commands = processes(machine).items()
    (pid,) = (pid for pid, line in commands if "watcher.main" in line and "service.main" not in line)
    return pid


def restrictions(machine: Machine, pid: str) -> list[str]:
    """The restrictions of a process: capabilities, privileges, system calls, and its view of the files."""
    status = machine.out("grep", "-E", "^(Cap|NoNewPrivs|Seccomp:)", f"/proc/{pid}/status")
    return [*status.splitlines(), machine.out("readlink", f"/proc/{pid}/ns/mnt")]


def test_the_watcher_runs_in_the_sandbox(watched: tuple[Machine, ApiServer]) -> None:
    machine, _ = watched
    expected = restrictions(machine, machine.main_pid)
    assert "Seccomp:\t2" in expected
    assert restrictions(machine, watcher(machine)) == expected


def test_a_change_of_the_node_is_noticed(watched: tuple[Machine, ApiServer]) -> None:
    machine, server = watched
    server.set_capacity({"cpu": "4"})
    wait_until(lambda: server.capacity.get(SEATS) == "7", PATIENCE, "it is published again")
    output = machine.out("capacityd", "status")
    assert "Node watched for " in output
    assert "not watched" not in output


def test_no_process_outlives_a_restart_or_a_stop(watched: tuple[Machine, ApiServer]) -> None:
    machine, server = watched
    before = processes(machine)
    assert {machine.main_pid, watcher(machine)} <= before.keys()
    machine.run("systemctl", "restart", UNIT)
    wait_watched(machine)
    assert not before.keys() & processes(machine).keys()
    after = processes(machine)
    machine.run("systemctl", "stop", UNIT)
    assert machine.shown("Result") == "success", "no process needs a SIGKILL"
    running = machine.out("ls", "/proc").split()
    assert not {*before, *after} & {*running}
    assert server.capacity[SEATS], "the Node stays as it is"
    machine.run("systemctl", "start", UNIT)
    wait_watched(machine)
