"""Short stories for the tests of the judge (tests/support/judge).

A story tells the judge, step by step, what happens on a machine and its Node, and what capacityd does. The judge raises
BrokenPromise at the first step that breaks a promise of docs/explanation.md.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from tests.support.judge import node_view as view
from tests.support.judge.judge import Judge
from tests.support.judge.surroundings import Configuration, ConfiguredResource, Trouble, Writer
from tests.support.nodes import merge, node

A, B = "example.com/a", "example.com/b"
LABEL_A = view.label(A)

_READINGS: Mapping[str, Reading] = {"absent": Absent("none"), "unknown": Unknown("busy")}


class Story:
    """A machine, its Node and a judge. Most methods are one step, and return the story.

    self.at is the time in seconds. A reading is told with has(), before reads_machine() or writes() reads it.
    """

    def __init__(self, judge: Judge | None = None, **configuration: Any) -> None:
        self.judge = judge or Judge()
        self.at = 0.0
        self.node: dict[str, Any] | None = None
        self._readings: dict[str, Reading] = {}
        self.judge.machine_boots(-1000.0)
        self.configure(**configuration)

    # What happens to the machine and the Node

    def waits(self, seconds: float) -> Story:
        """Time passes, and the judge looks once a second."""
        end = self.at + seconds
        while self.at < end:
            self.at = min(end, self.at + 1.0)
            self.judge.time_passes(self.at)
        return self

    def boots(self) -> Story:
        self.judge.machine_boots(self.at)
        return self

    def configure(self, *names: str, adopt: bool = False, label: bool = False, **settings: Any) -> Story:
        resources = {name: ConfiguredResource(adopt, label) for name in names or (A,)}
        settings.setdefault("lower_after", 10.0)
        self.judge.configuration_becomes(self.at, Configuration(**{"resources": resources, **settings}))
        return self

    def has(self, **numbers: int | str) -> Story:
        """The machine has this many of a, b, …; or their reading is "absent" or "unknown"."""
        for letter, number in numbers.items():
            reading = Quantity(number) if isinstance(number, int) else _READINGS[number]
            self._readings[f"example.com/{letter}"] = reading
        self.judge.readings_become(self.at, dict(self._readings))
        return self

    def registers(self, uid: str = "1", **capacity: str) -> Story:
        """A kubelet registers the Node."""
        numbers = {"cpu": "8"} | {f"example.com/{name}": text for name, text in capacity.items()}
        self.node = node(numbers)
        self.node["metadata"]["uid"] = uid
        self.judge.node_becomes(self.at, self.node, Writer.OTHER)
        return self

    def other_writes(self, by: Writer = Writer.OTHER, **changes: Any) -> Story:
        """Another writer changes the Node. changes: the arguments of changed()."""
        self.node = changed(self.node, **changes)
        self.judge.node_becomes(self.at, self.node, by)
        return self

    def begins(self, trouble: Trouble) -> Story:
        self.judge.trouble_begins(self.at, trouble)
        return self

    def ends(self, trouble: Trouble) -> Story:
        self.judge.trouble_ends(self.at, trouble)
        return self

    def has_plugins(self, *names: str) -> Story:
        self.judge.plugins_become(self.at, frozenset(names))
        return self

    # What capacityd does

    def reads_machine(self) -> Story:
        """A pass reads the machine."""
        self.judge.pass_reads(self.at, dict(self._readings))
        return self

    def reads_node(self) -> Story:
        """A pass reads the Node."""
        self.judge.pass_requests(self.at)
        self.judge.pass_sees(self.at, copy.deepcopy(self.node))
        return self

    def writes(self, *, stored: Mapping[str, Any] | None = None, reads_first: bool = True, **changes: Any) -> Story:
        """A pass reads the machine and the Node, and writes the changes.

        reads_first: whether it reads the Node before. stored: what a webhook changes in the written Node.
        """
        assert self.node is not None
        self.reads_machine()
        if reads_first:
            self.reads_node()
        after = changed(self.node, **changes)
        self.judge.pass_requests(self.at)
        self.judge.pass_patches(self.at, self.node, after)
        self.node = after if stored is None else changed(after, **stored)
        self.judge.node_becomes(self.at, self.node, Writer.CAPACITYD)
        return self

    def publishes(self, *, condition: bool | None = True, label: bool = False, **numbers: int) -> Story:
        """A pass writes these numbers of a, b, …, removes all its other keys, and sets the condition.

        condition: whether the condition becomes True; None leaves it. label: whether the pass also writes the labels.
        """
        quantities = {f"example.com/{letter}": number for letter, number in numbers.items()}
        texts = {name: str(number) for name, number in quantities.items()}
        annotated = quantities | ({view.label(name): number for name, number in quantities.items()} if label else {})
        labels = texts if label else {}
        old = {*view.published(self.node)} - annotated.keys()
        gone: dict[str, Any] = {view.resource_of(name): None for name in old}
        after = gone | texts
        changed_labels = {view.resource_of(name): None for name in old if view.is_label(name)} | labels
        self.writes(capacity=after, allocatable=after, labels=changed_labels, annotated=annotated, condition=condition)
        return self

    def shows(self, text: str) -> Story:
        """capacityd shows a text that all users can read."""
        self.judge.capacityd_shows(self.at, text)
        return self


def changed(
    document: Mapping[str, Any] | None,
    *,
    capacity: Mapping[str, str | None] | None = None,
    allocatable: Mapping[str, str | None] | None = None,
    labels: Mapping[str, str | None] | None = None,
    annotated: Mapping[str, int] | str | None = None,
    condition: bool | None = None,
    **rest: object,
) -> dict[str, Any]:
    """The Node with these values. The value None removes a name.

    annotated: the numbers in the annotation, or its text. condition: whether it is True. rest: the Node's new spec.
    """
    assert document is not None
    after: dict[str, Any] = copy.deepcopy(dict(document))
    metadata, status = after["metadata"], after["status"]
    for part, values in ((status["capacity"], capacity), (status["allocatable"], allocatable)):
        merge(part, values or {})
    merge(metadata.setdefault("labels", {}), labels or {})
    if annotated is not None:
        metadata["annotations"][view.PUBLISHED] = annotated if isinstance(annotated, str) else json.dumps(annotated)
    if condition is not None:
        of_others = [other for other in status["conditions"] if other["type"] != view.CONDITION]
        status["conditions"] = [*of_others, {"type": view.CONDITION, "status": str(condition)}]
    if rest:
        after["spec"] = rest
    return after
