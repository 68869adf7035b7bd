"""`devices` prints two lines of TOML for a device: one matches only this device, the other all devices of its kind."""

from __future__ import annotations

import io
import json
import os
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.cli import run
from capacityd.cli.inventory.devices import DeviceEntry
from capacityd.cli.inventory.selectors import exact_toml_value
from capacityd.cli.inventory.table import print_devices, readable
from capacityd.discovery.reader import read_resource
from capacityd.host.recording.replay import RecordedHost
from capacityd.model.host import Host
from capacityd.model.reading import Quantity, Unknown
from capacityd.schema.units import Dimension
from capacityd.schema.value_types import Text
from tests.support.configs import HEADER, loaded
from tests.support.forked import can_be_alone, run_alone
from tests.support.listings import list_devices
from tests.support.machines import (
    Recording,
    bare,
    disk,
    errors,
    machine,
    merge,
    mounts,
    nic,
    nvme,
    pci_function,
    pci_nic,
    routes,
    usb_device,
    usb_hub,
    usb_path,
)
from tests.support.readings import device_detector, resource
from tests.support.terminals import executed

DETECTORS = ("disk", "nic", "pci", "usb")
# Some values have characters that are special in a pattern, in TOML or on a terminal.
WORDS = ("A17", "a17", "A*", "A?7", "[A]17", "[!x]", '"', "\\", "\\d", "(a|b)", "^x$", "\x1b[0m", "ü", "'", "\udcff")
texts = st.sampled_from([*WORDS, "", " "])
ids = st.sampled_from(["0403", "0529", "04aB"])
# Vendor, product, serial number and model of each USB device.
usb_devices = st.lists(st.tuples(ids, ids, st.none() | texts, st.none() | texts), max_size=5)
# Vendor, device and class of each PCI function: display controllers, accelerators, bridges.
pci_functions = st.lists(st.tuples(ids, ids, st.sampled_from(["030000", "120000", "060400"])), max_size=4)
link_speeds = st.sampled_from([(10**9,), (10**9, 10**10), ()])
nics = st.lists(st.tuples(ids, link_speeds), max_size=3)
nvme_disks = st.lists(st.tuples(texts, st.integers(1, 2**40)), max_size=3)


@st.composite
def usb(draw: st.DrawFn) -> list[Recording]:
    """USB devices. Some values of the first device may be unreadable."""
    parts: list[Recording] = []
    for number, (vendor, product, serial, model) in enumerate(draw(usb_devices), 1):
        parts.append(usb_device(f"1-{number}", vendor, product, serial, model, number=number + 1))
    attribute = draw(st.sampled_from([None, "serial", "idVendor", "bDeviceClass"]))
    if parts and attribute is not None:
        parts.append(errors({f"{usb_path('1-1')}/{attribute}": "EIO"}))
    if draw(st.booleans()):
        parts.append(usb_hub("1-9", number=30))
    return parts


@st.composite
def pci(draw: st.DrawFn) -> list[Recording]:
    """PCI functions, with or without a virtual function, and network interfaces."""
    parts: list[Recording] = []
    for number, (vendor, device, device_class) in enumerate(draw(pci_functions)):
        parts.append(pci_function(f"0000:3b:00.{number}", vendor, device, device_class))
    if len(parts) > 1 and draw(st.booleans()):
        parts.append(pci_function("0000:3b:01.0", "0403", "0403", physfn="0000:3b:00.0"))
    for number, (vendor, speeds) in enumerate(draw(nics)):
        address = f"0000:0{number}:00.0"
        parts.append(pci_nic(f"eth{number}", address, vendor, "1572", link_speeds=speeds, number=number + 2))
    if draw(st.booleans()):
        parts += [nic("br0", devtype="bridge", number=20), nic("lo", number=21)]
    if draw(st.booleans()):
        parts.append(routes("eth0"))
    return parts


