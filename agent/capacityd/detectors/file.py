"""file: the whole number in a file that another program writes."""

from __future__ import annotations

from collections.abc import Mapping

from capacityd.model.device import ValueDetector
from capacityd.model.errors import Cause, HostError
from capacityd.model.host import Host
from capacityd.model.private import quoted
from capacityd.model.quantity import whole_number
from capacityd.model.reading import Contribution
from capacityd.model.setting_types import Duration, FilePath, Setting
from capacityd.model.text import duration_text

_MAX_BYTES = 4096
_MAX_CLOCK_STEP = 60
"""Seconds by which the clock may have been set back since the file was written."""


def read(host: Host, settings: Mapping[str, object]) -> Contribution:
    """The number in the file. Raises HostError if the file is missing: its writer may not have started yet."""
    path, max_age = str(settings["path"]), settings["max_age"]
    try:
        content = host.read_file(path, _MAX_BYTES)
    except HostError as e:
        if e.cause is Cause.NOT_TRUSTED:  # the advice would be about a path that another user has chosen
            raise
        raise HostError(f"{e}{host.sandbox_advice([path])}", e.errno, e.cause, detail=e.detail.text) from e
    if isinstance(max_age, float) and content.age < -_MAX_CLOCK_STEP:
        raise HostError(f"{path} is dated {duration_text(-content.age)} in the future; is the clock right?")
    if isinstance(max_age, float) and content.age > max_age:
        raise HostError(
            f"{path} is {duration_text(content.age)} old, max_age is {duration_text(max_age)}; does its writer run?"
        )
    try:
        number = whole_number(content.text)
    except ValueError as e:
        raise HostError(f"{path}: {e}", detail=f"it contains {quoted(content.text)}") from e
    return Contribution(path, number, valid_for=max_age - content.age if isinstance(max_age, float) else None)


DETECTOR = ValueDetector(
    name="file",
    about="the whole number in a file; write a temporary file and rename it, so that it is always complete",
    settings={
        "path": Setting(FilePath(), "the file", required=True),
        "max_age": Setting(Duration(1, 366 * 86400), "if the file is older, the resource is unknown"),
    },
    read=read,
    watched="path",
)
