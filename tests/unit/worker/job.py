"""Runs whole passes of the service's worker in this process, with real files and a Node in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from capacityd.cli import run
from capacityd.model.messages import JobRequest, Message, PassResult, ServiceStatus
from capacityd.model.node import Node
from capacityd.model.options import Selection
from capacityd.model.reading import Reading
from capacityd.model.reasons import Job, PassReason
from capacityd.node.identity import CredentialsCache, Identity
from capacityd.schema.config import Config, Resource, Settings
from capacityd.worker import pass_memory, runtime_files
from capacityd.worker.journal import JournalEntry
from capacityd.worker.pass_memory import PassMemory
from capacityd.worker.pass_state import PassStatus
from capacityd.worker.reconcile_job import PassJob
from capacityd.worker.runtime_files import CheckedConfig
from tests.unit.reconcile.doubles import EPOCH, ServerNode

IDENTITY = Identity("n1", is_certain=True, is_own_node=True)
_STATUS_MODULE = "capacityd.cli.commands.status."


class Worker:
    """Makes passes. The clocks, the readings and the Node are fakes."""

    def __init__(self, folder: Path, patches: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.node = ServerNode()
        self.settings = Settings(lower_after=30.0)
        self.digest = ""
        self.expect: dict[str, int] = {}
        self.uptime = 1000.0
        self.readings: Mapping[str, Reading] = {}
        self.device_plugins: frozenset[str] | None = frozenset()
        self.node_unchanged = False
        self.known_identity: Identity | None = None
        """What the last pass knew at its start about the Node's identity."""
        self.result = PassResult()
        """The result that the last pass sent to the service."""
        self.entries: list[JournalEntry] = []
        """The entries that the last pass sent to the journal."""
        clock = SimpleNamespace(time=lambda: EPOCH + self.uptime, monotonic=lambda: self.uptime, sleep=lambda _: None)
        patches.setenv("RUNTIME_DIRECTORY", str(folder))
        patches.setattr(f"{_STATUS_MODULE}time", clock)
        patches.setattr(f"{_STATUS_MODULE}uptime", lambda: self.uptime)
        # `status` shows the waits of a running service. The next pass is due now, so that no wait becomes longer.
        patches.setattr(f"{_STATUS_MODULE}runtime_files.running_service", lambda _: self._service())

    def _service(self) -> ServiceStatus:
        now = EPOCH + self.uptime
        return ServiceStatus(pid=1, next_pass=now, overdue_at_uptime=self.uptime)

    def make_pass(self, at: float, *reasons: str, **readings: Reading) -> PassResult:
        """Makes a pass at this uptime. A reading a=... is of the resource example.com/a. Default: the last readings."""
        self.uptime = at
        self.readings = {f"example.com/{name}": reading for name, reading in readings.items()} or self.readings
        self.entries.clear()
        pass_reasons = frozenset(map(PassReason, reasons or ("devices",)))
        request = JobRequest(Job.RECONCILE, pass_reasons, memory=self.result.memory, node_unchanged=self.node_unchanged)
        job = _Job(self, request)
        job.run()
        (self.result,) = (message for message in job.sent if isinstance(message, PassResult))
        return self.result

    @property
    def memory(self) -> PassMemory:
        """What the last pass has left for the next one."""
        return pass_memory.from_text(self.result.memory)

    @property
    def status(self) -> PassStatus:
        """What `status` shows of the last pass."""
        return runtime_files.read_state(str(self.folder))

    def run_status(self, *options: str) -> None:
        """Runs the command `status` at the time of the last pass, while the service runs."""
        assert run(["status", *options]) in (0, 4)  # 4: the service runs, but something is wrong

    def config(self) -> Config:
        resources = tuple(Resource(name, "static", (), expect=self.expect.get(name)) for name in self.readings)
        return Config(resources, self.settings, digest=self.digest)


class _Job(PassJob):
    """A pass that uses the fakes of a Worker."""

    def __init__(self, worker: Worker, request: JobRequest) -> None:
        self.sent: list[Message] = []
        self._worker = worker
        super().__init__(str(worker.folder), Selection(), request)

    def now(self) -> float:
        return EPOCH + self._worker.uptime

    def uptime(self) -> float:
        return self._worker.uptime

    def active_config(self) -> CheckedConfig:
        return CheckedConfig(self._worker.config())

    def probe(self, node_name: str | None) -> Mapping[str, Reading]:
        return dict(self._worker.readings)

    def device_plugins(self) -> frozenset[str] | None:
        return self._worker.device_plugins

    def open_node(self, cache: CredentialsCache) -> Node:
        self._worker.known_identity = cache.identity
        cache.identity = IDENTITY
        return self._worker.node

    def send(self, message: Message) -> None:
        self.sent.append(message)

    def log(self, entries: Iterable[JournalEntry]) -> None:
        self._worker.entries.extend(entries)
