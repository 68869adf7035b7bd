"""Replaces the identifiers in a recording with numbers.

Equal identifiers get equal numbers, regardless of prefix, separators and case. contents.py, this module and
tests/corpus/recorded.md define the identifiers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from capacityd.host.recording.contents import COMPOSED, VERBATIM, is_identifier, is_identifying_property, keeps_property
from capacityd.host.recording.format import Recording
from capacityd.host.recording.numbering import PREFIX, SEPARATOR, Numbering, plain
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
"""Identifiers that are recognized anywhere by their form -> a regular expression."""

_SHAPES = re.compile("|".join(SHAPES.values()), re.IGNORECASE)
_WITH_PUBLIC_UUIDS = re.compile("/(?:wmi|mei|tee)/")  # in these folders, a UUID identifies a kind of device
_LINKS = re.compile(r"(?<=/by-id/)[^\s,]+|(?<=/by-uuid/)[^\s,]+|(?<=/by-partuuid/)[^\s,]+")
"""Names of links in /dev/disk that contain a serial number or a UUID."""
_WORD = re.compile("[0-9A-Za-z]{6,}")
_MIN_SUBSTRING = 6  # a shorter identifier is replaced only if it is a separate word
_HOSTNAME = "host-1"


def without_identifiers(recording: Recording, more: Iterable[str] = ()) -> Recording:
    """A copy of a recording with numbers instead of identifiers.

    more: identifiers that no recorded file or property contains, such as the machine's id.
    """
    privacy = Privacy(recording)
    for identifier in more:
        privacy.learn(identifier)
    return privacy.redacted_recording()


class Privacy:
    """Replaces the identifiers in one recording."""

    def __init__(self, recording: Recording) -> None:
        self._numbering = Numbering()
        self._recording = recording
        self._files: Mapping[str, str] = recording.get("files", {})
        self._properties: Mapping[str, Mapping[str, str]] = recording.get("properties", {})
        self._words: dict[str, str] = {}  # known identifiers of only letters and digits -> what replaces them
        # The kernel's own names and the words in them stay, although a USB root hub's serial number is such a name.
        paths = [*self._files, *recording.get("links", {})]
        names = {name for path in paths if path.startswith("/sys/") for name in path.split("/")}
        self._kernel_words = names | {word.lower() for name in names for word in SEPARATOR.split(name)}
        self._hostname_pattern = self._pattern_of_hostname(str(recording.get("hostname", "")).lower())

    def learn(self, identifier: str) -> None:
        """Remembers an identifier. redacted_recording() replaces it wherever it is a word.

        Does nothing if an unrelated word is likely to equal the identifier.
        """
        word = plain(PREFIX.sub("", identifier.strip(), count=1))
        if not _WORD.fullmatch(word) or word in self._kernel_words:
            return
        # A word without digits may be any word, and a short number any number.
        has_digit = any(char.isdigit() for char in word)
        is_short_number = word.isdigit() and len(word.lstrip("0")) < 8
        if has_digit and not is_short_number:
            self._words[word] = self._numbering.numbered(word)

    def _learn_recorded(self) -> None:
        """Remembers the identifiers in the recording's files and properties."""
        for path, text in self._files.items():
            if is_identifier(path):
                self.learn(text)
        uevents = (_pairs(text) for path, text in self._files.items() if _is_uevent(path))
        for properties in (*self._properties.values(), *uevents):
            for name, value in properties.items():
                if is_identifying_property(name):
                    self.learn(value)

    def redacted_recording(self) -> Recording:
        """The recording without identifiers."""
        self._learn_recorded()  # first, because any text may contain the identifier of any file
        redacted = {part: self._all(value) for part, value in self._recording.items()}
        if "addresses" in self._recording:
            redacted["addresses"] = [
                [interface, family, self._numbering.address(address, prefix), prefix, *details]
                for interface, family, address, prefix, *details in self._recording["addresses"]
            ]
        if "arch" in self._recording:
            redacted["arch"] = self._recording["arch"]  # a word such as x86_64 is no identifier
        redacted["files"] = {self.text(path): self._file(path, text) for path, text in self._files.items()}
        redacted["properties"] = {
            self.text(device): self._device(properties) for device, properties in self._properties.items()
        }
        redacted["hostname"] = _HOSTNAME
        redacted["redacted"] = True
        return redacted

    def text(self, text: str) -> str:
        """The text without known identifiers, without the names of links, and without what has an identifier's form."""
        if _WITH_PUBLIC_UUIDS.search(text):
            return text
        return self._words_of(_LINKS.sub(lambda name: self._numbering.identifier(name[0]), text))

    def _words_of(self, text: str) -> str:
        """The text without known identifiers, and without what has an identifier's form."""
        text = _SHAPES.sub(lambda shape: self._numbering.unless_placeholder(shape[0]), text)
        text = _WORD.sub(lambda word: self._words.get(word[0].lower(), word[0]), text)
        return self._hostname_pattern.sub(_HOSTNAME, text) if self._hostname_pattern else text

    def _all(self, value: object) -> object:
        """A value of JSON with all texts in it as text() returns them."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(key): self._all(inner) for key, inner in value.items()}
        return [self._all(inner) for inner in value] if isinstance(value, list) else value

    def _file(self, path: str, text: str) -> str:
        """A file's content without identifiers."""
        if is_identifier(path):
            return self._numbering.identifier(text)
        if _is_uevent(path):
            redacted = self._device(_pairs(text))
            return "".join(f"{name}={value}\n" for name, value in redacted.items())
        if path == MOUNT_TABLE:
            return "\n".join(self._mount(line) if line else "" for line in text.split("\n"))
        is_public = "/capabilities/" in path or path.endswith("/modalias")  # bit masks, ids of models
        return text if is_public else self.text(text)

    def _device(self, properties: Mapping[str, str]) -> dict[str, str]:
        """The properties of a device. Replaces the device's identifiers anywhere in those that udev composes of them.

        VERBATIM stay as they are. Properties that keeps_property() does not know become numbers. In all others, only
        the identifiers become numbers.
        """
        own = {  # the device's identifier -> what replaces it
            value: self._numbering.identifier(value)
            for name, value in properties.items()
            if is_identifying_property(name) and value and value not in self._kernel_words
        }
        redacted = {}
        for name, value in properties.items():
            if name in VERBATIM:
                redacted[name] = value
            elif not keeps_property(name):
                redacted[name] = self._numbering.identifier(value)
            elif name in COMPOSED:
                redacted[name] = self._composed(name, properties, own)
                own[value] = redacted[name]
            elif name != "DEVLINKS":
                redacted[name] = self.text(value)
        if "DEVLINKS" in properties:  # last, because it contains the composed properties
            redacted["DEVLINKS"] = self._words_of(_replaced(own, properties["DEVLINKS"]))
        return redacted

    def _composed(self, name: str, properties: Mapping[str, str], own: Mapping[str, str]) -> str:
        """A property that udev composed from vendor, model and serial number; unchanged if there is no serial number.

        own: identifier of the device -> what replaces it.
        """
        value = properties[name]
        redacted = _replaced(own, value)
        if redacted != value:
            return redacted
        vendor = plain(properties.get(name.replace("SERIAL", "VENDOR"), ""))
        model = plain(properties.get(name.replace("SERIAL", "MODEL"), ""))
        has_no_serial_number = plain(value) in (model, vendor + model)
        return value if has_no_serial_number else self._numbering.identifier(value)

    def _mount(self, line: str) -> str:
        """A line of the mount table without identifiers. The source of a network file system is an identifier."""
        before_hyphen, hyphen, after_hyphen = line.partition(" - ")
        type_, source, options = [*after_hyphen.split(" "), "", "", ""][:3]  # "" for each field that is missing
        may_be_remote = may_hang(type_) and type_ != "autofs" and not source.startswith("/dev/")
        if may_be_remote and re.search("[:/@]", source):  # server:/share, //server/share, user@server
            source = self._numbering.named(source)
        return f"{self.text(before_hyphen)}{hyphen}{type_} {self.text(source)} {self.text(options)}"

    def _pattern_of_hostname(self, hostname: str) -> re.Pattern[str] | None:
        """Finds the machine's name with and without its domain; None if the kernel also uses this word."""
        short = hostname.partition(".")[0]
        if not short or short == "localhost" or short.isdigit() or short in self._kernel_words:
            return None
        spellings = "|".join(map(re.escape, (hostname, short, short.replace("-", "--"))))  # LVM doubles hyphens
        return re.compile(rf"(?<![0-9A-Za-z])(?:{spellings})(?![0-9A-Za-z])", re.IGNORECASE)


def _pairs(uevent: str) -> dict[str, str]:
    """The properties in a uevent file: name -> value."""
    lines = (line.partition("=") for line in uevent.split("\n"))
    return {name: value for name, equals, value in lines if equals}


def _is_uevent(path: str) -> bool:
    return path.endswith("/uevent")


def _replaced(own: Mapping[str, str], text: str) -> str:
    """Text with a device's identifiers replaced, longest first. own: identifier -> what replaces it."""
    for identifier in sorted(own, key=len, reverse=True):
        pattern = re.escape(identifier)
        if len(identifier) < _MIN_SUBSTRING:
            pattern = rf"(?<![0-9A-Za-z]){pattern}(?![0-9A-Za-z])"
        replacement = own[identifier].replace("\\", r"\\")  # re.sub() gives a backslash a meaning
        text = re.sub(pattern, replacement, text)
    return text
