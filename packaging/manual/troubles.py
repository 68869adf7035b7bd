"""Generates the tables of what can be wrong, and what to do: condition reasons, waits, findings of fleet and alerts.

A reason, a wait or a finding without a text here is a KeyError.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml

from capacityd.model.node import ConditionReason
from capacityd.model.waits import WaitReason
from kubectl_capacityd.fleet.findings import Reason

RULES = Path(__file__).resolve().parents[2] / "conf/prometheus/capacityd-rules.yaml"

_CONDITION = {
    ConditionReason.CONFIGURATION_REJECTED: (
        "the configuration has an error, or configures no resource although the Node has numbers of capacityd",
        "run `capacityd config check`, which lists all errors; correct them, and reload",
    ),
    ConditionReason.OVERWRITTEN: (
        "another writer has changed what capacityd publishes three times within six minutes; another capacityd on a "
        "cloned machine is such a writer",
        "see [another writer keeps changing the Node](troubleshooting.md#another-writer-keeps-changing-the-node)",
    ),
    ConditionReason.UNKNOWN: (
        "a resource could not be read; the number that was published stays",
        "see [a resource is unknown](troubleshooting.md#a-resource-is-unknown)",
    ),
    ConditionReason.REFUSED: (
        "another writer or a device plugin has the resource; capacityd does not write it",
        "see [a resource is refused](troubleshooting.md#a-resource-is-refused)",
    ),
    ConditionReason.DENIED: (
        "the API server, an admission policy or a webhook denies a resource or the annotation, or stores something "
        "else; the other resources are published",
        "see [a resource is denied](troubleshooting.md#a-resource-is-denied)",
    ),
    ConditionReason.BELOW_EXPECTED: (
        "the machine has less of a resource than its `expect`; what was found is published",
        "see [the number is lower than expected](troubleshooting.md#the-number-is-lower-than-expected)",
    ),
    ConditionReason.PUBLISHED: ("nothing", "nothing"),
}
_WAITS = {
    WaitReason.LOWER_AFTER: (
        "a lower number is not written yet, because a device may come back",
        "nothing; a reload does not shorten it",
    ),
    WaitReason.RATE_LIMIT: (
        "nothing is written, because the Node has been written six times within six minutes",
        "look for another writer; a reload writes at once",
    ),
    WaitReason.DENIED: (
        "a number, the annotation or the condition is not sent again yet",
        "allow it, then reload",
    ),
    WaitReason.READ: (
        "a resource, the list of device plugins, or a Node that others have overwritten is not read again yet",
        "what the reason of the condition asks for",
    ),
    WaitReason.START_JITTER: ("the Node is not read for the first time yet", "nothing"),
}
_FINDINGS = {
    Reason.DEVICE_CLASS: (
        "a DeviceClass has the resource's name as its `extendedResourceName`, so dynamic resource allocation serves it "
        "too; it is about the cluster",
        "rename one of the two",
    ),
    Reason.NOT_READY: (
        "the Node is not ready, and the service has not renewed the condition",
        "check whether the machine runs",
    ),
    Reason.HEARTBEAT_OVERDUE: (
        "the Node is ready, but the service has not renewed the condition for longer than `--max-age`",
        "run `systemctl status capacityd` there",
    ),
    Reason.CONDITION_MISSING: (
        "other Nodes of its group have the condition, this one does not",
        "check that capacityd is installed and enabled there, and not set to `observe`",
    ),
    Reason.OVERCOMMITTED: (
        "pods on the Node request more than its capacity, which fell after they were bound",
        "move pods: when the kubelet restarts, it stops those that do not fit",
    ),
    Reason.NOT_AS_PUBLISHED: (
        "capacity, allocatable or the label differs from the annotation `capacityd/published`, or the annotation is "
        "unreadable",
        "the service restores it within seconds; if it happens again, look for another writer",
    ),
    Reason.HEARTBEAT_AHEAD: (
        "the heartbeat is more than 5 minutes in the future",
        "correct the clock of that machine, or of the one that runs `fleet`",
    ),
    Reason.QUANTITY_DIFFERS: (
        "at least four fifths of its group have another quantity, or do not have the resource",
        "count the devices; run `capacityd probe --explain` there",
    ),
    Reason.CONFIGURATION_DIFFERS: (
        "at least four fifths of its group have another configuration",
        "run `systemctl reload capacityd` there, or roll the image out",
    ),
}


def condition_reasons() -> Iterator[str]:
    yield (
        "The status of the condition `CapacityPublished` is True for `Published` and False for all others. If several "
        "reasons apply, it has the first of them in this table, and its message names all."
    )
    yield _table("reason", "what is wrong", ((reason.value, *_CONDITION[reason]) for reason in ConditionReason))


def waits() -> Iterator[str]:
    yield "`status`, `plan` and the journal say what a later pass waits for, and how long. `--json` has these words:"
    yield _table("wait", "what waits", ((reason.value, *_WAITS[reason]) for reason in WaitReason))


def findings() -> Iterator[str]:
    yield "`fleet` also reports the [reason of a condition](#condition-reasons) that is not True. The worst is first:"
    yield _table("finding", "what is wrong", ((reason.value, *_FINDINGS[reason]) for reason in Reason))


def alerts() -> Iterator[str]:
    yield "The alerts of examples/prometheus/capacityd-rules.yaml. Words in *italics* stand for the alert's own values:"
    groups = yaml.safe_load(RULES.read_text())["groups"]
    texts = ((rule["alert"], rule["annotations"]) for group in groups for rule in group["rules"])
    yield _table(
        "alert",
        "what is wrong",
        ((name, f"{_filled(text['summary'])}. {text['description']}", _filled(text["action"])) for name, text in texts),
    )


def _filled(template: str) -> str:
    """Replaces the placeholders of an alert's text by their names."""
    return re.sub(r"\{\{ \$(?:labels\.)?(\w+).*?\}\}", r"*\1*", template)


def _table(kind: str, about: str, rows: Iterable[tuple[str, str, str]]) -> str:
    lines = (f"| `{name}` | {wrong} | {remedy} |" for name, wrong, remedy in rows)
    return "\n".join([f"| {kind} | {about} | what to do |", "|---|---|---|", *lines])
