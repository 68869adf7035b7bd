"""The numbers that replace identifiers in a recording.

Each number keeps the notation of its identifier: its prefix, such as naa., and its separators.
"""

from __future__ import annotations

import ipaddress
import re
from itertools import islice

from capacityd.schema.matchers import IPNetwork

SEPARATOR = re.compile(r"(\\x[0-9a-f]{2}|[\W_]+)")  # udev writes \x20 for a space
PREFIX = re.compile(r"(?:0x|naa\.|eui\.|uuid\.|nvme\.|t10\.|(?:part\d+-)?(?:mpath|LVM|CRYPT)-)?")
"""The prefix of an identifier. Without a prefix, this matches the empty text at the start, so sub(count=1) removes
nothing."""
_HEXADECIMAL = re.compile("[0-9a-f]{12,}")
_MAC_DIGITS = 12
_UNUSED: dict[int, IPNetwork] = {4: ipaddress.ip_network("240.0.0.0/4"), 6: ipaddress.ip_network("2001:db8::/32")}
"""Version of IP -> addresses that nobody uses."""


class Numbering:
    """The numbers of one recording, in the order in which the identifiers appear. Equal identifiers have equal numbers,
    regardless of their notation."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}  # identifier in lower case, without separators
        self._replacements: set[str] = set()  # they are not replaced again
        self._addresses: dict[IPNetwork, list[str]] = {}  # network -> its addresses

    def identifier(self, text: str) -> str:
        """What replaces an identifier. A placeholder, such as 00:00:00:00:00:00, stays.

        The identifier's prefix, such as naa. or mpath-, and the white space around the identifier stay, too.
        """
        body = text.strip(" \t\n\0")
        is_placeholder = len(set(plain(body))) < 2  # empty, or one character repeated: 00000000
        if is_placeholder:
            return text
        leading_space, _, trailing_space = text.partition(body)
        without_prefix = PREFIX.sub("", body, count=1)
        prefix = body.removesuffix(without_prefix)
        return f"{leading_space}{prefix}{self.numbered(without_prefix)}{trailing_space}"

    def numbered(self, identifier: str) -> str:
        """The number that replaces an identifier: id-1, or 02:00:00:00:00:01 if the identifier is hexadecimal."""
        if identifier in self._replacements:
            return identifier
        is_hexadecimal = _HEXADECIMAL.fullmatch(plain(identifier)) is not None
        number = self._number(identifier)
        replacement = _laid_out(number, identifier) if is_hexadecimal else f"id-{number}"
        self._replacements.add(replacement)
        return replacement

    def named(self, identifier: str) -> str:
        """The number as a name, regardless of the identifier's form: id-1."""
        return f"id-{self._number(identifier)}"

    def _number(self, identifier: str) -> int:
        return self._numbers.setdefault(plain(identifier), len(self._numbers) + 1)

    def address(self, address: str, prefix: int) -> str:
        """The IP address that replaces this one, in a network that nobody uses. A loopback address stays.

        Addresses of one network stay in one network of the same size. prefix: the length of the network prefix in bits.
        """
        if ipaddress.ip_address(address).is_loopback:
            return address
        network = ipaddress.ip_network(f"{address}/{prefix}", strict=False)
        addresses = self._addresses.setdefault(network, [])
        if address not in addresses:
            addresses.append(address)
        has_network_address = network.num_addresses > 2
        first = 1 if has_network_address else 0
        return str(self._unused(network)[first + addresses.index(address)])

    def _unused(self, network: IPNetwork) -> IPNetwork:
        """The network that replaces this one. A link-local network of IPv6 stays."""
        if network.version == 6 and network.is_link_local:
            return network
        unused = _UNUSED[network.version]
        number = 1 + [*self._addresses].index(network)
        bits_for_numbers = max(0, network.prefixlen - unused.prefixlen)
        offset = (number % 2**bits_for_numbers) << (network.max_prefixlen - network.prefixlen)
        return ipaddress.ip_network((int(unused.network_address) + offset, network.prefixlen), strict=False)


def _laid_out(number: int, identifier: str) -> str:
    """The number in the form of a hexadecimal identifier. A MAC address becomes a locally administered address."""
    length = len(plain(identifier))
    digits = f"{number:0{length}d}"
    if length == _MAC_DIGITS:
        digits = f"02{digits[2:]}"
    unused_digits = iter(digits)
    pieces = []
    for piece in SEPARATOR.split(identifier):  # split() also returns the separators
        is_separator = SEPARATOR.fullmatch(piece) is not None
        pieces.append(piece if is_separator else "".join(islice(unused_digits, len(piece))))
    return "".join(pieces)


def plain(text: str) -> str:
    """Text in lower case without separators. The result is the same for all notations of an identifier."""
    return SEPARATOR.sub("", text).lower()
