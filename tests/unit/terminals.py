"""Every command as a person and as a program sees it: python -m tests.unit.terminals writes the golden files anew.

A command runs into pipes as a process of its own, at a moment that stands still. On pseudo-terminals it runs in forks
of one process that has loaded rich already, which takes longer than all else; some run there as their own, too.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import json
import os
import pty
import re
import socket
import struct
import subprocess
import tempfile
import termios
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from tests import ROOT
from tests.unit.nodes import node

GOLDEN = Path(__file__).with_name("golden")
NOW = 1_800_000_000.0
_PYTHON = "/usr/bin/python3"  # with the distribution's rich; the linters bring a newer one into .venv
_DRIVER = f"""
import sys, time
time.time = lambda: {NOW}
sys.argv[0] = "capacityd"
from capacityd.__main__ import main
sys.exit(main())
"""
_FORKS = f"""
import json, os, socket, sys, time
time.time = lambda: {NOW}
import rich.console, rich.padding, rich.status, rich.table, rich.text
from capacityd.__main__ import main

def run(line, cwd, env):
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = ["capacityd", *line]
    sys.stdin, sys.stdout, sys.stderr = (open(fd, mode) for fd, mode in enumerate("rww"))
    try:
        sys.exit(main())
    except SystemExit as e:
        sys.stdout.flush()
        os._exit(e.code or 0)

asked = socket.socket(fileno=os.dup(0))
while (found := socket.recv_fds(asked, 1 << 16, 1))[0]:
    pid = os.fork()
    if not pid:
        for number in range(3):
            os.dup2(found[1][0], number)
        run(**json.loads(found[0]))
    os.close(found[1][0])
    asked.send(bytes([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 255]))
"""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_PROGRESS = re.compile(r"\x1b\[\?25l.*?\x1b\[\?25h(?:\r|\x1b\[1A|\x1b\[2K)*", re.DOTALL)
MACHINE = "--machine docs/tour/machine.json"
TOUR = f"{MACHINE} --config docs/tour/dongles.toml"
NODE = "--node-file node.json"
SEATS = '\n[resources."example.com/seats"]\nfile = { path = "/nowhere/seats" }\n'
HDD = '[resources."example.com/hdd-gib"]\ndisk = { type = "hdd" }\nmeasure = "size"\nunit = "GiB"\n'
MISTAKES = '[resources."example.com/dongle"]\nusb = { vndor = "0529" }\nslot = 2\n'


Begin: TypeAlias = Callable[[Sequence[str], int, Path, Mapping[str, str]], Callable[[], int]]


@dataclass(frozen=True, slots=True)
class Case:
    """A command in a folder that has docs and node.json. prepare: makes what else it needs, a service included."""

    line: str
    prepare: Callable[[Path], Any] = field(default=lambda folder: None)
    narrow: bool = False


@contextlib.contextmanager
def world(case: Case) -> Iterator[Path]:
    """The folder; while it is there the service runs, as far as a lock that somebody holds tells."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        (folder / "docs").symlink_to(ROOT / "docs")
        (folder / "node.json").write_text((ROOT / "docs/tour/node.json").read_text())
        (folder / "run").mkdir()
        case.prepare(folder)
        lock = folder / "run/service.lock"
        if lock.exists():
            held = stack.enter_context(lock.open("rb"))
            fcntl.flock(held, fcntl.LOCK_EX)
        yield folder


def environment_of(folder: Path, **more: str) -> dict[str, str]:
    usual = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "agent"),
        "LC_ALL": "C.UTF-8",
        "TERM": "xterm-256color",
        "RUNTIME_DIRECTORY": str(folder / "run"),
    }
    return usual | more


def started(line: Sequence[str], terminal: int, folder: Path, environment: Mapping[str, str]) -> Callable[[], int]:
    """Starts a process; returns what waits for its exit status."""
    command = [_PYTHON, "-c", _DRIVER, *line]
    process = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, cwd=folder, env=environment)
    return process.wait


