"""The service in the unit's sandbox. The sandbox denies forbidden actions, but no reading and no event."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT
from tests.cluster.processes import PATIENCE, wait_until
from tests.package.console import UNIT
from tests.package.machine import Machine, machine, tap
from tests.package.packages import Packages
from tests.package.service import drop_in, published, start_service
from tests.support.readings import device_detectors
from tests.support.trees import write_tree

CONFIG = """\
[resources."example.com/seats"]
file = { path = "/srv/seats" }
[resources."example.com/static"]
static = { quantity = 3 }
[resources."example.com/programs"]
exec = { command = ["/usr/local/bin/count"] }
[resources."example.com/taps"]
nic = { kind = "virtual", name = "tap*" }
[resources."example.com/tap-mbps"]
nic = { kind = "virtual", name = "tap*" }
measure = "speed"
unit = "Mbit/s"
[resources."example.com/disk-gib"]
disk = {}
measure = "size"
unit = "GiB"
[resources."example.com/filesystems"]
filesystem = { kind = ["local", "image", "overlay"] }
[resources."example.com/filesystem-mib"]
filesystem = { kind = ["local", "image", "overlay"] }
measure = "size"
unit = "MiB"
[resources."example.com/addresses"]
address = { scope = ["global", "host"] }
[resources."example.com/pool"]
pool = { cidr = "192.0.2.0/28" }
[resources."example.com/terminals"]
udev = { subsystem = "tty" }
[resources."example.com/cores"]
cpu = {}
measure = "cores"
[resources."example.com/memory-kib"]
memory = {}
measure = "size"
unit = "KiB"
[resources."example.com/swap-kib"]
memory = {}
measure = "swap"
unit = "KiB"
"""
CONFIG += "".join(
    f'[resources."example.com/devices-of-{detector.name}"]\n{detector.name} = {{}}\n'
    for detector in device_detectors()
    if f"\n{detector.name} = " not in CONFIG
)
RECORDED = """\
[resources."example.com/dongle"]
usb = { vendor = "0529" }
[resources."example.com/nics"]
nic = {}
[resources."example.com/nvme-gib"]
disk = { type = "nvme" }
measure = "size"
unit = "GiB"
[resources."example.com/pci"]
pci = {}
"""
SYS_FOLDERS = ("block", "bus", "class", "dev", "devices")
COUNT = "#!/bin/sh\necho 5\n"

# Each command must fail in the sandbox, and does no harm if it succeeds.
DENIED = {
    "sys": "find /sys -writable -not -name memory.pressure | grep . || exit 1",
    "a device of sys": ": >>/sys/kernel/uevent_seqnum",
    "a sysctl": ": >>/proc/sys/kernel/hostname",
    "cgroups": "mkdir /sys/fs/cgroup/capacityd-was-here",
    "etc": ": >>/etc/capacityd/conf.d/60-test.toml",
    "usr": ": >>/usr/share/doc/capacityd/README.md",
    "var": ": >/var/lib/x",
    "home": "test -w /home",
    "root's home": "test -e /root/.secret",
    "devices": "mknod /run/capacityd/x c 1 3",
    "a disk": "ls /dev/[sv]d* /dev/nvme*",
    "a mount": "mount -t tmpfs tmpfs /run/capacityd",
    "a namespace": "unshare --user true",
    "the host's name": "hostname x",
    "the clock": "date -s @0",
    "owners": "touch /run/capacityd/x && chown daemon /run/capacityd/x",
    "setuid": "touch /run/capacityd/x && chmod u+s /run/capacityd/x",
    "priorities": 'test -z "$(nice -n -5 true 2>&1)"',
    "packets": "python3 -Ic 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)'",
    "written code": "python3 -Ic 'from mmap import *; mmap(-1, 4096, prot=PROT_READ | PROT_WRITE | PROT_EXEC)'",
    "capabilities": "grep -q 'CapBnd:.*[1-9a-f]' /proc/self/status",
}


# Each release has another version of systemd. tests/machine runs the service on Debian 12, so `make ci` does not.
@pytest.fixture(scope="module", params=[pytest.param("12", marks=pytest.mark.whole), "13"])
def served(request: pytest.FixtureRequest, packages: Packages) -> Iterator[Machine]:
    """A machine with the running service, and the hardware of the real machine."""
    with machine(request.param) as running:
        running.run("mount", "--make-rshared", "/")  # as systemd does outside of containers
        running.install(packages.current)
        running.write("/srv/seats", "7\n")
        running.write("/root/.secret", "x")
        running.write("/usr/local/bin/count", COUNT, "755")
        start_service(running, CONFIG)
        yield running
        assert "Traceback" not in running.journal()


def by_hand(machine: Machine, *options: str) -> dict[str, Any]:
    """The readings of `probe` outside the sandbox."""
    resources = json.loads(machine.run("capacityd", "probe", "--json", *options, status=None).stdout)["resources"]
    return {r["name"]: r["quantity"] if r["outcome"] == "quantity" else r["outcome"] for r in resources}


def as_service(machine: Machine, *options: str) -> dict[str, Any]:
    """The readings of `probe --as-service`, inside the sandbox."""
    return by_hand(machine, "--as-service", *options)


@contextmanager
def changed(machine: Machine, text: str) -> Iterator[None]:
    """Adds this drop-in to the unit until the context ends."""
    drop_in(machine, "changed", text)
    try:
        yield
    finally:
        machine.run("rm", f"/etc/systemd/system/{UNIT}.d/changed.conf")
        machine.run("systemctl", "daemon-reload")


def test_the_exposure_of_the_unit_is_low(served: Machine) -> None:
    """The test checks the unit for the kubelet's identity, and for capacityd's own identity."""
    assert score(served) <= 1.8
    with changed(served, (ROOT / "packaging/kubernetes/own-identity.conf").read_text()):
        assert score(served) <= 1.8


def score(machine: Machine) -> float:
    output = machine.run("systemd-analyze", "security", "--no-pager", UNIT, status=None).stdout
    match = re.search(r"Overall exposure level for \S+: ([\d.]+)", output)
    assert match, output
    return float(match[1])


def test_every_detector_reads_what_it_reads_outside(served: Machine) -> None:
    with tap(served, "tap7"):
        expected = by_hand(served)
        assert expected["example.com/taps"] == 1
        assert "unknown" not in expected.values(), expected
        assert as_service(served) == expected
        served.wait_for_readings(expected)
        wait_until(lambda: published(served, "example.com/programs") == "5", PATIENCE, "it has published")
    served.wait_for_readings({"example.com/taps": "absent"})
    assert served.status()["problems"] == []


def test_every_detector_reads_a_recorded_machine(served: Machine, tmp_path: Path) -> None:
    """The /sys of a recorded machine is mounted over the machine's /sys, because the machine lacks most hardware."""
    recording = json.loads((ROOT / "conf/examples/tour/machine.json").read_text())
    write_tree({**recording, "errors": {}}, str(tmp_path))
    served.unpack(tmp_path, "/srv/machine")
    served.write("/srv/recorded.toml", RECORDED)
    binds = "".join(f"BindReadOnlyPaths=/srv/machine/sys/{name}:/sys/{name}\n" for name in SYS_FOLDERS)
    with changed(served, f"[Service]\n{binds}"):
        assert as_service(served, "--config=/srv/recorded.toml") == {
            "example.com/dongle": 4,
            "example.com/nics": 2,
            "example.com/nvme-gib": 1788,
            "example.com/pci": 2,
        }


