"""A node's life in a virtual machine, in steps that build on each other: each is a test, in this order.

Each step's seconds, from the monitor's or the administrator's command to the API server's watch event, are shown at the
end. Emulation is ten to twenty times slower than a machine. `make ci` leaves the steps out that are marked `whole`.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from capacityd.model.codec import from_file
from capacityd.model.node import annotated_quantities
from capacityd.model.reading import Quantity, outcome_of
from capacityd.worker.pass_state import PassState, PassStatus
from tests.cluster.agent import ANNOTATION, condition_of
from tests.cluster.processes import wait_until
from tests.machine.conftest import Node
from tests.machine.node import HARDWARE_FILE
from tests.machine.qemu import BOOT
from tests.machine.story import AT_FIRST, DONGLE, GIB, NAMES, NIC, NVME, PORT, SCRATCH
from tests.package.console import UNIT
from tests.package.packages import NO_TESTS, build

LONG = 600  # seconds: emulation on a machine that is busy with something else
PAUSE = 1.0  # seconds between two questions to the machine, each of which starts a program in it
NOW = {**AT_FIRST, SCRATCH: "6", PORT: "1k"}
AMOUNTS = {DONGLE: 2, NIC: 26000, PORT: 1000, SCRATCH: 6, NVME: 1}  # NOW, as numbers
PLUGINS = "/var/lib/kubelet/device-plugins"
# Shared memory: private memory has a limit for each process already.
HUNGRY = "example.com/hungry"
PROGRAM = """\
#!/usr/bin/python3 -I
import mmap
memory = mmap.mmap(-1, 1 << 30)
for megabyte in range(1 << 10):
    memory.write(b"x" * (1 << 20))
print(1)
"""
CONFIG = f"""\
[resources."{HUNGRY}"]
exec = {{ command = ["/usr/local/bin/hungry"], timeout = "5min" }}
"""
# What the journal may warn of: each can be acted on, and is about what the story has done.
WARNINGS = ("API server", f"{HUNGRY}: unknown")
# And while the story has cut the network.
CUT_OFF = "no default route"


def wait_for(condition: Callable[[], object], what: str) -> None:
    """Waits until the condition, which may ask the machine, is true."""
    wait_until(condition, LONG, what, PAUSE)


def requested(node: Node, since: int) -> list[str]:
    """capacityd's requests since a position of the audit log, each with the status of its response."""
    return [
        f"{r.verb} {r.resource}{'/' if r.subresource else ''}{r.subresource} {r.code}"
        for r in node.cluster.audit.since(since)
        if r.user == node.user and "capacityd" in r.user_agent
    ]


def written(node: Node, since: int) -> list[str]:
    return [
        request for request in requested(node, since) if not request.startswith("get ") and "reviews" not in request
    ]


def patches(node: Node) -> list[list[str]]:
    """What capacityd's patches have written."""
    return [
        [operation["path"] for operation in r.body if operation["op"] != "test"]
        for r in node.cluster.audit.since(0)
        if r.verb == "patch" and "capacityd" in r.user_agent
    ]


def last_pass(node: Node) -> PassStatus:
    """What the last pass has left: under emulation capacityd status takes seconds."""
    return last_state(node).status or PassStatus(0.0)


def last_state(node: Node) -> PassState:
    """All that the last pass has left."""
    output = node.vm.run("cat", "/run/capacityd/state.json", status=None).stdout
    return from_file(PassState, output.encode()) if output else PassState()


def readings(node: Node) -> dict[str, Any]:
    last = last_pass(node).readings.items()
    return {name: r.value if isinstance(r, Quantity) else outcome_of(r).value for name, r in last}


def read_at(node: Node) -> float:
    """When a pass has last read the Node."""
    return last_pass(node).read_at or 0.0


def settled(node: Node) -> int:
    """The position in the audit log once the service has published all, created the Event, and no pass is due."""

    def nothing_due() -> bool:
        last = last_state(node)
        published = annotated_quantities(last.memory.node.annotation) if last.memory.node else {}
        return published == AMOUNTS and last.status is not None and not last.status.waits

    wait_for(nothing_due, f"it has published {AMOUNTS}, and the kubelet has followed")
    return node.cluster.audit.mark()


def clock(node: Node) -> float:
    return float(node.vm.out("date", "+%s.%N"))


def uptime(node: Node) -> float:
    return float(node.vm.out("cat", "/proc/uptime").split()[0])


