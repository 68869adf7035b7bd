"""The service's own folder can't be written: on a small file system of its own, with a Node in a file."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import capacityd
from capacityd.capacity import CONDITION
from tests.unit.forked import ALONE, can_be_alone
from tests.unit.nodes import node

pytestmark = pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")

DEADLINE = 60.0
A, B = "example.com/a", "example.com/b"
FULL = "could not be written: No space left on device"
SPACE, INODES = "size=256k", "size=256k,nr_inodes=40"
_AGENT = str(Path(capacityd.__file__).parents[1])
_RUN = "import sys; sys.path.insert(0, sys.argv[1]); from capacityd.__main__ import main; sys.exit(main(sys.argv[2:]))"
# The same with a resident process that tries again sooner.
_RUN_SOONER = """
import sys
sys.path.insert(0, sys.argv[1])
from capacityd.__main__ import main
from capacityd.cli import serve
SOONER = "from capacityd import daemon, schedule; daemon._CHECK_PAUSE = 0.2; schedule.EAGER_PAUSE = 0.4; from capacityd"

def own_command(module, *arguments, make=serve.own_command):
    *python, program, root = make(module)
    return [*python, program.replace("from capacityd", SOONER) if module == "daemon" else program, root, *arguments]

serve.own_command = own_command
sys.exit(main(sys.argv[2:]))
"""
_MOUNTED = 'set -e; mount -t tmpfs -o "$0" tmpfs "$1"; eval "$2"; shift 2; exec "$@"'
_FILL = {
    SPACE: "dd if=/dev/zero of={0}/fill bs=4k status=none || :",
    INODES: "for i in $(seq 40); do : > {0}/fill$i; done 2>/dev/null || :",
}


class Service:
    """In namespaces of its own. Its two resources are the numbers in the files a and b."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run = folder / "run"
        self.run.mkdir()
        (folder / "node.json").write_text(json.dumps(node()))
        self.machine_has(a="4", b="7")
        files = "".join(f'[resources."example.com/{n}"]\nfile = {{ path = "{folder}/{n}" }}\n' for n in "ab")
        (folder / "capacityd.toml").write_text(f'{files}[service]\nlower_after = "1s"\nlower_after_boot = "1s"\n')
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.listener.bind(str(folder / "notify"))
        self.listener.settimeout(DEADLINE)
        self.log = folder / "log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, options: str, before: str = ":") -> None:
        """options: of the file system. before: what the shell does there first."""
        run = [sys.executable, "-I", "-c", _RUN_SOONER, _AGENT, f"--config={self.folder}/capacityd.toml"]
        run += [f"--node-file={self.folder}/node.json", "run"]
        command = [*ALONE, "sh", "-c", _MOUNTED, options, str(self.run), before, *run]
        environment = {**os.environ, "RUNTIME_DIRECTORY": str(self.run), "NOTIFY_SOCKET": str(self.folder / "notify")}
        environment.pop("JOURNAL_STREAM", None)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stderr=log, env=environment)

    def machine_has(self, **numbers: str) -> None:
        for name, number in numbers.items():
            (self.folder / f"{name}.new").write_text(number)
            (self.folder / f"{name}.new").rename(self.folder / name)

    def said(self) -> str:
        return self.log.read_text()

    def heard(self, wanted: str) -> None:
        """Waits until systemd is told a line that holds this."""
        deadline = time.monotonic() + DEADLINE
        while wanted not in (said := self.listener.recv(65536).decode()):
            assert time.monotonic() < deadline, f"{wanted} was not said, but {said}; {self.said()}"

    def sh(self, script: str) -> str:
        """Does this where the service runs."""
        assert self.process
        user = ["--user"] if os.geteuid() else []
        enter = [
            "nsenter",
            f"--target={self.process.pid}",
            "--mount",
            *user,
            "--preserve-credentials",
            "sh",
            "-c",
            script,
        ]
        done = subprocess.run(enter, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    def status(self) -> str:
        return self.sh(f"RUNTIME_DIRECTORY={self.run} {sys.executable} -I -c '{_RUN}' {_AGENT} status; echo $?")

    @property
    def node(self) -> Any:
        return json.loads((self.folder / "node.json").read_text())

    def zero(self) -> None:
        """As a kubelet that restarts does."""
        found = self.node
        found["status"]["capacity"][A] = "0"
        (self.folder / "node.new").write_text(json.dumps(found))
        (self.folder / "node.new").rename(self.folder / "node.json")

    def capacity(self, a: str, b: str = "7") -> None:
        """Waits until the Node says so."""
        until(lambda: self.node["status"].get("capacity") == {A: a, B: b}, f"{a}, {b}; {self.said()}")

    def end(self) -> None:
        self.listener.close()
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(DEADLINE)


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    found = Service(tmp_path)
    yield found
    found.end()


@pytest.mark.parametrize("options", [SPACE, INODES])
def test_full_while_it_runs(service: Service, options: str) -> None:
    """The Node gets what it needs, nothing gets less, it is said once, and it is over by itself."""
    service.start(options)
    service.heard("STATUS=2 of 2 resources published")
    service.sh(_FILL[options].format(service.run))
    service.machine_has(a="5")
    service.capacity("5")
    service.heard(f"STATUS={service.run}/memory.json {FULL}; until it can, nothing that has to last is lowered")
    *lines, status = service.status().splitlines()
    assert status == "4"
    assert f"! {service.run} can't be written: No space left on device; what stands here is from before" in lines
    service.zero()
    service.capacity("5")
    service.machine_has(a="3")
    (service.folder / "b").unlink()
    for _ in range(4):
        service.heard(FULL)
    assert service.node["status"]["capacity"] == {A: "5", B: "7"}, "nothing gets less"
    (told,) = (c["message"] for c in service.node["status"]["conditions"] if c["type"] == CONDITION)
    assert told == f"unknown: {B}"
    assert service.said().count(FULL) == 1
    assert f"{B}: unknown" not in service.said(), "what can't be remembered would be told after each look"
    service.sh(f"rm {service.run}/fill*")
    service.capacity("3")
    service.heard("STATUS=2 of 2 resources published, 1 unknown")
    assert service.said().count("all is well again") == 1
    assert service.said().count(f"{B}: unknown: ") == 1
    assert service.said().count(FULL) == 1
    assert "Traceback" not in service.said()
    assert "can't be written" not in service.status()


def test_full_when_it_starts(service: Service) -> None:
    service.start(SPACE, _FILL[SPACE].format(service.run))
    for _ in range(2):
        service.heard(
            f"STATUS=the check of the configuration failed and is tried again: {service.run}/check.json {FULL}"
        )
    assert service.said().count(FULL) == 1
    service.sh(f"rm {service.run}/fill")
    service.heard("READY=1")
    service.capacity("4")
    until(lambda: "all is well again" in service.said(), service.said())
    assert "Traceback" not in service.said()


def test_read_only_when_it_starts(service: Service) -> None:
    """systemd tries it again every five seconds."""
    service.start("ro")
    assert service.process
    assert service.process.wait(DEADLINE) == 1
    assert service.said().startswith(f"capacityd: {service.run} may not be written")


def test_its_folder_is_gone(service: Service) -> None:
    """Only systemd can make it again, which does so when it starts the service anew."""
    service.start(SPACE)
    service.heard("STATUS=2 of 2 resources published")
    service.sh(f"rm -r {service.run}/*")
    service.machine_has(a="5")
    assert service.process
    assert service.process.wait(DEADLINE) == 1
    assert service.said().endswith(
        f"capacityd: {service.run} is gone; the service ends, and begins anew with a new one\n"
    )
    assert "Traceback" not in service.said()


def test_a_second_one(service: Service) -> None:
    service.start(SPACE)
    service.heard("STATUS=2 of 2 resources published")
    again = f"--config={service.folder}/capacityd.toml --node-file={service.folder}/node.json run"
    said = service.sh(f"RUNTIME_DIRECTORY={service.run} {sys.executable} -I -c '{_RUN}' {_AGENT} {again}; echo $?")
    assert service.process
    assert said == f"1\ncapacityd: the service runs already, as process {service.process.pid}\n"