@st.composite
def disks(draw: st.DrawFn) -> list[Recording]:
    """NVMe and other disks, and a drive without a medium."""
    parts: list[Recording] = []
    for number, (serial, sectors) in enumerate(draw(nvme_disks)):
        parts.append(nvme(f"nvme{number}n1", serial=serial, wwid=None, size=sectors * 512, number=f"259:{number}"))
    others = [disk("sda", "/sys/devices/x/0:0:0:0"), disk("sdb", "/sys/devices/x/1:0:0:0", number="8:16")]
    parts += others[: draw(st.integers(0, 2))]
    if draw(st.booleans()):
        parts.append(disk("sdz", "/sys/devices/x/9:0:0:0", size=0, number="8:240"))
    return parts


@st.composite
def machines(draw: st.DrawFn) -> RecordedHost:
    """A machine with devices of all detectors: many of the same kind, some with missing or unreadable values."""
    return machine(*draw(usb()), *draw(pci()), *draw(disks()))


def counted(toml: str, host: Host) -> list[str]:
    """The devices that a resource counts, if its table in the configuration consists of this line of TOML."""
    (resource,) = loaded(f"{HEADER}\n{toml}").require().resources
    reading = read_resource(resource, host, "n1")
    assert isinstance(reading, Quantity), (toml, reading)
    return [contribution.device for contribution in reading.contributions]


def printed(detector: str, host: Host) -> list[str]:
    """The lines that `devices` prints for a detector."""
    with redirect_stdout(io.StringIO()) as output:
        print_devices(list_devices(host, device_detector(detector)))
    return output.getvalue().splitlines()


def entries(detector: str, host: Host) -> list[DeviceEntry]:
    return [*list_devices(host, device_detector(detector)).entries]


@given(machines())
def test_selectors_match_one_device_or_one_kind(host: RecordedHost) -> None:
    for detector in DETECTORS:
        for entry in entries(detector, host):
            if entry.unique_selector.count == 1:
                assert counted(entry.unique_selector.toml, host) == [entry.device.name]
            else:  # the values that distinguish the device cannot be read or matched
                assert entry.unique_selector.reason or entry.device.unread or entry.unique_selector.count is None
            if entry.kind_selector.count is not None:
                names = counted(entry.kind_selector.toml, host)
                assert entry.device.name in names
                assert len(names) == entry.kind_selector.count


@pytest.mark.parametrize("value", ["(a|b)", r"\d", "^x", "x$", "x.+", "[0]+", ".*", "a{b}", "$x", ">=5"])
def test_a_value_that_looks_like_a_mistake_has_a_line(value: str) -> None:
    text = exact_toml_value(Text(), value)
    assert isinstance(text, str)
    assert [matcher.matches(value) for matcher in Text().parse(text)] == [True]


KERNEL_ESCAPES = {"\t": r"\011", "\n": r"\012", " ": r"\040", "#": r"\043", "\\": r"\134"}
paths = st.text(
    st.sampled_from("ab/\t\n #\\*?[]!{}|,'\"=<>\x1b\x7f\u00a0\u2028\u00e9\udce9\udcff"), min_size=1, max_size=6
)


def escaped(text: str) -> str:
    """The text as the kernel writes it in a table of mounts."""
    return "".join(KERNEL_ESCAPES.get(char, char) for char in text)


@given(st.lists(st.tuples(paths, paths, st.sampled_from(["xfs", "tmpfs", "nfs4", "fuse.x", "autofs"])), max_size=4))
def test_a_line_of_a_file_system_matches_only_it_whatever_its_mount_point_is(
    mounted: list[tuple[str, str, str]],
) -> None:
    lines = []
    for number, (mount_point, source, kind) in enumerate(mounted, 9):
        unique_point = f"/{number}{mount_point.rstrip('/')}"
        lines.append((escaped(unique_point), f"0:{number}", kind, escaped(source)))
    host = machine(mounts(("/", "8:1", "ext4", "/dev/sda1"), *lines))
    listed = entries("filesystem", host)
    assert len(listed) == len(mounted) + 1
    for entry in listed:
        assert entry.unique_selector.toml or entry.unique_selector.reason
        for toml in filter(None, (entry.unique_selector.toml, entry.kind_selector.toml)):
            assert loaded(f"{HEADER}\n{toml}").require()
        if entry.unique_selector.toml and entry.unique_selector.count == 1:
            assert counted(entry.unique_selector.toml, host) == [entry.device.name]