def forked(line: Sequence[str], terminal: int, folder: Path, environment: Mapping[str, str]) -> Callable[[], int]:
    """The same, of a process that runs already."""
    told = {"line": line, "cwd": str(folder), "env": environment}
    socket.send_fds(_forks(), [json.dumps(told).encode()], [terminal])
    return lambda: _forks().recv(1)[0]


@cache
def _forks() -> socket.socket:
    ours, its = socket.socketpair()
    environment = {"PYTHONPATH": str(ROOT / "agent"), "LC_ALL": "C.UTF-8"}
    process = subprocess.Popen([_PYTHON, "-c", _FORKS], stdin=its.fileno(), env=environment)
    its.close()
    atexit.register(process.wait)
    atexit.register(ours.close)  # before that: the end of what it is asked is its end
    return ours


def written(case: Case, columns: int = 80, begin: Begin = started, **environment: str) -> str:
    """All that it writes to a terminal, and its exit status."""
    with world(case) as folder:
        ours, its = pty.openpty()
        try:
            fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            ended = begin(case.line.split(), its, folder, environment_of(folder, **environment))
            os.close(its)
            said = b"".join(_read(ours))
            status = ended()
        finally:
            os.close(ours)
    return said.decode().replace("\r\n", "\n") + f"[exit status {status}]\n"


def on_terminal(case: Case, columns: int = 80, begin: Begin = forked, **environment: str) -> str:
    """What it leaves on a terminal, and its exit status. What is shown while it works is gone by then."""
    return _PROGRESS.sub("", written(case, columns, begin, **environment))


def in_pipe(case: Case, **environment: str) -> str:
    """What it writes to pipes, and its exit status."""
    with world(case) as folder:
        command, how = [_PYTHON, "-c", _DRIVER, *case.line.split()], environment_of(folder, **environment)
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=folder, env=how)
    apart = f"[standard error]\n{done.stderr}" if done.stderr else ""
    return f"{done.stdout}{apart}[exit status {done.returncode}]\n"


def without_colour(text: str) -> str:
    return _COLOUR.sub("", text)


def golden(case: Case) -> str:
    """The whole of a golden file. Escape characters are shown as ␛."""
    said = {"terminal of 80 columns": on_terminal(case)}
    if case.narrow:
        said["terminal of 40 columns"] = on_terminal(case, 40)
    said["pipe"] = in_pipe(case)
    parts = [f"==== {where} ====\n{text}" for where, text in said.items()]
    return f"$ capacityd {case.line}\n\n" + "\n".join(parts).replace("\x1b", "␛")


def _read(fd: int) -> Iterator[bytes]:
    while True:
        try:
            part = os.read(fd, 65536)
        except OSError:  # Linux's way to say that nobody has the other end open any more
            return
        if not part:
            return
        yield part


def _mixed(folder: Path) -> None:
    """A Node on which there is something of everything to do."""
    (folder / "c.toml").write_text((ROOT / "docs/tour/dongles.toml").read_text() + SEATS + HDD)
    record = {"example.com/dongle": 3, "example.com/nic-mbps": 10000, "example.com/old": 2, "example.com/seats": 12}
    capacity = {name: str(value) for name, value in record.items()} | {"example.com/scratch-gib": "9"}
    (folder / "node.json").write_text(json.dumps(node(capacity, record, "True")))


def _published(folder: Path) -> None:
    record = {"example.com/dongle": 4, "example.com/nic-mbps": 10000}
    (folder / "node.json").write_text(json.dumps(node({name: str(v) for name, v in record.items()}, record)))


