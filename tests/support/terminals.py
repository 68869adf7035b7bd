"""The output of commands at a fixed time. `python -m tests.support.terminals` rewrites the golden files."""

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
from capacityd.model.key import Key
from capacityd.model.messages import ServiceStatus
from capacityd.model.node import Condition, ConditionReason, Stored
from capacityd.model.plan import Action, Change, Trouble
from capacityd.model.reading import Quantity, Unknown
from capacityd.model.reasons import PassReason
from capacityd.model.waits import Wait, WaitReason
from capacityd.worker import runtime_files
from capacityd.worker.pass_state import PassStatus
from tests import ROOT
from tests.support.nodes import node

GOLDEN = Path(__file__).with_name("golden")
NOW, UPTIME = 1_800_000_000.0, 250_000.0  # seconds since the epoch, and since the boot
MACHINE = "--machine {root}/conf/examples/tour/machine.json"  # shown() fills in {root}
SEATS = '\n[resources."example.com/seats"]\nfile = { path = "/nowhere/seats" }\n'
HDD = '[resources."example.com/hdd-gib"]\ndisk = { type = "hdd" }\nmeasure = "size"\nunit = "GiB"\n'
_PUBLISHED = {"example.com/dongle": 4, "example.com/nic-mbps": 10000}


def change(
    action: Action, name: str, *, stored: int, desired: int, published: int | None = None, reason: str = "as published"
) -> Change:
    """What a plan does with a key. stored: the number in capacity and in allocatable."""
    return Change(Key(name), action, Stored(str(stored), str(stored)), desired, published, reason)


def kept(name: str, number: int, reason: str = "as published") -> Change:
    """A key that a plan keeps as it is."""
    return change(Action.KEEP, name, stored=number, desired=number, published=number, reason=reason)


RUNNING = ServiceStatus(pid=812, next_pass=NOW + 3300, overdue_at_uptime=1e12)  # never overdue
HEALTHY = PassStatus(
    at=NOW - 12,
    reasons=(PassReason.DEVICES,),
    readings={name: Quantity(n) for name, n in _PUBLISHED.items()},
    node="n1",
    changes=tuple(kept(name, number) for name, number in _PUBLISHED.items()),
    condition=Condition("True", "Published", "all configured resources are published"),
    read_at=NOW - 7000,
    written_at=NOW - 200_000,
)


@dataclass(frozen=True, slots=True)
class ServiceFiles:
    """The files of a service in its runtime directory. By default the service runs, and is healthy."""

    last_pass: PassStatus | None = HEALTHY
    """None: no pass has completed yet."""
    service: ServiceStatus | None = RUNNING
    """None: the service has ended."""
    unit: UnitState | None = None
    """None: there is no systemd."""

    @contextlib.contextmanager
    def written(self, folder: Path) -> Iterator[None]:
        """Writes the files. Holds the service's lock until the context ends, if the service runs."""
        if self.last_pass:
            runtime_files.write_state(str(folder), self.last_pass)
        if self.service is None:
            yield
            return
        (folder / "service.json").write_bytes(to_file(self.service, __version__))
        with (folder / "service.lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


_SEATS_REASON = "/run/licences/seats does not exist"
_DENIED = "the webhook quota.example.com allows 2"
_REFUSED = "not published by capacityd; adopt = true takes it over"
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
        Wait(UPTIME + 8, WaitReason.LOWER_AFTER, Key("example.com/dongle")),
        Wait(UPTIME + 230, WaitReason.DENIED, Key("example.com/disk")),
        Wait(UPTIME + 48, WaitReason.READ, Key("example.com/seats")),
        Wait(UPTIME + 33, WaitReason.READ),
    ),
    changes=(
        change(Action.DENY, "example.com/disk", stored=2, desired=3, published=2, reason=_DENIED),
        change(Action.HOLD, "example.com/dongle", stored=4, desired=4, published=4, reason="the reading differs"),
        change(Action.REFUSE, "example.com/gpu", stored=9, desired=2, reason=_REFUSED),
        kept("example.com/nic-mbps", 0),
        kept("example.com/seats", 12, reason=f"stays as it is; unknown: {_SEATS_REASON}"),
    ),
    troubles=(
        Trouble(ConditionReason.OVERWRITTEN, "another writer keeps changing what is published"),
        Trouble(ConditionReason.UNKNOWN, _SEATS_REASON, Key("example.com/seats")),
        Trouble(ConditionReason.REFUSED, _REFUSED, Key("example.com/gpu")),
        Trouble(ConditionReason.DENIED, _DENIED, Key("example.com/disk")),
        Trouble(ConditionReason.BELOW_EXPECTED, "4 of 5", Key("example.com/dongle")),
    ),
)
DEGRADED = ServiceFiles(
    _LAST_PASS,
    replace(
        RUNNING,
        next_pass=NOW + 4,
        error="the API server in /etc/kubernetes/kubelet.conf refused the connection",
        event_source_errors=("udev is not running: there are no device events",),
        configuration_errors=('/etc/capacityd/capacityd.toml:9: [resources."example.com/x".usb] vndor: unknown key',),
        previous_active=True,
        metrics_error="/srv/metrics/capacityd.prom could not be written: No such file or directory",
        metrics_advice="create the folder, then restart",
    ),
)


