"""The rows about resources and labels in the report of `status`. Pure."""

from __future__ import annotations

from capacityd.cli.output.status_report import ResourceRow, WaitReport
from capacityd.model.label import is_label, resource_of, resources_first
from capacityd.model.node import NodeState, annotated_quantities
from capacityd.model.plan import Action, Change
from capacityd.model.quantity import plain
from capacityd.model.reading import Quantity, Reading, Unknown, is_below, outcome_of
from capacityd.worker.pass_state import PassStatus


def resource_rows(
    last_pass: PassStatus, node: NodeState | None, *, now: float, uptime: float
) -> tuple[ResourceRow, ...]:
    """A row for each name that the last pass has read or planned. node: the Node as a pass last knew it; None: no pass
    has known it yet.

    now: in seconds since the epoch. uptime: the machine's, in seconds.
    """
    changes = {change.name: change for change in last_pass.changes}
    rows = []
    for name in sorted({*last_pass.readings, *changes}, key=resources_first):
        wait = next((wait for wait in last_pass.waits if wait.name == name and wait.holds_change), None)
        held = WaitReport.of(wait, now=now, uptime=uptime) if wait is not None else None
        rows.append(_row(name, last_pass, node, change=changes.get(name), held=held))
    return tuple(rows)


def _row(
    name: str, last_pass: PassStatus, node: NodeState | None, *, change: Change | None, held: WaitReport | None
) -> ResourceRow:
    """The row for a name. change: None: there is no plan for it yet. held: the wait that holds the change back."""
    reading = last_pass.readings.get(name)
    health = last_pass.health
    cause = reading.cause if isinstance(reading, Unknown) else None
    refused = change is not None and change.action is Action.REFUSE
    denied = name in health.denied
    not_configured = name in health.not_configured
    below_expect = _is_below_expect(name, last_pass, change)
    not_allocatable = name in health.not_allocatable
    if held is not None and cause is None:  # for an unknown resource, the cause is more important
        note = held.text
    elif change is not None and (refused or denied):
        note = f"{'refused' if refused else 'denied'}: {change.reason}"
    else:
        labelled_reading = last_pass.readings.get(resource_of(name)) if is_label(name) else None
        note = _note(reading, change, labelled_reading, observe=last_pass.observe)
    overwritten = None
    if not_allocatable:
        _published, overwritten = health.not_allocatable[name]
    capacity = node.stored(name) if node else None  # of a label: its value
    allocatable = (node.allocatable or {}).get(name) if node else None
    return ResourceRow(
        name=name,
        reading=_reading(reading, change, kept_unconfigured=not_configured),
        expect=last_pass.expect.get(name),
        published=annotated_quantities(node.annotation).get(name) if node else None,
        # The API server returns 1000 as "1k".
        capacity=None if capacity is None else plain(capacity),
        allocatable=None if allocatable is None else plain(allocatable),
        held_until=held.until if held else None,
        cause=cause,
        refused=refused,
        denied=denied,
        not_configured=not_configured,
        below_expect=below_expect,
        not_allocatable=not_allocatable,
        overwritten=overwritten,
        degraded=any((refused, denied, not_configured, below_expect, not_allocatable, cause is not None)),
        note=note,
    )


def _is_below_expect(name: str, last_pass: PassStatus, change: Change | None) -> bool:
    """Whether a resource is less than `expect`, which may be newer than the last plan.

    If the plan has found the resource below the old `expect`, the plan's quantity counts. If the Node keeps another
    quantity than the reading, the answer is unknown, so it is False. Otherwise the reading counts.

    change: None: there is no plan for the name yet.
    """
    reading = last_pass.readings.get(name)
    expect = last_pass.expect.get(name)
    if reading is None or expect is None:
        return False
    if name in last_pass.health.below_expected:
        quantity, _expected_by_plan = last_pass.health.below_expected[name]
        return quantity < expect
    node_keeps_another = change is not None and change.action in (Action.HOLD, Action.REFUSE, Action.DENY)
    if node_keeps_another:
        return False
    return is_below(reading, expect)


def _reading(reading: Reading | None, change: Change | None, *, kept_unconfigured: bool) -> int | str | None:
    """The value of ResourceRow.reading. change: None: there is no plan for the name yet. kept_unconfigured: whether the
    Node keeps a key that nothing configures."""
    if change is not None and is_label(change.name):
        return None  # the row of the label's resource has the reading
    if isinstance(reading, Quantity):
        return reading.value
    if reading is not None:
        return outcome_of(reading).value
    # There is no reading, so nothing that could be read configures the name.
    is_kept = change is not None and change.action is Action.KEEP
    if is_kept and not kept_unconfigured:
        return None  # the plan keeps the key, because the file that configures it may be unreadable
    return "unconfigured"


def _note(reading: Reading | None, change: Change | None, labelled_reading: Reading | None, *, observe: bool) -> str:
    """The reason in the last column, for a change that is neither held back, refused nor denied.

    labelled_reading: the reading of the resource whose quantity this label repeats; None if this is no label.
    """
    if change is not None and observe and change.action.writes:
        result = plain(change.new) if change.new else "removed"
        return f"would be {result}: {change.reason}"  # in observe mode, capacityd writes nothing
    if isinstance(labelled_reading, Quantity):
        return ""  # the label stays as published, like its resource
    if reading is None:
        return change.reason if change is not None and change.action is Action.KEEP else ""
    return reading.warning if isinstance(reading, Quantity) else reading.reason
