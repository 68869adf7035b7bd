"""Runs random histories of two to four faults on the real API server, with the real service.

    python -m tests.cluster.fault_histories [--histories N] [--seed N] [--jobs N] [--only NUMBER]

Each history lets faults begin and end at random times, and changes quantities between them. After the end of all
faults, the Node must be right, and the judge must find no broken promise in the versions of the Node.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field

from tests.cluster.binaries import pinned
from tests.cluster.controlplane import Cluster, control_plane
from tests.cluster.fault_scene import FAULTS, Scene, scene
from tests.cluster.nodewatch import NodeWatch, Version, watch_node
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.releases import programs
from tests.cluster.truth import Span, broken_promise, is_right, quantities, right_within

MINUTE = 75.0
"""Seconds to wait for what happens within a minute."""
SETTLED = 12.0
"""Seconds for which the Node must stay right in the end: a kubelet reports every 10 s."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A fault. begin, end: seconds since the history's begin."""

    kind: str
    begin: float
    end: float


@dataclass
class Outcome:
    """What a history showed."""

    number: int
    planned: Sequence[Planned]
    spans: list[Span] = field(default_factory=list)
    right_after: float = 0.0
    """Seconds from the end of all faults until the Node was right."""
    within: float = 0.0
    """Seconds within which it must be."""
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        begun = min((span.begin for span in self.spans), default=0.0)
        faults = ", ".join(f"{s.kind} {s.begin - begun:.0f}-{s.end - begun:.0f}" for s in self.spans)
        verdict = "WRONG" if self.wrong else "right"
        took = f"after {self.right_after:5.1f} s (at most {self.within:.0f})"
        return f"{self.number:>3} {verdict} {took}: {faults}"


def plan(seed: int, number: int) -> list[Planned]:
    """Draws two to four faults. The kinds take turns as the first one."""
    chance = random.Random(f"{seed}-{number}")
    first = [*FAULTS][number % len(FAULTS)]
    kinds = [first, *chance.sample([k for k in FAULTS if k != first], chance.randint(1, 3))]
    chance.shuffle(kinds)
    planned: list[Planned] = []
    at = 0.0
    # While etcd takes no write, no other fault can begin or end. The kubelet reports only when nothing hinders it.
    for kind in sorted(kinds, key=lambda kind: kind == "nospace"):
        at += chance.uniform(0, 20)
        planned.append(Planned(kind, at, at + chance.uniform(25 if kind == "max_age" else 5, 60)))
    if planned[-1].kind == "nospace":
        after = planned[-1].end
        planned = [p if p.kind == "nospace" else Planned(p.kind, p.begin, max(p.end, after + 1)) for p in planned]
    last = max(p.end for p in planned)
    return [Planned(p.kind, p.begin, last + 1) if p.kind == "runtime" else p for p in planned]


def take(made: Scene, planned: Sequence[Planned]) -> list[Span]:
    """Lets the faults begin and end. Returns them with their times."""
    begun = time.monotonic()
    active: dict[str, tuple[ExitStack, float]] = {}
    spans = []
    moments = [*((p.begin, True, p) for p in planned), *((p.end, False, p) for p in planned)]
    moments.sort(key=lambda moment: moment[0])
    try:
        for at, begins, fault in moments:
            time.sleep(max(0.0, begun + at - time.monotonic()))
            if begins:
                stack, now = ExitStack(), time.time()
                active[fault.kind] = stack, now
                stack.enter_context(FAULTS[fault.kind](made))
                if fault.kind != "nospace" and made.chance.random() < 0.7:
                    made.change()
            else:
                stack, now = active.pop(fault.kind)
                stack.close()
                spans.append(Span(fault.kind, now, time.time()))
    finally:
        for stack, _ in active.values():
            stack.close()
    return sorted(spans, key=lambda span: span.begin)


def judge(made: Scene, watch: NodeWatch, outcome: Outcome) -> None:
    """Waits until the Node is right. Notes how long it took, and what was wrong for too long."""
    end, wanted = max(span.end for span in outcome.spans), quantities(made.changes)
    outcome.within = right_within(outcome.spans)
    try:
        wait_until(lambda: _right_since(watch, made, time.time() - SETTLED), outcome.within + SETTLED + 60, "right")
        outcome.right_after = max(0.0, _right_at(watch, made) - end)
        if outcome.right_after > outcome.within:
            outcome.wrong.append(f"right only after {outcome.right_after:.1f} s")
    except TimeoutError:
        outcome.right_after = time.time() - end
        outcome.wrong.append(f"not right: wanted {wanted}, {_shown(watch.versions[-1])}")
    else:
        try:
            wait_until(lambda: made.s.cli("status").returncode == 0, MINUTE, "status finds nothing wrong", 2.0)
        except TimeoutError:
            outcome.wrong.append(made.s.cli("status").stdout)
    if broken := broken_promise(watch.versions, made.changes, outcome.spans, time.time()):
        outcome.wrong.append(str(broken))


def _right_at(watch: NodeWatch, made: Scene) -> float:
    """Since when the Node has been right; infinity if it is not right."""
    wanted, right_at = quantities(made.changes), float("inf")
    for version in reversed(watch.versions):
        if version.type == "DELETED" or not is_right(version, wanted):
            break
        right_at = version.received
    return right_at


def _right_since(watch: NodeWatch, made: Scene, moment: float) -> bool:
    assert not watch.problems, watch.problems[0]
    return _right_at(watch, made) <= moment


def _shown(version: Version) -> str:
    stored = version.node["status"].get("capacity", {})
    return f"{version.type} {version.published} {stored} {version.allocatable} {version.condition}"


def run(cluster: Cluster, number: int, planned: Sequence[Planned], seed: int = 1) -> Outcome:
    """Runs one history."""
    outcome = Outcome(number, planned)
    chance = random.Random(f"{seed}-{number}-acts")
    try:
        with scene(cluster, {p.kind for p in planned}, chance) as made, watch_node(cluster, made.node) as watch:
            wait_until(lambda: _right_since(watch, made, time.time()), PATIENCE, "all is right at the beginning")
            outcome.spans = take(made, planned)
            judge(made, watch, outcome)
            if outcome.wrong:
                outcome.wrong.append(made.s.log()[-6000:])
                outcome.wrong += [f"{c.at:.1f} {dict(c.quantities)}" for c in made.changes]
                outcome.wrong += [f"{v.received:.1f} {_shown(v)}" for v in watch]
    except Exception:  # noqa: BLE001  # the other histories go on
        outcome.wrong.append(traceback.format_exc())
    return outcome


def _run_some(numbers: Sequence[int], seed: int) -> list[Outcome]:
    """Runs histories one after the other, on a control plane of their own."""
    outcomes = []
    with control_plane(binaries=programs(pinned(), None)) as cluster:
        for number in numbers:
            outcomes.append(run(cluster, number, plan(seed, number), seed))
            print(outcomes[-1], *outcomes[-1].wrong, sep="\n  ", flush=True)
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--histories", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=4, help="control planes side by side")
    parser.add_argument("--only", type=int, action="append", help="the number of a history")
    options = parser.parse_args()
    numbers = options.only or [*range(options.histories)]
    with ThreadPoolExecutor(options.jobs) as pool:
        parts = [numbers[job :: options.jobs] for job in range(options.jobs)]
        outcomes = [o for part in pool.map(_run_some, parts, [options.seed] * options.jobs) for o in part]
    wrong = [outcome.number for outcome in outcomes if outcome.wrong]
    print(f"{len(outcomes)} histories, {len(wrong)} wrong: {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
