"""Makes the plan for a Node: what happens to each key, the patch, and the troubles that remain after the patch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from capacityd.model.key import Key
from capacityd.model.node import ConditionReason, NodeState
from capacityd.model.pace import SHORTEST_PAUSE
from capacityd.model.plan import Action, Plan, Trouble
from capacityd.model.published import annotation_text, is_annotated, published_in
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.model.reasons import RetryCause
from capacityd.model.waits import Wait, WaitReason
from capacityd.reconcile.condition import condition_of
from capacityd.reconcile.decide import decide
from capacityd.reconcile.decision import Decision, Entry
from capacityd.reconcile.denial import THE_ANNOTATION, THE_CONDITION, sent_text
from capacityd.reconcile.inputs import Inputs
from capacityd.reconcile.memory import Memory
from capacityd.reconcile.patch import patch_of_numbers, with_condition, with_hash
from capacityd.reconcile.proof import troubles_of

_OVERWRITTEN = "another writer, such as capacityd on another machine, keeps changing what is published"
"""The text contains no numbers, because two agents would otherwise keep replacing each other's conditions."""


def make_plan(
    node: NodeState,
    device_plugins: Collection[str] | None,
    memory: Memory,
    inputs: Inputs,
    only: Collection[str] | None = None,
) -> Plan:
    """Makes the plan.

    device_plugins: the names that device plugins have registered; None if their list is unreadable. memory: the memory
    of this Node (Memory.with_node()). only: texts of keys, THE_ANNOTATION or THE_CONDITION. The plan writes only these,
    even if they were denied. None: the plan writes everything that is not denied.
    """
    decisions = _decisions(node, device_plugins, memory, inputs, only)
    changes = tuple(decision.change for decision in decisions)
    waits = [decision.wait for decision in decisions if decision.wait]
    if device_plugins is None and any(change.action is Action.REFUSE for change in changes):
        # The list may become readable without an event.
        waits.append(Wait(inputs.uptime + SHORTEST_PAUSE[RetryCause.OTHER], WaitReason.READ))
    plan = Plan(
        node,
        changes,
        patch=None,
        published={change.key: change.published for change in changes if change.published is not None},
        waits=tuple(waits),
        retried=tuple(decision.entry.key for decision in decisions if decision.is_retried),
    )
    decided_troubles = [decision.trouble for decision in decisions if decision.trouble]
    plan = _with_patch(plan, decided_troubles, memory, inputs, only)
    is_first_plan = only is None  # the limit holds back a whole pass, but not its later patches
    has_writes = plan.patch is not None or bool(plan.retried)
    is_limited = inputs.uptime < memory.limited_until
    if is_first_plan and has_writes and is_limited:
        limit = Wait(memory.limited_until, WaitReason.RATE_LIMIT)
        return _held_back(plan, limit, inputs.uptime)
    return plan


def _decisions(
    node: NodeState,
    device_plugins: Collection[str] | None,
    memory: Memory,
    inputs: Inputs,
    only: Collection[str] | None,
) -> list[Decision]:
    """The decisions about all configured and published keys. Labels come last, because they follow their resources."""
    published_before = memory.published_on(node)
    annotated = published_in(node.annotation)
    is_reconfigured = node.configuration not in (None, inputs.config.digest)

    def has_device_plugin(key: Key) -> bool | None:
        if key.is_label:
            return False
        if device_plugins is None:
            return None
        return key.name in device_plugins

    def decision(key: Key, reading: Reading | None) -> Decision:
        entry = Entry(
            key,
            reading,
            published=published_before.get(key),
            annotated=annotated.get(key),
            stored=node.stored(key),
            adopts=inputs.config.adopts(key.name),
            lower_since=memory.lower_since.get(key),
            has_device_plugin=has_device_plugin(key),
            is_reconfigured=is_reconfigured,
        )
        return _with_override(decide(entry, inputs), memory, inputs.uptime, only)

    keys = sorted({*inputs.configured_keys, *published_before})
    resources = [decision(key, inputs.readings.get(key.name)) for key in keys if not key.is_label]
    published_after = {resource.entry.key.name: resource.published for resource in resources}
    labels = [decision(key, _label_reading(key, published_after, inputs)) for key in keys if key.is_label]
    return [*resources, *labels]


def _label_reading(label: Key, published: Mapping[str, int | None], inputs: Inputs) -> Reading | None:
    """A label's reading: the number of its resource after this plan; None if nothing configures the label.

    An unknown resource has an unknown label, because an error in the configuration may hide whether the label is
    configured. published: resource -> number after this plan; None if the resource is not published.
    """
    reading = inputs.readings.get(label.name)
    if isinstance(reading, Unknown):
        return reading
    if label not in inputs.config.labels():
        return None
    number = published.get(label.name)
    if number is None:
        return Absent(f"{label.name} is not published")
    return Quantity(number)


