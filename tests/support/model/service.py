"""The real service on a model of a machine. It never waits: the world calls attend() when something is due."""

from __future__ import annotations

import random
import signal
from collections.abc import Collection
from typing import TYPE_CHECKING

from capacityd.model.messages import JobRequest, Message, PassResult, ServiceConfig
from capacityd.model.reasons import PassReason
from capacityd.service.child_process import ChildProcess
from capacityd.service.event_sources import EventSources, Signals
from capacityd.service.loop import Service
from capacityd.service.service_lock import ServiceLock
from capacityd.service.system import System
from tests.support.judge.surroundings import Writer
from tests.support.model import worker
from tests.support.model.children import ModelChild, ModelWatcher, ModelWorker
from tests.support.model.machine import Machine
from tests.support.model.server import ModelServer

if TYPE_CHECKING:
    import select

    from tests.support.model.world import World

_SIGNALS, _SOURCES = 1, 2  # file descriptors that are not polled
_TURNS = 1000
"""How often the service may act while no time passes. A service that acts more often is in an endless loop."""
_LATE = 0.001
"""Seconds by which each wait is longer than asked for, so that rounding never ends it too early."""


class ModelSources(EventSources):
    """The machine's events. ModelService.hear() sends one."""

    def __init__(self) -> None:
        self.heard: set[PassReason] = set()
        self.found: set[PassReason] = set()
        """The changes that the next comparison (one a minute) will find."""
        self.used_up = False
        """Whether files can't be watched, so that each comparison starts a pass."""

    def watch(self, config: ServiceConfig) -> None:
        """Does nothing: the model sends the events that matter."""

    def watch_credentials(self, files: Collection[str]) -> set[PassReason]:
        return set()

    def prepare_pass(self) -> set[PassReason]:
        return set()

    def filenos(self) -> Collection[int]:
        return (_SOURCES,)

    def drain(self, ready: Collection[int]) -> set[PassReason]:
        reasons, self.heard = self.heard, set()
        return reasons

    def compare(self) -> set[PassReason]:
        reasons, self.found = self.found, set()
        return reasons | ({PassReason.DEVICES} if self.used_up else set())


class ModelSignals(Signals):
    """The signals that somebody sends to the service."""

    def __init__(self) -> None:
        self.sent: set[signal.Signals] = set()

    def fileno(self) -> int:
        return _SIGNALS

    def drain(self) -> set[signal.Signals]:
        sent, self.sent = self.sent, set()
        return sent


class _Lock(ServiceLock):
    """A lock without a file."""

    def __init__(self, folder: str) -> None:
        self.path = folder

    def is_in_place(self) -> bool:
        return True


class ModelService:
    """A service, its children, and the machine on which it runs."""

    def __init__(self, world: World, machine: Machine, seed: int, writer: Writer = Writer.CAPACITYD) -> None:
        self.world, self.machine, self.writer = world, machine, writer
        self.watch_delay = 0.0
        """Seconds until the watcher sees a change of the Node."""
        self.can_watch = True
        """Whether the API server lets the Node be watched."""
        self.killed_pids: set[int] = set()
        self.has_passed = False
        """Whether a pass has ended since the start."""
        self._random = random.Random(seed)
        self._pids = 100
        self.start()

    @property
    def server(self) -> ModelServer:
        return self.world.server

    @property
    def watcher(self) -> ModelWatcher | None:
        """The watcher. None: no watcher runs."""
        return next((child for child in self._children if isinstance(child, ModelWatcher)), None)

    @property
    def is_watching(self) -> bool:
        """Whether the Node is watched."""
        return self.watcher is not None and self.watcher.is_connected

    def start(self) -> None:
        """The service starts, or starts again."""
        self.stop()
        self.sources, self._signals = ModelSources(), ModelSignals()
        self._wakes_at = 0.0
        self._is_due = True
        system = System(
            monotonic=lambda: self._monotonic,
            uniform=self._random.uniform,
            wait=self._wait,
            start_child=self._start_child,
            kill_children=self._kill_children,
            open_sources=lambda _: self.sources,
            open_signals=lambda: self._signals,
        )
        folder = str(self.machine.run_folder)
        self._service = Service(["worker"], ["watcher"], folder, _Lock(folder), system)

    def stop(self) -> None:
        """The service and its children end."""
        self.has_passed = False
        for child in [*getattr(self, "_children", ())]:
            child.kill()
        self._children: list[ModelChild] = []

    def hear(self, *reasons: PassReason) -> None:
        """The service hears of events."""
        self.sources.heard |= {*reasons}
        self._is_due = True

    def configure(self) -> None:
        """The service checks its configuration again."""
        self._signals.sent.add(signal.SIGHUP)
        self._is_due = True

    def due_in(self) -> float:
        """The seconds until attend() is due."""
        if self._is_due or any(child.has_output for child in self._children):
            return 0.0
        left = self._wakes_at - self._monotonic
        return left if left > _LATE / 2 else 0.0

    def attend(self) -> None:
        """Lets the service do all that is due."""
        for _ in range(_TURNS):
            if self.due_in():
                return
            self._is_due = False
            status = self._service.run_once()
            assert status is None, "the service has ended"
        raise AssertionError("the service does not wait")

    # The system that the service uses

    @property
    def _monotonic(self) -> float:
        return self.machine.uptime - self.machine.suspended

    def _wait(self, _: select.poll, seconds: float) -> set[int]:
        ready = {child.fileno() for child in self._children if child.has_output}
        ready |= {_SOURCES} if self.sources.heard else set()
        ready |= {_SIGNALS} if self._signals.sent else set()
        self._is_due = bool(ready)  # an event lets the service act, which may set another deadline
        self._wakes_at = self._monotonic + seconds + _LATE
        return ready

    def _start_child(self, command: list[str]) -> ChildProcess:
        child = ModelWatcher(self) if command == ["watcher"] else ModelWorker(self)
        self._children.append(child)
        return child

    def _kill_children(self, _: float, spared: Collection[int]) -> dict[int, int]:
        """Kills all children but the spared PIDs. Returns the wait statuses of those that were killed during a pass."""
        for child in [child for child in self._children if child.pid not in spared]:
            child.kill()
        return dict.fromkeys(self.killed_pids, int(signal.SIGKILL))

    def remove_child(self, child: ModelChild) -> None:
        if child in self._children:
            self._children.remove(child)

    def new_pid(self) -> int:
        self._pids += 1
        return self._pids

    # What its workers do

    def run_pass(self, request: JobRequest) -> tuple[list[Message], bool]:
        """Runs a worker with a job. Returns its messages, and whether it was killed."""
        server = self.server
        server.requester = self.writer
        self.world.pass_begins(self)
        try:
            messages, killed = worker.run_pass(
                self.machine,
                server,
                request,
                on_read=lambda readings: self.world.pass_reads(self, readings),
                on_request=lambda name: self.world.pass_requests(self, name),
            )
        finally:
            server.requester = Writer.OTHER
        server.before_patch.clear()
        self.has_passed = True
        failed = any(isinstance(message, PassResult) and message.error for message in messages)
        self.world.pass_ends(self, killed=killed, failed=failed)
        return messages, killed
