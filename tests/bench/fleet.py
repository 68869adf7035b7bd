"""A fleet on one real API server: what each Node costs it, and what a start of all at once costs it.

The Nodes have no machines: a few processes do for each in turn what a pass at boot does after its probe, with the
real code, an identity and a connection of its own. Starting 5,000 processes on two cores would measure Python's start.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from capacityd.model.config import Config, Resource
from capacityd.model.reading import Quantity
from capacityd.model.reasons import PassReason
from capacityd.node import Review, ReviewCache, open_node
from capacityd.reconcile.reconcile import Access, reconcile
from capacityd.reconcile.state import PassContext, ReconcileState
from tests.bench.measure import Figure
from tests.cluster.audit import Request
from tests.cluster.controlplane import Cluster, control_plane
from tests.cluster.credentials import kubeconfig, node_user, token_of
from tests.cluster.scale.usage import cpu_time

NODES = 5_000
WORKERS = 4
CROWD = 300
"""Of them so many processes that start in the same moment."""

JITTER = 30.0

_RESOURCES = tuple(f"example.com/r{number}" for number in range(3))
_CONFIG = Config(resources=tuple(Resource(name, "static", ()) for name in _RESOURCES))
_UPTIME = 1_000.0


@dataclass(frozen=True, slots=True)
class _Member:
    """A Node's service between two passes."""

    name: str
    kubeconfig: Path
    state: ReconcileState = field(default_factory=ReconcileState)
    reviews: Mapping[str, Review] = field(default_factory=dict)
    failure: str = ""


@dataclass(frozen=True, slots=True)
class _Load:
    """What a round was to the API server. cpu, store: its and etcd's seconds of processor."""

    seconds: float
    cpu: float
    store: float
    requests: list[Request]
    failed: int


def figures() -> Iterator[Figure]:
    """A boot that publishes, one with nothing to change, a resync; and a crowd, without and with jitter."""
    names = [f"f{number:04}" for number in range(NODES)]
    with control_plane(names) as cluster:
        with ThreadPoolExecutor(WORKERS) as pool:
            list(pool.map(partial(_create, cluster), names))
        fleet = [_Member(name, _kubeconfig(cluster, name)) for name in names]
        idle = _idle(cluster)
        for what, reason, unpublish, target in (
            ("boot, publishes", PassReason.BOOT, False, 4),
            ("boot, nothing to change", PassReason.BOOT, True, 2),
            ("resync, nothing to change", PassReason.RESYNC, False, 1),
        ):
            fleet = [_Member(m.name, m.kubeconfig) for m in fleet] if unpublish else fleet
            fleet, load = _turn(cluster, fleet, reason, idle)
            yield from _costs(f"{len(fleet)} Nodes, {what}", load, target)
        for quantity, jitter in ((6, 0.0), (8, JITTER)):
            crowd = [_Member(m.name, m.kubeconfig) for m in fleet[:CROWD]]
            what = f"{CROWD} start at once, " + (f"start_jitter = {jitter:.0f}s" if jitter else "no start_jitter")
            yield from _peak(what, _crowd(cluster, crowd, quantity, jitter))


