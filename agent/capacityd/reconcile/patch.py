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
    changes = plan.written_changes
    resources = {change.key.name: change.desired for change in changes if not change.key.is_label}
    labels = {change.key.name: change.desired for change in changes if change.key.is_label}
    annotations: dict[str, str | None] = {}
    if not memory.is_paused(THE_ANNOTATION, uptime) and not is_annotated(node.annotation, plan.published):
        annotations[ANNOTATION] = annotation_text(plan.published)
    return Patch(
        uid=node.uid,
        resource_version=node.resource_version,
        capacity=_differing(resources, node.capacity),
        allocatable=_differing(resources, node.allocatable),
        labels=labels,
        annotations=annotations,
    )


def _differing(numbers: Mapping[str, int | None], stored: Mapping[str, str]) -> dict[str, int | None]:
    """The numbers that differ from the stored numbers. None stands for no number."""
    differing = {}
    for name, number in numbers.items():
        text = None if number is None else str(number)
        if stored.get(name) != text:
            differing[name] = number
    return differing


def with_hash(patch: Patch, node: NodeState, memory: Memory, inputs: Inputs) -> Patch:
    """The patch, with the hash of the configuration if the Node does not have this hash."""
    is_annotation_denied = memory.is_paused(THE_ANNOTATION, inputs.uptime)
    is_condition_denied = memory.is_paused(THE_CONDITION, inputs.uptime)
    if is_annotation_denied or is_condition_denied:
        return patch
    configured_digest = inputs.config.digest or node.configuration  # a default configuration has no hash
    digest = None if inputs.is_withdrawal else configured_digest
    if digest == node.configuration:
        return patch
    return replace(patch, annotations={**patch.annotations, CONFIGURATION_ANNOTATION: digest})


def with_condition(patch: Patch, node: NodeState, condition: Condition, memory: Memory, inputs: Inputs) -> Patch:
    """The patch, with the condition if the condition differs, its heartbeat is due, or the patch has a new hash."""
    if inputs.is_withdrawal or not inputs.config.settings.condition:
        return replace(patch, removes_conditions=bool(node.conditions))
    is_new = not node.has_only(condition)
    has_new_hash = CONFIGURATION_ANNOTATION in patch.annotations
    if not is_new and not has_new_hash and not is_heartbeat_due(node, inputs.now, inputs.heartbeat_after):
        return patch
    denied = memory.denied.get(THE_CONDITION)
    if denied is not None and denied.still_denied(condition_text(condition), inputs.uptime):
        return patch
    last = node.condition
    if last is not None and last.status == condition.status:  # lastTransitionTime changes only with the status
        condition = replace(condition, transition=last.transition)
    has_several = len(node.conditions) > 1
    return replace(patch, condition=condition, removes_conditions=has_several)
