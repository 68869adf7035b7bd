"""A recorded machine as a Host, in memory. format.py lists the parts of a recording."""

from __future__ import annotations

import errno
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from capacityd.host.recording.file_tree import RecordedFiles
from capacityd.host.recording.format import address_of, read_recording
from capacityd.host.regular_file import MAX_ATTRIBUTE_BYTES, MAX_TABLE_BYTES, nonempty_lines, stripped_lines, text_of
from capacityd.model.errors import HostError
from capacityd.model.host import Address, Content, MachineMemory, Output
from capacityd.model.text import printable


def load(path: str) -> RecordedHost:
    """The machine recorded in a file. Raises UsageError if the file is not a recording."""
    return RecordedHost(read_recording(path))


class RecordedHost(RecordedFiles):
    """A recorded or invented machine as a Host (model/host.py, which describes the methods).

    scandir() and readlink() are not methods of a Host. Only the recorder calls them, in tests that record this host.
    """

    def __init__(self, recording: Mapping[str, Any]) -> None:
        super().__init__(recording)
        self._recording = recording
        # Unanswered question, such as "memory" or "link_modes eth0" -> name of the errno (None if none), message.
        self._unanswered: Mapping[str, Sequence[str | None]] = recording.get("unknown", {})

    def text(self, path: str) -> str | None:
        content = self.optional_raw(path, MAX_ATTRIBUTE_BYTES)
        return None if content is None else text_of(content)

    def properties(self, device: str) -> Mapping[str, str]:
        real = self.real_path(device)
        self._raise_if_unanswered(f"properties {real}")
        values = self._properties.get(real, {})
        return {printable(name): printable(value) for name, value in values.items()}

    def property(self, device: str, *names: str) -> str | None:
        values = self.properties(device)
        for name in names:
            if value := values.get(name):
                return value
        return None

    def link_modes(self, interface: str) -> Sequence[str]:
        return list(self._answer("link_modes", interface))

    def link_kind(self, interface: str) -> str:
        return str(self._answer("link_kinds", interface))

    def linked_interface(self, interface: str) -> str:
        return str(self._answer("linked_interfaces", interface))

    def default_interfaces(self) -> Sequence[str]:
        return list(self._part("default_interfaces"))

    def addresses(self) -> Sequence[Address]:
        return [address_of(values) for values in self._part("addresses")]

    def processors(self, measure: str) -> int | None:
        number: int | None = self._answer("processors", measure)
        return number

    def memory(self) -> MachineMemory:
        return MachineMemory(**self._part("memory"))

    def filesystem_size(self, point: str, mount_ids: Collection[str]) -> int:
        return int(self._answer("filesystem_sizes", point))

    def lines(self, path: str) -> Sequence[str]:
        return nonempty_lines(self.optional_raw(path, MAX_TABLE_BYTES) or "")

    def read_file(self, path: str, limit: int) -> Content:
        age = float(self._recording.get("ages", {}).get(path, 0))
        return Content(stripped_lines(self.raw(path, limit)), age=age)

    def run(self, command: Sequence[str], timeout: float) -> Output:
        status, out, err = self._answer("programs", json.dumps(command))
        return Output(int(status), out=printable(out.strip()), err=printable(err.strip()))

    def sandbox_advice(self, paths: Sequence[str], *, program_failed: bool = False) -> str:
        return ""  # a recording is not read in the service

    def arch(self) -> str:
        return str(self._recording.get("arch", "x86_64"))

    def hostname(self) -> str:
        return str(self._recording.get("hostname", "recorded"))

    def _part(self, part: str) -> Any:
        """A part of the recording. Raises HostError if the recording lacks it."""
        self._raise_if_unanswered(part)
        if part not in self._recording:
            raise HostError(f'the recording lacks the part "{part}": record the machine again')
        return self._recording[part]

    def _answer(self, part: str, key: str) -> Any:
        """The answer for this key in a part of the recording. Raises HostError if the recording lacks it."""
        question = f"{part} {key}"
        self._raise_if_unanswered(question)
        answers = self._recording.get(part, {})
        if key not in answers:
            raise HostError(f'the recording does not contain "{question}"', errno.ENODEV)
        return answers[key]

    def _raise_if_unanswered(self, question: str) -> None:
        """Raises HostError if the machine did not answer this question during recording.

        question: a part of a recording, or a part and a key in it, separated by a space.
        """
        if question in self._unanswered:
            error_name, message = self._unanswered[question]
            code = getattr(errno, error_name, None) if error_name else None
            raise HostError(str(message), code)