def _costs(what: str, load: _Load, target: int) -> list[Figure]:
    each = Counter(r.user for r in load.requests)
    answers = Counter(r.code // 100 for r in load.requests)
    made = Counter(f"{r.verb} {r.resource}" for r in load.requests)
    return [
        Figure(f"{what}: most requests of one", max(each.values()), "{:.0f}", target),
        *(Figure(f"  {request}", number, "{:.0f}") for request, number in sorted(made.items())),
        Figure("  errors, to the API server and to us", len(load.requests) - answers[2] + load.failed, "{:.0f}", 0),
        Figure("  API server's processor time for each", 1000 * load.cpu / len(each), "{:.1f} ms"),
        Figure("  etcd's", 1000 * load.store / len(each), "{:.1f} ms"),
        Figure("  Nodes a second, with the clients on the same cores", len(each) / load.seconds, "{:.0f}"),
    ]


def _peak(what: str, load: _Load) -> list[Figure]:
    waited = sorted(r.answered - r.received for r in load.requests)
    began = [r.received for r in load.requests]
    edges = sorted([(r.received, 1) for r in load.requests] + [(r.answered, -1) for r in load.requests])
    together = most = 0
    for _, step in edges:
        together += step
        most = max(most, together)
    return [
        Figure(f"{what}: errors", sum(r.code >= 400 for r in load.requests) + load.failed, "{:.0f}", 0),
        Figure("  until the last is done", max(r.answered for r in load.requests) - min(began), "{:.1f} s"),
        Figure("  requests in the busiest second", max(Counter(map(int, began)).values()), "{:.0f}"),
        Figure("  most requests under way together", most, "{:.0f}"),
        Figure("  a request takes, median", 1000 * statistics.median(waited), "{:.1f} ms"),
        Figure("  99th percentile", 1000 * waited[len(waited) * 99 // 100], "{:.0f} ms"),
    ]


def _create(cluster: Cluster, name: str) -> None:
    """A Node of a usual size: most of it is the list of images."""
    images = [{"names": [f"registry.example/some/image-{i}@sha256:{i:064}"], "sizeBytes": 10**8} for i in range(50)]
    kinds = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    conditions = [{"type": kind, "status": "False", "reason": "Kubelet", "message": "so it is"} for kind in kinds]
    cluster.create_node(name, status={"images": images, "conditions": conditions})


def _kubeconfig(cluster: Cluster, name: str) -> Path:
    path = cluster.folder / "fleet" / name
    path.parent.mkdir(exist_ok=True)
    path.touch(0o600)
    path.write_text(kubeconfig(cluster.url, cluster.ca_file, {"token": token_of(node_user(name))}))
    return path


def _reconcile(member: _Member, reason: PassReason, quantity: int = 4) -> _Member:
    """What the child of the service does with its readings."""
    cache = ReviewCache(member.reviews)
    result = reconcile(
        _CONFIG,
        dict.fromkeys(_RESOURCES, Quantity(quantity)),
        PassContext(now=time.time(), uptime=_UPTIME, reasons=frozenset({reason})),
        member.state,
        Access(partial(open_node, str(member.kubeconfig), None, member.name, None, cache), tuple),
    )
    warnings = "; ".join(result.outcome.warnings) if result.outcome else ""
    return _Member(member.name, member.kubeconfig, result.state, cache.reviews, result.node_error or warnings)


def _turn(cluster: Cluster, fleet: list[_Member], reason: PassReason, idle: float) -> tuple[list[_Member], _Load]:
    """All of them, as fast as it goes. idle: what the API server takes of a processor for itself."""
    position, began, before = cluster.audit.mark(), time.monotonic(), _processor(cluster)
    with multiprocessing.get_context("fork").Pool(WORKERS) as pool:
        after = pool.map(partial(_reconcile, reason=reason), fleet, chunksize=50)
    seconds = time.monotonic() - began
    cpu, store = (b - a for a, b in zip(before, _processor(cluster), strict=True))
    failed = sum(bool(member.failure) for member in after)
    return after, _Load(seconds, cpu - idle * seconds, store, _ours(cluster, position), failed)


def _crowd(cluster: Cluster, crowd: list[_Member], quantity: int, jitter: float) -> _Load:
    """Each in a process of its own, all let go in the same moment."""
    _reconcile(crowd[0], PassReason.BOOT, quantity - 1)  # so that everything is loaded before the start
    position, before = cluster.audit.mark(), _processor(cluster)
    wait, go = os.pipe()
    chance = random.Random(1)
    children = [_forked(member, quantity, wait, go, chance.uniform(0, jitter)) for member in crowd]
    began = time.monotonic()
    os.close(go)
    os.close(wait)
    failed = sum(os.waitpid(child, 0)[1] != 0 for child in children)
    cpu, store = (b - a for a, b in zip(before, _processor(cluster), strict=True))
    return _Load(time.monotonic() - began, cpu, store, _ours(cluster, position), failed)


def _forked(member: _Member, quantity: int, wait: int, go: int, pause: float) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        os.close(go)
        os.read(wait, 1)  # until nobody can write to it any more
        time.sleep(pause)
        status = int(bool(_reconcile(member, PassReason.BOOT, quantity).failure))
    finally:
        os._exit(status)


def _ours(cluster: Cluster, position: int) -> list[Request]:
    return [r for r in cluster.audit.since(position) if r.user_agent.startswith("capacityd/")]


def _processor(cluster: Cluster) -> tuple[float, float]:
    return cpu_time([cluster.pids["kube-apiserver"]]), cpu_time([cluster.pids["etcd"]])


def _idle(cluster: Cluster) -> float:
    """How much of a processor the API server takes while nobody sends a request."""
    before = _processor(cluster)[0]
    time.sleep(10)
    return (_processor(cluster)[0] - before) / 10