def _with_override(decision: Decision, memory: Memory, uptime: float, only: Collection[str] | None) -> Decision:
    """The decision, with the action DENY if its change is denied, or HOLD if this plan may not write its change."""
    key = decision.entry.key
    published = decision.entry.published
    trouble = decision.trouble or _trouble_of_denied_reduction(decision, memory)
    decision = replace(decision, trouble=trouble)
    if only is not None and str(key) in only:
        return decision
    if not decision.action.writes:
        if only is None or THE_ANNOTATION in only:
            return decision
        return replace(decision, published=published)  # the annotation keeps its entry for this key
    why_denied = _why_denied(decision, memory, uptime)
    if why_denied:
        denial = memory.denied.get(str(key))
        is_retried = denial is not None and not denial.still_denied(sent_text(decision.change), uptime)
        return replace(
            decision,
            override=Action.DENY,
            published=published,
            reason=why_denied,
            trouble=trouble or Trouble(ConditionReason.DENIED, why_denied, key),
            is_retried=is_retried,
        )
    if only is None:
        return decision
    return replace(decision, override=Action.HOLD, published=published)  # another plan of the pass may make the change


def _trouble_of_denied_reduction(decision: Decision, memory: Memory) -> Trouble | None:
    """The trouble of a delayed reduction, if a webhook denied it before by storing a higher number; otherwise None."""
    key = decision.entry.key
    denial = memory.denied.get(str(key))
    if decision.wait is None or denial is None:
        return None
    reading = decision.entry.reading
    lower_number = str(reading.value) if isinstance(reading, Quantity) else "none"
    if denial.sent != lower_number:
        return None
    return Trouble(ConditionReason.DENIED, denial.explanation, key)


def _why_denied(decision: Decision, memory: Memory, uptime: float) -> str:
    """Why a change, or its entry in the annotation, is denied; "" if both are allowed."""
    denial = memory.denied.get(str(decision.entry.key))
    if denial is not None:
        return denial.explanation
    changes_annotation = decision.published != decision.entry.published
    if changes_annotation and memory.is_paused(THE_ANNOTATION, uptime):
        return memory.denied[THE_ANNOTATION].explanation
    return ""


def _with_patch(
    plan: Plan, decided_troubles: Sequence[Trouble], memory: Memory, inputs: Inputs, only: Collection[str] | None
) -> Plan:
    """The plan with its patch, and with the troubles that remain after the patch.

    decided_troubles: those that the decisions report.
    """
    explained = list(decided_troubles)
    node = plan.node
    patch = patch_of_numbers(plan, memory, inputs.uptime)
    node_after = node.after(patch)
    denied = memory.denied.get(THE_ANNOTATION)
    if denied is not None and not is_annotated(node.annotation, plan.published):
        explained.append(Trouble(ConditionReason.DENIED, denied.explanation))
        # troubles_of() must not report the annotation again, key by key.
        node_after = replace(node_after, annotation=annotation_text(plan.published))
    if memory.overwritten_until(inputs.uptime) is not None:
        explained.append(Trouble(ConditionReason.OVERWRITTEN, _OVERWRITTEN))
    # `explained` lacks a denial of the condition: a condition that reports its own denial would be wrong once stored.
    delayed = {wait.key for wait in plan.waits if wait.key}
    troubles = troubles_of(node_after, inputs, explained, delayed)
    plan = replace(plan, troubles=troubles)
    if plan.changes or node.conditions or inputs.configuration_errors:
        if only is None or THE_ANNOTATION in only:
            patch = with_hash(patch, node, memory, inputs)
        if only is None or THE_CONDITION in only:
            condition = condition_of(troubles, inputs.now)
            patch = with_condition(patch, node, condition, memory, inputs)
    if patch.is_empty:
        return plan
    return replace(plan, patch=patch)


def _held_back(plan: Plan, limit: Wait, uptime: float) -> Plan:
    """The plan without its patch, while the limit of writes holds it back."""
    why_held = limit.text(uptime)
    changes = []
    waits = []
    for change in plan.changes:
        if change.action.writes:
            waits.append(replace(limit, key=change.key))
            changes.append(replace(change, action=Action.HOLD, reason=f"{change.reason}; {why_held}"))
        else:
            changes.append(change)
    if not waits:
        waits = [limit]
    return replace(
        plan,
        changes=tuple(changes),
        patch=None,
        is_limited=True,
        retried=(),
        waits=(*plan.waits, *waits),
    )
