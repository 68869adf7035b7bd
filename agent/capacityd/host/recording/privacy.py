"""Replaces the identifiers in a recording with numbers.

Equal identifiers get equal numbers, regardless of prefix, separators and case. contents.py, this module and
tests/corpus/recorded.md define what is an identifier.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from capacityd.host.recording.contents import VERBATIM, is_identifier, is_identifying_property, keeps_property
from capacityd.host.recording.format import Recording
from capacityd.host.recording.numbering import SEPARATOR, Numbering, plain, without_prefix
from capacityd.linux.filesystem_types import may_hang
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
"""Kind of identifiers that are recognized anywhere by their form -> regular expression."""

_ANY_SHAPE = re.compile("|".join(SHAPES.values()), re.IGNORECASE)
_WITH_PUBLIC_UUIDS = re.compile("/(?:wmi|mei|tee)/")  # in these folders, a UUID identifies a kind of device
_DISK_LINKS = re.compile(r"(?:(?<=/disk/by-id/)|(?<=/disk/by-uuid/)|(?<=/disk/by-partuuid/))[^\s,]+")
"""Names of links to disks that contain a serial number or a UUID."""
_WORD = re.compile("[0-9A-Za-z]{6,}")
_HOSTNAME = "host-1"


def without_identifiers(recording: Recording, more_identifiers: Iterable[str] = ()) -> Recording:
    """A copy of a recording with numbers instead of identifiers.

    more_identifiers: those that no recorded file or property contains, such as the machine's id.
    """
    privacy = Privacy(recording)
    for identifier in more_identifiers:
        privacy.learn(identifier)
    return privacy.redacted_recording()


class Privacy:
    """Replaces the identifiers in one recording."""

    def __init__(self, recording: Recording) -> None:
        self._numbering = Numbering()
        self._recording = recording
        self._files: Mapping[str, str] = recording.get("files", {})
        self._properties: Mapping[str, Mapping[str, str]] = recording.get("properties", {})
        self._words: dict[str, str] = {}  # word of an identifier -> its replacement
        self._kernel_words = _kernel_words([*self._files, *recording.get("links", {})])
        self._hostname_pattern = self._pattern_of_hostname(str(recording.get("hostname", "")).lower())

    def learn(self, identifier: str) -> None:
        """Remembers an identifier without separators, and its words. redacted_recording() replaces them everywhere."""
        main_part = without_prefix(identifier.strip()).lower()
        words = SEPARATOR.split(main_part)
        for word in [plain(main_part), *words]:
            if self._is_identifying(word):
                self._words[word] = self._numbering.number_like(word)

    def _is_identifying(self, word: str) -> bool:
        """Whether a word of an identifier probably has no other meaning.

        Words without digits, short numbers and words that the kernel uses may have another meaning.
        """
        has_digit = any(char.isdigit() for char in word)
        is_short_number = word.isdigit() and len(word.lstrip("0")) < 8
        if not has_digit or is_short_number or word in self._kernel_words:
            return False
        return _WORD.fullmatch(word) is not None

    def _learn_recorded(self) -> None:
        """Remembers the identifiers in the recording's files and properties."""
        devices = list(self._properties.values())
        for path, text in self._files.items():
            if is_identifier(path):
                self.learn(text)
            if _is_uevent(path):
                devices.append(_uevent_properties(text))
        for properties in devices:
            for name, value in properties.items():
                if is_identifying_property(name):
                    self.learn(value)

    def redacted_recording(self) -> Recording:
        """The recording without identifiers."""
        self._learn_recorded()  # first, because any text may contain the identifier of any file
        redacted = {part: self._redacted_value(value) for part, value in self._recording.items()}
        if "addresses" in self._recording:
            redacted["addresses"] = [self._redacted_address(*values) for values in self._recording["addresses"]]
        if "arch" in self._recording:
            redacted["arch"] = self._recording["arch"]  # a word such as x86_64 is no identifier
        redacted["files"] = {self.text(path): self._redacted_file(path, text) for path, text in self._files.items()}
        redacted["properties"] = {
            self.text(device): self._redacted_properties(properties) for device, properties in self._properties.items()
        }
        redacted["hostname"] = _HOSTNAME
        redacted["redacted"] = True
        return redacted

    def text(self, text: str) -> str:
        """The text with numbers instead of known identifiers, and of everything that has an identifier's form."""
        if _WITH_PUBLIC_UUIDS.search(text):
            return text
        text = _DISK_LINKS.sub(lambda match: self._numbering.replacement(match[0]), text)
        text = _ANY_SHAPE.sub(lambda match: self._numbering.replacement(match[0]), text)
        text = _WORD.sub(lambda match: self._redacted_word(match[0]), text)
        if self._hostname_pattern is None:
            return text
        return self._hostname_pattern.sub(_HOSTNAME, text)

    def _redacted_word(self, word: str) -> str:
        """The number that replaces a known identifier; any other word stays."""
        return self._words.get(word.lower(), word)

    def _redacted_value(self, value: object) -> object:
        """A value of JSON, with text() applied to every text in it."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(key): self._redacted_value(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._redacted_value(inner) for inner in value]
        return value

    def _redacted_address(self, interface: str, family: str, address: str, prefix: int, *rest: object) -> list[object]:
        """The fields of an IP address, with another address."""
        return [self.text(interface), family, self._numbering.unused_address(address, prefix), prefix, *rest]

    def _redacted_file(self, path: str, text: str) -> str:
        """A file's content without identifiers."""
        if is_identifier(path):
            return self._numbering.replacement(text)
        if _is_uevent(path):
            redacted = self._redacted_properties(_uevent_properties(text))
            return "".join(f"{name}={value}\n" for name, value in redacted.items())
        if path == MOUNT_TABLE:
            return "\n".join(map(self._redacted_mount, text.split("\n")))
        is_public = "/capabilities/" in path or path.endswith("/modalias")  # bit masks, ids of models
        return text if is_public else self.text(text)

    def _redacted_properties(self, properties: Mapping[str, str]) -> dict[str, str]:
        """A device's properties without identifiers.

        Properties in VERBATIM stay unchanged. A property that keeps_property() rejects becomes a number. In any other
        property, only the identifiers become numbers.
        """
        redacted = {}
        for name, value in properties.items():
            if name in VERBATIM:
                redacted[name] = value
            elif keeps_property(name):
                redacted[name] = self.text(value)
            else:
                redacted[name] = self._numbering.replacement(value)
        return redacted

    def _redacted_mount(self, line: str) -> str:
        """A line of the mount table without identifiers. The source of a network file system is an identifier."""
        before_hyphen, hyphen, after_hyphen = line.partition(" - ")
        if not hyphen:
            return self.text(line)
        type_, _, source_and_options = after_hyphen.partition(" ")
        source, space, options = source_and_options.partition(" ")
        may_be_remote = may_hang(type_) and type_ != "autofs" and not source.startswith("/dev/")
        may_name_server = re.search("[:/@]", source) is not None  # server:/share, //server/share, user@server
        if may_be_remote and may_name_server:
            source = self._numbering.number_as_name(source)
        return self.text(f"{before_hyphen}{hyphen}{type_} {source}{space}{options}")

    def _pattern_of_hostname(self, hostname: str) -> re.Pattern[str] | None:
        """A pattern of the host name with and without domain; None if the name may be another word, or is empty."""
        short = hostname.partition(".")[0]
        is_other_word = short == "localhost" or short.isdigit() or short in self._kernel_words
        if not short or is_other_word:
            return None
        name_in_lvm = short.replace("-", "--")  # LVM doubles hyphens
        names = "|".join(map(re.escape, [hostname, short, name_in_lvm]))
        return re.compile(rf"(?<![0-9A-Za-z])(?:{names})(?![0-9A-Za-z])", re.IGNORECASE)


def _kernel_words(paths: Iterable[str]) -> set[str]:
    """The kernel's own names in these paths, and the words in them.

    These words stay, even if an identifier equals one: the serial number of a USB root hub is a name of the kernel.
    """
    names: set[str] = set()
    for path in paths:
        if path.startswith("/sys/"):
            names.update(path.split("/"))
    words: set[str] = set()
    for name in names:
        words.update(SEPARATOR.split(name))
    return names | {word.lower() for word in words}


def _uevent_properties(uevent: str) -> dict[str, str]:
    """The properties in a uevent file: name -> value."""
    lines = uevent.split("\n")
    return dict(line.split("=", maxsplit=1) for line in lines if "=" in line)


def _is_uevent(path: str) -> bool:
    return path.endswith("/uevent")
