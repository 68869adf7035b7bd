"""A machine without hardware of its own: Debian under its own systemd, in namespaces. It is gone with the test run."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cluster.processes import Daemon, wait_until
from tests.package.trees import tree

UNIT = "capacityd.service"
_STARTING = ("Type", "Exec", "Restart", "Timeout", "Watchdog", "RuntimeDirectory")
_BOOT = Path(__file__).with_name("boot")
_ENVIRONMENT = ("env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive")


class Machine:
    """A running machine, and what one would type on it."""

    def __init__(self, init: int) -> None:
        self.init = init

    def run(
        self, *command: str, status: int | None = 0, text: str | None = None, deadline: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Runs it to its end. status: what it must exit with; None for any. text: its standard input."""
        result = subprocess.run(
            [*self._enter(), *command],
            input=text or "",
            capture_output=True,
            text=True,
            timeout=deadline,
        )
        if status is not None and result.returncode != status:
            said = f"{result.stdout}\n{result.stderr}\n{self.journal()[-3000:]}"
            raise AssertionError(f"{' '.join(command)}: exit status {result.returncode}, not {status}:\n{said}")
        return result

    def _enter(self) -> list[str]:
        return ["nsenter", "--target", str(self.init), "--all", *_ENVIRONMENT]

    def out(self, *command: str) -> str:
        return self.run(*command).stdout.strip()

    def write(self, path: str, text: str, mode: str = "644") -> None:
        self.run(
            "sh",
            "-ec",
            f'mkdir -p "$(dirname "$0")"; cat >"$0.new"; chmod {mode} "$0.new"; mv "$0.new" "$0"',
            path,
            text=text,
        )

    def put(self, file: Path) -> str:
        """Copies a file onto the machine; its path there."""
        target = f"/root/{file.name}"
        with open(file, "rb") as f:
            subprocess.run([*self._enter(), "sh", "-c", 'cat >"$0"', target], stdin=f, check=True)
        return target

    def unpack(self, folder: Path, target: str) -> None:
        """Copies a folder onto the machine."""
        made = subprocess.run(["tar", "-c", "-C", folder, "."], stdout=subprocess.PIPE, check=True).stdout
        self.run("mkdir", "-p", target)
        subprocess.run([*self._enter(), "tar", "-x", "-C", target], input=made, check=True)

    def sandboxed(self, *command: str, options: Sequence[str] = ()) -> str:
        """What this prints in a sandbox with the unit's own settings, all but those on how it starts and ends."""
        own = self.out("systemctl", "cat", UNIT).splitlines()
        begin, end = own.index("[Service]"), own.index("[Install]")
        settings = [line for line in own[begin + 1 : end] if "=" in line and not line.startswith(("#", *_STARTING))]
        properties = [f"--property={line}" for line in settings]
        return self.out("systemd-run", "--wait", "--pipe", "--quiet", *properties, *options, *command)

    def dpkg(self, *arguments: str) -> str:
        """What dpkg said, with the standard error."""
        result = self.run("dpkg", *arguments)
        return result.stdout + result.stderr

    def install(self, deb: Path) -> str:
        return self.dpkg("--install", self.put(deb))

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
        """What capacityd status says, as JSON; empty before there is anything."""
        said = self.run("capacityd", "status", "--json", status=None).stdout
        found: dict[str, Any] = json.loads(said) if said else {}
        return found

    def readings(self) -> dict[str, Any]:
        """What the service has read of each resource."""
        return {r["name"]: r["reading"] for r in self.status().get("resources", [])}

    def wait_for_readings(self, expected: dict[str, Any], deadline: float = 20) -> None:
        """Until the service has read this, among other things."""
        found: dict[str, Any] = {}

        def there() -> bool:
            found.clear()
            found.update(self.readings())
            return expected.items() <= found.items()

        try:
            wait_until(there, deadline, f"{expected} is read")
        except TimeoutError as e:
            raise TimeoutError(f"{e}; read was {found}; the journal:\n{self.journal()[-3000:]}") from None


@contextmanager
def machine(release: str) -> Iterator[Machine]:
    """A machine of this release that has booted without a failed unit."""
    folder = Path(tempfile.mkdtemp(prefix="capacityd-machine-"))
    try:
        with Daemon([_BOOT, tree(release), folder], folder.with_suffix(".log")) as daemon:
            init = daemon.wait_for(lambda: _child(daemon.pid), 10, "it has a PID 1")
            running = Machine(init)
            daemon.wait_for(lambda: _up(running), 30, "it is up")
            assert running.out("systemctl", "is-system-running") == "running", running.out("systemctl", "--failed")
            yield running
    finally:
        folder.with_suffix(".log").unlink(missing_ok=True)
        shutil.rmtree(folder)


def _child(pid: int) -> int:
    """The process that unshare has made, once systemd runs in it."""
    try:
        child = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(child[0]) if child and Path(f"/proc/{child[0]}/comm").read_text() == "systemd\n" else 0
    except OSError:
        return 0


def _up(found: Machine) -> bool:
    said = found.run("systemctl", "is-system-running", "--wait", status=None).stdout.strip()
    return said in ("running", "degraded")
