"""The parts of a recording that are not content of files: the answers of udev, the kernel and psutil."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, astuple
from functools import partial
from typing import Any, TypeAlias

from capacityd.host.cpu_memory import PROCESSOR_MEASURES
from capacityd.host.filesystems import filesystems
from capacityd.host.live import LiveHost
from capacityd.host.recording.format import Recording
from capacityd.host.recording.replay import RecordedHost
from capacityd.host.time_limit import within_time_limit
from capacityd.linux.filesystem_types import has_device, may_hang
from capacityd.model.errors import HostError

Source: TypeAlias = LiveHost | RecordedHost
"""The machine to record. Tests of the recorder record a recorded machine."""


def answers(source: Source, devices: Iterable[str], interfaces: Iterable[str]) -> Recording:
    """The parts with answers, and the part "unknown" with the unanswered questions.

    devices: the devices' paths in /sys. interfaces: the interfaces' names.
    """
    parts: Recording = {"unknown": {}}

    def record(part: str, ask: Callable[[], Any], *, key: str = "") -> None:
        """Records the answer of ask(), or its error. key: the answer's key; "" if the answer is the whole part."""
        question = f"{part} {key}" if key else part
        try:
            answer = within_time_limit(question, ask)
        except HostError as e:
            parts["unknown"][question] = [error_name(e), str(e)]
            return
        if key:
            parts.setdefault(part, {})[key] = answer
        else:
            parts[part] = answer

    for device in devices:
        record("properties", partial(source.properties, device), key=device)
    for interface in interfaces:
        record("link_modes", partial(source.link_modes, interface), key=interface)
        record("link_kinds", partial(source.link_kind, interface), key=interface)
        record("linked_interfaces", partial(source.linked_interface, interface), key=interface)
    for measure in PROCESSOR_MEASURES:
        record("processors", partial(source.processors, measure), key=measure)
    with suppress(HostError):  # without a readable mount table, there are no sizes to record
        for filesystem in filesystems(source):
            mount = filesystem.mount
            if may_hang(mount.type) and not has_device(mount.major_minor):
                continue  # an access may wait for a server
            for point in filesystem.points:
                record("filesystem_sizes", partial(source.filesystem_size, point, filesystem.mount_ids), key=point)
    record("addresses", lambda: [list(astuple(address)) for address in source.addresses()])
    record("memory", lambda: asdict(source.memory()))
    record("default_interfaces", source.default_interfaces)
    return parts


def error_name(e: HostError) -> str | None:
    """The name of the error's errno; None if the error has no errno."""
    if e.errno is None:
        return None
    if e.errno == errno.EOPNOTSUPP:
        return "EOPNOTSUPP"  # errno.errorcode contains another name of this number, ENOTSUP
    return errno.errorcode.get(e.errno)
