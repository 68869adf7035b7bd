"""The service's own folder can't be written: on a small separate file system, with a Node in a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import capacityd
from capacityd.model.node import CONDITION
from tests.cluster.notifications import Notifications
from tests.support.forked import ALONE, can_be_alone
from tests.support.nodes import node

pytestmark = pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")

DEADLINE = 60.0
A, B = "example.com/a", "example.com/b"
FULL = "could not be written: No space left on device"
SPACE = "size=256k"
_AGENT = str(Path(capacityd.__file__).parents[1])
_RUN = "import sys; sys.path.insert(0, sys.argv[1]); from capacityd.__main__ import main; sys.exit(main(sys.argv[2:]))"
# The same with a resident process that tries again sooner.
_RUN_SOONER = """
import sys
sys.path.insert(0, sys.argv[1])
from capacityd.__main__ import main
from capacityd.cli.commands import run
SOONER = "from capacityd.service import main, schedule; main.CHECK_RETRY_PERIOD = 0.2; "
SOONER += "schedule.BACKOFFS[schedule.RetryCause.STATE] = schedule.Backoff(0.0, 0.4, 0.4); from capacityd"

def command_for(module, *arguments, make=run.command_for):
    *python, program, root = make(module)
    if module == "service.main":
        program = program.replace("from capacityd", SOONER)
    return [*python, program, root, *arguments]

