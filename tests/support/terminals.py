"""Runs commands into files or on a pseudo-terminal; python -m tests.support.terminals rewrites the golden files.

Each command is a process of its own, whose clocks are stopped at NOW and UPTIME. Those that are run together are forks
of one that has imported them.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from capacityd import __version__
from capacityd.model.codec import to_file
from capacityd.model.errors import Cause
from capacityd.model.messages import ServiceStatus
from capacityd.model.node import NodeState
from capacityd.model.plan import Action, Change, Health
from capacityd.model.reading import Quantity, Reading, Unknown
from capacityd.model.reasons import PassReason
from capacityd.model.waits import Wait, WaitReason
from capacityd.reconcile.memory import Memory
from capacityd.worker import runtime_files
from capacityd.worker.pass_state import PassState, PassStatus
from tests import ROOT
from tests.support.nodes import node

GOLDEN = Path(__file__).with_name("golden")
NOW, UPTIME = 1_800_000_000.0, 250_000.0
_PYTHON = "/usr/bin/python3"
_DRIVER = f"""
import sys, time
time.time = lambda: {NOW}
sys.argv[0] = "capacityd"
from capacityd.linux import clock
clock.uptime = lambda: {UPTIME}
"""
_MAIN = "from capacityd.__main__ import main; sys.exit(main())"
_EACH = """
import json, os
from importlib import import_module
from capacityd.cli.parser import COMMANDS
for module, _ in COMMANDS.values():
    import_module(f"capacityd.{module}")
for folder, words in json.loads(sys.argv[1]):
    if not (pid := os.fork()):
        break
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
else:
    sys.exit()
os.chdir(folder)
os.environ["RUNTIME_DIRECTORY"] = f"{folder}/run"
for fd, name in ((1, "standard output"), (2, "standard error")):
    os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), fd)
sys.argv[1:] = words
"""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
MACHINE = "--machine conf/examples/tour/machine.json"
TOUR = f"{MACHINE} --config conf/examples/tour/dongles.toml"
NODE = "--node-file node.json"
SEATS = '\n[resources."example.com/seats"]\nfile = { path = "/nowhere/seats" }\n'
HDD = '[resources."example.com/hdd-gib"]\ndisk = { type = "hdd" }\nmeasure = "size"\nunit = "GiB"\n'
INVALID = '[resources."example.com/dongle"]\nusb = { vndor = "0529" }\nslot = 2\n'


@dataclass(frozen=True, slots=True)
class Case:
    """A command line, to run in a folder that contains conf and node.json."""

    line: str
    prepare: Callable[[Path], Any] = field(default=lambda folder: None)
    """Creates other files in the folder, such as those of a service."""


@contextlib.contextmanager
def world(case: Case) -> Iterator[Path]:
    """Yields the case's folder. Locks service.lock if prepare created it, so that the service seems to run."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        (folder / "conf").symlink_to(ROOT / "conf")
        (folder / "node.json").write_text((ROOT / "conf/examples/tour/node.json").read_text())
        (folder / "run").mkdir()
        case.prepare(folder)
        lock = folder / "run/service.lock"
        if lock.exists():
            held = stack.enter_context(lock.open("rb"))
            fcntl.flock(held, fcntl.LOCK_EX)
        yield folder


def environment_of(folder: Path, **more: str) -> dict[str, str]:
    variables = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "agent"),
        "LC_ALL": "C.UTF-8",
        "TERM": "xterm-256color",
        "RUNTIME_DIRECTORY": str(folder / "run"),
    }
    return variables | more


def on_terminal(case: Case, **environment: str) -> str:
    """Returns its output to a terminal, and its exit status."""
    with world(case) as folder:
        ours, its = pty.openpty()
        try:
            command, how = [_PYTHON, "-c", _DRIVER + _MAIN, *case.line.split()], environment_of(folder, **environment)
            with subprocess.Popen(command, stdin=its, stdout=its, stderr=its, cwd=folder, env=how) as process:
                os.close(its)
                output = b"".join(_read(ours))
        finally:
            os.close(ours)
    return output.decode().replace("\r\n", "\n") + f"[exit status {process.returncode}]\n"


def in_files(cases: Sequence[Case], first: str = "", **environment: str) -> list[str]:
    """Returns what each writes to files, and its exit status. first: Python code to run before them."""
    with contextlib.ExitStack() as stack:
        folders = [stack.enter_context(world(case)) for case in cases]
        jobs = [[str(folder), case.line.split()] for folder, case in zip(folders, cases, strict=True)]
        command = [_PYTHON, "-c", _DRIVER + first + _EACH + _MAIN, json.dumps(jobs)]
        how = environment_of(ROOT, **environment)
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=how, check=True)
        outputs = []
        for folder, status in zip(folders, done.stdout.splitlines(), strict=True):
            output, errors = ((folder / f"standard {name}").read_text() for name in ("output", "error"))
            apart = f"[standard error]\n{errors}" if errors else ""
            outputs.append(f"{output}{apart}[exit status {status}]\n")
    return outputs


