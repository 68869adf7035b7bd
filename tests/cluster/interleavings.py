"""Another writer changes the Node at random moments of passes.

    python -m tests.cluster.interleavings [--passes N] [--seed N]

The other writer acts after a pass has read the Node, and before a PATCH. The judge must find no broken promise.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Mapping
from types import SimpleNamespace
from typing import cast

from capacityd.model.node import ANNOTATION, CONDITION, Event, Node, NodeState, Patch
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.node.api_node import ApiNode
from capacityd.node.documents.patch import patch_document
from capacityd.node.identity import Machine
from tests.cluster.binaries import pinned
from tests.cluster.controlplane import Cluster, control_plane
from tests.cluster.credentials import node_user
from tests.cluster.judged import JudgedNode
from tests.cluster.releases import programs
from tests.support.judge.surroundings import Configuration, ConfiguredResource, Writer
from tests.support.model.answers import STRATEGIC
from tests.unit.reconcile.doubles import A, B, ServerNode, Service

OTHER = "other.example/card"


class OtherWriter:
    """Changes a Node at random, as the kubelet, another agent and a person might."""

    def __init__(self, cluster: Cluster, node: str, chance: random.Random) -> None:
        self._cluster, self._chance = cluster, chance
        self._path = f"/api/v1/nodes/{node}"
        self.counts: Counter[str] = Counter()
        """How often it has made each kind of change."""

    def act(self) -> None:
        """Makes one change."""
        actions = (self.capacity, self.allocatable, self.condition, self.annotation, self.other_resource)
        action = self._chance.choice(actions)
        action()
        self.counts[action.__name__] += 1

    def capacity(self) -> None:
        self._status({"capacity": {self._name(): self._quantity()}})

    def allocatable(self) -> None:
        self._status({"allocatable": {self._name(): self._quantity()}})

    def condition(self) -> None:
        """Sets or removes the condition of capacityd's type, or sets another one."""
        ours = {"type": CONDITION, "status": self._chance.choice(("True", "False")), "reason": "Foreign", "message": ""}
        theirs = {"type": "Ready", "status": self._chance.choice(("True", "False")), "reason": "Foreign", "message": ""}
        removed = {"type": CONDITION, "$patch": "delete"}
        self._status({"conditions": [self._chance.choice((ours, ours, theirs, removed))]})

    def annotation(self) -> None:
        """Changes capacityd's annotation, or another one."""
        one_number = json.dumps({self._name(): self._chance.randint(0, 5)})
        text = self._chance.choice((None, one_number, "{"))  # "{" is no JSON
        annotations = self._chance.choice(({ANNOTATION: text}, {"other.example/note": str(self._chance.random())}))
        self._cluster.admin.patch(self._path, {"metadata": {"annotations": annotations}})

    def other_resource(self) -> None:
        self._status({key: {OTHER: str(self._chance.randint(0, 9))} for key in ("capacity", "allocatable")})

    def _status(self, change: Mapping[str, object]) -> None:
        self._cluster.admin.patch(f"{self._path}/status", {"status": change}, "strategic")

    def _name(self) -> str:
        return self._chance.choice((A, B))

    def _quantity(self) -> str | None:
        return self._chance.choice((None, "0", "3", "4", "5"))


class Interleaved:
    """A Node on which another writer acts before some of the PATCHes. A judge sees everything."""

    def __init__(self, node: Node, judged: JudgedNode, other: OtherWriter, chance: random.Random) -> None:
        self._node, self._judged, self._other, self._chance = node, judged, other, chance
        self.interruptions = 0
        """Before how many more PATCHes the other writer may act."""
        self.writes = 0

    def identify(self) -> str | None:
        return self._node.identify()

    def read(self) -> NodeState:
        state = self._node.read()
        self._judged.tell_node_read()
        return state

    def write(self, patch: Patch) -> NodeState:
        is_disturbed = self.interruptions > 0 and self._chance.random() < 0.7
        if is_disturbed:
            self.interruptions -= 1
            self.disturb()
        self._judged.tell_patch(STRATEGIC, patch_document(patch))
        state = self._node.write(patch)
        self.writes += 1
        self._judged.tell_node_changed(Writer.CAPACITYD)
        self._judged.tell_node_read()
        return state

    def report(self, event: Event, state: NodeState) -> None:
        self._node.report(event, state)

    def disturb(self) -> None:
        """The other writer acts once."""
        self._other.act()
        self._judged.tell_node_changed(Writer.OTHER)


def run(cluster: Cluster, passes: int, seed: int) -> Counter[str]:
    """Makes this many passes. Returns how often each outcome came. Raises AssertionError if a pass was wrong."""
    chance = random.Random(seed)
    name = cluster.create_node()
    node = ApiNode(str(cluster.kubeconfig(node_user(name))), None, Machine("no-such-host", machine_id=None))
    counts: Counter[str] = Counter()
    for number in range(passes):
        try:
            counts += _make_pass(cluster, node, name, chance)
        except AssertionError as e:
            raise AssertionError(f"pass {number} of seed {seed}: {e}") from e
    return counts


def _make_pass(cluster: Cluster, node: Node, name: str, chance: random.Random) -> Counter[str]:
    """Makes one pass on the Node of this name, registered anew. Returns how often each outcome came."""
    cluster.admin.delete(f"/api/v1/nodes/{name}")
    cluster.create_node(name, capacity={OTHER: "2"}, status={"conditions": [{"type": "Ready", "status": "True"}]})
    clock = SimpleNamespace(now=1000.0)
    configuration = Configuration({key: ConfiguredResource() for key in (A, B)})
    judged = JudgedNode(cluster, name, configuration, at=lambda: clock.now)
    other = OtherWriter(cluster, name, chance)
    interleaved = Interleaved(node, judged, other, chance)
    service = Service(cast(ServerNode, interleaved))
    service.lower_after = 0.0
    published = {letter: Quantity(chance.randint(3, 5)) for letter in "ab" if chance.random() < 0.7}
    has_published_before = chance.random() < 0.6
    if has_published_before:
        judged.tell_pass_reads({A: Absent("none"), B: Absent("none"), **_by_resource(published)})
        service.make_pass(clock.now, **published)
        service.restart()  # JudgedNode.tell_pass_reads() assumes a pass without a memory
    for _ in range(chance.choice((0, 0, 1, 2, 3))):
        interleaved.disturb()
    interleaved.interruptions = chance.choice((0, 1, 1, 2))
    clock.now = 1100.0 + chance.choice((0, 3600))  # an hour later, the condition's heartbeat is due, too
    readings = {letter: _reading(chance) for letter in "ab"}
    judged.tell_pass_reads(_by_resource(readings))
    end = service.make_pass(clock.now, **readings)
    counts = {"passes": 1, "PATCHes": interleaved.writes, "failures": int(end.error is not None)}
    return other.counts + Counter(counts)


def _by_resource(readings: Mapping[str, Reading]) -> dict[str, Reading]:
    """The readings by the resources' names. readings: by letter."""
    return {f"example.com/{letter}": reading for letter, reading in readings.items()}


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
