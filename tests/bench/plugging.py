"""The time from a device's last event to its capacity on the Node, according to the audit log of a real API server.

Also measured: the processor time of a pass, and the memory of the two resident processes while the Node is watched.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

import psutil

from capacityd.service.schedule import DEBOUNCE
from tests.bench.figure import Figure
from tests.cluster.controlplane import Cluster, control_plane
from tests.cluster.service import service_on_machine, watchers

RESOURCES = 5
ROUNDS = 10
"""Each round has a new service, and changes each resource once, because repeated changes are held back. RESOURCES is
small, because a seventh pass within six minutes would wait for a minute (service/event_rate.py)."""

MOST_MEMORY = 33
"""MiB of both processes, if no other process shares their pages. Their libraries alone take 30 MiB (pyudev,
systemd.journal, ssl, urllib3, dataclasses, json)."""

MOST_SECONDS = 1
"""Seconds of processor time of a pass (the median of the rounds)."""


@dataclass(frozen=True, slots=True)
class _Round:
    """The results of a round: the delay and the processor time of passes in seconds, and the MiB of each process."""

    delays: list[float]
    processor: float
    resident: float
    watcher: float


def figures() -> list[Figure]:
    """The results of all rounds."""
    with control_plane() as cluster:
        rounds = [_round(cluster) for _ in range(ROUNDS)]
    delays = [seconds for each_round in rounds for seconds in each_round.delays]
    resident, watcher = statistics.median(r.resident for r in rounds), statistics.median(r.watcher for r in rounds)
    median, most = statistics.median(delays), max(delays)
    return [
        Figure(f"plug to capacity, median of {len(delays)}", median, "{:.2f} s", most=1.5),
        Figure("  maximum", most, "{:.2f} s", most=2.5),
        Figure("  of each, waiting for events to settle", DEBOUNCE, "{:.2f} s"),
        Figure("  the rest (pass, client, PATCH), median", median - DEBOUNCE, "{:.2f} s"),
        Figure("a pass, processor time", statistics.median(r.processor for r in rounds), "{:.2f} s", most=MOST_SECONDS),
        Figure("resident, memory (PSS)", resident, "{:.1f} MiB"),
        Figure("watcher, memory (PSS)", watcher, "{:.1f} MiB"),
        Figure("  both", resident + watcher, "{:.1f} MiB", most=MOST_MEMORY),
    ]


def _round(cluster: Cluster) -> _Round:
    with service_on_machine(cluster) as service:
        names = [f"example.com/r{number}" for number in range(RESOURCES)]
        service.configure("".join(f'[resources."{n}"]\nusb = {{ serial = "S{i}" }}\n' for i, n in enumerate(names)))
        service.start()
        service.requests()  # leaves out the requests of the start
        delays = []
        for number, name in enumerate(names):
            passes = service.passes()
            service.machine.plug(f"{1 + number // 8}-{1 + number % 8}", serial=f"S{number}")  # such as bus 1, port 3
            accepted = time.time()
            service.wait_capacity("1", name)
            service.wait_passes(1, passes)
            (written,) = [r.answered for r in service.requests() if r.verb == "patch"]
            delays.append(written - accepted)
        assert service.process is not None
        (watcher,) = watchers(service.process.pid)
        ended = psutil.Process(service.process.pid).cpu_times()
        processor = (ended.children_user + ended.children_system) / service.passes()
        return _Round(delays, processor, _memory(service.process.pid), _memory(watcher))


def _memory(process: int) -> float:
    """The proportional set size in MiB, in which a shared page counts in part for each process."""
    return float(psutil.Process(process).memory_full_info().pss) / 2**20
