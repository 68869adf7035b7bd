"""The service's worker. There is at most one, which has a job or waits for a job."""

from __future__ import annotations

import math
import select
from collections.abc import Collection
from contextlib import suppress

from capacityd.model.messages import EARLY, JobRequest
from capacityd.service.surroundings import Surroundings
from capacityd.service.worker_process import WorkerProcess


class WorkerSlot:
    """The worker, if there is one. command: the command that starts a worker."""

    def __init__(self, command: list[str], around: Surroundings) -> None:
        self._command = command
        self._around = around
        self.worker: WorkerProcess | None = None
        self._may_start_early = True

    @property
    def is_free(self) -> bool:
        """Whether no worker has a job."""
        return self.worker is None or self.worker.job is None

    @property
    def wakes_at(self) -> float:
        """When WorkerProcess.attend() must be called next; infinity if there is no worker."""
        return self.worker.wakes_at() if self.worker else math.inf

    def register(self, poll: select.poll) -> None:
        """Lets poll() return when the worker has sent a message."""
        if self.worker:
            self.worker.register(poll)

    def start_early(self) -> None:
        """Starts a worker whose job will follow, if there is no worker. An error only delays the job.

        Starts at most one worker for each job, because a worker may end before it gets the job.
        """
        if self.worker is None and self._may_start_early:
            self._may_start_early = False
            with suppress(OSError):
                self.worker = WorkerProcess([*self._command, EARLY], self._around)

    def give(self, request: JobRequest, timeout: float, spared: Collection[int]) -> None:
        """Gives the job to the waiting worker, or to a new one. Raises OSError if the new worker can't be started.

        timeout: the seconds that the job may take. spared: as for WorkerProcess.kill().
        """
        worker = self.worker
        self.worker = None
        if worker is not None and worker.attend({worker.fileno()}, spared) is not None:
            worker = None  # the worker has ended while it waited
        self._may_start_early = True
        self.worker = worker or WorkerProcess(self._command, self._around)
        self.worker.give(request, timeout)

    def kill(self) -> None:
        """Kills the worker, and all other children of the service."""
        if self.worker:
            self.worker.kill(spared=())
