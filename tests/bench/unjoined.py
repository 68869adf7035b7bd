"""The cost of a machine that has not joined, has no Node yet, or is denied access: all processes of its service."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from capacityd.linux.subreaper import children
from tests.bench.machines import SIX
from tests.bench.measure import Figure
from tests.cluster.controlplane import Cluster, control_plane
from tests.cluster.scale.usage import cpu_time
from tests.cluster.service import Service, service
from tests.support.machines import nic, pci_function, usb_device

MEASURED = 600.0
"""Seconds."""

GROWING = 400.0
"""Seconds after which the pauses between attempts that are refused have grown to the longest."""


@dataclass(frozen=True, slots=True)
class _Spent:
    """Seconds of processor until a moment, and how many passes it had started by then."""

    seconds: float
    passes: int

    def since(self, before: _Spent) -> float:
        """Percent of a core, over the time that is measured."""
        return 100 * (self.seconds - before.seconds) / MEASURED


def figures() -> list[Figure]:
    """Both at the same time; the processor time of one is not that of the other."""
    with control_plane() as cluster, ExitStack() as stack:
        unjoined, refused = (stack.enter_context(_made(cluster)) for _ in range(2))
        missing = stack.enter_context(_made(cluster, node=cluster.node_name()))
        unjoined.kubeconfig.unlink()
        refused.join(token="revoked")
        began = time.monotonic()
        unjoined.start()
        refused.start()
        missing.start()
        begun = _spent(missing)
        _sleep_until(began + GROWING)
        grown = _spent(refused)
        _sleep_until(began + MEASURED)
        without, waited = _spent(unjoined), _spent(missing)
        _sleep_until(began + GROWING + MEASURED)
        in_all = _spent(refused)
    nothing = _Spent(0.0, 0)
    return [
        Figure(f"no kubeconfig, {MEASURED:.0f} s from the start, processor", without.since(nothing), "{:.3f} %", 0.1),
        Figure("  passes", without.passes, "{:.0f}"),
        Figure(f"no Node, {MEASURED:.0f} s after the first pass, processor", waited.since(begun), "{:.3f} %", 0.1),
        Figure("  passes, the first included", waited.passes, "{:.0f}"),
        Figure(f"refused, {MEASURED:.0f} s once pauses have grown, processor", in_all.since(grown), "{:.3f} %", 0.1),
        Figure(f"  passes until then, in {GROWING:.0f} s", grown.passes, "{:.0f}"),
        Figure("  passes in that time", in_all.passes - grown.passes, "{:.0f}"),
    ]


@contextmanager
def _made(cluster: Cluster, node: str | None = None) -> Iterator[Service]:
    """A machine with six resources, and a service on it that is not started."""
    with service(cluster, usb_device("1-1", "0529", "0001"), nic("ens1f0"), pci_function(), node=node) as made:
        made.configure(SIX)
        yield made


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


def _spent(one: Service) -> _Spent:
    """Of the resident process, all its children that have ended, and the one that waits for the Node."""
    assert one.process is not None
    passes = one.passes()
    return _Spent(cpu_time([one.process.pid, *children(one.process.pid)]), passes)
