"""Commands on a machine: files, packages, units, and the output of capacityd."""

from __future__ import annotations

import base64
import json
import subprocess
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from tests.cluster.processes import PATIENCE, wait_until

UNIT = "capacityd.service"
ENVIRONMENT = ("env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive")
"""The same environment for every command on every machine."""


class Console(ABC):
    """A running machine. Each kind of machine has its own way to run a command."""

    @abstractmethod
    def execute(self, command: list[str], text: str, deadline: float) -> subprocess.CompletedProcess[str]:
        """Runs a command for at most deadline seconds. text: its standard input."""

    def run(
        self, *command: str, status: int | None = 0, text: str | None = None, deadline: float = PATIENCE
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command. status: the expected exit status, or None for any. text: its standard input."""
        result = self.execute([*ENVIRONMENT, *command], text or "", deadline)
        if status is not None and result.returncode != status:
            output = f"{result.stdout}\n{result.stderr}\n{self.journal()[-3000:]}"
            raise AssertionError(f"{' '.join(command)}: exit status {result.returncode}, not {status}:\n{output}")
        return result

    def out(self, *command: str) -> str:
        return self.run(*command).stdout.strip()

    def write(self, path: str, text: str, mode: str = "644") -> None:
        script = f'mkdir -p "$(dirname "$0")"; cat >"$0.new"; chmod {mode} "$0.new"; mv "$0.new" "$0"'
        self.run("sh", "-ec", script, path, text=text)

    def put(self, file: Path) -> str:
        """Copies a file onto the machine. Returns its path there."""
        target = f"/root/{file.name}"
        self.run("sh", "-c", 'base64 -d >"$0"', target, text=base64.b64encode(file.read_bytes()).decode())
        return target

    def unpack(self, folder: Path, target: str) -> None:
        """Copies a folder onto the machine."""
        archive = subprocess.run(["tar", "-c", "-C", folder, "."], stdout=subprocess.PIPE, check=True).stdout
        script = 'mkdir -p "$0"; base64 -d | tar -x -C "$0"'
        self.run("sh", "-ec", script, target, text=base64.b64encode(archive).decode())

    def dpkg(self, *arguments: str) -> str:
        """Runs dpkg, and returns its output with standard error."""
        result = self.run("dpkg", *arguments, deadline=600)
        return result.stdout + result.stderr

    def install(self, *debs: Path) -> str:
        return self.dpkg("--install", *map(self.put, debs))

    def exists(self, path: str) -> bool:
        return self.run("test", "-e", path, status=None).returncode == 0

    def shown(self, name: str, unit: str = UNIT) -> str:
        return self.out("systemctl", "show", "--value", f"--property={name}", unit)

    @property
    def active(self) -> str:
        return self.shown("ActiveState")

    @property
    def enabled(self) -> str:
        return self.run("systemctl", "is-enabled", UNIT, status=None).stdout.strip()

    @property
    def main_pid(self) -> str:
        return self.shown("MainPID")

    def journal(self, unit: str | None = UNIT) -> str:
        command = ["journalctl", "--no-pager", "--output=short-monotonic", *([f"--unit={unit}"] if unit else [])]
        return self.run(*command, status=None).stdout

    def status(self) -> dict[str, Any]:
        """The JSON of `capacityd status`, or {} before the service has written its state."""
        output = self.run("capacityd", "status", "--json", status=None).stdout
        report: dict[str, Any] = json.loads(output) if output else {}
        return report

    def readings(self) -> dict[str, Any]:
        """The service's reading of each resource."""
        return {r["name"]: r["reading"] for r in self.status().get("resources", [])}

    def wait_for_readings(self, expected: dict[str, Any], deadline: float = PATIENCE) -> None:
        """Waits until these are among the service's readings."""
        readings: dict[str, Any] = {}

        def there() -> bool:
            readings.clear()
            readings.update(self.readings())
            return expected.items() <= readings.items()

        try:
            wait_until(there, deadline, f"{expected} is read")
        except TimeoutError as e:
            raise TimeoutError(f"{e}; read was {readings}; the journal:\n{self.journal()[-3000:]}") from None
