"""Builds the patch of a plan: what differs on the Node, except what is denied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from capacityd.model.node import ANNOTATION, CONFIGURATION_ANNOTATION, Condition, NodeState, Patch
from capacityd.model.plan import Plan
from capacityd.model.published import annotation_text, is_annotated
from capacityd.reconcile.condition import is_heartbeat_due
from capacityd.reconcile.denial import THE_ANNOTATION, THE_CONDITION, condition_text
from capacityd.reconcile.inputs import Inputs
from capacityd.reconcile.memory import Memory


def patch_of_numbers(plan: Plan, memory: Memory, uptime: float) -> Patch:
    """A patch with the numbers of the plan, and with the annotation that lists them."""
    node = plan.node
    numbers = {change.key: change.desired for change in plan.written_changes}
    resources = {key.name: number for key, number in numbers.items() if not key.is_label}
    annotations: dict[str, str | None] = {}
    if not memory.is_paused(THE_ANNOTATION, uptime) and not is_annotated(node.annotation, plan.published):
        annotations[ANNOTATION] = annotation_text(plan.published)
    return Patch(
        uid=node.uid,
        resource_version=node.resource_version,
        capacity=_differing(resources, node.capacity),
        allocatable=_differing(resources, node.allocatable),
        labels={key.name: number for key, number in numbers.items() if key.is_label},
        annotations=annotations,
    )


def _differing(numbers: Mapping[str, int | None], stored: Mapping[str, str]) -> dict[str, int | None]:
    """The numbers that differ from the stored numbers. None stands for no number."""
    texts = {name: None if number is None else str(number) for name, number in numbers.items()}
    return {name: number for name, number in numbers.items() if stored.get(name) != texts[name]}


def with_hash(patch: Patch, node: NodeState, memory: Memory, inputs: Inputs) -> Patch:
    """The patch, with the hash of the configuration if the Node does not have this hash."""
    digest = None if inputs.is_withdrawal else inputs.config.digest or node.configuration
    is_denied = any(memory.is_paused(name, inputs.uptime) for name in (THE_ANNOTATION, THE_CONDITION))
    if is_denied or digest == node.configuration:
        return patch
    return replace(patch, annotations={**patch.annotations, CONFIGURATION_ANNOTATION: digest})


def with_condition(patch: Patch, node: NodeState, condition: Condition, memory: Memory, inputs: Inputs) -> Patch:
    """The patch, with the condition if the condition differs, its heartbeat is due, or the patch has a new hash."""
    if inputs.is_withdrawal or not inputs.config.settings.condition:
        return replace(patch, removes_conditions=bool(node.conditions))
    is_stored = node.says(condition) and CONFIGURATION_ANNOTATION not in patch.annotations
    if is_stored and not is_heartbeat_due(node, inputs.now, inputs.heartbeat_after):
        return patch
    denied = memory.denied.get(THE_CONDITION)
    if denied is not None and denied.holds(condition_text(condition), inputs.uptime):
        return patch
    last = node.condition
    if last is not None and last.status == condition.status:  # lastTransitionTime changes only with the status
        condition = replace(condition, transition=last.transition)
    has_several = len(node.conditions) > 1
    return replace(patch, condition=condition, removes_conditions=has_several)
