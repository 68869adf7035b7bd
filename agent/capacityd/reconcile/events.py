"""The Kubernetes Events of a pass: one lists the written changes, another reports a changed condition.

`kubectl describe` shows an Event as one line.
"""

from __future__ import annotations

from capacityd.model.node import Condition, Event, NodeState
from capacityd.model.plan import Action, Change, Plan

_MAX_MESSAGE_BYTES = 1000  # the API server accepts 1,024
_CUT = "… (see capacityd status)"
"""What replaces the rest of a message that is too long."""
_LOWERED = "; pods that no longer fit are stopped at the kubelet's next start"
"""The end of a message about changes, if a change lowers a number."""


def events(plan: Plan, condition_before: Condition | None, node: NodeState, *, is_news: bool) -> list[Event]:
    """The Events of a pass that has written the Node.

    plan: contains all written changes. condition_before: the condition before the pass. node: the Node after the pass.
    is_news: whether the reason or the keys in the condition differ from those that this service last wrote.
    """
    found = []
    changes = plan.written_changes
    if changes:
        end = _LOWERED if any(_lowers(change) for change in changes) else ""
        message = _message("; ".join(change.summary for change in changes), end)
        found.append(Event("Normal", "CapacityChanged", message, action="Publish"))
    condition = node.condition
    if condition is None or not is_news:
        return found
    if condition_before is None or not condition_before.equals_apart_from_times(condition):
        event_type = "Normal" if condition.status == "True" else "Warning"
        found.append(Event(event_type, condition.reason, _message(condition.message), action="Publish"))
    return found


def _message(text: str, end: str = "") -> str:
    """The text and the end. Cuts the text if the message would be too long."""
    message = f"{text}{end}"
    if len(message.encode()) <= _MAX_MESSAGE_BYTES:
        return message
    cut_end = f"{_CUT}{end}"
    room = _MAX_MESSAGE_BYTES - len(cut_end.encode())
    beginning = text.encode()[:room].decode(errors="ignore")  # drops a character that the cut has split
    return f"{beginning}{cut_end}"


def _lowers(change: Change) -> bool:
    """Whether the change sets a lower number. The kubelet may then stop pods at its next start.

    A removed key stops no pod, because the kubelet does not check extended resources that the Node lacks.
    """
    if change.key.is_label or change.action is not Action.SET or change.desired is None:
        return False
    stored = change.stored.number
    return stored is not None and change.desired < stored
