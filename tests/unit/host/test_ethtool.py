"""Link modes: their names, their speeds, and the ioctl on real interfaces."""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from capacityd.host import ethtool
from capacityd.host.ethtool import _mode_names, speeds_of, supported_modes
from capacityd.model.errors import HostError
from tests.support.forked import can_be_alone, run_alone

MBIT = 10**6


@pytest.mark.parametrize(
    ("modes", "mbits"),
    [
        ("", []),
        ("10baseT/Half 10baseT/Full 100baseT/Full 1000baseT/Full Autoneg TP Pause", [10, 100, 1000]),
        ("100baseT1/Full 10baseT1S_P2MP/Half 2500baseX/Full 56000baseKR4/Full", [10, 100, 2500, 56_000]),
        ("10000baseR_FEC LLRS", [10_000]),
        ("1600000baseDR8_2/Full 3200000baseNEW/Full", [1_600_000, 3_200_000]),
        ("FIBRE Backplane Asym_Pause None RS BASER", []),
        ("1000baseT/Full NewFEC base/Full x1000baseT", [1000]),  # names of a newer kernel that are no link modes
    ],
)
def test_a_speed_stands_in_the_name_of_a_link_mode(modes: str, mbits: list[int]) -> None:
    assert speeds_of(modes.split()) == [n * MBIT for n in mbits]


HEADER = Path("/usr/include/linux/ethtool.h")


@pytest.mark.skipif(not HEADER.exists(), reason="needs the kernel's header")
def test_each_name_of_the_running_kernel_has_the_speed_of_the_kernels_header() -> None:
    modes = re.findall(r"ETHTOOL_LINK_MODE_(\w+)_BIT\s*=\s*(\d+)", HEADER.read_text())
    header = {int(bit): name for name, bit in modes}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        names = _mode_names(s, "lo")
    assert min(len(header), len(names)) > 90  # both lists are complete
    for bit, name in enumerate(names):
        speeds = speeds_of([name])
        if bit in header:
            speed = re.match(r"(\d+)base", header[bit])
            assert speeds == ([int(speed[1]) * MBIT] if speed else []), name


@pytest.mark.parametrize(("name", "shown"), [("x" * 40, "x" * 40), ("caf\udce9", "caf\\xe9")])
def test_an_interface_that_is_not_there_is_an_error(name: str, shown: str) -> None:
    with pytest.raises(HostError) as raised:
        supported_modes(name)
    assert str(raised.value) == f"the link modes of {shown} could not be read: No such device"
    assert raised.value.errno == errno.ENODEV


def kernel(names: Sequence[bytes], supported: int, words: int = 4) -> Callable[[object, str, bytes], bytes]:
    """A test double of _ask(), with the layouts of the kernel's structs.

    supported: the bit mask of the supported modes. words: its length in words of 32 bits.
    """

    def ask(_: object, interface: str, question: bytes) -> bytes:
        (command,) = struct.unpack_from("=I", question)
        if command == 0x37:  # ETHTOOL_GSSET_INFO: the number of names in set 9, which has the link modes
            assert question == struct.pack("=I4xQI", 0x37, 1 << 9, 0)
            return struct.pack("=I4xQI", command, 1 << 9, len(names))
        if command == 0x1B:  # ETHTOOL_GSTRINGS: the names, each of 32 bytes
            assert question[:12] == struct.pack("=III", 0x1B, 9, len(names))
            return question[:12] + b"".join(name.ljust(32, b"\0") for name in names)
        (asked_words,) = struct.unpack_from("b", question, 15)  # ETHTOOL_GLINKSETTINGS
        if asked_words != words:
            return struct.pack("=I11xb32x", command, -words)  # the number of words to ask for
        masks = supported.to_bytes(4 * words, "little") + b"\xff" * 8 * words
        assert len(question) == 48 + len(masks)
        return struct.pack("=I11xb32x", command, words) + masks

    return ask


NAMES = [b"10baseT/Full", b"TP", b"", *(b"%dbaseX" % n for n in range(3, 96))]