class Terminal(io.StringIO):
    """A fake terminal that keeps its output."""

    def isatty(self) -> bool:
        return True


def shown(
    line: str, files: ServiceFiles | None = None, *, terminal: bool = False, **environment: str
) -> tuple[int, str]:
    """Runs a command line. Returns the exit status and the output.

    {root} in the line stands for the project's folder, {folder} for a folder with the files of _write_mixed().
    """
    output = Terminal() if terminal else io.StringIO()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        _write_mixed(folder)
        if files:
            stack.enter_context(files.written(folder))
        variables = {"RUNTIME_DIRECTORY": str(folder), "TERM": "xterm-256color", "NO_COLOR": "", "COLUMNS": "500"}
        stack.enter_context(mock.patch.dict(os.environ, variables | environment))
        unit = files.unit if files else None
        stack.enter_context(mock.patch("capacityd.cli.commands.status.unit_state", return_value=unit))
        stack.enter_context(mock.patch("time.time", return_value=NOW))
        stack.enter_context(mock.patch("capacityd.cli.commands.status.uptime", return_value=UPTIME))
        stack.enter_context(contextlib.redirect_stdout(output))
        status = run([word.format(root=ROOT, folder=folder) for word in line.split()])
    return status, output.getvalue()


def executed(run: Callable[[list[str]], int], *arguments: str) -> tuple[int, str, str]:
    """Runs a command. Returns its exit status, its output and its errors. Both texts must be printable."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = run([*arguments])
        except SystemExit as e:  # argparse exits this way
            status = int(e.code or 0)
    assert (out.getvalue() + err.getvalue()).replace("\n", "").isprintable()
    return status, out.getvalue(), err.getvalue()


def _write_mixed(folder: Path) -> None:
    """Writes a configuration, and a Node with resources to set, to remove, to refuse and to keep."""
    (folder / "c.toml").write_text((ROOT / "conf/examples/tour/dongles.toml").read_text() + SEATS + HDD)
    published = {"example.com/dongle": 3, "example.com/nic-mbps": 10000, "example.com/old": 2, "example.com/seats": 12}
    capacity = {name: str(value) for name, value in published.items()} | {"example.com/scratch-gib": "9"}
    capacity["example.com/nic-mbps"] = "10k"  # the API server's spelling of 10000
    (folder / "node.json").write_text(json.dumps(node(capacity, published, "True")))


CASES: dict[str, tuple[str, ServiceFiles | None]] = {
    "devices": (f"devices {MACHINE}", None),
    "plan-mixed": (f"plan {MACHINE} --config {{folder}}/c.toml --node-file {{folder}}/node.json", None),
    "probe-explain": (f"probe --explain {MACHINE} --config {{root}}/conf/examples/tour/dongles.toml", None),
    "status-degraded": ("status", DEGRADED),
}
"""The command line of each golden file, and the files of the service."""


def golden() -> dict[str, str]:
    """The content of each golden file."""
    outputs = {name: shown(line, files) for name, (line, files) in CASES.items()}
    return {name: f"{output}[exit status {status}]\n" for name, (status, output) in outputs.items()}


if __name__ == "__main__":
    for name, text in golden().items():
        (GOLDEN / f"{name}.txt").write_text(text)