def test_first_boot(node: Node) -> None:
    """cloud-init enables it, before there are credentials; no request besides the designed ones."""
    node.published(AT_FIRST, node.begun, "first boot, from switching it on", BOOT)
    node.vm.up()
    assert (node.vm.active, node.vm.enabled) == ("active", "enabled")
    assert node.vm.out("cloud-init", "status") == "status: done"
    assert node.vm.out("capacityd", "--version") == "capacityd 0.0.9"
    expected = {name: value for name, value in AT_FIRST.items() if value is not None}
    wait_for(lambda: expected.items() <= node.cluster.allocatable(node.name).items(), "allocatable follows")
    assert PORT not in node.cluster.capacity(node.name)
    requests = Counter(requested(node, 0))
    assert set(requests) <= {
        "create selfsubjectreviews 201",
        "get nodes 404",  # the kubelet has not registered it yet
        "get nodes 200",
        "patch nodes/status 200",
        "create events 201",
    }, requests
    assert requests["create selfsubjectreviews 201"] == 1, requests
    # What takes long to read is written after the rest; each once.
    keys = [path for patch in patches(node) for path in patch if path.startswith("/status/capacity/")]
    assert sorted(keys) == [f"/status/capacity/{name.replace('/', '~1')}" for name in sorted(expected)]
    assert requests["patch nodes/status 200"] == requests["create events 201"] <= 2, requests
    named = {r.name for r in node.cluster.audit.since(0) if "capacityd" in r.user_agent and r.resource == "nodes"}
    assert named == {node.name}


def test_a_disk_grows(node: Node) -> None:
    began = node.vm.resize("scratch", 4 * GIB)
    node.published({SCRATCH: "6"}, began, "a disk grows")


def test_a_nic_is_added(node: Node) -> None:
    """Its link modes come by ioctl, from within the sandbox."""
    began = node.vm.plug("e1000e", "nic3", bus="slot1", netdev="nic3-peer")
    node.published({PORT: "1k"}, began, "a NIC is added")


@pytest.mark.whole
def test_a_kubelet_that_zeroes_is_undone(node: Node) -> None:
    """As on a node that has lost its device-plugins folder and whose runtime is slower than its kubelet."""
    node.vm.run("systemctl", "stop", "kubelet.service")
    node.vm.run("sh", "-c", f"rm -rf {PLUGINS}/*")
    node.vm.run("systemctl", "kill", "--signal=USR1", "fakeruntime.service")
    began = time.monotonic()
    node.vm.run("systemctl", "start", "kubelet.service")
    zeroed = node.watch.wait(
        lambda document: document["status"]["capacity"].get(DONGLE) == "0", LONG, "it zeroes", began
    )
    node.vm.run("systemctl", "kill", "--signal=USR2", "fakeruntime.service")
    node.published(NOW, zeroed, "a kubelet that zeroes is undone, from its write")
    wait_for(lambda: node.cluster.allocatable(node.name).get(PORT) == "1k", "allocatable follows")


@pytest.mark.whole
def test_an_upgrade(node: Node, tmp_path: Path) -> None:
    """Of the package, while it runs: it goes on, and nothing is written."""
    mark, before, since = settled(node), node.vm.main_pid, last_pass(node).at
    node.vm.install(build(node.sources, tmp_path, environment=NO_TESTS))
    assert (node.vm.active, node.vm.enabled) == ("active", "enabled")
    assert node.vm.out("capacityd", "--version") != "capacityd 0.0.9"
    assert node.vm.main_pid != before
    wait_for(lambda: last_pass(node).at > since, "a pass of the new one")
    assert written(node, mark) == []


@pytest.mark.whole
def test_a_dongle_leaves_while_the_network_is_cut(node: Node) -> None:
    node.cut.append(clock(node))
    node.vm.set_link("system", up=False)
    node.vm.unplug("dongle2")
    wait_for(lambda: last_pass(node).error, "it can't reach the API server, and reports it")
    assert node.vm.active == "active"
    began = node.vm.set_link("system", up=True)
    node.published({**NOW, DONGLE: "1"}, began, "a network cut ends, and a dongle has left meanwhile")
    node.cut.append(clock(node))


@pytest.mark.whole
def test_the_dongle_comes_back(node: Node) -> None:
    began = node.vm.plug("usb-serial", "dongle2", chardev="dongle2-end", **{"always-plugged": True})
    node.published(NOW, began, "a dongle is plugged in")


@pytest.mark.whole
def test_a_link_goes_down_and_comes_up(node: Node) -> None:
    began = node.vm.set_link("nic1", up=False)
    node.published({**NOW, NIC: "1k"}, began, f"a link goes down, {uptime(node):.0f} s after the boot")
    began = node.vm.set_link("nic1", up=True)
    node.published(NOW, began, "a link comes up")


@pytest.mark.whole
def test_a_dongle_leaves(node: Node) -> None:
    began = node.vm.unplug("dongle1")
    node.published({**NOW, DONGLE: "1"}, began, f"a dongle is pulled, {uptime(node):.0f} s after the boot")
    began = node.vm.plug("usb-serial", "dongle1", chardev="dongle1-end", **{"always-plugged": True})
    node.published(NOW, began, "a dongle is plugged in again")


@pytest.mark.whole
def test_what_does_not_match_costs_no_request(node: Node) -> None:
    mark, since = settled(node), last_pass(node).at
    node.vm.unplug("mouse")
    wait_for(lambda: last_pass(node).at > since, "a pass")
    assert requested(node, mark) == []