def test_the_sandbox_denies_each_command(served: Machine) -> None:
    """The service starts one program, which tries all these commands."""
    attempts = "".join(  # prints the number of each command that succeeds
        f"if ({script}) >/dev/null 2>&1; then echo {number} >>/run/capacityd/done; fi\n"
        for number, script in enumerate(DENIED.values())
    )
    served.write("/usr/local/bin/count", f"#!/bin/sh\n: >/run/capacityd/done\n{attempts}echo 6\n", "755")
    served.run("systemctl", "reload", UNIT)
    served.wait_for_readings({"example.com/programs": 6})
    done = served.out("cat", "/run/capacityd/done").split()
    served.write("/usr/local/bin/count", COUNT, "755")
    assert [list(DENIED)[int(number)] for number in done] == []


def test_what_the_sandbox_denies_is_possible_outside(served: Machine) -> None:
    """Otherwise a mistake in a command would look like a denial."""
    for what in ("root's home", "etc", "a sysctl", "packets", "written code", "capabilities", "sys"):
        assert served.run("sh", "-c", DENIED[what], status=None).returncode == 0, what


PAGE = "/usr/share/doc/capacityd/docs/files-and-programs.md"
HIDDEN = """\
[resources."example.com/a-users-file"]
file = { path = "/srv/private/seats" }
[resources."example.com/a-file"]
file = { path = "/root/data/seats" }
[resources."example.com/a-program"]
exec = { command = ["/tmp/tools/count"] }
[resources."example.com/a-role"]
when = { path = "/dev/licence0" }
static = { quantity = 7 }
"""


