"""The link modes that a network interface supports, and their speeds, from the ethtool ioctl.

The ioctl needs a few microseconds and no capability. Its answer does not depend on the link partner, unlike
/sys/class/net/*/speed. The kernel names its link modes (ETH_SS_LINK_MODES), and the names contain the speeds. So this
module needs no table of link modes, and knows the link modes of newer kernels.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import struct
from array import array
from collections.abc import Iterable

from capacityd.model.errors import HostError

_SIOCETHTOOL = 0x8946
_GLINKSETTINGS, _GSSET_INFO, _GSTRINGS = 0x4C, 0x37, 0x1B  # commands: include/uapi/linux/ethtool.h
_LINK_MODES = 9  # the string set ETH_SS_LINK_MODES
_NAME_BYTES = 32  # ETH_GSTRING_LEN
_SETTINGS = struct.Struct("=I11xb32x")  # ethtool_link_settings: command, and the number of words in each mask
_MASKS = 3  # after ethtool_link_settings, the link modes that are supported, advertised, and the link partner's
_WORD_BITS = 32  # a mask consists of 32-bit words
_SET_INFO = struct.Struct("=I4xQI")  # ethtool_sset_info: command, one bit for each string set, and the set's length
_STRINGS = struct.Struct("=III")  # ethtool_gstrings: command, string set, and the set's length; the strings follow

_MEGABITS = re.compile("[0-9]+(?=base)")  # 1000baseT/Full -> 1000


def speeds_of(modes: Iterable[str]) -> list[int]:
    """The speeds of link modes, in bit/s, in ascending order. modes: the names of the link modes.

    Names without a speed, such as Autoneg, FIBRE or Pause, are not link modes: the kernel makes the name of each link
    mode from its speed (__DEFINE_LINK_MODE_NAME in net/ethtool/common.c).
    """
    speeds = set()
    for mode in modes:
        if match := _MEGABITS.match(mode):
            megabits = int(match[0])
            speeds.add(megabits * 10**6)
    return sorted(speeds)


def supported_modes(interface: str) -> list[str]:
    """The names of an interface's supported link modes; empty if its driver reports none. Raises HostError."""
    problem = f"the link modes of {interface} could not be read"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as control:
            mask = _supported_mask(control, interface)
            if not mask:
                return []
            names = _mode_names(control, interface)
    except OSError as e:
        raise HostError(f"{problem}: {os.strerror(e.errno or 0)}", e.errno) from e
    except struct.error as e:
        raise HostError(f"{problem}: the kernel sent an unexpected answer") from e
    highest_number = mask.bit_length() - 1
    if highest_number >= len(names):
        raise HostError(f"{problem}: the kernel does not name number {highest_number}")
    return [name for number, name in enumerate(names) if mask & (1 << number)]


def _supported_mask(control: socket.socket, interface: str) -> int:
    """The bit mask of an interface's supported link modes; 0 if its driver reports none. Raises OSError."""
    # The first call returns the negative number of words in each mask. The second call fills the masks.
    answer = _ask(control, interface, _SETTINGS.pack(_GLINKSETTINGS, 0))
    _command, negated_words = _SETTINGS.unpack_from(answer)
    if negated_words >= 0:
        return 0
    word_count = -negated_words
    room_for_masks = bytes(_MASKS * word_count * _WORD_BITS // 8)
    answer = _ask(control, interface, _SETTINGS.pack(_GLINKSETTINGS, word_count) + room_for_masks)
    # The first mask is that of the supported link modes. Its first word has the lowest bits on every machine.
    words = struct.unpack_from(f"={word_count}I", answer, _SETTINGS.size)
    return sum(word << (_WORD_BITS * index) for index, word in enumerate(words))


def _mode_names(control: socket.socket, interface: str) -> list[str]:
    """The names of all link modes of this kernel, by number. Raises OSError."""
    requested_sets = 1 << _LINK_MODES
    answer = _ask(control, interface, _SET_INFO.pack(_GSSET_INFO, requested_sets, 0))
    _command, _known_sets, count = _SET_INFO.unpack(answer)
    room_for_names = bytes(count * _NAME_BYTES)
    answer = _ask(control, interface, _STRINGS.pack(_GSTRINGS, _LINK_MODES, count) + room_for_names)
    names = struct.iter_unpack(f"{_NAME_BYTES}s", answer[_STRINGS.size :])
    return [name.partition(b"\0")[0].decode("ascii", "replace") for (name,) in names]


def _ask(control: socket.socket, interface: str, question: bytes) -> bytes:
    """Sends a question to the kernel. Returns the answer, which the kernel writes over the question. Raises OSError."""
    # The request (struct ifreq) contains a name of at most 15 bytes and a NUL, and the address of a buffer. The buffer
    # is an array, because an array shows the address of its data.
    buffer = array("B", question)
    address, _ = buffer.buffer_info()
    request = struct.pack("16sP16x", os.fsencode(interface)[:15], address)
    fcntl.ioctl(control.fileno(), _SIOCETHTOOL, request)
    return buffer.tobytes()
