"""The speeds of the link modes that a network interface supports, from the ethtool ioctl.

The ioctl takes some microseconds and no capability. Unlike /sys/class/net/*/speed, it does not depend on the link
partner.
Bits: enum ethtool_link_mode_bit_indices of the kernel's include/uapi/linux/ethtool.h.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from array import array

from capacityd.model.errors import HostError
from capacityd.model.text import printable

_SIOCETHTOOL = 0x8946
_GLINKSETTINGS = 0x4C
_HEAD, _WORDS = 48, 15  # in struct ethtool_link_settings: bytes before its masks, and the offset of their length

_MBITS: dict[int, str] = {
    10: "0-1 92 99-102",
    100: "2-3 67 90-91",
    1_000: "4-5 17 41 68",
    2_500: "15 47",
    5_000: "48",
    10_000: "12 18-20 42-46",
    20_000: "21-22",
    25_000: "31-33",
    40_000: "23-26",
    50_000: "34-35 40 52-56",
    56_000: "27-30",
    100_000: "36-39 57-61 75-79",
    200_000: "62-66 80-84 103-108",
    400_000: "69-73 85-89 109-114",
    800_000: "93-98 115-120",
    1_600_000: "121-124",
}
_NO_SPEED = "6-11 13-14 16 49-51 74"  # autonegotiation, ports, pause, forward error correction


def _bits(ranges: str) -> list[int]:
    ends = [part.split("-") for part in ranges.split()]
    return [bit for end in ends for bit in range(int(end[0]), int(end[-1]) + 1)]


def speeds_of(mask: int) -> list[int]:
    """The speeds in a mask of supported link modes, in bit/s, in ascending order.

    Raises HostError for an unknown bit: it may represent the highest speed, so a guess could be too low.
    """
    by_bit = {bit: mbits * 10**6 for mbits, ranges in _MBITS.items() for bit in _bits(ranges)}
    known = sum(1 << bit for bit in [*by_bit, *_bits(_NO_SPEED)])
    if mask & ~known:
        bit = (mask & ~known).bit_length() - 1
        raise HostError(f"it supports a link mode that this version of capacityd does not know (bit {bit})")
    return sorted({speed for bit, speed in by_bit.items() if mask >> bit & 1})


def supported_modes(interface: str) -> int:
    """The mask of an interface's supported link modes, 0 if its driver reports none. Raises HostError."""
    failed = f"the link modes of {printable(interface)} could not be read"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as s:
            # The first call returns the number of words in the masks, negated. The second call fills the masks.
            words = -struct.unpack_from("b", _ask(s, interface, 0), _WORDS)[0]
            return int.from_bytes(_ask(s, interface, words)[_HEAD : _HEAD + 4 * words], "little") if words > 0 else 0
    except OSError as e:
        raise HostError(f"{failed}: {os.strerror(e.errno or 0)}", e.errno) from e
    except struct.error as e:
        raise HostError(f"{failed}: {e}") from e


def _ask(s: socket.socket, interface: str, words: int) -> bytes:
    buffer = bytearray(_HEAD + 3 * 4 * 127)
    struct.pack_into("I", buffer, 0, _GLINKSETTINGS)
    struct.pack_into("b", buffer, _WORDS, words)
    # The request contains a buffer's address. Only an array has one.
    data = array("B", buffer)
    address, _ = data.buffer_info()
    request = struct.pack("16sP16x", os.fsencode(interface)[:15], address)
    fcntl.ioctl(s.fileno(), _SIOCETHTOOL, request)
    return data.tobytes()
