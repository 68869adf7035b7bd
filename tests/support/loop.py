"""The service's loop as a model: the real schedule and the real worker, with a number for time."""

from __future__ import annotations

import random

from capacityd.model.reasons import PassReason, RetryCause
from capacityd.service.schedule import Schedule
from tests.support.world import World


class Loop:
    """The service."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.passes = 0
        self.reads: list[frozenset[PassReason]] = []
        """The reasons of each pass that has sent a GET."""
        self.failure: RetryCause | None = None
        """That of the last pass."""
        self._uniform = random.Random(seed).uniform
        self._suspended = 0.0  # seconds of uptime in which no process ran
        self.start(state_lost=True)

    def start(self, state_lost: bool) -> None:
        """The service starts, or starts again."""
        if state_lost:
            self.world.machine.lose_state()
        self._schedule = Schedule(self._monotonic(), self._uniform)
        self.configure()
        self.world.hear = lambda reasons: self._schedule.notify(reasons, self._monotonic())

    def reboot(self) -> None:
        """The machine starts again, and with it the service."""
        self.world.reboot()
        self._suspended = 0.0
        self.start(state_lost=True)

    def configure(self) -> None:
        """The service takes over the resync period."""
        self._schedule.set_resync_period(self.world.machine.configured.settings.resync, self._monotonic())

    def suspend(self, seconds: float) -> None:
        """The machine sleeps."""
        self.world.move(self.world.uptime + seconds)
        self._suspended += seconds
        self.world.hear({PassReason.RESUME})

    def run(self, seconds: float) -> None:
        """Time passes for the service, too."""
        world = self.world
        end = world.uptime + seconds
        while True:
            wakes = self._schedule.wakes_at() + self._suspended
            at = min(wakes, world.next())
            if at > end:
                break
            world.move(max(at, world.uptime))
            if reasons := self._schedule.pop_due(self._monotonic()):
                self._make_pass(frozenset(reasons))
                world.move(world.uptime + 0.1)
            elif wakes <= world.uptime:
                world.move(world.uptime + 0.001)
        world.move(end)

    def _make_pass(self, reasons: frozenset[PassReason]) -> None:
        machine, gets = self.world.machine, self.world.server.gets
        ended = machine.run_pass(reasons)
        machine.server.between.clear()
        self.passes += 1
        if machine.server.gets > gets:
            self.reads.append(reasons)
        now, result = self._monotonic(), machine.result
        if not ended or result is None:
            self.failure = RetryCause.OTHER
            self._schedule.failed(now, None)
        elif failure := result.failure:
            self.failure = failure.cause
            self._schedule.failed(now, failure.retry_after, failure.cause, result.requeue_after)
        else:
            self.failure = None
            self._schedule.succeeded(now, result.requeue_after, node_read=result.node_read)

    def _monotonic(self) -> float:
        return self.world.uptime - self._suspended
