"""exec: the whole number that a program prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from capacityd.errors import HostError
from capacityd.host import Host
from capacityd.model import Evidence, ValueDetector
from capacityd.printable import printable
from capacityd.quantity import whole_number
from capacityd.settings import Command, Duration, Setting

_SAID = 500  # characters of what it says that are kept


# The service's processes have no_new_privs set, and so has whatever runs in its sandbox (proc_pid_status(5)).
_CONFINED = "NoNewPrivs: 1"
_WAY_OUT = (
    " (it ran in the service's sandbox, which may keep from it what it needs: capacityd probe --as-service does so, "
    "systemctl edit capacityd can widen it)"
)


def read(host: Host, settings: Mapping[str, object]) -> Evidence:
    """The number that the program prints. Anything but exit status 0 and one number is unknown."""
    try:
        return _read(host, settings)
    except HostError as e:
        if _CONFINED not in host.lines("/proc/self/status"):
            raise
        raise HostError(f"{e}{_WAY_OUT}", e.errno) from e


def _read(host: Host, settings: Mapping[str, object]) -> Evidence:
    command = cast(tuple[str, ...], settings["command"])
    output = host.run(command, cast(float, settings["timeout"]))
    name, said = command[0], output.err[:_SAID]
    if output.status:
        how = f"ended with status {output.status}" if output.status > 0 else f"was killed by signal {-output.status}"
        how += " (out of memory?)" if output.status == -9 else ""
        raise HostError(f"{name} {how}" + (f': "{said}"' if said else " and said nothing on standard error"))
    try:
        return Evidence(printable(" ".join(command)), whole_number(output.out), said)
    except ValueError as e:
        raise HostError(f"{name} printed: {e}" + (f'; it said "{said}"' if said else "")) from e


DETECTOR = ValueDetector(
    name="exec",
    about="the whole number that a program prints; what it says on standard error is shown as evidence",
    settings={
        "command": Setting(Command(), "the program and its arguments, no shell", required=True),
        "timeout": Setting(Duration(0.1, 300), "how long it may take", default=10.0),
    },
    read=read,
    spawns=True,
)