# Runs `devices` while a read of /proc/swaps hangs.
HANGING = """
import sys
from capacityd.__main__ import main
from capacityd.discovery import child
from tests.support.fuse import mounted
child.MAX_BLOCKED = 1.0
sys.argv[1:] = ["devices"]
with mounted("/proc/swaps", kind=0o100000):  # a regular file
    try:
        sys.exit(main())
    except SystemExit as e:
        print("status", e.code)
"""


@pytest.mark.skipif(not can_be_alone() or not os.access("/dev/fuse", os.R_OK | os.W_OK), reason="needs /dev/fuse")
def test_a_detector_that_hangs_does_not_keep_the_others_from_being_listed() -> None:
    output = run_alone(mounting="true", program=HANGING)
    assert "disk: unknown" in output
    assert "\nnic: " in output
    assert output.endswith("status 4\n")


def test_a_device_that_no_table_matches_has_a_reason() -> None:
    """An empty card reader has no size. By default, only disks with a size match."""
    lines = printed("disk", machine(disk("sda", size=0)))
    assert '# sda cannot be matched: it has no size, and the default is size = ">0B"' in lines


def test_an_unreadable_serial_number_is_not_used_to_match_others() -> None:
    """1-1 might have the serial number of 1-2, so 1-2 is matched by its port."""
    host = machine(usb_device("1-1"), usb_device("1-2"), errors({f"{usb_path('1-1')}/serial": "EIO"}))
    one, other = entries("usb", host)
    assert one.device.unread.keys() == {"serial"}
    assert counted(other.unique_selector.toml, host) == ["1-2"]
    assert other.kind_selector.count == 2


def test_names_come_from_the_hardware_database_or_from_the_device() -> None:
    properties = {"ID_VENDOR_FROM_DATABASE": "Maker, Inc.", "ID_MODEL_FROM_DATABASE": "Maker One"}
    host = machine(
        usb_device("1-1", properties={"ID_VENDOR_FROM_DATABASE": "Future Technology Devices Co., Ltd"}),
        usb_device("1-2", properties=properties),
        usb_device("1-3", "1234", model="Thing", manufacturer="Thing Works"),
        usb_device("1-4", "1234", "5678", model=None, manufacturer=None),
    )
    assert {entry.device.name: entry.device.title for entry in entries("usb", host)} == {
        "1-1": "Future Technology Devices Co., Ltd FT232R USB UART",
        "1-2": "Maker One",
        "1-3": "Thing",
        "1-4": "",
    }


def test_devices_are_sorted_by_the_numbers_in_their_names() -> None:
    host = machine(*(nic(name, number=number) for number, name in enumerate(("eth10", "eth2", "eth0", "eth"), 2)))
    assert [entry.device.name for entry in entries("nic", host)] == ["eth", "eth0", "eth2", "eth10"]


@pytest.mark.parametrize(
    ("value", "dimension", "text"),
    [
        (1000204886016, "size", "931.5GiB"),
        (2**50 * 5000, "size", "5000PiB"),
        (2**40 - 1, "size", "1TiB"),
        (25 * 10**9, "speed", "25Gbit/s"),
        (3_450_000_000, "frequency", "3.4GHz"),
        (4096, "number", "4096"),
    ],
)
def test_amounts_are_printed_in_a_readable_unit(value: int, dimension: Dimension, text: str) -> None:
    assert readable(value, dimension) == text


def test_a_value_that_cannot_be_read_is_a_question_mark() -> None:
    host = machine(usb_device("1-1"), usb_device("1-2"), errors({f"{usb_path('1-1')}/idVendor": "EIO"}))
    _, heading, *rows = (line.split() for line in printed("usb", host))
    column = heading.index("VENDOR")
    assert [(row[0], row[column]) for row in rows[:2]] == [("1-1", "?"), ("1-2", "0403")]
    (reason,) = (line for line in printed("usb", host) if line.startswith("?: "))
    assert reason.startswith("?: could not be read: vendor: ")


def test_a_machine_without_devices_has_none() -> None:
    assert printed("usb", machine())[0].startswith("usb: none")


SDB = "/sys/devices/pci0000:3b/0000:3b:00.0/host0/port-0:1/end_device-0:1/target0:0:1/0:0:1:0"
WITH_DANGLING_NIC = merge(
    bare(),
    usb_device("1-1"),
    pci_function(),
    pci_nic("eth0"),
    {"links": {"/sys/class/net/eth9": "../../devices/gone"}},
    disk("sda"),
    disk("sdb", SDB, number="8:16"),
    routes("eth0"),
)


