"""Runs histories on the real API server with the real service, and lets the judge find what was wrong with the Node.

A history is a list of faults (fault_scene.py), each with the seconds at which it begins and ends.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack

from tests.cluster.controlplane import Cluster
from tests.cluster.fault_scene import FAULTS, Scene, prepared_scene
from tests.cluster.nodewatch import NodeWatch, Version, watch_node
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.truth import Span, broken_promise, is_right, quantities, right_within

ONCE_A_MINUTE = 75.0
"""Seconds within which something that happens once a minute must have happened."""
SETTLED = 12.0
"""Seconds for which the Node must stay right at the end. It is more than the 10 s between a kubelet's reports."""


def run(cluster: Cluster, planned: Sequence[Span]) -> list[str]:
    """Runs a history. When a fault begins, a quantity changes. Returns what was wrong, with explanations.

    planned: the faults, with times in seconds since the beginning of the history.
    """
    with prepared_scene(cluster, {fault.kind for fault in planned}) as scene, watch_node(cluster, scene.node) as watch:
        wait_until(lambda: _right_since(watch, scene, time.time()), PATIENCE, "all is right at the beginning")
        wrong = _judge(scene, watch, _play(scene, planned))
        if wrong:
            wrong.append(scene.service.log()[-6000:])
            wrong += [f"{change.at:.1f} {dict(change.quantities)}" for change in scene.changes]
            wrong += [f"{version.received:.1f} {_shown(version)}" for version in watch]
        return wrong


def _play(scene: Scene, planned: Sequence[Span]) -> list[Span]:
    """Makes the faults begin and end. Returns them with the real times."""
    begun = time.monotonic()
    active: dict[str, tuple[ExitStack, float]] = {}
    spans = []
    moments = [(fault.begin, True, fault.kind) for fault in planned]
    moments += [(fault.end, False, fault.kind) for fault in planned]
    try:
        for at, begins, kind in sorted(moments):  # ends come before begins of the same time: False < True
            time.sleep(max(0.0, begun + at - time.monotonic()))
            if begins:
                stack = ExitStack()
                active[kind] = stack, time.time()
                stack.enter_context(FAULTS[kind](scene))
                if kind != "nospace":  # store_full() itself changes the next quantity
                    scene.change()
            else:
                stack, since = active.pop(kind)
                stack.close()
                spans.append(Span(kind, since, time.time()))
    finally:
        for stack, _ in active.values():
            stack.close()
    return sorted(spans, key=lambda span: span.begin)


def _judge(scene: Scene, watch: NodeWatch, spans: Sequence[Span]) -> list[str]:
    """Waits until the Node is right. Returns the broken promise, or that the Node was wrong for too long."""
    wrong: list[str] = []
    end, within = max(span.end for span in spans), right_within(spans)
    try:
        deadline = within + SETTLED + 60  # longer than allowed, to report how late the Node was right
        wait_until(lambda: _right_since(watch, scene, time.time() - SETTLED), deadline, "the Node is right")
        seconds = _right_at(watch, scene) - end
        if seconds > within:
            wrong.append(f"right only after {seconds:.1f} s, not within {within:.1f}")
        wait_until(
            lambda: scene.service.cli("status").returncode == 0, ONCE_A_MINUTE, "status finds nothing wrong", pause=2.0
        )
    except TimeoutError as error:
        wrong += [str(error), f"expected {quantities(scene.changes)}", scene.service.cli("status").stdout]
    if broken := broken_promise(watch.versions, scene.changes, spans, time.time()):
        wrong.append(str(broken))
    return wrong


def _right_at(watch: NodeWatch, scene: Scene) -> float:
    """Since when the Node has been right. Infinity: it is not right."""
    expected, right_at = quantities(scene.changes), float("inf")
    for version in reversed(watch.versions):
        if version.type == "DELETED" or not is_right(version, expected):
            break
        right_at = version.received
    return right_at


def _right_since(watch: NodeWatch, scene: Scene, moment: float) -> bool:
    """Whether the Node has been right at least since this moment."""
    assert not watch.problems, watch.problems[0]
    return _right_at(watch, scene) <= moment


def _shown(version: Version) -> str:
    stored = version.node["status"].get("capacity", {})
    return f"{version.type} {version.published} {stored} {version.allocatable} {version.condition}"
