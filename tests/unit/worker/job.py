"""Runs whole passes of the service's worker in this process, with real files, on a Node in memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from capacityd.cli import run
from capacityd.model.messages import JobRequest, Message, PassResult, ServiceStatus
from capacityd.model.options import Selection, WorkerOptions
from capacityd.model.reading import Reading
from capacityd.model.reasons import Job, PassReason
from capacityd.schema.config import Config, Resource, Settings
from capacityd.worker import pass_memory, runtime_files
from capacityd.worker.journal import Entry
from capacityd.worker.pass_memory import PassMemory
from capacityd.worker.pass_state import PassStatus
from capacityd.worker.reconcile_job import reconcile_once
from capacityd.worker.runtime_files import CheckedConfig, RunningService
from tests.unit.reconcile.doubles import EPOCH, ServerNode

_JOB, _STATUS = "capacityd.worker.reconcile_job.", "capacityd.cli.commands.status."


class Worker:
    """Makes one pass after another. The clocks, the readings and the Node are fakes."""

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
        self.result = PassResult()
        """The result that the last pass sent to the service."""
        self.entries: list[Entry] = []
        """The entries that the last pass sent to the journal."""
        self._messages: list[Message] = []
        clock = SimpleNamespace(time=lambda: EPOCH + self.uptime, monotonic=lambda: self.uptime, sleep=lambda _: None)
        patches.setenv("RUNTIME_DIRECTORY", str(folder))
        for module in (_JOB, _STATUS):
            patches.setattr(f"{module}time", clock)
            patches.setattr(f"{module}uptime", lambda: self.uptime)
        # `status` shows the waits of a running service. Its next pass is due now, so that each wait keeps its length.
        patches.setattr(f"{_STATUS}runtime_files.running", lambda _: self._service())
        patches.setattr(f"{_JOB}active_config", lambda _: CheckedConfig(self._config()))
        patches.setattr(f"{_JOB}host_of", lambda _: None)
        patches.setattr(f"{_JOB}probe", lambda *_: dict(self.readings))
        patches.setattr(f"{_JOB}device_plugin_names", lambda _: self.device_plugins)
        patches.setattr(f"{_JOB}node_of", lambda *_, **__: self.node)
        patches.setattr(f"{_JOB}send_message", self._messages.append)
        patches.setattr(f"{_JOB}journal.send", self.entries.extend)

    def _service(self) -> RunningService:
        now = EPOCH + self.uptime
        return RunningService(ServiceStatus(pid=1, next_reconcile=now, overdue_at_uptime=self.uptime))

    def make_pass(self, at: float, *reasons: str, **readings: Reading) -> PassResult:
        """Makes a pass at this uptime. a, b: the readings of the two resources; by default those of the last pass."""
        self.uptime = at
        self.readings = {f"example.com/{name}": reading for name, reading in readings.items()} or self.readings
        self.entries.clear()
        self._messages.clear()
        why = frozenset(map(PassReason, reasons or ("hardware",)))
        options = WorkerOptions(str(self.folder), Selection())
        request = JobRequest(Job.RECONCILE, why, memory=self.result.memory, node_unchanged=self.node_unchanged)
        assert reconcile_once(options, request) == 0
        (self.result,) = (message for message in self._messages if isinstance(message, PassResult))
        return self.result

    @property
    def memory(self) -> PassMemory:
        """What the last pass has left."""
        return pass_memory.from_text(self.result.memory)

    @property
    def status(self) -> PassStatus:
        """What `status` shows of the last pass."""
        status = runtime_files.read_state(str(self.folder)).status
        assert status is not None
        return status

    def run_status(self, *options: str) -> None:
        """Runs the command `status` at the time of the last pass, while the service runs."""
        assert run(["status", *options]) in (0, 4)

    def _config(self) -> Config:
        resources = tuple(Resource(name, "static", (), expect=self.expect.get(name)) for name in self.readings)
        return Config(resources, self.settings, digest=self.digest)