run.command_for = command_for
sys.exit(main(sys.argv[2:]))
"""
_MOUNTED = 'set -e; mount -t tmpfs -o "$0" tmpfs "$1"; eval "$2"; shift 2; exec "$@"'
_FILL = "dd if=/dev/zero of={0}/fill bs=4k status=none || :"


class Service:
    """In separate namespaces. The two resources are the numbers in the files a and b."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run, self.kept = folder / "run", folder / "kept"
        self.run.mkdir()
        self.kept.mkdir()
        (folder / "node.json").write_text(json.dumps(node()))
        self.machine_has(a="4", b="7")
        files = "".join(f'[resources."example.com/{n}"]\nfile = {{ path = "{folder}/{n}" }}\n' for n in "ab")
        (folder / "capacityd.toml").write_text(f'{files}[service]\nlower_after = "1s"\nlower_after_boot = "1s"\n')
        self._systemd = Notifications(folder / "notify")
        self.await_line = self._systemd.await_line
        self.log = folder / "log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, options: str, before: str = ":") -> None:
        """options: of the file system. before: what the shell does there first."""
        run = [sys.executable, "-I", "-c", _RUN_SOONER, _AGENT, f"--config={self.folder}/capacityd.toml"]
        run += [f"--node-file={self.folder}/node.json", "run"]
        command = [*ALONE, "sh", "-c", _MOUNTED, options, str(self.run), before, *run]
        environment = {
            **os.environ,
            "RUNTIME_DIRECTORY": str(self.run),
            "STATE_DIRECTORY": str(self.kept),
            "NOTIFY_SOCKET": str(self.folder / "notify"),
        }
        environment.pop("JOURNAL_STREAM", None)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stderr=log, env=environment)

    def machine_has(self, **numbers: str) -> None:
        for name, number in numbers.items():
            (self.folder / f"{name}.new").write_text(number)
            (self.folder / f"{name}.new").rename(self.folder / name)

    def output(self) -> str:
        return self.log.read_text()

    def sh(self, script: str) -> str:
        """Does this where the service runs."""
        assert self.process
        spaces = ["--mount", *(["--user"] if os.geteuid() else [])]
        enter = ["nsenter", f"--target={self.process.pid}", *spaces, "--preserve-credentials", "sh", "-c", script]
        done = subprocess.run(enter, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return done.stdout

    def command(self, arguments: str) -> str:
        """The output of capacityd there, and its exit status."""
        return self.sh(f"RUNTIME_DIRECTORY={self.run} {sys.executable} -I -c '{_RUN}' {_AGENT} {arguments}; echo $?")

    @property
    def node(self) -> Any:
        return json.loads((self.folder / "node.json").read_text())

    @property
    def condition(self) -> tuple[str, str]:
        """Its reason and message."""
        (ours,) = (c for c in self.node["status"]["conditions"] if c["type"] == CONDITION)
        return ours["reason"], ours["message"]

    def zero(self) -> None:
        """As a kubelet that restarts does."""
        document = self.node
        document["status"]["capacity"][A] = "0"
        (self.folder / "node.new").write_text(json.dumps(document))
        (self.folder / "node.new").rename(self.folder / "node.json")

    def capacity(self, a: str, b: str = "7") -> None:
        """Waits until the Node has these quantities."""
        until(lambda: self.node["status"].get("capacity") == {A: a, B: b}, f"{a}, {b}; {self.output()}")

    def end(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(DEADLINE)
        self._systemd.close()


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path)
    yield service
    service.end()


def test_full_while_it_runs(service: Service) -> None:
    """The Node gets what it needs, nothing is lowered, the error is logged once, and it recovers by itself."""
    service.start(SPACE)
    service.await_line("STATUS=2 of 2 resources published")
    again = f"--config={service.folder}/capacityd.toml --node-file={service.folder}/node.json run"
    assert service.process
    running = f"capacityd: the service is already running (PID {service.process.pid})\n1\n"
    assert service.command(again) == running
    service.sh(_FILL.format(service.run))
    service.machine_has(a="5")
    service.capacity("5")
    service.await_line(f"STATUS={service.run}/state.json {FULL}; until this is fixed, nothing is lowered or removed")
    *lines, status = service.command("status").splitlines()
    assert status == "4"
    assert f"! {service.run} is not writable: No space left on device; the information below is stale" in lines
    service.zero()
    service.capacity("5")
    service.machine_has(a="3")
    (service.folder / "b").unlink()
    for _ in range(4):
        service.await_line(FULL)
    assert service.node["status"]["capacity"] == {A: "5", B: "7"}, "nothing gets less"
    why = f"nothing is lowered or removed: {service.run}/state.json {FULL}"
    assert service.condition == ("StateNotWritable", f"{why}; unknown: {B}: {service.folder}/b does not exist")
    assert service.output().count(FULL) == 1
    assert f"{B}: unknown" not in service.output(), "what can't be remembered would be logged after each pass"
    service.sh(f"rm {service.run}/fill")
    service.capacity("3")
    service.await_line("STATUS=2 of 2 resources published, 1 unknown")
    assert service.output().count("recovered") == 1
    assert service.output().count(f"{B}: unknown: ") == 1
    assert service.output().count(FULL) == 1
    assert "Traceback" not in service.output()
    assert "stale" not in service.command("status")


def test_no_room_for_the_record(service: Service) -> None:
    """Published resources are still raised and restored; nothing is lowered or removed; the condition is False."""
    service.start(SPACE, f"mount -t tmpfs -o size=16k tmpfs {service.kept}")
    service.await_line("STATUS=2 of 2 resources published")
    service.sh(_FILL.format(service.kept))
    service.machine_has(a="3")
    until(lambda: service.condition[0] == "StateNotWritable", service.output())
    why = f"{service.kept} can't be written: No space left on device"
    assert service.condition[1] == f"nothing is lowered or removed: {why}"
    assert service.node["status"]["capacity"] == {A: "4", B: "7"}
    service.zero()
    service.machine_has(a="5")
    service.capacity("5")
    service.machine_has(a="3", b="6")
    for _ in range(3):
        service.await_line("can't be written")
    assert service.node["status"]["capacity"] == {A: "5", B: "7"}, "nothing gets less"
    service.sh(f"rm {service.kept}/fill")
    service.capacity("3", "6")
    service.await_line("STATUS=2 of 2 resources published")
    until(lambda: service.condition == ("Published", "all configured resources are published"), service.output())
    assert json.loads(service.sh(f"cat {service.kept}/published.json"))["published"] == {A: 3, B: 6}
    assert "Traceback" not in service.output()


def test_full_when_it_starts(service: Service) -> None:
    """There is no room for a snapshot of the configuration; the Node still gets what it has to, and reports why."""
    service.start(SPACE, _FILL.format(service.run))
    service.capacity("4")
    service.await_line(f"STATUS=the configuration check failed and is retried: {service.run}/config.json {FULL}")
    assert service.condition == ("StateNotWritable", f"nothing is lowered or removed: {service.run}/state.json {FULL}")
    service.machine_has(a="3")
    service.await_line(f"{service.run}/state.json {FULL}")
    assert service.node["status"]["capacity"] == {A: "4", B: "7"}, "nothing gets less"
    service.sh(f"rm {service.run}/fill")
    service.capacity("3")
    until(lambda: "recovered" in service.output(), service.output())
    assert service.condition[0] == "Published"
    assert service.output().count(FULL) == 2, "each is logged once"
    assert "Traceback" not in service.output()


def test_read_only_when_it_starts(service: Service) -> None:
    """systemd tries it again every five seconds."""
    service.start("ro")
    assert service.process
    assert service.process.wait(DEADLINE) == 1
    assert service.output().startswith(f"capacityd: {service.run} is not writable")


def test_its_folder_is_gone(service: Service) -> None:
    """Only systemd can make it again, which does so when it starts the service anew."""
    service.start(SPACE)
    service.await_line("STATUS=2 of 2 resources published")
    service.sh(f"rm -r {service.run}/*")
    service.machine_has(a="5")
    assert service.process
    assert service.process.wait(DEADLINE) == 1
    assert service.output().endswith(
        f"capacityd: {service.run}/service.lock is gone; the service exits so that systemd recreates it\n"
    )
    assert "Traceback" not in service.output()