@pytest.mark.whole
def test_a_recording_reads_as_the_machine_does(node: Node) -> None:
    node.vm.run("capacityd", "record", "/run/machine.json", deadline=LONG)
    live, replayed = (
        json.loads(node.vm.run("capacityd", "probe", "--json", *options, deadline=LONG).stdout)["resources"]
        for options in ((), ("--machine", "/run/machine.json"))
    )
    assert replayed == live
    assert {reading["outcome"] for reading in live} == {"quantity"}
    node.vm.run("rm", "/run/machine.json")


@pytest.mark.whole
def test_a_program_that_uses_too_much_memory_fails_alone(node: Node) -> None:
    """The unit's limit, under a real memory controller."""
    before = node.vm.main_pid
    node.vm.write("/usr/local/bin/hungry", PROGRAM, "755")
    node.vm.write("/etc/capacityd/conf.d/70-hungry.toml", CONFIG)
    node.vm.run("systemctl", "reload", UNIT)
    killed = "/usr/local/bin/hungry was killed by signal 9"
    wait_for(lambda: killed in str(last_pass(node).readings), killed)
    assert (node.vm.main_pid, node.vm.shown("NRestarts")) == (before, "0")
    node.vm.run("rm", "/etc/capacityd/conf.d/70-hungry.toml")
    node.vm.run("systemctl", "reload", UNIT)
    wait_for(lambda: HUNGRY not in readings(node), "it is forgotten")


@pytest.mark.whole
def test_a_reboot(node: Node) -> None:
    """Nothing is lost, and nothing is written."""
    wait_for(lambda: (condition_of(node.cluster.node(node.name)) or {}).get("status") == "True", "all is published")
    mark, began = settled(node), time.monotonic()
    node.vm.reboot()
    node.vm.up()
    kubelet_began = float(node.vm.out("sh", "-c", "stat -c %Y /var/lib/kubelet/device-plugins/kubelet.sock"))
    wait_for(lambda: read_at(node) > kubelet_began, "a pass has read the Node since")
    node.took["a reboot, until a pass"] = time.monotonic() - began
    assert readings(node)[DONGLE] == 2
    assert written(node, mark) == []
    names = {name: value for name, value in NOW.items() if value is not None}
    for document in node.watch.since(began):
        assert names.items() <= document["status"]["capacity"].items()


def test_the_journal(node: Node) -> None:
    """Of all of it: no traceback, and no warning that an operator could do nothing about."""
    assert "Traceback" not in node.vm.journal(None)
    command = ["journalctl", "--quiet", "--no-pager", "--output=short-unix", "--priority=warning", f"--unit={UNIT}"]
    output = node.vm.out(*command).splitlines()
    began, ended = node.cut or (0.0, 0.0)
    output = [line for line in output if not (CUT_OFF in line and began <= float(line.split()[0]) <= ended)]
    assert [line for line in output if not any(known in line for known in WARNINGS)] == []


@pytest.mark.whole
def test_withdraw_and_purge(node: Node) -> None:
    """Neither the Node nor the machine has anything of ours; the administrator's configuration stays."""
    node.vm.run("systemctl", "disable", "--now", UNIT)
    began = time.monotonic()
    node.vm.run("capacityd", "withdraw")
    node.published(dict.fromkeys(NAMES), began, "capacityd withdraw")
    wait_for(lambda: not set(NAMES) & set(node.cluster.allocatable(node.name)), "allocatable follows")
    document = node.cluster.node(node.name)
    assert ANNOTATION not in document["metadata"].get("annotations", {})
    assert condition_of(document) is None
    assert [entry for entry in document["metadata"]["managedFields"] if entry["manager"] == "capacityd"] == []
    assert "capacityd" not in str(without_images(document))
    node.vm.dpkg("--purge", "capacityd")
    node.vm.run("sh", "-c", "rm -f /root/capacityd_*.deb /usr/local/bin/hungry")
    remaining = node.vm.out("find", "/", "/run", "-xdev", "-name", "*capacityd*", "-not", "-path", "/var/log/*")
    assert remaining == "/etc/capacityd"
    # What cloud-init wrote belongs to the administrator.
    assert node.vm.out("find", "/etc/capacityd", "-type", "f") == HARDWARE_FILE
    assert "capacityd" not in node.vm.out(
        "env", "SYSTEMD_BUS_TIMEOUT=5min", "systemctl", "list-unit-files", "--all", "--no-legend"
    )
    assert "capacityd" not in node.vm.out("cat", "/etc/passwd", "/etc/group")
    assert node.vm.out("systemctl", "--failed", "--no-legend") == ""


def without_images(node: dict[str, Any]) -> dict[str, Any]:
    return {**node, "status": {key: value for key, value in node["status"].items() if key != "images"}}
