"""A Node that another writer keeps changing, at a given rate: only on loopback, and only until the test ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cluster.controlplane import Cluster

KEY = "example.com/busy"
CONDITION = "Busy"


@contextmanager
def busy(cluster: Cluster, node: str, rate: int) -> Iterator[list[int]]:
    """Writes a key and a condition of the Node so often a second, counting up; the list is of what was written.

    By thousands: 1000 is stored as 1k, and a test that reads it otherwise shall fail always, not once in a thousand.
    """
    written: list[int] = []
    problems: list[BaseException] = []
    end = threading.Event()

    def work() -> None:
        try:
            _write(cluster, node, rate, written, end)
        except BaseException as error:  # noqa: BLE001  # belongs to the test, below
            problems.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield written
    finally:
        end.set()
        thread.join()
    assert not problems, problems[0]


def _write(cluster: Cluster, node: str, rate: int, written: list[int], end: threading.Event) -> None:
    began = time.monotonic()
    # Delays from an occupied server are made up for afterwards.
    while not end.wait(max(0.0, began + len(written) / rate - time.monotonic())):
        number = 1000 * (len(written) + 1)
        condition = {"type": CONDITION, "status": "True", "reason": CONDITION, "message": str(number)}
        status = {"capacity": {KEY: str(number)}, "conditions": [condition]}
        cluster.admin.patch(f"/api/v1/nodes/{node}/status", {"status": status}, "strategic")
        written.append(number)
