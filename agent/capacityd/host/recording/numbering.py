"""The numbers that replace identifiers in a recording.

Each number keeps the notation of its identifier: its prefix, such as naa., and its separators.
"""

from __future__ import annotations

import ipaddress
import re

from capacityd.schema.matchers import IPNetwork

SEPARATOR = re.compile(r"(\\x[0-9a-f]{2}|[\W_]+)")  # udev writes \x20 for a space
_PREFIX = re.compile(r"^(?:0x|naa\.|eui\.|uuid\.|nvme\.|t10\.|(?:part\d+-)?(?:mpath|LVM|CRYPT)-)")  # part1-mpath-
_HEXADECIMAL = re.compile("[0-9a-f]{12,}")
_MAC_DIGITS = 12
_UNUSED: dict[int, IPNetwork] = {4: ipaddress.ip_network("240.0.0.0/4"), 6: ipaddress.ip_network("2001:db8::/32")}
"""Version of IP -> a network that nobody uses: reserved (RFC 1112), or for documentation (RFC 3849)."""


class Numbering:
    """The numbers of one recording, in the order in which the identifiers appear. Equal identifiers have equal numbers,
    regardless of their notation."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}  # identifier in lower case, without separators
        self._replacements: set[str] = set()  # the results of number_like(), which number_like() does not replace again
        self._addresses: dict[IPNetwork, list[str]] = {}  # network -> its addresses

    def replacement(self, text: str) -> str:
        """What replaces an identifier. A placeholder, such as 00:00:00:00:00:00, stays.

        The identifier's prefix, such as naa. or mpath-, and the white space around the identifier stay, too.
        """
        body = text.strip(" \t\n\0")
        distinct_characters = set(plain(body))
        if len(distinct_characters) < 2:  # a placeholder: empty, or one character repeated (00000000)
            return text
        leading_space, _, trailing_space = text.partition(body)
        main_part = without_prefix(body)
        prefix = body.removesuffix(main_part)
        return f"{leading_space}{prefix}{self.number_like(main_part)}{trailing_space}"

    def number_like(self, identifier: str) -> str:
        """The number that replaces an identifier: id-1, or 02:00:00:00:00:01 if the identifier is hexadecimal."""
        if identifier in self._replacements:
            return identifier
        is_hexadecimal = _HEXADECIMAL.fullmatch(plain(identifier)) is not None
        number = self._number(identifier)
        replacement = _in_notation_of(identifier, number) if is_hexadecimal else f"id-{number}"
        self._replacements.add(replacement)
        return replacement

    def number_as_name(self, identifier: str) -> str:
        """The number as a name, regardless of the identifier's form: id-1."""
        return f"id-{self._number(identifier)}"

    def _number(self, identifier: str) -> int:
        next_number = len(self._numbers) + 1
        return self._numbers.setdefault(plain(identifier), next_number)

    def unused_address(self, address: str, prefix: int) -> str:
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
        index = first + addresses.index(address)
        return str(self._unused_network(network)[index])

    def _unused_network(self, network: IPNetwork) -> IPNetwork:
        """The unused network that replaces this network. A link-local network of IPv6 stays."""
        if network.version == 6 and network.is_link_local:
            return network
        unused = _UNUSED[network.version]
        number = list(self._addresses).index(network) + 1
        network_count = max(1, unused.num_addresses // network.num_addresses)  # unused networks of this network's size
        offset = (number % network_count) * network.num_addresses
        start = int(unused.network_address) + offset
        return ipaddress.ip_network((start, network.prefixlen), strict=False)


def _in_notation_of(identifier: str, number: int) -> str:
    """The number in the form of a hexadecimal identifier. A MAC address becomes a locally administered address."""
    length = len(plain(identifier))
    digits = str(number).zfill(length)
    if length == _MAC_DIGITS:
        digits = f"02{digits[2:]}"
    pieces = []
    start = 0  # index of the next digit
    for piece in SEPARATOR.split(identifier):  # split() also returns the separators
        if SEPARATOR.fullmatch(piece):
            pieces.append(piece)
        else:
            end = start + len(piece)
            pieces.append(digits[start:end])
            start = end
    return "".join(pieces)


def without_prefix(identifier: str) -> str:
    """The identifier without a prefix such as 0x, naa. or mpath-."""
    return _PREFIX.sub("", identifier)


def plain(text: str) -> str:
    """Text in lower case without separators. The result is the same for all notations of an identifier."""
    return SEPARATOR.sub("", text).lower()
