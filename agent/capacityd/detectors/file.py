"""file: a whole number from a file. The file contains only the number, or a name and a number in each line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import cast

from capacityd.model.errors import Cause, HostError
from capacityd.model.host import Host
from capacityd.model.quantity import parse_whole_number
from capacityd.model.quoting import quoted
from capacityd.model.reading import Absent, Contribution
from capacityd.model.text import duration_text
from capacityd.schema.device import ValueDetector
from capacityd.schema.setting_types import LINE_KEY, Setting, duration, file_path

_MAX_BYTES = 65536
"""The largest file to read. No list of numbers needs more."""
_NUL = r"\x00"
"""How a printable text shows the byte 0."""
_MAX_CLOCK_STEP = 60
"""Seconds by which the clock may have been set back since the file was written."""


def read(host: Host, settings: Mapping[str, object]) -> Contribution | Absent:
    """The number in the file; Absent if the file does not have the key.

    Raises HostError, also if the file is missing: its writer may not have started yet.
    """
    path = str(settings["path"])
    key = cast("str | None", settings["key"])  # None: the file contains only the number
    max_age = cast("float | None", settings["max_age"])  # in seconds; None: any age is valid
    try:
        content = host.read_file(path, limit=_MAX_BYTES)
    except HostError as e:
        if e.cause is Cause.NOT_TRUSTED:  # sandbox_advice() would follow the link of an untrusted user
            raise
        raise e.with_message(f"{e}{host.sandbox_advice([path])}") from e
    valid_for = None if max_age is None else _seconds_valid(path, content.age, max_age=max_age)
    if _NUL in content.text:  # a power failure may have replaced the end of the file, or the file is in UTF-16
        raise HostError(f"{path} is not a text, because it contains zero bytes")
    if key is None:
        texts = [content.text]
        where = path
    else:
        texts = _texts_behind(key, content.lines)
        where = f"{path} {key}"
    if not texts:
        return Absent(f"no line of {path} begins with {key}")
    if len(texts) > 1:
        raise HostError(f"{path} has {key} {len(texts)} times")
    try:
        number = parse_whole_number(texts[0])
    except ValueError as e:
        raise HostError(f"{where}: {e}", detail=f"it contains {quoted(texts[0])}") from e
    return Contribution(device=where, amount=number, valid_for=valid_for)


def _texts_behind(key: str, lines: Sequence[str]) -> list[str]:
    """The text behind the key in each line that begins with the key, such as "key 1", "key = 1" or "key: 1".

    If there is no such line, returns the text behind the key in lines such as "key two: 1". Such a line may report an
    error ("key lost at 12:30") or have another format (key{label="x"} 1). The caller then reports an error, not that
    the file lacks the key.
    """
    unambiguous = r"(?:\s*[=:]\s*|\s+(?=[^=:]*$))"  # "=", ":", or spaces in a line without "=" and ":"
    end_of_word = r"(?![\w.-])\s*"  # the key is not the beginning of a longer word
    for separator in (unambiguous, end_of_word):
        pair = re.compile(rf"\s*{re.escape(key)}{separator}(.*)")
        matches = [pair.fullmatch(line) for line in lines]
        found = [match[1] for match in matches if match]
        if found:
            return found
    return []


def _seconds_valid(path: str, age: float, *, max_age: float) -> float:
    """Seconds until the file is too old. Raises HostError if the file is too old now, or is dated in the future.

    age: the file's age in seconds; negative if the file is dated in the future.
    """
    future = -age
    if future > _MAX_CLOCK_STEP:
        raise HostError(f"{path} is dated {duration_text(future)} in the future; is the clock right?")
    if age > max_age:
        raise HostError(
            f"{path} is {duration_text(age)} old, max_age is {duration_text(max_age)}; does its writer run?"
        )
    return max_age - age


DETECTOR = ValueDetector(
    name="file",
    about="the whole number in a file, or behind a key; write a temporary file and rename it, so that it is complete",
    settings={
        "path": Setting(file_path(), "the file", required=True),
        "key": Setting(
            LINE_KEY, "the name before the number, in a file with a pair in each line: KEY 1, KEY = 1 or KEY: 1"
        ),
        "max_age": Setting(duration(least="1s", most="366d"), "if the file is older, the resource is unknown"),
    },
    read=read,
    watched="path",
)
