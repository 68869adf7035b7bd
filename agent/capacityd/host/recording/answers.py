"""What a recording contains besides files: what udev, the kernel and psutil answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, astuple
from functools import partial
from typing import Any, TypeAlias

from capacityd.host.cpu_memory import PROCESSOR_MEASURES
from capacityd.host.filesystems import local_filesystems
from capacityd.host.live import LiveHost
from capacityd.host.recording.format import Recording
from capacityd.host.recording.replay import RecordedHost
from capacityd.model.errors import HostError

Source: TypeAlias = LiveHost | RecordedHost
"""The machine to record. A recording can be recorded again, to test the recorder."""

AnswerOrNothing: TypeAlias = Callable[[str, str, Callable[[], Any]], dict[str, Any]]
"""Takes the name of a question, the key of the answer, and a function that asks. Returns {key: answer}; without an
answer, an empty dict."""


def recorded_answers(
    source: Source, devices: Iterable[str], interfaces: Iterable[str], answer: AnswerOrNothing
) -> Recording:
    """The parts of the recording with answers.

    devices: paths in /sys. interfaces: names. answer: asks a question, and records why there is no answer.
    """
    questions_about_interfaces: dict[str, Callable[[str], Any]] = {  # part of the recording -> its question
        "link_modes": source.link_modes,
        "link_kinds": source.link_kind,
        "linked_interfaces": source.linked_interface,
    }
    parts = ("properties", *questions_about_interfaces, "processors", "filesystem_sizes")
    answers: Recording = {part: {} for part in parts}
    for path in devices:
        answers["properties"] |= answer(f"properties {path}", path, partial(source.properties, path))
    for interface in interfaces:
        for part, ask in questions_about_interfaces.items():
            answers[part] |= answer(f"{part} {interface}", interface, partial(ask, interface))
    for measure in PROCESSOR_MEASURES:
        answers["processors"] |= answer(f"processors {measure}", measure, partial(source.processors, measure))
    for point, mount_ids in _local_mount_points(source):
        # The question contains a mount's id, because a file system that another one hides has the same mount point.
        question = f"filesystem_sizes {point} {min(mount_ids)}"
        answers["filesystem_sizes"] |= answer(question, point, partial(source.filesystem_size, point, mount_ids))
    single_answers: dict[str, Callable[[], Any]] = {  # part of the recording that is one answer -> its question
        "addresses": lambda: [list(astuple(address)) for address in source.addresses()],
        "memory": lambda: asdict(source.memory()),
        "default_interfaces": source.default_interfaces,
    }
    for part, ask_for_part in single_answers.items():
        answers |= answer(part, part, ask_for_part)
    return answers


def _local_mount_points(source: Source) -> Iterator[tuple[str, frozenset[str]]]:
    """Yields each mount point of file systems on this machine, with the file system's mount ids; none if unknown."""
    with suppress(HostError):
        for filesystem in local_filesystems(source):
            yield from ((point, filesystem.mount_ids) for point in filesystem.points)
