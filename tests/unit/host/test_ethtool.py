"""Link modes: the table of the kernel's bits, and the ioctl on real interfaces."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import re
import struct
from pathlib import Path

import pytest

from capacityd.host.ethtool import speeds_of, supported_modes
from capacityd.model.errors import HostError
from tests.support.forked import can_be_alone, run_alone

MBIT = 10**6


@pytest.mark.parametrize(
    ("bits", "mbits"),
    [
        ([], []),
        ([0, 1, 2, 3, 5, 6, 7, 13], [10, 100, 1000]),  # a copper port with autonegotiation, TP and pause
        ([99, 102, 84, 103, 108, 89, 109, 114], [10, 200_000, 400_000]),  # newer than Debian's header
        ([93, 98, 120, 121, 124], [800_000, 1_600_000]),
    ],
)
def test_speeds_of_masks(bits: list[int], mbits: list[int]) -> None:
    assert speeds_of(sum(1 << bit for bit in bits)) == [n * MBIT for n in mbits]


@pytest.mark.parametrize("bit", [125, 200, 1000])
def test_a_mode_that_is_not_known_may_be_the_best(bit: int) -> None:
    with pytest.raises(HostError, match=f"bit {bit}"):
        speeds_of(1 << 5 | 1 << bit)


HEADER = Path("/usr/include/linux/ethtool.h")


@pytest.mark.skipif(not HEADER.exists(), reason="needs the kernel's header")
def test_the_table_matches_the_kernels_header() -> None:
    modes = re.findall(r"ETHTOOL_LINK_MODE_(\w+)_BIT\s*=\s*(\d+)", HEADER.read_text())
    assert len(modes) > 90
    for name, bit in modes:
        speed = re.match(r"(\d+)base", name)
        assert speeds_of(1 << int(bit)) == ([int(speed[1]) * MBIT] if speed else []), name


@pytest.mark.parametrize(("name", "shown"), [("x" * 40, "x" * 40), ("caf\udce9", "caf\\xe9")])
def test_no_such_interface(name: str, shown: str) -> None:
    with pytest.raises(HostError) as raised:
        supported_modes(name)
    assert str(raised.value) == f"the link modes of {shown} could not be read: No such device"
    assert raised.value.errno == errno.ENODEV


@pytest.mark.parametrize("words", [1, 3, 4])
def test_the_ioctl_asks_for_the_length_of_the_masks_and_then_for_the_masks(
    words: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ioctl is a double with the layout of struct ethtool_link_settings."""
    supported = 1 << 5 | 1 << (32 * words - 1)

    def ioctl(fd: int, number: int, request: bytes) -> None:
        (address,) = struct.unpack_from("P", request, 16)
        settings = (ctypes.c_char * 1024).from_address(address)
        assert (number, *struct.unpack_from("I", settings)) == (0x8946, 0x4C)
        assert bytes(request[:16]).rstrip(b"\0") == b"enp129s0f0np123"
        if struct.unpack_from("b", settings, 15) == (words,):
            advertised = b"\xff" * 4 * words
            struct.pack_into(f"{8 * words}s", settings, 48, supported.to_bytes(4 * words, "little") + advertised)
        else:
            struct.pack_into("b", settings, 15, -words)

    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    assert supported_modes("enp129s0f0np123") == supported


TAP = """
import fcntl, json, os, struct, subprocess
from capacityd.model.errors import HostError
from capacityd.detectors import load
from capacityd.host.live import LiveHost
from capacityd.discovery.reader import value_of

tap = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tap, 0x400454CA, struct.pack("16sH22x", b"tapx", 0x1002))  # TUNSETIFF, IFF_TAP | IFF_NO_PI
host, detector, readings = LiveHost(), load("nic"), []

def read(command):
    subprocess.run(command, shell=True, check=True)
    device = next(d for d in detector.find(host) if d.name == "tapx")
    readings.append({})
    for key in ("kind", "link", "speed", "max_speed", "system"):
        try:
            readings[-1][key] = value_of(host, detector, device, key)
        except HostError as e:
            readings[-1][key] = str(e)

read("ip link set tapx up && ethtool -s tapx speed 25000 duplex full autoneg off")
fcntl.ioctl(tap, 0x400454E2, struct.pack("i", 0))  # TUNSETCARRIER
read("true")
fcntl.ioctl(tap, 0x400454E2, struct.pack("i", 1))
read("ip address add 192.0.2.7/24 dev tapx && ip route add default via 192.0.2.1")
read("ip link set tapx down")
print(json.dumps(readings))
"""


@pytest.mark.skipif(not can_be_alone() or not os.access("/dev/net/tun", os.R_OK | os.W_OK), reason="needs TAP devices")
def test_a_real_interface_with_a_real_speed() -> None:
    """The real /sys and the real ioctl give the speed while the link is up. It is unknown while the link is down."""
    up, without_carrier, routed, down = json.loads(run_alone("mount -t sysfs none /sys", TAP))
    assert (up["kind"], up["link"], up["speed"]) == ("virtual", "up", 25_000 * MBIT)
    assert "reports no link modes" in str(up["max_speed"]) or "could not be read" in str(up["max_speed"])
    assert "no default route" in up["system"]
    for state in (without_carrier, down):
        assert (state["link"], "link is down" in state["speed"]) == ("down", True)
    assert (routed["link"], routed["speed"], routed["system"]) == ("up", 25_000 * MBIT, True)
