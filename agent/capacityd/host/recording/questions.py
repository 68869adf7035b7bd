"""What a recording contains besides files: the answers of udev, the kernel and psutil to these questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass
from functools import partial
from typing import Any, TypeAlias

from capacityd.host.cpu_memory import PROCESSOR_MEASURES
from capacityd.host.filesystems import local_filesystems
from capacityd.host.live import LiveHost
from capacityd.host.recording.replay import RecordedHost
from capacityd.model.errors import HostError

Source: TypeAlias = LiveHost | RecordedHost
"""The machine to record. A recording can be recorded again, to test the recorder."""

PARTS_WITH_KEYS = (
    "properties", "link_modes", "link_kinds", "linked_interfaces", "processors", "filesystem_sizes",
)  # fmt: skip
"""The parts of a recording with an answer for each key. For the other questions, the whole part is the answer."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question to the machine, and the place of its answer in the recording."""

    name: str
    """The question's name in the recording's part "unknown", if there is no answer."""
    part: str
    key: str
    """The key of the answer in the part; "" if the whole part is the answer."""
    ask: Callable[[], Any]
    """Raises HostError."""


def questions(source: Source, devices: Iterable[str], interfaces: Iterable[str]) -> Iterator[Question]:
    """Yields all questions. devices: paths in /sys. interfaces: names."""
    for device in devices:
        yield _about("properties", device, partial(source.properties, device))
    for interface in interfaces:
        yield _about("link_modes", interface, partial(source.link_modes, interface))
        yield _about("link_kinds", interface, partial(source.link_kind, interface))
        yield _about("linked_interfaces", interface, partial(source.linked_interface, interface))
    for measure in PROCESSOR_MEASURES:
        yield _about("processors", measure, partial(source.processors, measure))
    for point, mount_ids in _local_mount_points(source):
        # The name contains a mount's id, because two file systems, of which one hides the other, have one mount point.
        # replay.py also takes the least of the ids.
        name = f"filesystem_sizes {point} {min(mount_ids)}"
        ask = partial(source.filesystem_size, point, mount_ids)
        yield Question(name, part="filesystem_sizes", key=point, ask=ask)
    yield _about_machine("addresses", lambda: [list(astuple(address)) for address in source.addresses()])
    yield _about_machine("memory", lambda: asdict(source.memory()))
    yield _about_machine("default_interfaces", source.default_interfaces)


def _about(part: str, key: str, ask: Callable[[], Any]) -> Question:
    return Question(f"{part} {key}", part=part, key=key, ask=ask)


def _about_machine(part: str, ask: Callable[[], Any]) -> Question:
    return Question(part, part=part, key="", ask=ask)


def _local_mount_points(source: Source) -> Iterator[tuple[str, frozenset[str]]]:
    """Yields each mount point of file systems on this machine, with the file system's mount ids; none if unknown."""
    with suppress(HostError):
        for filesystem in local_filesystems(source):
            yield from ((point, filesystem.mount_ids) for point in filesystem.points)
