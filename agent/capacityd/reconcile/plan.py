"""Makes the plan for a Node: what happens to each key, the patch, and the troubles that remain after the patch."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TypeAlias

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

_OVERWRITTEN = "another writer keeps changing what is published; another capacityd, on another machine, is one"
"""The text contains no numbers, because two agents would otherwise keep replacing each other's conditions."""

Names: TypeAlias = Collection[str] | None
"""What may be written, even if it was denied: texts of keys, THE_ANNOTATION or THE_CONDITION. None allows everything
that is not denied."""


def make_plan(
    node: NodeState, device_plugins: Collection[str] | None, memory: Memory, inputs: Inputs, names: Names = None
) -> Plan:
    """Makes the plan.

    device_plugins: the names that device plugins have registered; None if their list is unreadable. memory: the memory
    of this Node (Memory.of_node()). names: what may be written; None for everything that is not denied.
    """
    decisions = _decisions(node, device_plugins, memory, inputs, names)
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
        due=tuple(decision.entry.key for decision in decisions if decision.is_due),
    )
    explained = [decision.trouble for decision in decisions if decision.trouble]
    plan = _with_patch(plan, explained, memory, inputs, names)
    has_writes = plan.patch is not None or bool(plan.due)
    if names is None and has_writes and inputs.uptime < memory.limited_until:
        return _limited(plan, Wait(memory.limited_until, WaitReason.RATE_LIMIT), inputs.uptime)
    return plan


def _decisions(
    node: NodeState, device_plugins: Collection[str] | None, memory: Memory, inputs: Inputs, names: Names
) -> list[Decision]:
    """The decisions about all configured and published keys. Labels come last, because they follow their resources."""
    before = memory.published_on(node)
    annotated = published_in(node.annotation)
    is_reconfigured = node.configuration not in (None, inputs.config.digest)

    def is_plugins(key: Key) -> bool | None:
        if key.is_label:
            return False
        return None if device_plugins is None else key.name in device_plugins

    def decision(key: Key, reading: Reading | None) -> Decision:
        entry = Entry(
            key,
            reading,
            published=before.get(key),
            annotated=annotated.get(key),
            stored=node.stored(key),
            adopts=inputs.config.adopts(key.name),
            lower_since=memory.lower_since.get(key),
            is_plugins=is_plugins(key),
            is_reconfigured=is_reconfigured,
        )
        return _allowed(decide(entry, inputs), memory, inputs.uptime, names)

    keys = sorted({*inputs.configured_keys, *before})
    resources = [decision(key, inputs.readings.get(key.name)) for key in keys if not key.is_label]
    published = {decided.entry.key.name: decided.published for decided in resources}
    labels = [decision(key, _label_reading(key, published, inputs)) for key in keys if key.is_label]
    return [*resources, *labels]


def _label_reading(label: Key, published: Mapping[str, int | None], inputs: Inputs) -> Reading | None:
    """A label's reading: the number of its resource after this plan; None if nothing configures the label.

    An unknown resource has an unknown label, because an error in the configuration may hide whether the label is
    configured. published: resource -> number; None if the resource is not published.
    """
    reading = inputs.readings.get(label.name)
    if isinstance(reading, Unknown):
        return reading
    if label not in inputs.config.labels():
        return None
    number = published.get(label.name)
    return Absent(f"{label.name} is not published") if number is None else Quantity(number)


def _allowed(decision: Decision, memory: Memory, uptime: float, names: Names) -> Decision:
    """The decision, with the action DENY if the change is denied, or HOLD if the change may not be written now."""
    key, published = decision.entry.key, decision.entry.published
    decision = replace(decision, trouble=decision.trouble or _denied_reduction(decision, memory))
    if names is not None and str(key) in names:
        return decision
    if not decision.action.writes:
        return decision if _contains(names, THE_ANNOTATION) else replace(decision, published=published)
    if why := _why_denied(decision, memory, uptime):
        denial = memory.denied.get(str(key))
        return replace(
            decision,
            instead=Action.DENY,
            published=published,
            reason=why,
            trouble=decision.trouble or Trouble(ConditionReason.DENIED, why, key),
            is_due=denial is not None and not denial.holds(sent_text(decision.change), uptime),
        )
    if names is None:
        return decision
    return replace(decision, instead=Action.HOLD, published=published)


def _contains(names: Names, name: str) -> bool:
    """Whether the name may be written. None allows every name."""
    return names is None or name in names


def _denied_reduction(decision: Decision, memory: Memory) -> Trouble | None:
    """The trouble of a delayed reduction that was denied before: a webhook stores a higher number instead."""
    reading, denial = decision.entry.reading, memory.denied.get(str(decision.entry.key))
    lower = str(reading.value) if isinstance(reading, Quantity) else "none"
    if decision.wait is None or denial is None or denial.sent != lower:
        return None
    return Trouble(ConditionReason.DENIED, denial.text, decision.entry.key)


def _why_denied(decision: Decision, memory: Memory, uptime: float) -> str:
    """Why a change, or its entry in the annotation, is denied; "" if both are allowed."""
    number = memory.denied.get(str(decision.entry.key))
    if number is not None:
        return number.text
    annotation = memory.denied.get(THE_ANNOTATION)
    changes_annotation = decision.published != decision.entry.published
    if annotation is not None and changes_annotation and annotation.is_paused(uptime):
        return annotation.text
    return ""


def _with_patch(plan: Plan, explained: list[Trouble], memory: Memory, inputs: Inputs, names: Names) -> Plan:
    """The plan with its patch, and with the troubles that remain after the patch.

    explained: the troubles that are known already.
    """
    node = plan.node
    patch = patch_of_numbers(plan, memory, inputs.uptime)
    after = node.after(patch)
    denied = memory.denied.get(THE_ANNOTATION)
    if denied is not None and not is_annotated(node.annotation, plan.published):
        explained.append(Trouble(ConditionReason.DENIED, denied.text))
        after = replace(after, annotation=annotation_text(plan.published))  # no further trouble reports the annotation
    if memory.overwritten_until(inputs.uptime) is not None:
        explained.append(Trouble(ConditionReason.OVERWRITTEN, _OVERWRITTEN))
    # The condition does not report its own denial: if the API server accepted this text, the text would be wrong.
    held = {wait.key for wait in plan.waits if wait.key}
    troubles = troubles_of(after, inputs, explained, held)
    plan = replace(plan, troubles=troubles)
    if plan.changes or node.conditions or inputs.configuration_errors:
        if _contains(names, THE_ANNOTATION):
            patch = with_hash(patch, node, memory, inputs)
        if _contains(names, THE_CONDITION):
            patch = with_condition(patch, node, condition_of(troubles, inputs.now), memory, inputs)
    return plan if patch.is_empty else replace(plan, patch=patch)


def _limited(plan: Plan, limit: Wait, uptime: float) -> Plan:
    """The plan without its patch, while the limit of writes holds it back."""
    held = {change.key for change in plan.written_changes}
    text = limit.text(uptime)
    changes = tuple(
        replace(change, action=Action.HOLD, reason=f"{change.reason}; {text}") if change.key in held else change
        for change in plan.changes
    )
    waits = tuple(replace(limit, key=key) for key in sorted(held)) or (limit,)
    return replace(plan, changes=changes, patch=None, is_limited=True, due=(), waits=(*plan.waits, *waits))
