"""file: the whole number that a file holds, written by something else on the machine."""

from __future__ import annotations

from collections.abc import Mapping

from capacityd.errors import HostError
from capacityd.host import Host
from capacityd.model import Evidence, ValueDetector
from capacityd.quantity import whole_number
from capacityd.settings import Duration, FilePath, Setting

_MOST = 4096
_AHEAD = 60  # seconds that a clock may have been set back since the file was written


def read(host: Host, settings: Mapping[str, object]) -> Evidence:
    """The number in the file. A missing file is unknown, not absent: what writes it may not have come that far."""
    path, most = str(settings["path"]), settings["max_age"]
    content = host.content(path, _MOST)
    if isinstance(most, float) and content.age < -_AHEAD:
        raise HostError(f"{path} is dated {-content.age:.0f} s ahead, so its age is unknown; is the clock right?")
    if isinstance(most, float) and content.age > most:
        raise HostError(f"{path} is {content.age:.0f} s old, max_age is {most:g} s; does its writer run?")
    try:
        return Evidence(path, whole_number(content.text))
    except ValueError as e:
        raise HostError(f"{path}: {e}") from e


DETECTOR = ValueDetector(
    name="file",
    about="the whole number in a file; write it elsewhere and rename it, so that it is never half written",
    settings={
        "path": Setting(FilePath(), "the file", required=True),
        "max_age": Setting(Duration(1, 366 * 86400), "how old it may be before it counts as unknown"),
    },
    read=read,
    watched="path",
)
