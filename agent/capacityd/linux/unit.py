"""The state of a systemd unit, and the settings in a unit's file."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

_TIMEOUT = 5.0  # seconds
_KILLED = ("2", "3")
"""The values of ExecMainCode for a process that a signal has ended: CLD_KILLED and CLD_DUMPED of waitid(2)."""
_ONLY_UNTIL_REBOOT = ("enabled-runtime", "linked-runtime")
"""The values of UnitFileState for a unit that is enabled only by links in /run, so that it is not started at boot."""


@dataclass(frozen=True, slots=True)
class UnitState:
    """A unit's properties, from systemctl(1)."""

    enabled: bool
    """Whether the unit is started at boot, because it is enabled or another unit wants it."""
    failing: bool
    """Whether the unit has failed, or will soon be restarted after a failure."""
    exit_status: int
    """The exit status of the unit's last main process; 0 if there was none."""
    signal: int = 0
    """The signal that has ended the unit's last main process, if systemd will restart the unit; else 0."""
    masked: bool = False
    """Whether systemd refuses to start the unit."""
    active: bool = False
    """Whether the unit runs, or reloads its configuration."""


def assignments(lines: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yields section, name and value of each setting in the file of a unit, as systemd reads it (systemd.syntax(7)).

    The section includes its brackets: [Mount]. A line that ends with a backslash continues in the next line that is no
    comment. lines: the lines of the file.
    """
    section = ""
    continued = ""  # the start of the current setting, from lines that end with a backslash
    for line in (*lines, ""):  # if the file ends with a backslash, the additional line ends its last setting
        stripped = line.strip()
        if stripped.startswith(("#", ";")):
            continue
        joined = continued + stripped
        continued = ""
        if joined.endswith("\\"):
            continued = joined[:-1] + " "
        elif joined.startswith("["):
            section = joined
        elif "=" in joined:
            name, _, value = joined.partition("=")
            yield section, name.rstrip(), value.strip()


def unit_state(unit: str) -> UnitState | None:
    """Returns the state of a unit; None if there is no systemd, or the unit does not exist."""
    names = (
        "LoadState",
        "UnitFileState",
        "ActiveState",
        "SubState",
        "ExecMainCode",
        "ExecMainStatus",
        "WantedBy",
        "RequiredBy",
    )
    values = unit_properties(unit, names, timeout=_TIMEOUT)
    load_state = values.get("LoadState")
    file_state = values.get("UnitFileState")
    if load_state not in ("loaded", "masked"):
        return None
    wanted_by_others = bool(values.get("WantedBy") or values.get("RequiredBy"))
    # LoadState and UnitFileState differ until systemd reads a changed file.
    is_masked_now = load_state == "masked"
    is_masked_at_boot = file_state == "masked"
    is_only_until_reboot = file_state in _ONLY_UNTIL_REBOOT
    may_start_at_boot = not (is_masked_now or is_masked_at_boot or is_only_until_reboot)
    main_status = int(values.get("ExecMainStatus") or 0)  # an exit status or the number of a signal
    is_restarting = values.get("SubState") == "auto-restart"
    was_killed = values.get("ExecMainCode") in _KILLED
    return UnitState(
        enabled=may_start_at_boot and (file_state == "enabled" or wanted_by_others),
        failing=values.get("ActiveState") == "failed" or is_restarting,
        exit_status=main_status,
        signal=main_status if is_restarting and was_killed else 0,
        masked=is_masked_now,
        active=values.get("ActiveState") in ("active", "reloading"),
    )


def unit_properties(unit: str, names: Sequence[str], timeout: float) -> dict[str, str]:
    """The properties of a unit with these names; empty if systemd does not respond within timeout seconds."""
    command = ["systemctl", "show", f"--property={','.join(names)}", unit]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=timeout, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
