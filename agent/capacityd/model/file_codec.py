"""Converts a value to the content of a file and back: JSON with a checksum and the version of capacityd."""

from __future__ import annotations

import json
from binascii import crc32
from typing import TypeVar

from capacityd.model.codec import Malformed, decode, encode, parse

_T = TypeVar("_T")

# Keys in the JSON, in addition to the value's fields
_CHECKSUM = "checksum"
_VERSION = "version"


def to_file(value: object, version: str) -> bytes:
    """Converts a value to the content of a file. version: the version of capacityd that writes the file."""
    content = {**encode(value), _VERSION: version}
    content_with_checksum = {**content, _CHECKSUM: _checksum(content)}
    return json.dumps(content_with_checksum).encode()


def from_file(kind: type[_T], content: bytes, version: str) -> _T:
    """Restores the value that was given to to_file(). Raises Malformed, also if another version wrote the file."""
    data = parse(content)
    if not isinstance(data, dict):
        raise Malformed("not an object")
    checksum = data.pop(_CHECKSUM, None)
    if checksum != _checksum(data):
        raise Malformed("the checksum differs")
    if data.pop(_VERSION, None) != version:
        raise Malformed("written by another version")
    return decode(kind, data)


def _checksum(content: object) -> str:
    text = json.dumps(content, sort_keys=True)
    checksum = crc32(text.encode())
    return f"{checksum:08x}"