def devices(recorded: Recording, folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Runs `devices` on a recording. Returns the exit status, the output and the errors."""
    (folder / "m.json").write_text(json.dumps(recorded))
    return executed(run, "devices", f"--machine={folder}/m.json", *arguments)


@pytest.mark.parametrize("name", [f"{SDB}/block/sdb/hidden", f"{SDB}/wwid"])
def test_an_unreadable_disk_hides_no_other_device(name: str, tmp_path: Path) -> None:
    """The exit status shows that a device is unknown, and one line says which."""
    status, out, err = devices(merge(WITH_DANGLING_NIC, errors({name: "EIO"})), tmp_path)
    assert status == 4
    first_words = {line.split()[0] for line in out.splitlines() if line[:1].isalnum()}
    assert first_words >= {"sda", "sdb", "0000:3b:00.0", "1-1"}
    assert "# sdb cannot be matched: it is unknown whether it is another path to a disk: " in out
    of_disk, of_nic = err.splitlines()
    assert of_disk.startswith(
        "capacityd: disk: not everything could be listed: sdb: it is unknown whether it is another "
    )
    assert of_nic.endswith("nic: not everything could be listed: eth9: /sys/class/net/eth9 is a dangling link")


def test_a_folder_that_cannot_be_listed_hides_no_other_detector(tmp_path: Path) -> None:
    recorded = merge(WITH_DANGLING_NIC, errors({"/sys/block": "EACCES"}))
    reason = "/sys/block could not be read: Permission denied"
    status, out, err = devices(recorded, tmp_path)
    assert status == 4
    assert "disk: unknown" in out
    assert "1-1" in out
    assert f"capacityd: disk: not everything could be listed: {reason}\n" in err
    status, out, _ = devices(recorded, tmp_path, "--json")
    assert (status, json.loads(out)["not_listed"]) == (4, {"disk": reason})
    status, out, _ = devices(recorded, tmp_path, "--toml")
    assert status == 4
    assert f"# not all devices could be listed: {reason}\n" in out


def test_no_number_is_expected_while_a_count_is_unknown(tmp_path: Path) -> None:
    """eth9 is a dangling link, so its kind is unknown. `devices` counts it as unknown, as `probe` does."""
    status, out, _ = devices(WITH_DANGLING_NIC, tmp_path, "nic", "--toml")
    assert status == 4
    assert "\nexpect" not in out
    host = RecordedHost(WITH_DANGLING_NIC)
    eth0 = next(entry for entry in entries("nic", host) if entry.device.name == "eth0")
    assert eth0.kind_selector.count is None
    assert isinstance(read_resource(resource("nic", eth0.kind_selector.table), host, "n1"), Unknown)
    assert counted('nic = { name = "eth0" }', host) == ["eth0"]
    assert eth0.unique_selector.toml == 'nic = { name = "eth0" }'


def test_the_upper_of_two_file_systems_that_are_mounted_over_each_other_has_a_line() -> None:
    """Some container runtimes mount /dev/shm twice. Both file systems have the same mount point and source."""
    shm = [("/dev/shm", device, "tmpfs", "tmpfs") for device in ("0:25", "0:26")]
    host = machine(mounts(("/", "8:1", "ext4", "/dev/sda1"), *shm))
    (upper,) = (entry for entry in entries("filesystem", host) if entry.device.name == "/dev/shm")
    assert upper.unique_selector.toml == 'filesystem = { mount = "/dev/shm", kind = "memory" }'
    assert counted(upper.unique_selector.toml, host) == ["/dev/shm"]


def test_a_line_says_if_it_may_match_other_devices() -> None:
    assert entries("udev", machine(usb_device("1-1"), errors({"/sys/class": "EACCES"}))) == []
    host = machine(usb_device("1-1"), nic("lo"), errors({"/sys/class/net": "EACCES"}))
    (line,) = (line for line in printed("udev", host) if 'name = "1-1"' in line)
    assert line.endswith("# 1-1; it is unknown whether it also matches others")
