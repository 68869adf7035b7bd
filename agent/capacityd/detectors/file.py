"""file: the whole number in a file that another program writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from capacityd.model.errors import Cause, HostError
from capacityd.model.host import Host
from capacityd.model.quantity import whole_number
from capacityd.model.quoting import quoted
from capacityd.model.reading import Contribution
from capacityd.model.text import duration_text
from capacityd.schema.device import ValueDetector
from capacityd.schema.setting_types import Duration, FilePath, Setting

_MAX_BYTES = 4096
"""More than any number needs: a larger file is a mistake."""
_MAX_CLOCK_STEP = 60
"""Seconds by which the clock may have been set back since the file was written."""


def read(host: Host, settings: Mapping[str, object]) -> Contribution:
    """The number in the file. Raises HostError also if the file is missing: its writer may not have started yet."""
    path = str(settings["path"])
    max_age = cast("float | None", settings["max_age"])  # in seconds; None: any age is valid
    try:
        content = host.read_file(path, limit=_MAX_BYTES)
    except HostError as e:
        if e.cause is Cause.NOT_TRUSTED:  # advice about the path would follow a link that another user has chosen
            raise
        why = f"{e}{host.sandbox_advice([path])}"
        raise HostError(why, errno=e.errno, cause=e.cause, detail=e.detail) from e
    valid_for = None if max_age is None else _valid_for(path, content.age, max_age=max_age)
    try:
        number = whole_number(content.text)
    except ValueError as e:
        raise HostError(f"{path}: {e}", detail=f"it contains {quoted(content.text)}") from e
    return Contribution(device=path, amount=number, valid_for=valid_for)


def _valid_for(path: str, age: float, *, max_age: float) -> float:
    """Seconds until the file is too old. Raises HostError if it is too old now, or if it is dated in the future.

    age: of the file, in seconds; negative if it is dated in the future.
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
    about="the whole number in a file; write a temporary file and rename it, so that it is always complete",
    settings={
        "path": Setting(FilePath(), "the file", required=True),
        "max_age": Setting(Duration(least=1, most=366 * 86400), "if the file is older, the resource is unknown"),
    },
    read=read,
    watched="path",
)
