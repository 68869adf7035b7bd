"""The time from a device's last event to its capacity on the real API server, according to its audit log."""

from __future__ import annotations

import statistics
import time

from capacityd.service.schedule import DEBOUNCE
from tests.bench.measure import Figure
from tests.cluster.controlplane import Cluster, control_plane
from tests.cluster.service import service

RESOURCES = 10
ROUNDS = 5
"""Each round has its own service. Each resource is plugged once, because repeated changes are held back."""


def figures() -> list[Figure]:
    """The total time, and the part of it that waits for events to settle."""
    with control_plane() as cluster:
        taken = [seconds for _ in range(ROUNDS) for seconds in _round(cluster)]
    middle, most = statistics.median(taken), max(taken)
    return [
        Figure(f"plug to capacity, median of {len(taken)}", middle, "{:.2f} s", 1.5),
        Figure("  maximum", most, "{:.2f} s", 2.5),
        Figure("  of each, waiting for events to settle", DEBOUNCE, "{:.2f} s"),
        Figure("  the rest (pass, client, GET, PATCH), median", middle - DEBOUNCE, "{:.2f} s"),
    ]


def _round(cluster: Cluster) -> list[float]:
    with service(cluster) as s:
        names = [f"example.com/r{number}" for number in range(RESOURCES)]
        s.configure("".join(f'[resources."{n}"]\nusb = {{ serial = "S{i}" }}\n' for i, n in enumerate(names)))
        s.start()
        s.requests()
        taken = []
        for number, name in enumerate(names):
            passes = s.passes()
            s.machine.plug(f"{1 + number // 8}-{1 + number % 8}", serial=f"S{number}")
            accepted = time.time()
            s.wait_capacity("1", name)
            s.wait_passes(1, passes)
            (written,) = [r.answered for r in s.requests() if r.verb == "patch"]
            taken.append(written - accepted)
        return taken
