"""probe --as-service: the same command again, in a sandbox with the settings of the service's unit.

So a probe by hand reads what the service reads: programs, files and folders may look different from inside.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from collections.abc import Iterator

from capacityd.cli.process import own_command
from capacityd.errors import CapacitydError, UsageError

_UNIT = "capacityd.service"
# How the service starts, ends and is watched; the rest is what it may do and see.
_OWN = (
    *("Exec", "FileDescriptorStore", "Notify", "Restart", "RuntimeDirectory", "Standard", "StartLimit", "Timeout"),
    *("Type", "WatchdogSec"),
)
_TERMINAL = ("COLORTERM", "COLUMNS", "FORCE_COLOR", "NO_COLOR", "TERM")
_NOT_STARTED = range(200, 244)  # systemd.exec(5): what systemd itself ends a process with, before it has begun


def again(options: argparse.Namespace) -> int:
    """Runs this probe in the sandbox; its exit status. Raises UsageError; CapacitydError where there is no sandbox."""
    if options.machine is not None:
        raise UsageError(
            "--machine is another machine, to which this one's service means nothing: leave out --as-service"
        )
    if os.geteuid() != 0:
        raise CapacitydError("only root can have a probe run as the service does (sudo?)")
    settings = [*unit_settings(_unit()), "ReadWritePaths=-/run/capacityd"]
    probe = ["probe", *(f"--{name}" for name in ("explain", "json") if getattr(options, name))]
    if options.node_name is not None:
        probe.append(f"--node-name={options.node_name}")
    if options.config is not None:
        config = os.path.abspath(options.config)
        probe.append(f"--config={config}")
        # It may lie in a folder that the sandbox keeps out of sight.
        settings.append("BindReadOnlyPaths=-" + "".join(f"\\{c}" if c in ' :\\"' else c for c in config))
    command = ["systemd-run", "--quiet", "--pipe", "--wait", "--collect", *(f"--property={s}" for s in settings)]
    command += [f"--setenv={name}={os.environ[name]}" for name in _TERMINAL if name in os.environ]
    status = _run([*command, "--", *own_command("__main__", *probe)]).returncode
    if status in _NOT_STARTED:
        raise CapacitydError(
            f"the sandbox could not be set up: exit status {status} of systemd.exec(5), see journalctl"
        )
    return status


def unit_settings(text: str) -> Iterator[str]:
    """What a unit with its drop-ins (as systemctl cat prints them) says of what the service may do, as KEY=VALUE."""
    service, begun = False, ""
    for line in text.splitlines():
        if line.startswith(("#", ";")):
            continue
        whole, begun = begun + line.strip(), ""
        if whole.endswith("\\"):
            begun = whole[:-1] + " "
        elif whole.startswith("["):
            service = whole == "[Service]"
        elif service and "=" in whole and not whole.startswith(_OWN):
            key, _, value = whole.partition("=")
            yield f"{key.rstrip()}={value.lstrip()}"


def _unit() -> str:
    found = _run(["systemctl", "cat", "--no-pager", _UNIT], subprocess.PIPE)
    if found.returncode:
        raise CapacitydError(f"there is no {_UNIT}, in whose sandbox to probe: {found.stderr.strip()}")
    return found.stdout


def _run(command: list[str], out: int | None = None) -> subprocess.CompletedProcess[str]:
    """out: where what it says goes, None: where ours does."""
    try:
        return subprocess.run(command, check=False, stdout=out, stderr=out, text=True)
    except OSError as e:
        raise CapacitydError(
            f"{command[0]} could not be run: {os.strerror(e.errno or 0)}; --as-service needs systemd"
        ) from e
