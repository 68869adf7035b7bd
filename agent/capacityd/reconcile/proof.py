"""Checks that the condition may be True: everything that is configured is published and stored.

A key for which this can't be shown is in trouble, even if no other rule explains the trouble.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from capacityd.model.key import Key
from capacityd.model.node import ConditionReason, NodeState
from capacityd.model.plan import Trouble
from capacityd.model.published import published_in
from capacityd.model.reading import Quantity, Unknown, is_below
from capacityd.reconcile.inputs import Inputs
from capacityd.reconcile.memory import Memory

_OVERWRITTEN = "another writer keeps changing what is published; another capacityd, on another machine, is one"
"""The text contains no numbers. If it did, two agents would keep replacing each other's condition."""


def troubles_of(
    node: NodeState, inputs: Inputs, memory: Memory, explained: Mapping[Key, Trouble], held: Collection[Key]
) -> tuple[Trouble, ...]:
    """Everything that is wrong with a Node, most urgent first.

    explained: key -> the trouble that its decision names. held: the keys whose reduction `lower_after` delays.
    """
    found = [
        *_configuration_troubles(inputs),
        *_node_troubles(inputs, memory),
        *_key_troubles(node, inputs, explained, held),
        *_shortages(node, inputs, explained, held),
    ]
    urgency = list(ConditionReason)
    return tuple(sorted(found, key=lambda trouble: urgency.index(trouble.reason)))  # a stable sort


def _configuration_troubles(inputs: Inputs) -> Iterator[Trouble]:
    errors = inputs.configuration_errors
    if errors:
        more = f"; and {len(errors) - 1} more" if len(errors) > 1 else ""
        text = f"the configuration has errors: {errors[0]}{more} (capacityd config check)"
        yield Trouble(ConditionReason.CONFIGURATION_REJECTED, text)
    elif not inputs.readings and not inputs.is_withdrawal:
        yield Trouble(ConditionReason.CONFIGURATION_REJECTED, "no resource is configured")


def _node_troubles(inputs: Inputs, memory: Memory) -> Iterator[Trouble]:
    if memory.overwritten_until(inputs.uptime) is not None:
        yield Trouble(ConditionReason.OVERWRITTEN, _OVERWRITTEN)
    # The condition does not report its own denial: if the API server accepted this text, the text would be wrong.
    if memory.annotation_denied:
        yield Trouble(ConditionReason.DENIED, memory.annotation_denied.text)


def _key_troubles(
    node: NodeState, inputs: Inputs, explained: Mapping[Key, Trouble], held: Collection[Key]
) -> Iterator[Trouble]:
    """Yields a trouble for each key that is not right."""
    published = published_in(node.annotation)
    for key in sorted({*inputs.configured_keys, *published, *explained}):
        if key in explained:
            yield explained[key]
        elif not _is_right(key, node, published, inputs, held):
            yield Trouble(ConditionReason.DENIED, f"{node.stored(key).text}, which is not as published", key)


def _is_right(key: Key, node: NodeState, published: Mapping[Key, int], inputs: Inputs, held: Collection[Key]) -> bool:
    """Whether a key is published as read, and stored as published."""
    number = published.get(key)
    if number is not None and not node.stored(key).equals(number):
        return False
    reading = inputs.readings.get(key.name)
    if isinstance(reading, Unknown):
        return key.is_label  # an unknown resource is in trouble, but its label is not
    if key.is_label:
        is_configured = key in inputs.config.labels()
        return number == (published.get(Key(key.name)) if is_configured else None)
    return key in held or number == (reading.value if isinstance(reading, Quantity) else None)


def _shortages(
    node: NodeState, inputs: Inputs, explained: Mapping[Key, Trouble], held: Collection[Key]
) -> Iterator[Trouble]:
    """Yields a trouble for each resource that is less than `expect` and has no other trouble.

    While `lower_after` delays a reduction, the published number is compared with `expect`.
    """
    published = published_in(node.annotation)
    for name, expected in sorted(inputs.config.expectations().items()):
        key, reading = Key(name), inputs.readings.get(name)
        if key in explained or reading is None:
            continue
        if key in held:
            reading = Quantity(published.get(key, 0))
        if is_below(reading, expected):
            number = reading.value if isinstance(reading, Quantity) else 0
            yield Trouble(ConditionReason.BELOW_EXPECTED, f"{number} of {expected}", key)
