"""The state of a systemd unit."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass

from capacityd.linux.program import OutputTooLargeError, ProgramTimeoutError, run_program

_TIMEOUT = 5.0  # seconds
_MAX_OUTPUT_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class UnitState:
    """A unit's properties, from systemctl(1)."""

    enabled: bool
    """Whether the unit is started at boot."""
    failing: bool
    """Whether the unit has failed, or will soon be restarted after a failure."""
    exit_status: int
    """The exit status of the unit's last main process; 0 if there was none."""


def unit_state(unit: str) -> UnitState | None:
    """Returns the state of a unit; None if there is no systemd, or the unit does not exist."""
    names = ("LoadState", "UnitFileState", "ActiveState", "SubState", "ExecMainStatus")
    command = ["systemctl", "show", f"--property={','.join(names)}", unit]
    try:
        status, out, _ = run_program(command, _TIMEOUT, os.environ, _MAX_OUTPUT_BYTES)
    except (OSError, subprocess.SubprocessError, ProgramTimeoutError, OutputTooLargeError):
        return None
    values = dict(line.split("=", 1) for line in out.decode(errors="replace").splitlines() if "=" in line)
    if status != 0 or values.get("LoadState") != "loaded":
        return None
    return UnitState(
        enabled=values.get("UnitFileState") in ("enabled", "enabled-runtime"),
        failing=values.get("ActiveState") == "failed" or values.get("SubState") == "auto-restart",
        exit_status=int(values.get("ExecMainStatus") or 0),
    )
