"""probe --as-service: runs the probe again through systemd-run, with the sandbox settings of the service's unit.

The result shows what the service can read: programs, files and folders may differ inside the sandbox.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator

from capacityd.cli.commands.run import command_for
from capacityd.cli.options import Options
from capacityd.linux.sandbox import UNIT
from capacityd.linux.unit import assignments
from capacityd.model.errors import CapacitydError, UsageError

_LIFECYCLE_PREFIXES = (
    "Exec",
    "FileDescriptorStore",
    "Notify",
    "Restart",
    "RuntimeDirectory",
    "Standard",
    "StartLimit",
    "Timeout",
    "Type",
    "WatchdogSec",
)
"""Prefixes of the unit's settings for starting, stopping and watching the service. All other settings define the
sandbox."""
_PASSED_VARIABLES = ("NO_COLOR", "TERM")  # environment variables that the probe in the sandbox gets, too
_SETUP_STATUSES = range(200, 244)
"""Exit statuses of systemd itself if it can't start the program (systemd.exec(5)). 255 is not in the range: systemd-run
returns 255 if a signal has ended the program."""


def run_in_sandbox(options: Options) -> int:
    """Runs this probe in the sandbox and returns its exit status.

    Raises UsageError for --machine, and CapacitydError if the unit can't be read or the sandbox can't be set up.
    """
    if options.selection.machine is not None:
        raise UsageError("--as-service reads this machine: it cannot be combined with --machine")
    if os.geteuid() != 0:
        raise CapacitydError("--as-service needs root (use sudo)")
    settings = _service_settings()
    config = options.selection.config
    if config is not None:
        settings.append(_bind_setting(os.path.abspath(config)))
    command = ["systemd-run", "--quiet", "--pipe", "--wait", "--collect"]
    command += [f"--property={setting}" for setting in settings]
    command += [f"--setenv={name}={os.environ[name]}" for name in _PASSED_VARIABLES if name in os.environ]
    probe_command = command_for("__main__", *_probe_arguments(options))
    status = _run([*command, "--", *probe_command]).returncode
    if status in _SETUP_STATUSES:
        raise CapacitydError(f"could not set up the sandbox: exit status {status} (systemd.exec(5)); see journalctl")
    return status


def _probe_arguments(options: Options) -> list[str]:
    """The arguments for the probe in the sandbox."""
    arguments = ["probe"]
    if options.explain:
        arguments.append("--explain")
    if options.json:
        arguments.append("--json")
    if options.selection.node_name is not None:
        arguments.append(f"--node-name={options.selection.node_name}")
    if options.selection.config is not None:
        config = os.path.abspath(options.selection.config)  # the sandbox has another working directory
        arguments.append(f"--config={config}")
    return arguments


def _bind_setting(path: str) -> str:
    """The setting that makes a path readable in the sandbox, even if the sandbox hides the path's folder."""
    # A space or a colon would end the path. Backslash and quote are special, too (systemd.syntax(7)).
    escaped = re.sub(r'([ :\\"])', r"\\\1", path)
    return f"BindReadOnlyPaths=-{escaped}"  # "-" means that the path need not exist


def _service_settings() -> list[str]:
    """The sandbox settings of the service's unit. Raises CapacitydError if the unit can't be read."""
    unit = _run(["systemctl", "cat", "--no-pager", UNIT], output=subprocess.PIPE)
    if unit.returncode != 0:
        raise CapacitydError(f"could not read the unit {UNIT}: {unit.stderr.strip()}")
    # unit_settings() leaves out RuntimeDirectory=, which makes this folder writable for the service. "-" means that the
    # folder need not exist.
    return [*unit_settings(unit.stdout), "ReadWritePaths=-/run/capacityd"]


def unit_settings(text: str) -> Iterator[str]:
    """Yields a unit's sandbox settings, including drop-ins, as KEY=VALUE. text: the output of systemctl cat."""
    for section, name, value in assignments(text.splitlines()):
        if section == "[Service]" and not name.startswith(_LIFECYCLE_PREFIXES):
            yield f"{name}={value}"


def _run(command: list[str], output: int | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a program.

    output: subprocess.PIPE captures the program's output and errors. None: the program uses this process's streams.
    """
    try:
        return subprocess.run(command, check=False, stdout=output, stderr=output, text=True)
    except OSError as e:
        error = os.strerror(e.errno or 0)
        raise CapacitydError(f"could not run {command[0]}: {error}; --as-service needs systemd") from e
