"""Reads and checks the file of a recording: JSON, optionally compressed with gzip.

Bytes that are not UTF-8 become lone surrogates. Any part may be missing. RECORDING_PARTS lists the parts.
"""

from __future__ import annotations

import errno
import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from capacityd.model.codec import Malformed, decode
from capacityd.model.errors import UsageError
from capacityd.model.host import Address, MachineMemory
from capacityd.model.text import printable

Recording = dict[str, Any]

_MAX_FILE_BYTES = 1 << 30
_GZIP_MAGIC = b"\x1f\x8b"


def read_recording(path: str) -> Recording:
    """The content of a file. Raises UsageError if it is not a recording."""
    try:
        with open(path, "rb") as f:
            is_compressed = f.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC)
            content = gzip.GzipFile(fileobj=f) if is_compressed else f
            text = content.read(_MAX_FILE_BYTES)
        if not text:
            raise UsageError(f"{path}: is empty: did the command fail that should have written it?")
        recording = json.loads(text)
    except OSError as e:
        raise UsageError(f"{path}: could not be read: {e.strerror or e}") from e
    except zlib.error as e:
        raise UsageError(f"{path}: could not be read: {e}") from e
    except EOFError as e:
        raise UsageError(f"{path}: is truncated") from e
    except (ValueError, RecursionError) as e:
        raise UsageError(f"{path}: is not JSON: {e}") from e
    if recording == {}:
        raise UsageError(f"{path}: contains no recorded machine; write one with `capacityd record FILE`")
    if not isinstance(recording, dict) or any(part not in RECORDING_PARTS for part in recording):
        raise UsageError(f"{path}: is not a recording; `capacityd record FILE` writes one")
    for part, value in recording.items():
        if not _is_valid(part, value):
            raise UsageError(f'{path}: the content of its part "{part}" is not valid')
    return recording


def _is_valid(part: str, value: Any) -> bool:
    """Whether the value has the type of this part of a recording, and contains no unknown errno."""
    try:
        decode(RECORDING_PARTS[part], value)
    except Malformed:
        return False
    if part != "errors":
        return True
    numbers = [getattr(errno, name, None) for name in value.values()]
    return all(isinstance(number, int) for number in numbers)


def address_of(values: Sequence[Any]) -> Address:
    """An address in the part "addresses". values: the values of Address's fields, in order."""
    interface, family, address, prefix, scope, temporary = values
    # The interface stays exactly as recorded: it is compared with the names of interfaces.
    return Address(interface, printable(family), printable(address), prefix, printable(scope), temporary)


RECORDING_PARTS: Mapping[str, Any] = {
    "files": Mapping[str, str],  # path -> content
    "links": Mapping[str, str],  # path -> target
    "errors": Mapping[str, str],  # path -> name of the errno for reading this path and all paths below it
    # Folder -> names in it of which nothing is recorded. A name of a folder ends with "/".
    "left_out": Mapping[str, tuple[str, ...]],
    "folders": tuple[str, ...],  # paths of which only the existence is recorded
    "properties": Mapping[str, Mapping[str, str]],  # path of a device -> name -> value
    "link_modes": Mapping[str, tuple[str, ...]],  # interface -> names of the link modes that it supports
    "link_kinds": Mapping[str, str],  # interface -> kind, as "ip -details link" shows it
    "linked_interfaces": Mapping[str, str],  # interface -> the interface that it uses, or ""
    "default_interfaces": tuple[str, ...],  # names of the interfaces of default routes
    "addresses": tuple[tuple[str, str, str, int, str, bool], ...],  # the fields of Address
    "processors": Mapping[str, int | None],  # measure -> its value; null: not reported
    "memory": MachineMemory,
    "filesystem_sizes": Mapping[str, int],  # mount point -> bytes
    "ages": Mapping[str, float],  # path of a file -> seconds since it was changed
    "programs": Mapping[str, tuple[int, str, str]],  # command as JSON -> exit status, standard output, standard error
    "arch": str,
    "hostname": str,
    # Unanswered question -> name of the error's errno (null if it has none), message. A question is a part, or a part
    # and a key in it: "memory", "link_modes eth0".
    "unknown": Mapping[str, tuple[str | None, str]],
    "redacted": bool,  # whether identifiers are replaced by numbers
}
"""Name of each part of a recording -> type of its content."""
