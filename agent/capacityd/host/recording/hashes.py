"""The hashes that replace identifiers in a recording, in the identifiers' own notation.

Notation: an identifier's prefix, such as naa., and its separators. Hashes are in lower case.
"""

from __future__ import annotations

import hashlib
import ipaddress
import itertools
import re

SEPARATOR = re.compile(r"(\\x[0-9a-f]{2}|[\W_]+)")  # udev writes \x20 for a space
PREFIX = re.compile(r"(?:0x|naa\.|eui\.|uuid\.|nvme\.|t10\.|(?:part\d+-)?(?:mpath|LVM|CRYPT)-)?")
"""The prefix of an identifier. If there is none, this matches the empty text before the identifier, so that
sub(count=1) removes nothing."""
_HEXADECIMAL = re.compile("[0-9a-f]{12,}")


class Hashes:
    """The hashes for one recording. Equal identifiers get equal hashes, regardless of their notation."""

    def __init__(self, salt: bytes) -> None:
        self._salt = salt

    def identifier(self, text: str) -> str:
        """The hash of an identifier. Keeps its prefix, such as naa. or mpath-, and the white space around it."""
        body = text.strip(" \t\n\0")
        is_placeholder = len(set(plain(body))) < 2  # empty, or one character repeated: 00000000
        if is_placeholder:
            return text
        leading_space, _, trailing_space = text.partition(body)
        without_prefix = PREFIX.sub("", body, count=1)
        prefix = body.removesuffix(without_prefix)
        return f"{leading_space}{prefix}{self.hashed(without_prefix)}{trailing_space}"

    def unless_placeholder(self, text: str) -> str:
        """The hash of a text that has an identifier's form; unchanged for a placeholder such as 00:00:00:00:00:00."""
        is_placeholder = len(set(plain(text))) <= 2  # at most two different characters, as in 00:00:00:00:00:01
        return text if is_placeholder else self.hashed(text)

    def address(self, address: str) -> str:
        """The IP address that replaces this one, from a range that nobody uses. A loopback address stays."""
        parsed = ipaddress.ip_address(address)
        if parsed.is_loopback:
            return address
        digits = self.digits(address)
        if parsed.version == 4:
            return str(ipaddress.IPv4Address("240.0.0.0") + int(digits[:7], 16))  # 28 bits: in 240.0.0.0/4
        first = ipaddress.IPv6Address("fe80::" if parsed.is_link_local else "2001:db8::")
        return str(first + int(digits[:16], 16))  # 64 bits, those of the interface

    def hashed(self, identifier: str) -> str:
        """The hash. A hexadecimal hash keeps the length and separators; a MAC address becomes locally administered."""
        bare = plain(identifier)
        digits = self.digits(bare)
        if not _HEXADECIMAL.fullmatch(bare):
            return f"id-{digits[:12]}"
        is_mac_address = len(bare) == 12
        if is_mac_address:
            digits = "02" + digits[2:]  # the bit of a locally administered address
        unused = itertools.cycle(digits)
        laid_out = ""
        for piece in SEPARATOR.split(identifier):
            if SEPARATOR.fullmatch(piece):
                laid_out += piece
            else:
                laid_out += "".join(itertools.islice(unused, len(piece)))
        return laid_out

    def digits(self, text: str) -> str:
        """The hash of a text: 64 hexadecimal digits."""
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=self._salt, digest_size=32).hexdigest()


def plain(text: str) -> str:
    """Text in lower case without separators: the same for all notations of an identifier."""
    return SEPARATOR.sub("", text).lower()
