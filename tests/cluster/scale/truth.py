"""The expected state of a Node after its whole history, and the differences from it. Pure.

In two cases the outcome depends on timing, so either outcome agrees. capacityd overwrites a second writer's value of
its key, unless the resource goes at that moment: then the key belongs to the second writer. And an unknown resource
keeps the last published quantity, which may be any quantity that the machine has had.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from capacityd.model.node import ANNOTATION, CONDITION, ConditionReason
from tests.cluster.scale.steps import DONGLE, FOREIGN, OURS, SEATS, SLOTS, Resources

Outcome: TypeAlias = int | Literal["absent", "unknown"]

_ALL = "all configured resources are published"


_NAMES = re.compile(r"(?:^|; )(unknown|refused): ([^:]+): ")


@dataclass(slots=True)
class Truth:
    """A machine, its configuration, and what writers other than capacityd wrote to its Node."""

    dongles: int
    seats: int | None
    resources: Resources
    slots: int
    others: dict[str, str | None] = field(default_factory=dict)
    """Key -> the last value by another writer; None: the writer removed it."""
    had: dict[str, set[int]] = field(default_factory=lambda: {name: set() for name in OURS})
    """Resource -> the quantities that it has had."""

    def outcomes(self) -> dict[str, Outcome]:
        """The quantities of the configured resources."""
        by_name: dict[str, Outcome] = {
            DONGLE: self.dongles or "absent",
            SEATS: "unknown" if self.seats is None else self.seats,
            SLOTS: self.slots,
        }
        return {name: by_name[name] for name in self.resources}

    def remember(self) -> None:
        """Remembers the present quantities, which may be published. To be called after each change."""
        for name, outcome in self.outcomes().items():
            if isinstance(outcome, int):
                self.had[name].add(outcome)


def disagreements(truth: Truth, node: Mapping[str, Any]) -> list[str]:
    """The differences between the Node and its expected state, each in words."""
    capacity: Mapping[str, str] = node["status"].get("capacity", {})
    annotation = node["metadata"].get("annotations", {}).get(ANNOTATION, "{}")
    recorded: dict[str, int] = json.loads(annotation)
    outcomes = truth.outcomes()
    differences = []
    refused = []
    for name in OURS:
        outcome, stored, record = outcomes.get(name), capacity.get(name), recorded.get(name)
        if not _agrees(truth, name, stored, record):
            wanted = "not configured" if outcome is None else outcome
            differences.append(f"{name}: {stored} with {record} in the annotation, on the machine it is {wanted}")
        if isinstance(outcome, int) and record is None:
            refused.append(name)
    if unexpected := recorded.keys() - set(OURS):
        differences.append(f"the annotation has {unexpected}")
    if capacity.get(FOREIGN) != truth.others.get(FOREIGN):
        differences.append(f"{FOREIGN}: {capacity.get(FOREIGN)}, its writer left {truth.others.get(FOREIGN)}")
    expected = _condition([name for name, outcome in sorted(outcomes.items()) if outcome == "unknown"], sorted(refused))
    conditions = [c for c in node["status"].get("conditions", []) if c["type"] == CONDITION]
    stored_condition = [(c["status"], c["reason"], _without_reasons(c["message"])) for c in conditions]
    if stored_condition != [expected]:
        differences.append(f"condition: {stored_condition}, not {expected}")
    return differences


def _agrees(truth: Truth, name: str, stored: str | None, record: int | None) -> bool:
    outcome, theirs = truth.outcomes().get(name), truth.others.get(name)
    given_up = record is None and theirs is not None and stored == theirs
    if isinstance(outcome, int):
        return given_up or (stored, record) == (str(outcome), outcome)
    if outcome == "unknown" and record is not None:
        # A value by another writer stays. A key that a writer removed or a kubelet zeroed is restored.
        left = theirs not in (None, "0") and stored == theirs
        return record in truth.had[name] and (stored == str(record) or left)
    return given_up or (stored, record) == (None, None)


def _without_reasons(message: str) -> str:
    """The condition's message with the names that are unknown or refused, but without the reasons."""
    return "; ".join(f"{what}: {names}" for what, names in _NAMES.findall(message)) or message


def _condition(unknown: list[str], refused: list[str]) -> tuple[str, str, str]:
    """The expected status, reason and message of the condition."""
    parts = [f"{what}: {', '.join(names)}" for what, names in (("unknown", unknown), ("refused", refused)) if names]
    if not parts:
        return "True", ConditionReason.PUBLISHED.value, _ALL
    reason = ConditionReason.UNKNOWN if unknown else ConditionReason.REFUSED
    return "False", reason.value, "; ".join(parts)