def test_a_hidden_path_is_named_and_the_drop_in_on_the_page_shows_it(served: Machine) -> None:
    """Root can read these paths in a shell. `config check` and the service say that the service cannot."""
    expected = {
        "example.com/a-file": 3,
        "example.com/a-program": 5,
        "example.com/a-role": 7,
        "example.com/a-users-file": 9,
    }
    shown_by = {
        "/root/data/seats": "BindReadOnlyPaths=-/root/data",
        "/tmp/tools/count": "BindReadOnlyPaths=-/tmp/tools",
        "/dev/licence0": "PrivateDevices=no",
        "/srv/private/seats": "CapabilityBoundingSet=CAP_DAC_READ_SEARCH",
    }
    page = served.run("cat", PAGE).stdout
    served.write("/srv/private/seats", "9\n")
    served.run("chown", "--recursive", "daemon", "/srv/private")
    served.run("chmod", "700", "/srv/private")
    served.write("/root/data/seats", "3\n")
    served.write("/dev/licence0", "")
    served.write("/tmp/tools/count", COUNT, "755")
    served.write("/etc/capacityd/conf.d/70-hidden.toml", HIDDEN)
    try:
        assert expected.items() <= by_hand(served).items()
        served.run("systemctl", "restart", UNIT)
        served.wait_for_readings(dict.fromkeys(expected, "unknown"))
        notes = {row["name"]: row["note"] for row in served.status()["resources"] if row["name"] in expected}
        warnings = served.run("capacityd", "config", "check").stderr
        for path, line in shown_by.items():
            hidden = f"the sandbox of capacityd.service hides {path}: {PAGE} says how to show it"
            assert any(hidden in note for note in notes.values()), notes
            assert hidden in warnings
            assert line.partition("=")[0] in page
        with changed(served, "\n".join(["[Service]", *shown_by.values()])):
            assert "the sandbox of capacityd.service hides" not in served.run("capacityd", "config", "check").stderr
            served.run("systemctl", "restart", UNIT)
            served.wait_for_readings(expected)
    finally:
        served.run("rm", "-r", "/etc/capacityd/conf.d/70-hidden.toml", "/dev/licence0", "/srv/private")
        served.run("systemctl", "restart", UNIT)


def test_a_host_name_that_comes_later_is_seen(served: Machine) -> None:
    """DHCP may set the host name late. The service uses it as the Node's name."""
    before = served.out("uname", "-n")
    served.write("/usr/local/bin/count", "#!/bin/sh\nuname -n | tr -d '\\n' | wc -c\n", "755")
    served.run("hostname", "a-name-from-dhcp")
    try:
        served.run("systemctl", "reload", UNIT)
        served.wait_for_readings({"example.com/programs": len("a-name-from-dhcp")})
    finally:
        served.run("hostname", before)
        served.write("/usr/local/bin/count", COUNT, "755")
        served.run("systemctl", "reload", UNIT)
    served.wait_for_readings({"example.com/programs": 5})


def test_a_configuration_that_the_sandbox_hides_is_read(served: Machine) -> None:
    path = "/root/odd name:1.toml"
    served.write(path, '[resources."example.com/seats"]\nstatic = { quantity = 3 }\n')
    output = served.run("capacityd", "probe", "--as-service", "--explain", f"--config={path}").stdout
    assert output.startswith("example.com/seats: 3\n")


def test_the_service_receives_events_of_udev(served: Machine) -> None:
    device = served.out("sh", "-c", "for d in /sys/bus/pci/devices/* /sys/block/*; do echo $d; break; done")

    def received() -> bool:
        before = settled(served)
        # The kernel's event goes through the machine's udevd, which sends it to the service.
        served.run("udevadm", "trigger", "--action=change", "--settle", device)
        wait_until(lambda: served.status()["last_reconcile"] > before, PATIENCE, "a pass")
        return "devices" in served.status()["reasons"]

    # A pass that an earlier test has caused may come in between.
    wait_until(received, PATIENCE, f"a pass because of an event of {device}")


