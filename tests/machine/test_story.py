"""A node's life in a virtual machine. Each test is a step, and builds on the steps before it.

Here the hardware changes. tests/cluster tests writes by the kubelet and others, tests/package changes of the package.
`make ci` leaves out the steps that are marked `whole`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from capacityd import __version__
from capacityd.model.file_codec import from_file
from capacityd.model.reading import Quantity
from capacityd.worker.pass_state import PassStatus
from tests.cluster.agent import condition_of
from tests.cluster.credentials import node_user
from tests.cluster.nodewatch import watch_node
from tests.cluster.processes import wait_until
from tests.machine.conftest import DONGLE, FIRST_CAPACITY, GIB, NIC, NVME, PORT, SCRATCH, Node
from tests.package.console import UNIT

LONG = 600  # seconds: emulation is slow on a busy machine
PAUSE = 1.0  # seconds between two evaluations of a condition, each of which starts a program in the machine
GROWN_CAPACITY = {**FIRST_CAPACITY, SCRATCH: "6", PORT: "1k"}  # after a disk has grown, and a NIC was added
GROWN_NUMBERS = {DONGLE: 2, NIC: 26000, PORT: 1000, SCRATCH: 6, NVME: 1}  # the same, as capacityd publishes it
# The program fills shared memory, because each process already has a limit for private memory.
HUNGRY = "example.com/hungry"
HUNGRY_PROGRAM = """\
#!/usr/bin/python3 -I
import mmap
memory = mmap.mmap(-1, 1 << 30)
for megabyte in range(1 << 10):
    memory.write(b"x" * (1 << 20))
print(1)
"""
HUNGRY_CONFIG = f"""\
[resources."{HUNGRY}"]
exec = {{ command = ["/usr/local/bin/hungry"], timeout = "5min" }}
"""
# Parts of warnings that the journal may contain. The tests cause them, and an operator could act on each.
EXPECTED_WARNINGS = ("API server", "no default route", f"{HUNGRY}: unknown")


def wait_for(condition: Callable[[], object], what: str) -> None:
    """Waits until the condition, which may ask the machine, is true."""
    wait_until(condition, LONG, what, PAUSE)


def last_pass(node: Node) -> PassStatus:
    """The status of the last pass, read from the state file: under emulation, `capacityd status` takes seconds."""
    output = node.vm.run("cat", "/run/capacityd/state.json", status=None).stdout
    return from_file(PassStatus, output.encode(), __version__) if output else PassStatus()


def readings(node: Node) -> dict[str, Any]:
    """The readings of the last pass: numbers, or outcomes such as unknown."""
    last = last_pass(node).readings.items()
    return {name: r.value if isinstance(r, Quantity) else r.outcome for name, r in last}


def wait_settled(node: Node) -> None:
    """Waits until everything is published and no pass is due."""

    def nothing_due() -> bool:
        last = last_pass(node)
        return last.published == GROWN_NUMBERS and not last.waits

    wait_for(nothing_due, f"capacityd has published {GROWN_NUMBERS}, and the kubelet has followed")


def warnings(node: Node) -> list[str]:
    """The service's warnings in the journal."""
    return node.vm.out("journalctl", "--quiet", "--no-pager", "--priority=warning", f"--unit={UNIT}").splitlines()


def test_first_boot(node: Node) -> None:
    """cloud-init enables the service before there are credentials."""
    node.wait_capacity(FIRST_CAPACITY)
    node.vm.wait_booted()
    assert (node.vm.active, node.vm.enabled) == ("active", "enabled")
    assert node.vm.out("cloud-init", "status") == "status: done"
    expected = {name: value for name, value in FIRST_CAPACITY.items() if value is not None}
    wait_for(lambda: expected.items() <= node.cluster.allocatable(node.name).items(), "allocatable follows")
    assert PORT not in node.cluster.capacity(node.name)
    assert [line for line in warnings(node) if "API server" not in line] == [], "there were no credentials at first"


def test_a_disk_grows(node: Node) -> None:
    node.vm.resize("scratch", 4 * GIB)
    node.wait_capacity({SCRATCH: "6"})


def test_a_nic_is_added(node: Node) -> None:
    """The service reads the NIC's link modes by ioctl, from within the sandbox."""
    node.vm.plug("e1000e", "nic3", bus="slot1", netdev="nic3-peer")
    node.wait_capacity({PORT: "1k"})


@pytest.mark.whole
def test_a_dongle_leaves_while_the_network_is_cut_and_comes_back(node: Node) -> None:
    node.vm.set_link("system", up=False)
    node.vm.unplug("dongle2")
    wait_for(lambda: last_pass(node).error, "capacityd can't reach the API server, and reports it")
    assert node.vm.active == "active"
    node.vm.set_link("system", up=True)
    node.wait_capacity({**GROWN_CAPACITY, DONGLE: "1"})
    node.vm.plug("usb-serial", "dongle2", chardev="dongle2-end", **{"always-plugged": True})
    node.wait_capacity(GROWN_CAPACITY)


@pytest.mark.whole
def test_a_link_goes_down_and_comes_up(node: Node) -> None:
    node.vm.set_link("nic1", up=False)
    node.wait_capacity({**GROWN_CAPACITY, NIC: "1k"})
    node.vm.set_link("nic1", up=True)
    node.wait_capacity(GROWN_CAPACITY)


@pytest.mark.whole
def test_a_program_that_uses_too_much_memory_fails_alone(node: Node) -> None:
    """The unit's memory limit, under a real memory controller."""
    before = node.vm.main_pid
    node.vm.write("/usr/local/bin/hungry", HUNGRY_PROGRAM, "755")
    node.vm.write("/etc/capacityd/conf.d/70-hungry.toml", HUNGRY_CONFIG)
    node.vm.run("systemctl", "reload", UNIT)
    killed = "/usr/local/bin/hungry was killed by signal 9"
    wait_for(lambda: killed in str(last_pass(node).readings), killed)
    assert (node.vm.main_pid, node.vm.shown("NRestarts")) == (before, "0")
    node.vm.run("rm", "/etc/capacityd/conf.d/70-hungry.toml")
    node.vm.run("systemctl", "reload", UNIT)
    wait_for(lambda: HUNGRY not in readings(node), f"{HUNGRY} is forgotten")


@pytest.mark.whole
def test_a_reboot(node: Node) -> None:
    """The Node loses nothing, and the service writes nothing."""
    wait_for(lambda: condition_of(node.cluster.node(node.name)).get("status") == "True", "all is published")
    wait_settled(node)
    mark = node.cluster.audit.mark()
    with watch_node(node.cluster, node.name) as watch:
        node.vm.reboot()
        node.vm.wait_booted()
        kubelet_began = float(node.vm.out("sh", "-c", "stat -c %Y /var/lib/kubelet/device-plugins/kubelet.sock"))
        wait_for(lambda: (last_pass(node).read_at or 0.0) > kubelet_began, "a pass has read the Node since then")
    assert readings(node)[DONGLE] == 2
    ours = [r for r in node.cluster.audit.since(mark, node_user(node.name)) if "capacityd" in r.user_agent]
    assert [r for r in ours if r.verb == "patch" or r.resource == "events"] == []
    for version in watch:
        assert GROWN_CAPACITY.items() <= version.node["status"]["capacity"].items()


def test_the_journal(node: Node) -> None:
    """The whole journal has no traceback, and no warning that an operator could not act on."""
    assert "Traceback" not in node.vm.journal(unit=None)
    assert [line for line in warnings(node) if not any(known in line for known in EXPECTED_WARNINGS)] == []
