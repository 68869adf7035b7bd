"""The output of commands while the clock stands still. python -m tests.support.terminals rewrites the golden files."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

from capacityd import __version__
from capacityd.cli import run
from capacityd.linux.unit import UnitState
from capacityd.model.errors import Cause
from capacityd.model.file_codec import to_file
from capacityd.model.messages import ServiceStatus
from capacityd.model.node import NodeState
from capacityd.model.plan import Action, Change, Health, MachineRecord
from capacityd.model.reading import Quantity, Unknown
from capacityd.model.reasons import PassReason
from capacityd.model.waits import Wait, WaitReason
from capacityd.reconcile import machine_record
from capacityd.worker import runtime_files
from capacityd.worker.pass_state import PassState, PassStatus
from tests import ROOT
from tests.support.nodes import node

GOLDEN = Path(__file__).with_name("golden")
NOW, UPTIME = 1_800_000_000.0, 250_000.0
MACHINE = "--machine {root}/conf/examples/tour/machine.json"
SEATS = '\n[resources."example.com/seats"]\nfile = { path = "/nowhere/seats" }\n'
HDD = '[resources."example.com/hdd-gib"]\ndisk = { type = "hdd" }\nmeasure = "size"\nunit = "GiB"\n'


_PUBLISHED = {"example.com/dongle": 4, "example.com/nic-mbps": 10000}
_QUANTITIES = {"example.com/dongle": "4", "example.com/nic-mbps": "10k"}
HEALTHY_NODE = NodeState(
    name="n1",
    uid="11111111-2222-3333-4444-555555555555",
    capacity={"cpu": "8", **_QUANTITIES},
    allocatable={"cpu": "8", **_QUANTITIES},
    has_annotations=True,
    annotation=json.dumps(_PUBLISHED),
    condition_count=1,
    condition=None,
)
RUNNING = ServiceStatus(pid=812, next_reconcile=NOW + 3300, overdue_at_uptime=1e12)
HEALTHY = PassStatus(
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


@dataclass(frozen=True, slots=True)
class ServiceFiles:
    """The files that a service left in its runtime directory; by default those of a healthy service."""

    last_pass: PassStatus | None = HEALTHY
    """None: no pass has completed yet."""
    service: ServiceStatus | None = RUNNING
    """None: the service has ended."""
    last_seen: NodeState = HEALTHY_NODE
    record: MachineRecord | None = None
    unit: UnitState | None = None
    """None: there is no systemd."""

    @contextlib.contextmanager
    def written(self, folder: Path) -> Iterator[None]:
        """Writes the files. While the service runs, holds its lock."""
        if self.last_pass:
            runtime_files.write_state(str(folder), PassState(self.last_seen, self.last_pass))
        if self.record:
            machine_record.write(str(folder), self.record)
        if self.service is None:
            yield
            return
        (folder / "service.json").write_bytes(to_file(self.service, __version__))
        with (folder / "service.lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


_SEATS_REASON = "/run/licences/seats does not exist"
_CAPACITY = {
    "example.com/disk": "2",
    "example.com/dongle": "4",
    "example.com/gpu": "9",
    "example.com/nic-mbps": "0",
    "example.com/seats": "12",
}
_LOWER = Wait(UPTIME + 8, WaitReason.LOWER_AFTER, "example.com/dongle")
_LAST_PASS = replace(
    HEALTHY,
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
        Wait(UPTIME + 33, WaitReason.ALLOCATABLE),
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
DEGRADED = ServiceFiles(
    _LAST_PASS,
    replace(
        RUNNING,
        next_reconcile=NOW + 4,
        error="the API server in /etc/kubernetes/kubelet.conf refused the connection",
        event_source_errors=("udev is not running: there are no device events",),
        configuration_errors=('/etc/capacityd/capacityd.toml:9: [resources."example.com/x".usb] vndor: unknown key',),
        previous_active=True,
        metrics_error="/srv/metrics/capacityd.prom could not be written: No such file or directory",
        metrics_advice="create the folder, then restart",
    ),
    replace(
        HEALTHY_NODE,
        capacity=_CAPACITY,
        allocatable={name: quantity for name, quantity in _CAPACITY.items() if name != "example.com/nic-mbps"},
        annotation=json.dumps({name: int(n) for name, n in _CAPACITY.items() if name != "example.com/gpu"}),
    ),
)


class Terminal(io.StringIO):
    """A fake terminal that keeps its output."""

    def isatty(self) -> bool:
        return True


def shown(
    line: str, files: ServiceFiles | None = None, *, terminal: bool = False, **environment: str
) -> tuple[int, str]:
    """The exit status and the output of a command. {root} and {folder} in the line stand for the project's folder and
    for a folder with the files of _mixed()."""
    output = Terminal() if terminal else io.StringIO()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        _mixed(folder)
        if files:
            stack.enter_context(files.written(folder))
        variables = {
            "RUNTIME_DIRECTORY": str(folder),
            "STATE_DIRECTORY": str(folder),
            "TERM": "xterm-256color",
            "NO_COLOR": "",
            "COLUMNS": "500",
        }
        stack.enter_context(mock.patch.dict(os.environ, variables | environment))
        unit = files.unit if files else None
        stack.enter_context(mock.patch("capacityd.cli.commands.status.unit_state", return_value=unit))
        stack.enter_context(mock.patch("time.time", return_value=NOW))
        stack.enter_context(mock.patch("capacityd.cli.commands.status.uptime", return_value=UPTIME))
        stack.enter_context(contextlib.redirect_stdout(output))
        status = run([word.format(root=ROOT, folder=folder) for word in line.split()])
    return status, output.getvalue()


def executed(run: Callable[[list[str]], int], *arguments: str) -> tuple[int, str, str]:
    """The exit status, the output and the errors of a program's command. Both texts must be printable."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run([*arguments])
    assert (out.getvalue() + err.getvalue()).replace("\n", "").isprintable()
    return status, out.getvalue(), err.getvalue()


def _mixed(folder: Path) -> None:
    """Writes a configuration, and a Node with resources to set, to remove, to refuse and to keep."""
    (folder / "c.toml").write_text((ROOT / "conf/examples/tour/dongles.toml").read_text() + SEATS + HDD)
    record = {"example.com/dongle": 3, "example.com/nic-mbps": 10000, "example.com/old": 2, "example.com/seats": 12}
    capacity = {name: str(value) for name, value in record.items()} | {"example.com/scratch-gib": "9"}
    capacity["example.com/nic-mbps"] = "10k"  # the API server's spelling of 10000
    (folder / "node.json").write_text(json.dumps(node(capacity, record, "True")))


CASES: dict[str, tuple[str, ServiceFiles | None]] = {
    "devices": (f"devices {MACHINE}", None),
    "plan-mixed": (f"plan {MACHINE} --config {{folder}}/c.toml --node-file {{folder}}/node.json", None),
    "probe-explain": (f"probe --explain {MACHINE} --config {{root}}/conf/examples/tour/dongles.toml", None),
    "status-degraded": ("status", DEGRADED),
}
"""Golden file -> the command, and the files of the service."""


def golden() -> dict[str, str]:
    """The content of each golden file."""
    outputs = {name: shown(line, files) for name, (line, files) in CASES.items()}
    return {name: f"{output}[exit status {status}]\n" for name, (status, output) in outputs.items()}


if __name__ == "__main__":
    for name, text in golden().items():
        (GOLDEN / f"{name}.txt").write_text(text)
