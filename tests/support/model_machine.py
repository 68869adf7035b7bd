"""A model of a machine: its clocks, readings and files, and the real worker that makes its passes.

The files are real, except that the state of the last pass and what it leaves for the next one may be kept as objects,
because writing and reading them takes most of the time of a pass.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from capacityd.discovery.runner import Discovery
from capacityd.linux.atomic_file import read_regular_file
from capacityd.model.errors import StateError
from capacityd.model.messages import JobRequest, Message, PassResult
from capacityd.model.options import Selection, WorkerOptions
from capacityd.model.plan import MachineRecord
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.model.reasons import Job, PassReason
from capacityd.node import api_node
from capacityd.reconcile import apply, attempt, machine_record
from capacityd.schema.config import Config, Resource, Settings
from capacityd.worker import journal, pass_memory, reconcile_job, runtime_files, selection
from capacityd.worker.pass_memory import PassMemory
from capacityd.worker.pass_state import PassState, PassStatus
from capacityd.worker.runtime_files import CheckedConfig
from tests.support.model_server import ACCESS, THEIRS, ModelClient, ModelServer
from tests.support.write_checks import WriteChecks

EPOCH = 1_700_000_000.5


class Killed(BaseException):
    """Simulates SIGKILL. It is not an Exception, so that no handler in the worker catches it."""


@dataclass
class Machine:
    """A machine whose worker makes one pass after another."""

    folder: Path
    server: ModelServer = field(default_factory=lambda: ModelServer({THEIRS: "8"}))
    state_file: bool = True
    """Whether state.json is a real file, and what a pass leaves for the next one a real text."""
    readings: dict[str, Reading] = field(default_factory=dict)
    """The readings by resource. A configured resource without a reading is absent."""
    config: Config | None = None
    """None: the resources that have readings are configured."""
    uptime: float = 10_000.0
    booted: float = EPOCH
    """The time of the boot in seconds since the epoch, by the machine's clock."""
    is_other: bool = False
    """Whether this is another machine with the same identity, whose agent writes the same Node."""
    device_plugins: set[str] = field(default_factory=set)
    checkpoint_readable: bool = True
    kill_at: int | None = None
    """The kill point at which the next pass is killed."""
    killed: str = ""
    """The point at which the last pass was killed."""
    record_errno: int = 0
    """The errno with which reading the machine record fails; 0: none. It simulates a failing disk."""
    expires_at: dict[str, float] = field(default_factory=dict)
    """Name -> the uptime at which the source of its reading becomes too old, without an event."""
    messages: list[Message] = field(default_factory=list)
    """The messages of the last pass."""

    def __post_init__(self) -> None:
        self.checks = WriteChecks(self, self.server)
        self.known_plugins: frozenset[str] | None = None
        """The checkpoint as the worker last read it."""
        self._points = 0
        self._state = PassState()
        self._memory = ""  # what the last pass has left for the next one
        self._left = PassMemory()  # what the text stands for, if it is not a real one
        self.state_folder.mkdir()
        (self.folder / "run").mkdir()

    @property
    def state_folder(self) -> Path:
        return self.folder / "state"

    @property
    def record(self) -> Path:
        return self.state_folder / "published.json"

    @property
    def own_record(self) -> MachineRecord | None:
        """The content of the machine record; None if the file is missing, damaged or unreadable."""
        with suppress(StateError):
            return None if self.record_errno else machine_record.read(str(self.state_folder))
        return None

    @property
    def record_unreadable(self) -> bool:
        """Whether there is a machine record that can't be read."""
        with suppress(StateError):
            machine_record.read(str(self.state_folder))
            return bool(self.record_errno)
        return True

    @property
    def now(self) -> float:
        """Seconds since the epoch, by the machine's clock."""
        return self.booted + self.uptime

    @property
    def configured(self) -> Config:
        """The configuration in effect."""
        names = sorted(self.readings)
        return self.config or Config(
            tuple(Resource(name, "static", ()) for name in names), Settings(lower_after=0.0), digest=",".join(names)
        )

    @property
    def checkpoint(self) -> frozenset[str] | None:
        """The names of device plugins in the kubelet's checkpoint; None if the checkpoint can't be read."""
        return frozenset(self.device_plugins) if self.checkpoint_readable else None

    def probe(self) -> dict[str, Reading]:
        """The readings of all configured resources."""
        config = self.configured
        readings: dict[str, Reading] = {name: Unknown("broken") for name in config.broken}
        return readings | {r.name: self._read(r.name) for r in config.resources}

    def set_reading(self, name: str, reading: Reading, valid_for: float | None = None) -> None:
        """Changes a reading. valid_for: seconds until its source is too old; None: no limit."""
        self.readings[name] = reading
        self.expires_at.pop(name, None)
        if valid_for is not None:
            self.expires_at[name] = self.uptime + valid_for

    def _read(self, name: str) -> Reading:
        reading, expires_at = self.readings.get(name, Absent("none")), self.expires_at.get(name)
        if expires_at is None or not isinstance(reading, Quantity):
            return reading
        return replace(reading, valid_for=left) if (left := expires_at - self.uptime) > 0 else Unknown("too old")

    def lose_state(self) -> None:
        """Deletes the state in /run."""
        self._state = PassState()
        self._memory = ""
        (self.folder / "run" / "state.json").unlink(missing_ok=True)
        self.checks.forget()

    def make_pass(self, *reasons: str) -> bool:
        """Lets the kubelet copy capacity to allocatable, then makes a pass. Returns False if the pass was killed."""
        self.server.make_allocatable()
        return self.run_pass(frozenset(map(PassReason, reasons)))

    def run_pass(self, reasons: frozenset[PassReason]) -> bool:
        """Makes a pass without a kubelet. Returns False if the pass was killed."""
        self._points, self.killed, self.messages = 0, "", []
        self.server.answers_other = self.is_other
        self.server.point, self.server.check = self._point, self.checks.check_write
        self.checks.begin_pass()
        try:
            with self._running():
                reconcile_job.reconcile_once(
                    WorkerOptions(str(self.folder / "run"), Selection(config="none")),
                    JobRequest(Job.RECONCILE, reasons, memory=self._memory),
                )
        except Killed:
            return False
        finally:
            self.kill_at = None
            self._memory = self.result.memory if self.result else ""
            self.checks.end_pass(self.result)
        return True

    @property
    def result(self) -> PassResult | None:
        """The result of the last pass; None if the pass sent none."""
        return next((m for m in self.messages if isinstance(m, PassResult)), None)

    @property
    def status(self) -> PassStatus | None:
        """What `status` shows of the last pass."""
        return runtime_files.read_state(str(self.folder / "run")).status if self.state_file else self._state.status

    @property
    def error(self) -> str:
        """The error that the last pass reported to the service."""
        return self.result.failure.message if self.result and self.result.failure else ""

    def _point(self, point: str) -> None:
        if self._points == self.kill_at:
            self.killed = point
            raise Killed
        self._points += 1

    @contextmanager
    def _running(self) -> Iterator[None]:
        """Inside the with block, the worker uses this machine's time, files and programs."""
        clock = SimpleNamespace(
            time=lambda: self.now,
            monotonic=lambda: self.uptime,
            sleep=lambda _: None,
            strftime=time.strftime,
            gmtime=time.gmtime,
        )
        replace_file = os.replace

        def read_record(path: str) -> bytes:
            if self.record_errno:
                raise OSError(self.record_errno, os.strerror(self.record_errno), path)
            return read_regular_file(path)

        def replaced(*paths: Any) -> None:
            self._point(f"before {Path(paths[1]).name}")
            replace_file(*paths)
            self._point(f"after {Path(paths[1]).name}")

        def list_plugins(_: object) -> frozenset[str] | None:
            self.known_plugins = self.checkpoint
            return self.known_plugins

        def write_state(_: str, state: PassState) -> None:
            self._point("before state.json")
            self._state = state
            self._point("after state.json")

        def keep(memory: PassMemory) -> str:
            self._left = memory
            return "as an object"

        doubles: list[tuple[Any, str, object]] = [
            (os, "replace", replaced),
            (os, "fsync", lambda _: None),
            (machine_record, "read_regular_file", read_record),
            (machine_record, "state_directory", lambda: str(self.state_folder)),
            *((module, "time", clock) for module in (reconcile_job, apply, attempt)),
            (reconcile_job, "uptime", lambda: self.uptime),
            (reconcile_job, "host_of", lambda _: SimpleNamespace(hostname=lambda: "n1")),
            (reconcile_job, "discover", lambda *_: Discovery(self.probe(), {})),
            (reconcile_job, "device_plugin_names", list_plugins),
            (reconcile_job, "send_message", self.messages.append),
            (reconcile_job, "active_config", lambda _: CheckedConfig(self.configured)),
            (journal, "send", lambda _: None),
            (selection, "machine_id", lambda _: None),
            (api_node, "load", lambda _: ACCESS),
            (api_node, "Client", lambda _: ModelClient(self.server)),
        ]
        if not self.state_file:
            doubles += [
                (runtime_files, "read_state", lambda _: self._state),
                (runtime_files, "write_state", write_state),
                (pass_memory, "to_text", keep),
                (pass_memory, "from_text", lambda text: self._left if text else PassMemory()),
            ]
        with replaced_by(doubles):
            yield


