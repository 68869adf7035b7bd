"""Reads and checks the file of a recording: JSON, optionally compressed with gzip.

Bytes that are not UTF-8 become lone surrogates. Any part may be missing. RECORDING_PARTS lists the parts.
"""

from __future__ import annotations

import errno
import gzip
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from capacityd.model.errors import UsageError
from capacityd.model.host import Address, Memory
from capacityd.model.text import printable

Recording = dict[str, Any]

_MAX_FILE_BYTES = 1 << 30
_GZIP_MAGIC = b"\x1f\x8b"


def read_recording(path: str) -> Recording:
    """The content of a file. Raises UsageError if it is not a recording."""
    try:
        with open(path, "rb") as f:
            is_compressed = f.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC)
            with gzip.open(f) if is_compressed else f as content:
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
    if not isinstance(recording, dict) or not set(recording) <= set(RECORDING_PARTS):
        raise UsageError(f"{path}: is not a recording; a recording has the parts {', '.join(RECORDING_PARTS)}")
    for part, value in recording.items():
        if not RECORDING_PARTS[part](value):
            raise UsageError(f'{path}: the content of its part "{part}" is not valid')
    return recording


def address_of(values: Sequence[Any]) -> Address:
    """An address in the part "addresses". values: of the fields of Address, in their order."""
    interface, family, address, prefix, scope, temporary = values
    return Address(
        interface=str(interface),  # exactly as recorded: it is compared with the names of interfaces
        family=printable(family),
        address=printable(address),
        prefix=prefix,
        scope=printable(scope),
        temporary=temporary,
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_number(value: object) -> bool:
    return type(value) is int  # isinstance() accepts True


def _is_error(value: object) -> bool:
    """Whether a value is the name of an errno."""
    return isinstance(value, str) and isinstance(getattr(errno, value, None), int)


def _is_address(value: object) -> bool:
    return isinstance(value, list) and [type(part) for part in value] == [str, str, str, int, str, bool]


def _is_memory(value: object) -> bool:
    names = {field.name for field in fields(Memory)}
    return isinstance(value, dict) and value.keys() == names and all(map(_is_number, value.values()))


def _is_result_of_program(value: object) -> bool:
    return isinstance(value, list) and [type(part) for part in value] == [int, str, str]


def _table(inner: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Returns a function that checks whether a value is an object whose values all pass the inner check."""
    return lambda value: isinstance(value, dict) and all(map(inner, value.values()))


RECORDING_PARTS: Mapping[str, Callable[[Any], bool]] = {
    "files": _table(_is_text),  # path -> content
    "links": _table(_is_text),  # path -> target
    "errors": _table(_is_error),  # path -> name of the errno for reading this path and all paths below it
    "left_out": _table(_are_texts),  # folder -> names of existing entries that are not recorded; folders end with "/"
    "folders": _are_texts,  # existing paths without recorded contents
    "properties": _table(_table(_is_text)),  # path of a device -> name -> value
    "hardware_names": _table(_table(_is_text)),  # modalias -> property of hwdb(7) -> value
    "link_modes": _table(_are_texts),  # interface -> names of the link modes that it supports
    "link_kinds": _table(_is_text),  # interface -> kind, as "ip -details link" shows it
    "linked_interfaces": _table(_is_text),  # interface -> the interface that it uses, or ""
    "default_interfaces": _are_texts,  # names of the interfaces of default routes
    "addresses": lambda value: isinstance(value, list) and all(map(_is_address, value)),  # the fields of Address
    "processors": _table(lambda value: value is None or _is_number(value)),  # measure -> its value
    "memory": _is_memory,  # field of Memory -> bytes
    "filesystem_sizes": _table(_is_number),  # mount point -> bytes
    "ages": _table(lambda value: type(value) in (int, float)),  # path of a file -> seconds since it was changed
    "programs": _table(_is_result_of_program),  # command as JSON -> exit status, standard output, standard error
    "arch": _is_text,
    "hostname": _is_text,
    # Question that the machine did not answer -> name of the errno or null, message. A question is the part and the key
    # of its answer: "memory", "link_modes eth0"; for a mount point also a mount's id: "filesystem_sizes /mnt 29".
    "unknown": _table(lambda value: isinstance(value, list) and len(value) == 2 and _is_text(value[1])),
    "redacted": lambda value: isinstance(value, bool),  # whether identifiers are replaced by hashes
}
"""The parts of a recording, each with a check of its value."""
