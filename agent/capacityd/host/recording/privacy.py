"""Replaces the identifiers in a recording with hashes, keyed with a salt that nobody keeps.

Equal identifiers get equal hashes, regardless of their notation. Without the salt, nobody can find a hash's identifier
by trying all MAC addresses. contents.py, this module and tests/corpus/recorded.md define the identifiers.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
import re
from collections.abc import Iterable, Mapping

from capacityd.host.recording.contents import COMPOSED, VERBATIM, is_identifier, is_identifying_property, keeps_property
from capacityd.host.recording.format import Recording
from capacityd.linux.filesystems import may_hang
from capacityd.linux.mountinfo import MOUNT_TABLE

SHAPES = {
    "MAC addresses and GUIDs": r"(?<![0-9a-z:])[0-9a-f]{2}(?::[0-9a-f]{2}){5,}(?![0-9a-z:])",
    "MAC addresses in names such as enx0123456789ab": r"(?<=(?<![0-9a-z])(?:en|ib|sl|wl|ww)x)[0-9a-f]{12}(?![0-9a-z])",
    "UUIDs": r"(?<![0-9a-z])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-z])",
    "UUIDs of md": r"(?<![0-9a-z])[0-9a-f]{8}(?::[0-9a-f]{8}){3}(?![0-9a-z])",
    "ids of LVM": r"(?<![0-9a-z])[0-9a-z]{6}(?:-[0-9a-z]{4}){5}-[0-9a-z]{6}(?![0-9a-z])",
    "ids of 1-Wire such as 28-0123456789ab": r"(?<![0-9a-z])[0-9a-f]{2}-[0-9a-f]{12}(?![0-9a-z])",
    "WWNs and other numbers of at least 16 hexadecimal digits": r"(?:(?<=0x)|(?<![0-9a-z]))[0-9a-f]{16,}(?![0-9a-z])",
    "addresses of iSCSI targets": r"(?<=\bip-)[0-9a-f\[][^\s]+?(?=-lun)",
}
"""Identifiers that are recognized anywhere by their form -> a regular expression."""

_SHAPES = re.compile("|".join(SHAPES.values()), re.IGNORECASE)
_PUBLIC = re.compile("/(?:wmi|mei|tee)/")  # below these, a UUID identifies a kind of device
_BY_UUID = ("by-uuid", "by-partuuid")
_SEPARATOR = re.compile(r"(\\x[0-9a-f]{2}|[\W_]+)")  # udev writes \x20 for a space
_PREFIX = re.compile(r"(?:0x|naa\.|eui\.|uuid\.|nvme\.|t10\.|(?:part\d+-)?(?:mpath|LVM|CRYPT)-)?")
_HEXADECIMAL = re.compile("[0-9a-f]{12,}")
_WORD = re.compile("[0-9A-Za-z]{6,}")
_MIN_SUBSTRING = 6  # a shorter identifier is replaced only if it is a separate word


def without_identifiers(recording: Recording, more: Iterable[str] = (), salt: bytes = b"") -> Recording:
    """A copy of a recording with hashes instead of identifiers.

    more: identifiers that no listed file or property contains, such as the machine's id. salt: if empty, a random one.
    """
    privacy = Privacy(salt or os.urandom(32), recording)
    for identifier in more:
        privacy.learn(identifier)
    return privacy.applied()


class Privacy:
    """The hashes for one recording."""

    def __init__(self, salt: bytes, recording: Recording) -> None:
        self._salt = salt
        self._recording = recording
        self._words: dict[str, str] = {}  # known identifiers of only letters and digits -> hash
        self._parts: dict[str, str] = {}  # parts of paths and other text -> the same parts without identifiers
        # Keep the kernel's names, although a root hub's serial number equals one of them.
        paths = (path for part in ("files", "links") for path in recording[part] if path.startswith("/sys/"))
        names = {name for path in paths for name in path.split("/")}
        self._names = names | {word.lower() for name in names for word in _SEPARATOR.split(name)}
        host = str(recording.get("hostname", ""))
        self._host = self._host_pattern(host.lower())
        self._hidden_host = f"host-{self._digits(host)[:10]}"

    def learn(self, identifier: str) -> None:
        """Remembers an identifier, to replace it where it is a word, unless an unrelated word is likely to equal it."""
        word = _plain(_PREFIX.sub("", identifier.strip(), count=1))
        digits = sum(char.isdigit() for char in word)
        if _WORD.fullmatch(word) and word not in self._names and digits > 0 and (digits < len(word) or digits >= 8):
            self._words[word] = self._hashed(word)

    def applied(self) -> Recording:
        """The recording without identifiers."""
        files: Mapping[str, str] = self._recording["files"]
        for path, text in files.items():
            if is_identifier(path):
                self.learn(text)
        uevents = (_pairs(text) for path, text in files.items() if _is_uevent(path))
        for properties in (*self._recording["properties"].values(), *uevents):
            for name, value in properties.items():
                if is_identifying_property(name):
                    self.learn(value)
        addresses = [
            [interface, family, self._address(address), *details]
            for interface, family, address, *details in self._recording.get("addresses", ())
        ]
        return {
            **{part: self._all(value) for part, value in self._recording.items()},
            **({"addresses": addresses} if "addresses" in self._recording else {}),
            **({"arch": self._recording["arch"]} if "arch" in self._recording else {}),
            "files": {self.text(path): self._file(path, text) for path, text in files.items()},
            "links": {self._node(path): self._node(target) for path, target in self._recording["links"].items()},
            "properties": {self.text(p): self._properties(k) for p, k in self._recording["properties"].items()},
            "hostname": self._hidden_host,
            "redacted": True,
        }

    def identifier(self, text: str) -> str:
        """The hash of an identifier. Keeps its prefix, such as naa. or mpath-, and the white space around it."""
        body = text.strip(" \t\n\0")
        if len(set(_plain(body))) < 2:
            return text
        leading, _, trailing = text.partition(body)
        bare = _PREFIX.sub("", body, count=1)
        return f"{leading}{body.removesuffix(bare)}{self._hashed(bare)}{trailing}"

    def text(self, text: str) -> str:
        """The text without known identifiers and text that has an identifier's form."""
        if _PUBLIC.search(text):
            return text
        parts = text.split("/")
        after_uuid = [False, *(part in _BY_UUID for part in parts)]
        return "/".join(
            re.sub(r"^\S+", lambda m: self.identifier(m[0]), part) if by_uuid else self._part(part)
            for part, by_uuid in zip(parts, after_uuid, strict=False)
        )

    def _part(self, part: str) -> str:
        hidden = self._parts.get(part)
        if hidden is None:
            hidden = _SHAPES.sub(lambda m: self._hashed(m[0]) if len(set(_plain(m[0]))) > 2 else m[0], part)
            hidden = _WORD.sub(lambda m: self._words.get(m[0].lower(), m[0]), hidden)
            if self._host:
                hidden = self._host.sub(self._hidden_host, hidden)
            self._parts[part] = hidden
        return hidden

    def _all(self, value: object) -> object:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(key): self._all(inner) for key, inner in value.items()}
        return [self._all(inner) for inner in value] if isinstance(value, list) else value

    def _file(self, path: str, text: str) -> str:
        if is_identifier(path):
            return self.identifier(text)
        if _is_uevent(path):
            hidden = self._properties(_pairs(text))
            return "".join(f"{name}={value}\n" for name, value in hidden.items())
        if path.endswith(".mount"):  # a unit, with the device's name
            return "\n".join(map(self._node, text.split("\n")))
        if path == MOUNT_TABLE:
            return "\n".join(self._mount(line) if line else "" for line in text.split("\n"))
        return text if "/capabilities/" in path or path.endswith("/modalias") else self.text(text)

    def _properties(self, properties: Mapping[str, str]) -> dict[str, str]:
        """The properties of a device. Replaces the device's identifiers anywhere in them."""
        own = {v: self.identifier(v) for name, v in properties.items() if is_identifying_property(name) and v}
        own = {v: new for v, new in own.items() if v not in self._names and v != new}
        hidden = {}
        for name, value in properties.items():
            if name in VERBATIM:
                hidden[name] = value
            elif not keeps_property(name):
                hidden[name] = self.identifier(value)
            elif name in COMPOSED:
                hidden[name] = self._composed(value, own, properties, name)
                own[value] = hidden[name]
            else:
                hidden[name] = self.text(value)
        if "DEVLINKS" in hidden:
            hidden["DEVLINKS"] = _replaced(own, hidden["DEVLINKS"])
        return hidden

    def _composed(self, value: str, own: Mapping[str, str], properties: Mapping[str, str], name: str) -> str:
        """A value that udev composed from vendor, model and serial number; unchanged if there is no serial number."""
        vendor, model = (_plain(properties.get(name.replace("SERIAL", part), "")) for part in ("VENDOR", "MODEL"))
        hidden = _replaced(own, value)
        return self.identifier(value) if hidden == value and _plain(value) not in (model, vendor + model) else hidden

    def _mount(self, line: str) -> str:
        mount, hyphen, filesystem = line.partition(" - ")
        kind, source, options = [*filesystem.split(" "), "", "", ""][:3]
        remote = may_hang(kind) and kind != "autofs" and not source.startswith("/dev/") and re.search("[:/@]", source)
        hidden = f"id-{self._digits(source)[:12]}" if remote else self._node(source)
        devices = ",".join(map(self._node, options.split(",")))
        return f"{self.text(mount)}{hyphen}{kind} {hidden} {devices}"

    def _node(self, path: str) -> str:
        """A path that may be a link in /dev. Its name may contain a serial number."""
        folder, by_id, name = path.partition("/by-id/")
        return f"{folder}{by_id}{self.identifier(name)}" if by_id else self.text(path)

    def _address(self, address: str) -> str:
        parsed = ipaddress.ip_address(address)
        if parsed.is_loopback:
            return address
        digits = self._digits(address)
        if parsed.version == 4:
            return str(ipaddress.IPv4Address(0xF0000000 + int(digits[:7], 16)))  # 240.0.0.0/4 is not in use
        base = "fe80::" if parsed.is_link_local else "2001:db8::"
        return str(ipaddress.IPv6Address(int(ipaddress.IPv6Address(base)) + int(digits[:16], 16)))

    def _host_pattern(self, host: str) -> re.Pattern[str] | None:
        """Finds the machine's name with and without its domain; None if the kernel also uses this word."""
        short = host.partition(".")[0]
        if not short or short == "localhost" or short.isdigit() or short in self._names:
            return None
        spellings = "|".join(map(re.escape, (host, short, short.replace("-", "--"))))  # LVM doubles hyphens
        return re.compile(rf"(?<![0-9A-Za-z])(?:{spellings})(?![0-9A-Za-z])", re.IGNORECASE)

    def _hashed(self, identifier: str) -> str:
        """The hash. A hexadecimal hash keeps the length and separators; a MAC address becomes locally administered."""
        plain = _plain(identifier)
        digits = self._digits(plain)
        if not _HEXADECIMAL.fullmatch(plain):
            return f"id-{digits[:12]}"
        digits = "02" + digits[2:] if len(plain) == 12 else digits * (len(plain) // len(digits) + 1)
        laid_out, at = "", 0
        for piece in _SEPARATOR.split(identifier):
            is_separator = _SEPARATOR.fullmatch(piece) is not None
            laid_out += piece if is_separator else digits[at : at + len(piece)]
            at += 0 if is_separator else len(piece)
        return laid_out

    def _digits(self, text: str) -> str:
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=self._salt, digest_size=32).hexdigest()


def _plain(text: str) -> str:
    """Text in lower case without separators: the same for all notations of an identifier."""
    return _SEPARATOR.sub("", text).lower()


def _pairs(uevent: str) -> dict[str, str]:
    return {name: value for name, sign, value in (line.partition("=") for line in uevent.split("\n")) if sign}


def _is_uevent(path: str) -> bool:
    return path.endswith("/uevent")


def _replaced(own: Mapping[str, str], text: str) -> str:
    """Text with a device's identifiers replaced, longest first. own: identifier -> its hash."""
    for identifier in sorted(own, key=len, reverse=True):
        pattern = re.escape(identifier)
        if len(identifier) < _MIN_SUBSTRING:
            pattern = rf"(?<![0-9A-Za-z]){pattern}(?![0-9A-Za-z])"
        new = own[identifier]
        text = re.sub(pattern, lambda _, new=new: new, text)  # type: ignore[misc]
    return text