@pytest.mark.parametrize(
    ("names", "supported", "words", "modes"),  # modes: names, or the error. The other columns: see kernel()
    [
        (NAMES, 0b11, 1, ["10baseT/Full", "TP"]),
        (NAMES, 1 << 95 | 1, 3, ["10baseT/Full", "95baseX"]),
        (NAMES, 0, 4, []),
        ([], 0, 4, []),
        (NAMES, 0, 0, []),
        ([], 1, 4, "the kernel does not name number 0"),
        (NAMES, 1 << 96, 4, "the kernel does not name number 96"),
    ],
)
def test_the_supported_modes_and_their_names_come_from_the_kernel(
    names: list[bytes], supported: int, words: int, modes: list[str] | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ethtool, "_ask", kernel(names, supported, words))
    if isinstance(modes, list):
        assert supported_modes("eth0") == modes
        return
    with pytest.raises(HostError, match=f"^the link modes of eth0 could not be read: {modes}$"):
        supported_modes("eth0")


# Creates a TAP interface, and prints its readings in several states.
TAP = """
import array, fcntl, json, os, socket, struct, subprocess
from capacityd.model.errors import HostError
from capacityd.detectors import load_detector
from capacityd.host.live import LiveHost
from capacityd.discovery.reader import value_of

tap = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tap, 0x400454CA, struct.pack("16sH22x", b"tapx", 0x1002))  # TUNSETIFF, IFF_TAP | IFF_NO_PI
host, detector, readings = LiveHost(), load_detector("nic"), []

def support(mask):
    # Sets the link modes that the interface supports. tun stores what it gets.
    with socket.socket() as s:
        head = struct.pack("IIBBBBBBBb", 0x4D, 25000, 1, 0, 0, 0, 0, 0, 0, 4) + bytes(32)  # ETHTOOL_SLINKSETTINGS
        data = array.array("B", head + mask.to_bytes(16, "little") + bytes(32))
        fcntl.ioctl(s, 0x8946, struct.pack("16sP16x", b"tapx", data.buffer_info()[0]))  # SIOCETHTOOL

def read_after(command):
    subprocess.run(command, shell=True, check=True)
    device = next(d for d in detector.find(host) if d.name == "tapx")
    readings.append({})
    for key in ("kind", "link", "speed", "max_speed", "system"):
        try:
            readings[-1][key] = value_of(host, detector, device, key)
        except HostError as e:
            readings[-1][key] = str(e)

read_after("ip link set tapx up && ethtool -s tapx speed 25000 duplex full autoneg off")
fcntl.ioctl(tap, 0x400454E2, struct.pack("i", 0))  # TUNSETCARRIER: the carrier disappears
read_after("true")
fcntl.ioctl(tap, 0x400454E2, struct.pack("i", 1))  # and returns
read_after("ip address add 192.0.2.7/24 dev tapx && ip route add default via 192.0.2.1")
read_after("ip link set tapx down")
support(1 << 5 | 1 << 7 | 1 << 33 | 1 << 20)  # 1000baseT/Full, TP, 25000baseSR/Full, 10000baseR_FEC
read_after("true")
print(json.dumps(readings))
"""


@pytest.mark.skipif(not can_be_alone() or not os.access("/dev/net/tun", os.R_OK | os.W_OK), reason="needs TAP devices")
def test_a_real_interface_has_a_speed_only_while_its_link_is_up() -> None:
    up, without_carrier, routed, down, modes = json.loads(run_alone("mount -t sysfs none /sys", TAP))
    assert (up["kind"], up["link"], up["speed"]) == ("virtual", "up", 25_000 * MBIT)
    assert "reports no link modes" in str(up["max_speed"]) or "could not be read" in str(up["max_speed"])
    assert "no default route" in up["system"]
    for state in (without_carrier, down):
        assert state["link"] == "down"
        assert "link is down" in state["speed"]
    assert modes["max_speed"] == 25_000 * MBIT
    assert (routed["link"], routed["speed"], routed["system"]) == ("up", 25_000 * MBIT, True)
