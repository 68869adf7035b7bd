"""Lets another writer change the Node at random moments of passes that know it only from a watch.

    python -m tests.cluster.interleavings [--passes N] [--seed N]

The other writer comes after the watch has reported the Node, and before PATCHes. No PATCH may overwrite what the pass
did not know, write a second condition of our type, or leave the condition True beside a number that is not published.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from capacityd.model.node import (
    ANNOTATION,
    CONDITION,
    CONFIGURATION_ANNOTATION,
    Event,
    Node,
    NodeState,
    annotated_quantities,
)
from capacityd.model.quantity import whole_quantity
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.node import open_node
from capacityd.node.documents.node import node_state
from capacityd.schema.config import Settings
from tests.cluster.binaries import pinned
from tests.cluster.controlplane import Cluster, control_plane
from tests.cluster.credentials import node_user
from tests.cluster.releases import programs
from tests.unit.reconcile.doubles import A, B, Service

OTHER = "other.example/card"
_OURS = {ANNOTATION, CONFIGURATION_ANNOTATION}


class OtherWriter:
    """Changes a Node at random, as the kubelet, another agent and a person might."""

    def __init__(self, cluster: Cluster, node: str, chance: random.Random) -> None:
        self._cluster, self._chance = cluster, chance
        self._path = f"/api/v1/nodes/{node}"
        self.made: Counter[str] = Counter()

    def act(self) -> None:
        """Makes one change."""
        action = self._chance.choice((self.capacity, self.allocatable, self.condition, self.annotation, self.theirs))
        action()
        self.made[action.__name__] += 1

    def capacity(self) -> None:
        self._status({"capacity": {self._name(): self._quantity()}})

    def allocatable(self) -> None:
        self._status({"allocatable": {self._name(): self._quantity()}})

    def condition(self) -> None:
        """Sets or removes a condition of our type, or sets another one."""
        ours = {"type": CONDITION, "status": self._chance.choice(("True", "False")), "reason": "Foreign", "message": ""}
        theirs = {"type": "Ready", "status": self._chance.choice(("True", "False")), "reason": "Foreign", "message": ""}
        removed = {"type": CONDITION, "$patch": "delete"}
        self._status({"conditions": [self._chance.choice((ours, ours, theirs, removed))]})

    def annotation(self) -> None:
        text = self._chance.choice((None, json.dumps({self._name(): self._chance.randint(0, 5)}), "{"))
        annotations = self._chance.choice(({ANNOTATION: text}, {"other.example/note": str(self._chance.random())}))
        self._cluster.admin.patch(self._path, {"metadata": {"annotations": annotations}})

    def theirs(self) -> None:
        self._status({key: {OTHER: str(self._chance.randint(0, 9))} for key in ("capacity", "allocatable")})

    def _status(self, change: Mapping[str, object]) -> None:
        self._cluster.admin.patch(f"{self._path}/status", {"status": change}, "strategic")

    def _name(self) -> str:
        return self._chance.choice((A, B))

    def _quantity(self) -> str | None:
        return self._chance.choice((None, "0", "3", "4", "5"))


class Interleaved:
    """A Node at which another writer comes before some of the PATCHes. It checks each PATCH that succeeds.

    known: the Node as the pass knows it. document: returns the Node as it is.
    """

    def __init__(
        self, node: Node, known: NodeState, document: Callable[[], Any], interrupt: Callable[[], None]
    ) -> None:
        self._node, self._known, self._document, self._interrupt = node, known, document, interrupt
        self.name = node.name
        self.reads = self.writes = 0

    def read(self) -> NodeState:
        self.reads += 1
        self._known = self._node.read()
        return self._known

    def check(self, state: NodeState) -> None:
        self._node.check(state)

    def write(self, patch: Sequence[Mapping[str, object]]) -> NodeState:
        self._interrupt()
        before = self._document()
        written = self._node.write(patch)
        self.writes += 1
        check_write(self._known, before, self._document(), written)
        self._known = written
        return written

    def report(self, event: Event, state: NodeState) -> None:
        self._node.report(event, state)


def check_write(known: NodeState, before: Any, after: Any, written: NodeState) -> None:
    """Checks one PATCH. known: the Node as it was planned for. before, after: the Node around it, without other
    writers. written: the response."""
    for key, of in (("capacity", known.capacity or {}), ("allocatable", known.allocatable or {})):
        old, new = (document["status"].get(key, {}) for document in (before, after))
        changed = {name for name in {*old, *new} if old.get(name) != new.get(name)}
        assert changed <= {A, B}, f"another's {key} was changed: {changed}"
        unknown = {name for name in changed if old.get(name) != of.get(name)}
        assert not unknown, f"{key} of {unknown} was overwritten, which the pass did not know"
    old, new = (document["metadata"].get("annotations", {}) for document in (before, after))
    changed = {name for name in {*old, *new} if old.get(name) != new.get(name)}
    assert changed <= _OURS, f"another's annotation was changed: {changed}"
    if ANNOTATION in changed:
        assert old.get(ANNOTATION) == known.annotation, "the annotation was overwritten, which the pass did not know"
    old_conditions, new_conditions = (
        [c for c in document["status"].get("conditions", []) if c["type"] != CONDITION] for document in (before, after)
    )
    assert old_conditions == new_conditions, "another's condition was changed"
    assert sum(c["type"] == CONDITION for c in after["status"].get("conditions", [])) <= 1, "two conditions of our type"
    if written.condition and written.condition.status == "True":
        for name, quantity in annotated_quantities(written.annotation).items():
            for stored in (written.capacity or {}, written.allocatable or {}):
                assert whole_quantity(stored.get(name, "")) == quantity, f"True, although {name} is not {quantity}"


def run(cluster: Cluster, passes: int, seed: int) -> Counter[str]:
    """Makes this many passes. Returns how often what happened. Raises AssertionError if one of them was wrong."""
    chance = random.Random(seed)
    name = cluster.create_node()
    node = open_node(str(cluster.kubeconfig(node_user(name))), None, "no-such-host", None)
    counts: Counter[str] = Counter()
    for number in range(passes):
        try:
            _make_pass(cluster, node, chance, counts)
        except AssertionError as e:
            raise AssertionError(f"pass {number} of seed {seed}: {e}") from e
    return counts


def _make_pass(cluster: Cluster, node: Node, chance: random.Random, counts: Counter[str]) -> None:
    """Makes one pass on the Node, registered anew."""
    document = partial(cluster.node, node.name)
    cluster.admin.delete(f"/api/v1/nodes/{node.name}")
    published = {name: chance.randint(3, 5) for name in (A, B) if chance.random() < 0.7}
    cluster.create_node(node.name, capacity={OTHER: "2"}, status={"conditions": [{"type": "Ready", "status": "True"}]})
    other = OtherWriter(cluster, node.name, chance)
    service = Service()
    service.settings = Settings(lower_after=0.0)
    service.node = node  # type: ignore[assignment]
    if chance.random() < 0.6:
        service.reconcile(1000.0, ("boot",), **_readings(published))
    if chance.random() < 0.5:
        other.act()
    known = node_state(document())
    service.watched_state = known
    for _ in range(chance.choice((0, 0, 1, 2))):
        other.act()
    left = [chance.choice((0, 1, 1, 2))]

    def interrupt() -> None:
        if left[0] and chance.random() < 0.7:
            left[0] -= 1
            other.act()

    interleaved = Interleaved(node, known, document, interrupt)
    service.node = interleaved  # type: ignore[assignment]
    drawn = {name: _reading(chance) for name in "ab"}
    reason = chance.choice(("hardware", "node", "resync"))
    result = service.reconcile(1100.0 + chance.choice((0, 3600)), {reason}, **drawn)
    counts.update(other.made)
    counts["passes"] += 1
    counts["PATCHes"] += interleaved.writes
    counts["passes without a GET"] += interleaved.reads == 0
    counts["failures"] += result.failure is not None


def _readings(published: Mapping[str, int]) -> dict[str, Reading]:
    return {name.partition("/")[2]: Quantity(quantity) for name, quantity in published.items()}


def _reading(chance: random.Random) -> Reading:
    return chance.choice((Quantity(chance.randint(0, 5)), Quantity(chance.randint(3, 5)), Absent("none"), Unknown("x")))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--passes", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with control_plane(binaries=programs(pinned(), None)) as cluster:
        for what, number in run(cluster, options.passes, options.seed).items():
            print(f"{what:<24}{number:>6}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
