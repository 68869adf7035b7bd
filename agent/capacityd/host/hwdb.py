"""udev's hardware database (hwdb(7)): names of vendors and models, for devices whose properties in udev lack them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from capacityd.host.program import run
from capacityd.model.errors import HostError
from capacityd.model.text import printable

_PROGRAM = "/usr/bin/systemd-hwdb"
_TIMEOUT = 5.0  # seconds; a look-up usually takes five milliseconds


@cache
def look_up(modalias: str) -> Mapping[str, str]:
    """The database's properties for this modalias; empty if there is no database, or its program fails."""
    if not modalias or "\0" in modalias:  # no argument of a program may contain a NUL
        return {}
    try:
        status, out, _ = run([_PROGRAM, "query", "--", modalias], timeout=_TIMEOUT)
    except HostError:
        return {}
    if status != 0:
        return {}
    pairs = (line.partition(b"=") for line in out.splitlines())
    return {printable(name): printable(value) for name, equals, value in pairs if equals}