def without_colour(text: str) -> str:
    return _COLOUR.sub("", text)


def golden() -> dict[str, str]:
    """Returns the content of each golden file."""
    outputs = in_files(list(CASES.values()))
    return {
        name: f"$ capacityd {case.line}\n{output}" for (name, case), output in zip(CASES.items(), outputs, strict=True)
    }


def _read(fd: int) -> Iterator[bytes]:
    while True:
        try:
            part = os.read(fd, 65536)
        except OSError:  # EIO: the other end is closed
            return
        if not part:
            return
        yield part


def _mixed(folder: Path) -> None:
    """A Node with something to set, to remove, to refuse and to keep."""
    (folder / "c.toml").write_text((ROOT / "conf/examples/tour/dongles.toml").read_text() + SEATS + HDD)
    record = {"example.com/dongle": 3, "example.com/nic-mbps": 10000, "example.com/old": 2, "example.com/seats": 12}
    capacity = {name: str(value) for name, value in record.items()} | {"example.com/scratch-gib": "9"}
    capacity["example.com/nic-mbps"] = "10k"  # the API server's spelling of 10000
    (folder / "node.json").write_text(json.dumps(node(capacity, record, "True")))


def _file(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(text)


def _service(folder: Path, last_pass: PassStatus | None, service: ServiceStatus | None = None) -> None:
    """What a service leaves that has made this pass. service: None if it has ended."""
    _pass(folder, last_pass, HEALTHY_NODE, service)


def _pass(
    folder: Path, last_pass: PassStatus | None, last_seen: NodeState, service: ServiceStatus | None = None
) -> None:
    """The same. last_seen: the Node as it was last seen."""
    run = folder / "run"
    if last_pass:
        runtime_files.write_state(str(run), PassState(Memory(last_seen), last_pass))
    if service is not None:
        (run / "service.lock").touch()
        (run / "service.json").write_bytes(to_file(service, __version__))


_PUBLISHED = {"example.com/dongle": 4, "example.com/nic-mbps": 10000}
_RUNNING = ServiceStatus(pid=812, next_reconcile=NOW + 3300, overdue_at_uptime=1e12)
_QUANTITIES = {"example.com/dongle": "4", "example.com/nic-mbps": "10k"}
HEALTHY_NODE = NodeState(
    name="n1",
    uid="11111111-2222-3333-4444-555555555555",
    capacity={"cpu": "8", **_QUANTITIES},
    allocatable={"cpu": "8", **_QUANTITIES},
    has_annotations=True,
    annotation=json.dumps(_PUBLISHED),
    conditions=1,
    condition=None,
)
_HEALTHY = PassStatus(
    at=NOW - 12,
    reasons=(PassReason.HARDWARE,),
    readings={name: Quantity(n) for name, n in _PUBLISHED.items()},
    changes=(
        Change("example.com/dongle", Action.KEEP, "4", "4", "as published"),
        Change("example.com/nic-mbps", Action.KEEP, "10000", "10000", "as published"),
    ),
    read_at=NOW - 7000,
    written_at=NOW - 200_000,
)

_SEATS_REASON = "/run/licences/seats does not exist"
_CAPACITY = {
    "example.com/disk": "2",
    "example.com/dongle": "4",
    "example.com/gpu": "9",
    "example.com/nic-mbps": "0",
    "example.com/seats": "12",
}
_LOWER = Wait(UPTIME + 8, WaitReason.LOWER_AFTER, "example.com/dongle")
_DEGRADED = replace(
    _HEALTHY,
    error="the API server https://10.0.0.1:6443 can't be reached: connection refused",
    readings={
        "example.com/disk": Quantity(3),
        "example.com/dongle": Quantity(3),
        "example.com/gpu": Quantity(2),
        "example.com/nic-mbps": Quantity(0, warning="less than one Mbit/s"),
        "example.com/seats": Unknown(_SEATS_REASON, Cause.UNREADABLE),
    },
    expect={"example.com/dongle": 5, "example.com/gpu": 2, "example.com/seats": 12},
    waits=(
        _LOWER,
        Wait(UPTIME + 230, WaitReason.DENIED, "example.com/disk"),
        Wait(UPTIME + 48, WaitReason.UNKNOWN, "example.com/seats"),
        Wait(UPTIME + 33, WaitReason.VERIFICATION),
    ),
    changes=(
        Change("example.com/disk", Action.DENY, "2", "3", "the webhook quota.example.com allows 2"),
        Change("example.com/dongle", Action.HOLD, "4", "3", f"the reading changed; {_LOWER.text(UPTIME - 12)}"),
        Change("example.com/gpu", Action.REFUSE, "9", "9", "not published by capacityd; adopt = true takes it over"),
        Change("example.com/nic-mbps", Action.KEEP, "0", "0", "as published"),
        Change("example.com/seats", Action.KEEP, "12", "12", f"stays as it is; unknown: {_SEATS_REASON}"),
    ),
    health=Health(
        unknown={"example.com/seats": _SEATS_REASON},
        denied={"example.com/disk": "the webhook quota.example.com allows 2"},
        below_expected={"example.com/dongle": (4, 5)},
        not_allocatable={"example.com/nic-mbps": ("0", "none")},
    ),
)
_DEGRADED_NODE = replace(
    HEALTHY_NODE,
    capacity=_CAPACITY,
    allocatable={name: quantity for name, quantity in _CAPACITY.items() if name != "example.com/nic-mbps"},
    annotation=json.dumps(
        {"example.com/disk": 2, "example.com/dongle": 4, "example.com/nic-mbps": 0, "example.com/seats": 12}
    ),
)


def _degraded(folder: Path) -> None:
    service = replace(
        _RUNNING,
        next_reconcile=NOW + 4,
        error=_DEGRADED.error,
        event_source_errors=("udev is not running: there are no device events",),
        configuration_errors=('/etc/capacityd/capacityd.toml:9: [resources."example.com/x".usb] vndor: unknown key',),
        previous_active=True,
        metrics_error="/srv/metrics/capacityd.prom could not be written: No such file or directory",
        metrics_advice="create the folder, then restart",
    )
    _pass(folder, _DEGRADED, _DEGRADED_NODE, service)


def _invalid(folder: Path) -> None:
    """A resource with an error, and one that may be configured in the file that cannot be parsed."""
    file = "/etc/capacityd/conf.d/60-hardware.toml"
    error = f'{file}: [resources."example.com/gpu".pci] vndor: unknown key; did you mean "vendor"?'
    reason = f"configuration: {error}"
    kept = "kept: a configuration file can't be read, and may configure it"
    gpu = Unknown(reason, Cause.CONFIGURATION)
    changes = (
        Change("example.com/dongle", Action.KEEP, "4", "4", "as published"),
        Change("example.com/gpu", Action.KEEP, None, None, f"unknown: {reason}"),
        Change("example.com/nic-mbps", Action.KEEP, "10000", "10000", kept),
    )
    readings: dict[str, Reading] = {"example.com/dongle": Quantity(4), "example.com/gpu": gpu}
    last_pass = replace(
        _HEALTHY, readings=readings, changes=changes, health=Health(unknown={"example.com/gpu": reason})
    )
    nics = "/etc/capacityd/conf.d/70-nics.toml:5: is not valid TOML: Invalid statement (column 1)"
    _service(folder, last_pass, replace(_RUNNING, configuration_errors=(error.replace(":", ":2:", 1), nics)))


def _observed(folder: Path) -> None:
    change = Change("example.com/dongle", Action.SET, "4", "5", "the reading changed")
    readings = {"example.com/dongle": Quantity(5)}
    _service(folder, replace(_HEALTHY, observe=True, readings=readings, changes=(change,), written_at=None), _RUNNING)


def _begun(folder: Path) -> None:
    """The service holds its lock, and has written nothing yet: its process id is unknown."""
    (folder / "run/service.lock").touch()


CASES = {
    "help": Case("--help"),
    "devices": Case(f"devices {MACHINE}"),
    "devices-toml": Case(f"devices --toml {MACHINE}"),
    "record": Case(f"record machine.json {MACHINE}"),
    "probe-explain": Case(f"probe --explain {TOUR}"),
    "plan-mixed": Case(f"plan {MACHINE} --config c.toml {NODE}", _mixed),
    "withdraw-running": Case("withdraw", lambda folder: _service(folder, _HEALTHY, _RUNNING)),
    "status-off": Case("status"),
    "status-ended": Case("status", lambda folder: _service(folder, _HEALTHY)),
    "status-begun": Case("status", _begun),
    "status-begun-json": Case("status --json", _begun),
    "status-new": Case("status", lambda folder: _service(folder, None, _RUNNING)),
    "status-healthy": Case("status", lambda folder: _service(folder, _HEALTHY, _RUNNING)),
    "status-observe": Case("status", _observed),
    "status-degraded": Case("status", _degraded),
    "status-invalid-config": Case("status", _invalid),
    "status-stuck": Case("status", lambda folder: _service(folder, _HEALTHY, replace(_RUNNING, overdue_at_uptime=0.0))),
    "status-json": Case("status --json", _degraded),
    "config-check": Case("config check --config c.toml", _file("c.toml", INVALID)),
    "error-fleet": Case("fleet --kubeconfig nowhere.conf"),
}


def main() -> None:
    """Rewrites all golden files, and removes those without a case."""
    for path in GOLDEN.glob("*.txt"):
        if path.stem not in CASES:
            path.unlink()
    for name, text in golden().items():
        (GOLDEN / f"{name}.txt").write_text(text)


if __name__ == "__main__":
    main()
