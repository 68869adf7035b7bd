"""Checks that the condition may be True: everything that is configured is published and stored.

A key that fails the check is in trouble, even if no other rule explains the trouble.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from capacityd.model.key import Key
from capacityd.model.node import ConditionReason, NodeState
from capacityd.model.plan import Trouble
from capacityd.model.published import published_in
from capacityd.model.reading import Quantity, Unknown, is_below
from capacityd.reconcile.inputs import Inputs


def troubles_of(
    node: NodeState, inputs: Inputs, explained: Collection[Trouble], delayed: Collection[Key]
) -> tuple[Trouble, ...]:
    """Everything that is wrong with a Node, most urgent first.

    explained: the troubles that are known already. delayed: the keys whose reduction `lower_after` delays.
    """
    in_trouble = {trouble.key for trouble in explained}
    found = [
        *_configuration_troubles(inputs),
        *explained,
        *_unexplained(node, inputs, in_trouble, delayed),
        *_shortages(node, inputs, in_trouble, delayed),
    ]
    reasons = list(ConditionReason)  # most urgent first
    return tuple(sorted(found, key=lambda trouble: reasons.index(trouble.reason)))


def _configuration_troubles(inputs: Inputs) -> Iterator[Trouble]:
    errors = inputs.configuration_errors
    if errors:
        others = len(errors) - 1
        more = f"; and {others} more" if others else ""
        text = f"the configuration has errors: {errors[0]}{more} (capacityd config check)"
        yield Trouble(ConditionReason.CONFIGURATION_REJECTED, text)
    elif not inputs.readings and not inputs.is_withdrawal:
        yield Trouble(ConditionReason.CONFIGURATION_REJECTED, "no resource is configured")


def _unexplained(
    node: NodeState, inputs: Inputs, in_trouble: Collection[Key | None], delayed: Collection[Key]
) -> Iterator[Trouble]:
    """Yields a trouble for each key that is wrong without a known trouble."""
    published = published_in(node.annotation)
    for key in sorted({*inputs.configured_keys, *published}):
        if key not in in_trouble and not _is_right(key, node, published, inputs, delayed):
            yield Trouble(ConditionReason.DENIED, f"{node.stored(key).text}, which is not as published", key)


def _is_right(
    key: Key, node: NodeState, published: Mapping[Key, int], inputs: Inputs, delayed: Collection[Key]
) -> bool:
    """Whether a key is published as read, and stored as published."""
    number = published.get(key)
    if number is not None and not node.stored(key).equals(number):
        return False
    reading = inputs.readings.get(key.name)
    if isinstance(reading, Unknown):
        return key.is_label  # an unknown resource is in trouble, but its label is not
    if key in delayed:  # until the reduction, the published number may be higher than the reading
        return True
    expected: int | None = None  # no number
    if key.is_label:
        if key in inputs.config.labels():
            expected = published.get(Key(key.name))
    elif isinstance(reading, Quantity):
        expected = reading.value
    return number == expected


def _shortages(
    node: NodeState, inputs: Inputs, in_trouble: Collection[Key | None], delayed: Collection[Key]
) -> Iterator[Trouble]:
    """Yields a trouble for each resource that is less than `expect` and has no other trouble.

    While `lower_after` delays a reduction, the published number is compared with `expect`.
    """
    published = published_in(node.annotation)
    for name, expected in sorted(inputs.config.expectations().items()):
        key = Key(name)
        reading = inputs.readings.get(name)
        if key in in_trouble or reading is None:
            continue
        if key in delayed:
            reading = Quantity(published.get(key, 0))
        if is_below(reading, expected):
            number = reading.value if isinstance(reading, Quantity) else 0
            yield Trouble(ConditionReason.BELOW_EXPECTED, f"{number} of {expected}", key)