@contextmanager
def replaced_by(doubles: list[tuple[Any, str, object]]) -> Iterator[None]:
    """Inside the with block, replaces these attributes of modules. (MonkeyPatch takes ten times as long.)"""
    originals = [(module, name, getattr(module, name)) for module, name, _ in doubles]
    try:
        for module, name, double in doubles:
            setattr(module, name, double)
        yield
    finally:
        for module, name, original in originals:
            setattr(module, name, original)


def damage(record: Path, fault: str) -> None:
    """Replaces the machine record by this fault. The record's content is lost."""
    remove(record)
    if fault == "directory":
        record.mkdir()
    elif fault == "loop":
        record.symlink_to(record)
    elif fault == "pipe":
        os.mkfifo(record)


def remove(record: Path) -> None:
    """Removes the machine record, or the obstacle in its place."""
    if record.is_dir() and not record.is_symlink():
        shutil.rmtree(record)
    else:
        record.unlink(missing_ok=True)


def remove_obstacle(record: Path) -> None:
    """Removes the obstacle that keeps the machine record from being written."""
    with suppress(FileNotFoundError, NotADirectoryError):
        record.with_name("published.json.new").rmdir()


def readings(**numbers: int | None) -> dict[str, Reading]:
    """Readings by letter: a=4 is a quantity, a=None is absent. Resources that are not named are not configured."""
    return {f"example.com/{n}": Absent("none") if q is None else Quantity(q) for n, q in numbers.items()}
