"""Finds secrets in text whatever their letter case and separators, and puts the same thing in place of equal ones."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

_SEPARATORS = re.compile(r"\\x[0-9A-Fa-f]{2}|[\W_]+")  # udev writes \x20 for a space
_HEX = re.compile("[0-9a-f]{12,}")
_IP4 = re.compile(r"(?<![0-9.])[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![0-9.])")
_IP6 = re.compile(r"(?<![0-9A-Za-z:.])[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*(?![0-9A-Za-z:])")
_HEAD = 6  # characters that are looked up first
_WORDS = ("localhost", "recorded")


def plain(text: str) -> str:
    """Text without separators and letter case: what all ways to write the same thing have in common."""
    return _SEPARATORS.sub("", text).lower()


def addresses(text: str) -> list[str]:
    """The IP addresses of single machines that a text holds."""
    found = []
    for match in [*_IP4.finditer(text), *_IP6.finditer(text)]:
        try:
            address = ipaddress.ip_address(match[0])
        except ValueError:
            continue
        if not (address.is_loopback or address.is_unspecified or address.is_multicast or match[0] == "255.255.255.255"):
            found.append(match[0])
    return found


class Secrets:
    """What is secret, and what stands for it. kernel: names that the kernel gives and others rely on.

    One that is long enough, and no word of the kernel's, is found anywhere, also inside a word; any other only where
    it is all that stands in a place for such things (whole).
    """

    def __init__(self, kernel: Iterable[str]) -> None:
        names = [*dict.fromkeys(kernel)]
        self._names = frozenset(names)
        self._inside = "\n".join(sorted({plain(name) for name in names}))
        self._words = {word for name in names for word in re.split(r"[\W_]", name.lower())}
        self._stands: dict[str, str] = {}
        self._anywhere: dict[str, list[str]] = {}  # first characters -> those that begin so, the longest first
        self._addresses: dict[str, str] = {}
        self._hosts: dict[str, str] = {}
        self._host: re.Pattern[str] | None = None
        self._known: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def add(self, secret: str, shape: bool = False) -> None:
        """A serial number or an id. shape: it can be nothing else, whatever else is called like it."""
        key = plain(secret) or secret.strip()
        if key in self._stands or len(set(key)) < 2 or secret in self._names:
            return
        hexadecimal = shape or (_HEX.fullmatch(key) is not None and len(set(key)) > 2)
        self._stands[key] = self._id(len(key)) if hexadecimal else self._next("serial")
        if hexadecimal or self._is_telling(key):
            self._find(key)
            # NVMe without a WWN has one made of this.
            coded = secret.strip().encode("utf-8", "surrogateescape").hex()
            if not shape and coded not in self._stands:
                self._stands[coded] = self._stands[key]
                self._find(coded)

    def add_address(self, address: str) -> None:
        """An IP address."""
        if address not in self._addresses:
            parsed = ipaddress.ip_address(address)
            link = parsed.version == 6 and parsed.is_link_local
            kind, base = (
                ("fe80", "fe80::") if link else ("6", "2001:db8::") if parsed.version == 6 else ("4", "198.18.0.0")
            )
            self._counts[kind] = number = self._counts.get(kind, 0) + 1
            self._addresses[address] = str(ipaddress.ip_address(base) + number)

    def add_host(self, name: str) -> bool:
        """The name of a machine, with or without its domain.

        False: it is a word of the kernel's too, so it is left where it stands.
        """
        name = name.lower()
        short = name.partition(".")[0]
        if not name or name in _WORDS or short.isdigit():
            return True
        if short in self._words:
            return False
        stands = self._hosts.get(short) or self._next("host")
        for written in (name, short, short.replace("-", "--")):  # as LVM writes it in the name of a volume
            self._hosts.setdefault(written, stands)
        longest = "|".join(map(re.escape, sorted(self._hosts, key=len, reverse=True)))
        self._host = re.compile(rf"(?<![0-9A-Za-z])(?:{longest})(?![0-9A-Za-z])", re.I)
        return True

    def within(self, text: str) -> str:
        """Text without the secrets that can be told from other text."""
        found = self._known.get(text)
        if found is None:
            found = self._ids(text)
            if self._addresses:
                found = _IP6.sub(self._address, _IP4.sub(self._address, found))
            if self._host:
                found = self._host.sub(lambda m: self._hosts[m[0].lower()], found)
            self._known[text] = found
        return found

    def whole(self, text: str) -> str:
        """What stands for a text that is a secret as a whole, white space around it kept; else as within."""
        body = text.strip(" \t\n\0")
        key = plain(body) or body
        if key not in self._stands:
            return self.within(text)
        before, _, after = text.partition(body)
        return before + self._in_place(body, key) + after

    def words(self, text: str, secrets: Iterable[str]) -> str:
        """Text without these, where they stand as words of their own, however short they are."""
        for secret in sorted(secrets, key=len, reverse=True):
            new = self.whole(secret)
            if secret.strip() and new != secret:
                word = rf"(?<![0-9A-Za-z]){re.escape(secret)}(?![0-9A-Za-z])"
                text = re.sub(word, new.replace("\\", r"\\"), text, flags=re.I)
        return text

    def _is_telling(self, key: str) -> bool:
        """Whether text like this is no other thing by chance."""
        enough = len(key) >= (8 if key.isdigit() else _HEAD) and len(set(key)) > 2
        return enough and any(c.isdigit() for c in key) and key not in self._inside

    def _find(self, key: str) -> None:
        alike = self._anywhere.setdefault(key[:_HEAD], [])
        alike.append(key)
        alike.sort(key=len, reverse=True)

    def _id(self, length: int) -> str:
        """The next hexadecimal id, of this length; a MAC address of local administration."""
        self._counts["id"] = number = self._counts.get("id", 0) + 1
        lead = "02" if length == 12 else ""
        return lead + f"{number:x}".zfill(length - len(lead))

    def _next(self, kind: str) -> str:
        self._counts[kind] = number = self._counts.get(kind, 0) + 1
        return f"{kind}-{number}"

    def _address(self, match: re.Match[str]) -> str:
        return self._addresses.get(match[0], match[0])

    def _ids(self, text: str) -> str:
        key = plain(text)
        if not any(key[i : i + _HEAD] in self._anywhere for i in range(len(key) - _HEAD + 1)):
            return text
        at = _positions(text)
        said, done, i = "", 0, 0
        while i <= len(key) - _HEAD:
            alike = self._anywhere.get(key[i : i + _HEAD], ())
            secret = next((s for s in alike if _stands_at(s, key, i, text, at)), "")
            if secret:
                begin, end = at[i], at[i + len(secret) - 1] + 1
                said += text[done:begin] + self._in_place(text[begin:end], secret)
                done = end
            i += len(secret) or 1
        return said + text[done:]

    def _in_place(self, written: str, key: str) -> str:
        """What stands for a secret, with the separators it is written with if it is as long."""
        stands = self._stands[key]
        return _laid_out(written, stands) if len(stands) == len(key) and not stands.startswith("serial-") else stands


def _stands_at(secret: str, key: str, i: int, text: str, at: list[int]) -> bool:
    """Whether a secret stands here: in one line and one part of a path, and no number in the middle of another."""
    end = i + len(secret)
    if not key.startswith(secret, i):
        return False
    span = text[at[i] : at[end - 1] + 1]
    digits = secret.isdigit() and (text[: at[i]][-1:].isdigit() or text[at[end - 1] + 1 :][:1].isdigit())
    return not digits and "/" not in span and "\n" not in span


def _positions(text: str) -> list[int]:
    """Where in a text each character of its plain form stands."""
    found: list[int] = []
    begin = 0
    for gap in _SEPARATORS.finditer(text):
        found += range(begin, gap.start())
        begin = gap.end()
    return [*found, *range(begin, len(text))]


def _laid_out(like: str, stands: str) -> str:
    """The replacement with the separators of what it replaces."""
    said, begin, taken = "", 0, 0
    for gap in [*_SEPARATORS.finditer(like)]:
        said += stands[taken : taken + gap.start() - begin] + gap[0]
        taken += gap.start() - begin
        begin = gap.end()
    return said + stands[taken:]