def settled(machine: Machine) -> float:
    """Waits until no event is left: changes a file, and waits for the pass that reads it. Returns the pass's time."""
    machine.run("udevadm", "settle")
    seats = int(machine.out("cat", "/srv/seats")) + 1
    machine.write("/srv/seats", f"{seats}\n")
    machine.wait_for_readings({"example.com/seats": seats})
    return float(machine.status()["last_reconcile"])


def test_the_service_receives_events_of_addresses(served: Machine) -> None:
    before = by_hand(served)["example.com/addresses"]
    served.run("ip", "address", "add", "192.0.2.9/32", "dev", "lo")
    served.wait_for_readings({"example.com/addresses": before + 1})
    served.run("ip", "address", "del", "192.0.2.9/32", "dev", "lo")
    served.wait_for_readings({"example.com/addresses": before})
    # Wait, so that no later pass is due.
    wait_until(lambda: published(served, "example.com/addresses") == str(before), PATIENCE, "it is lowered")


def test_the_service_receives_events_of_mounts_and_counts_none_twice(served: Machine, tmp_path: Path) -> None:
    """New mounts of the machine appear in the unit. A file system on a loop device stands in for one on a disk."""
    image = tmp_path / "ext4"
    with open(image, "wb") as f:
        f.truncate(16 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    path = served.put(image)
    # The kernel gives loop-control the numbers 10 and 237, and each loop device the number 7.
    served.run("sh", "-ec", "cd /dev; test -e loop-control || mknod loop-control c 10 237")
    before = by_hand(served)["example.com/filesystems"]
    served.run("mkdir", "-p", "/srv/data", "/home/data")

    def mounted() -> bool:
        device = served.out("losetup", "--find").split()[0]  # losetup adds a note if the device file is missing
        served.run("sh", "-ec", 'test -e "$0" || mknod "$0" b 7 "${0#/dev/loop}"', device)
        return served.run("mount", "-o", f"loop={device}", path, "/srv/data", status=None).returncode == 0

    # All machines share the loop devices: another machine may take the free one first.
    wait_until(mounted, PATIENCE, "the image is mounted")
    try:
        served.run("mount", "--bind", "/srv/data", "/home/data")
        served.wait_for_readings({"example.com/filesystems": before + 1})
        size = "example.com/filesystem-mib"
        served.wait_for_readings({size: by_hand(served)[size]})
        served.run("umount", "/home/data")
    finally:
        served.run("umount", "--all-targets", "/srv/data")
    served.wait_for_readings({"example.com/filesystems": before})


def test_systemd_restarts_the_service_after_a_crash(served: Machine) -> None:
    """A crash keeps the folder in /run, and leaves no core dump with credentials. A stop removes the folder."""
    assert (served.shown("WatchdogUSec"), served.shown("LimitCORE")) == ("3min", "0")
    before = served.main_pid
    served.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", UNIT)
    wait_until(lambda: served.active == "active" and served.main_pid not in (before, "0"), PATIENCE, "it is up again")
    assert published(served, "example.com/static") == "3"
    served.run("systemctl", "stop", UNIT)
    assert not served.exists("/run/capacityd")

    # With a short watchdog, systemd restarts the service when it is stopped by SIGSTOP.
    drop_in(served, "zz-watchdog", "[Service]\nWatchdogSec=2\nTimeoutAbortSec=1\nRestartSec=1\n")
    served.run("systemctl", "start", UNIT)
    wait_until(lambda: published(served, "example.com/static") == "3", PATIENCE, "it has published")
    assert "Watchdog timeout" not in served.journal()
    served.run("systemctl", "kill", "--kill-whom=main", "--signal=STOP", UNIT)
    wait_until(lambda: "Watchdog timeout" in served.journal(), PATIENCE, "the watchdog has ended it")
    drop_in(served, "zz-watchdog", "")
    wait_until(lambda: served.main_pid != "0" and served.active == "active", PATIENCE, "it is started again")
    wait_until(lambda: published(served, "example.com/static") == "3", PATIENCE, "it has published again")
    assert served.shown("NRestarts") != "0"