def _file(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(text)


def _quantity(name: str, value: int, warning: str = "") -> dict[str, object]:
    return {"name": name, "outcome": "quantity", "quantity": value, "reason": warning, "evidence": []}


def _change(name: str, action: str, old: str | None, new: str | None, reason: str) -> dict[str, object]:
    return {"name": name, "action": action, "old": old, "new": new, "reason": reason}


def _service(folder: Path, status: Mapping[str, object], service: Mapping[str, object] | None = None) -> None:
    run = folder / "run"
    if status:
        (run / "status.json").write_text(json.dumps(status))
    if service is not None:
        (run / "service.lock").touch()
        said = {"pid": 812, "next": NOW + 3300, "trouble": "", "deaf": []}
        (run / "service.json").write_text(json.dumps(said | dict(service)))


_WELL = {
    "looked": NOW - 12,
    "reasons": ["hardware"],
    "observe": False,
    "asked": NOW - 7000,
    "wrote": NOW - 200_000,
    "trouble": "",
    "readings": [_quantity("example.com/dongle", 4), _quantity("example.com/nic-mbps", 10000)],
    "published": {"example.com/dongle": 4, "example.com/nic-mbps": 10000},
    "held": {},
    "plan": {
        "node": "n1",
        "changes": [
            _change("example.com/dongle", "keep", "4", "4", "as published"),
            _change("example.com/nic-mbps", "keep", "10000", "10000", "as published"),
        ],
    },
    "capacity": {"example.com/dongle": "4", "example.com/nic-mbps": "10k"},
    "allocatable": {"example.com/dongle": "4", "example.com/nic-mbps": "10k"},
}

_SEATS_WHY = "/run/licences/seats does not exist"
_BROKEN: dict[str, object] = _WELL | {
    "trouble": "the API server https://10.0.0.1:6443 can't be reached: connection refused",
    "readings": [
        _quantity("example.com/dongle", 3),
        _quantity("example.com/gpu", 2),
        _quantity("example.com/nic-mbps", 0, "less than one Mbit/s"),
        {"name": "example.com/seats", "outcome": "unknown", "quantity": None, "reason": _SEATS_WHY, "evidence": []},
    ],
    "published": {"example.com/dongle": 4, "example.com/nic-mbps": 0, "example.com/seats": 12},
    "held": {"example.com/dongle": NOW + 8},
    "plan": {
        "node": "n1",
        "changes": [
            _change("example.com/dongle", "hold", "4", "3", "the hardware changed; held back for 10 s more"),
            _change("example.com/gpu", "refuse", "9", "9", "not published by capacityd; adopt = true takes it over"),
            _change("example.com/nic-mbps", "keep", "0", "0", "as published"),
            _change("example.com/seats", "keep", "12", "12", f"stays as it is; unknown: {_SEATS_WHY}"),
        ],
    },
    "capacity": {
        "example.com/dongle": "4",
        "example.com/gpu": "9",
        "example.com/nic-mbps": "0",
        "example.com/seats": "12",
    },
    "allocatable": {
        "example.com/dongle": "4",
        "example.com/gpu": "9",
        "example.com/nic-mbps": "10000",
        "example.com/seats": "12",
    },
}


def _broken(folder: Path) -> None:
    deaf = ["udev does not run, so no device event is heard"]
    _service(folder, _BROKEN, {"trouble": _BROKEN["trouble"], "deaf": deaf, "next": NOW + 4})
    mistake = (
        '/etc/capacityd/capacityd.toml, [resources."example.com/x"]: "vndor" is no key of usb; did you mean "vendor"?'
    )
    (folder / "run/check.json").write_text(json.dumps({"mistakes": [mistake], "kept": True}))
    metrics = (
        "/srv/metrics/capacityd.prom could not be written: No such file or directory; make the folder, then restart"
    )
    (folder / "run/metrics.json").write_text(json.dumps({"trouble": metrics}))


def _mistaken(folder: Path) -> None:
    """A mistake, for which a resource is unknown; and one that may be named in the file that can't be read."""
    file = "/etc/capacityd/conf.d/60-hardware.toml"
    said = f'{file}: [resources."example.com/gpu".pci] vndor: unknown key; did you mean "vendor"?'
    why = f"configuration: {said}"
    kept = "kept: a file of the configuration can't be read, and may name it"
    readings = [_quantity("example.com/dongle", 4), {"name": "example.com/gpu", "outcome": "unknown", "reason": why}]
    changes = [
        _change("example.com/dongle", "keep", "4", "4", "as published"),
        _change("example.com/gpu", "keep", None, None, f"unknown: {why}"),
        _change("example.com/nic-mbps", "keep", "10000", "10000", kept),
    ]
    _service(folder, _WELL | {"readings": readings, "plan": {"node": "n1", "changes": changes}}, {})
    mistakes = [said.replace(":", ":2:", 1), "/etc/capacityd/conf.d/70-nics.toml:5: is not TOML: Invalid statement"]
    (folder / "run/check.json").write_text(json.dumps({"mistakes": mistakes, "kept": False}))


def _observed(folder: Path) -> None:
    plan = {"node": "n1", "changes": [_change("example.com/dongle", "set", "4", "5", "the hardware changed")]}
    readings = [_quantity("example.com/dongle", 5)]
    _service(folder, _WELL | {"observe": True, "readings": readings, "plan": plan, "wrote": None}, {})


def _just_written(folder: Path) -> None:
    times = {"looked": NOW - 2, "asked": NOW - 2, "wrote": NOW - 2}
    _service(folder, _WELL | times | {"allocatable": {}}, {})


CASES = {
    "help": Case("--help", narrow=True),
    "help-plan": Case("plan --help"),
    "version": Case("--version"),
    "devices": Case(f"devices {MACHINE}", narrow=True),
    "devices-usb": Case(f"devices usb {MACHINE}"),
    "devices-toml": Case(f"devices --toml {MACHINE}"),
    "record": Case(f"record machine.json {MACHINE}"),
    "probe": Case(f"probe {TOUR}"),
    "probe-explain": Case(f"probe --explain {TOUR}", narrow=True),
    "probe-unknown": Case("probe --config c.toml", _file("c.toml", SEATS)),
    "plan": Case(f"plan {TOUR} {NODE}", narrow=True),
    "plan-mixed": Case(f"plan {MACHINE} --config c.toml {NODE}", _mixed, narrow=True),
    "plan-patch": Case(f"plan --patch {TOUR} {NODE}"),
    "plan-json": Case(f"plan --json {TOUR} {NODE}"),
    "apply-dry-run": Case(f"apply --dry-run {TOUR} {NODE}"),
    "apply": Case(f"apply {TOUR} {NODE}"),
    "apply-mixed": Case(f"apply {MACHINE} --config c.toml {NODE}", _mixed),
    "withdraw": Case(f"withdraw {MACHINE} {NODE}", _published),
    "withdraw-running": Case("withdraw", lambda folder: _service(folder, _WELL, {})),
    "status-off": Case("status"),
    "status-ended": Case("status", lambda folder: _service(folder, _WELL)),
    "status-new": Case("status", lambda folder: _service(folder, {}, {})),
    "status-well": Case("status", lambda folder: _service(folder, _WELL, {}), narrow=True),
    "status-just-written": Case("status", _just_written),
    "status-observed": Case("status", _observed),
    "status-broken": Case("status", _broken, narrow=True),
    "status-mistaken": Case("status", _mistaken),
    "status-stuck": Case("status", lambda folder: _service(folder, _WELL, {"late": 0.0})),
    "status-json": Case("status --json", _broken),
    "config-check": Case("config check --config docs/tour/dongles.toml"),
    "config-check-mistakes": Case("config check --config c.toml", _file("c.toml", MISTAKES)),
    "config-show": Case("config show --config docs/tour/dongles.toml"),
    "error-command": Case("prob"),
    "error-option": Case("plan --kubconfig x"),
    "error-recording": Case("probe --machine nowhere.json --config docs/tour/dongles.toml"),
    "error-node": Case(f"plan {TOUR} --node-file nowhere.json"),
    "error-detector": Case("devices scsi"),
}


def main() -> None:
    """Writes all golden files anew, and removes those without a case."""
    for path in GOLDEN.glob("*.txt"):
        if path.stem not in CASES:
            path.unlink()
    for name, case in CASES.items():
        (GOLDEN / f"{name}.txt").write_text(golden(case))


if __name__ == "__main__":
    main()
