"""probe --as-service: runs the probe again through systemd-run, with the sandbox settings of the service's unit.

Programs, files and folders may differ inside the sandbox, so this shows what the service can read.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

from capacityd.cli.commands.run import command_for
from capacityd.cli.options import Options
from capacityd.linux.sandbox import UNIT
from capacityd.linux.unit import assignments
from capacityd.model.errors import CapacitydError, UsageError

# The beginnings of settings for starting, stopping and watching the service. All other settings define the sandbox.
_LIFECYCLE_SETTINGS = (
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
_PASSED_VARIABLES = ("NO_COLOR", "TERM")
_SETUP_STATUSES = range(200, 244)  # systemd.exec(5): exit statuses of systemd itself if it can't start the program


def run_in_sandbox(options: Options) -> int:
    """Runs this probe in the sandbox and returns its exit status.

    Raises UsageError for --machine, and CapacitydError if the unit can't be read or the sandbox can't be set up.
    """
    if options.selection.machine is not None:
        raise UsageError("--as-service reads this machine: it cannot be combined with --machine")
    if os.geteuid() != 0:
        raise CapacitydError("--as-service needs root (use sudo)")
    unit = _run(["systemctl", "cat", "--no-pager", UNIT], output=subprocess.PIPE)
    if unit.returncode:
        raise CapacitydError(f"could not read the unit {UNIT}: {unit.stderr.strip()}")
    # RuntimeDirectory=, which is left out here, makes this folder writable for the service. "-": it need not exist.
    settings = [*unit_settings(unit.stdout), "ReadWritePaths=-/run/capacityd"]
    probe = ["probe"]
    if options.explain:
        probe.append("--explain")
    if options.json:
        probe.append("--json")
    if options.selection.node_name is not None:
        probe.append(f"--node-name={options.selection.node_name}")
    if options.selection.config is not None:
        config = os.path.abspath(options.selection.config)
        probe.append(f"--config={config}")
        # The sandbox may hide the configuration's folder.
        escaped = "".join(f"\\{char}" if char in ' :\\"' else char for char in config)
        settings.append(f"BindReadOnlyPaths=-{escaped}")
    command = ["systemd-run", "--quiet", "--pipe", "--wait", "--collect"]
    command += [f"--property={setting}" for setting in settings]
    command += [f"--setenv={name}={os.environ[name]}" for name in _PASSED_VARIABLES if name in os.environ]
    status = _run([*command, "--", *command_for("__main__", *probe)]).returncode
    if status in _SETUP_STATUSES:
        raise CapacitydError(f"could not set up the sandbox: exit status {status} (systemd.exec(5)); see journalctl")
    return status


def unit_settings(text: str) -> Iterator[str]:
    """Yields a unit's sandbox settings, including drop-ins, as KEY=VALUE. text: the output of systemctl cat."""
    for section, name, value in assignments(text.splitlines()):
        if section == "[Service]" and not name.startswith(_LIFECYCLE_SETTINGS):
            yield f"{name}={value}"


def _run(command: list[str], output: int | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a program. output: where its standard output and standard error go; None: to those of this process."""
    try:
        return subprocess.run(command, check=False, stdout=output, stderr=output, text=True)
    except OSError as e:
        error = os.strerror(e.errno or 0)
        raise CapacitydError(f"could not run {command[0]}: {error}; --as-service needs systemd") from e
