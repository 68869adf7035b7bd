"""The Kubernetes Events of a pass: each published change, and each change of what the condition is about. Pure.

`kubectl describe` shows an Event as one line of at most 1,024 bytes. The line ends with the number of changes that do
not fit.
"""

from __future__ import annotations

from collections.abc import Sequence

from capacityd.model.node import Condition, Event, NodeState
from capacityd.model.plan import Action, Change, Plan

_MAX_MESSAGE_BYTES = 1000  # the API server takes 1,024
_MAX_TEXTS = 40
"""Maximum number of texts in a message."""
_LOWERED = "; pods that no longer fit are stopped at the kubelet's next start"
"""The end of a message about changes of which one lowers a number."""


def events(plan: Plan, condition_before: Condition | None, node: NodeState, *, is_news: bool) -> list[Event]:
    """The Events of a pass that has written the Node.

    plan: with all changes that were written. condition_before: before the pass. node: the Node after the pass. is_news:
    whether the condition is about something else than the last one that this service wrote.
    """
    found = []
    if changes := plan.written_changes:
        end = _LOWERED if any(_lowers(change) for change in changes) else ""
        message = _joined([change.summary for change in changes], end)
        found.append(Event("Normal", "CapacityChanged", message, action="Publish"))
    condition = node.condition
    is_changed = condition_before is None or condition is None or not condition_before.says(condition)
    if condition is not None and is_changed and is_news:
        kind = "Normal" if condition.status == "True" else "Warning"
        found.append(Event(kind, condition.reason, _joined([condition.message], ""), action="Publish"))
    return found


def _joined(texts: Sequence[str], end: str) -> str:
    """Joins as many texts as fit, the number of texts left out, and the end."""
    for count in range(min(len(texts), _MAX_TEXTS), 0, -1):
        message = f"{'; '.join(texts[:count])}{_left_out(len(texts) - count)}{end}"
        if len(message.encode()) <= _MAX_MESSAGE_BYTES:
            return message
    # Not even the first text fits, so it is cut.
    rest = f"…{_left_out(len(texts) - 1)}{end}"
    room = _MAX_MESSAGE_BYTES - len(rest.encode())
    start = texts[0].encode()[:room].decode(errors="ignore")  # without a character that the cut has split
    return start + rest


def _left_out(count: int) -> str:
    """How many texts a message leaves out, as its continuation; "" for none."""
    return f"; and {count} more, see capacityd status" if count else ""


def _lowers(change: Change) -> bool:
    """Whether the change sets a lower number, so that pods may be stopped at the kubelet's next start.

    A removed key stops no pod: the kubelet does not check extended resources that its Node does not have.
    """
    if change.key.is_label or change.action is not Action.SET or change.desired is None:
        return False
    stored = change.stored.number
    return stored is not None and change.desired < stored
