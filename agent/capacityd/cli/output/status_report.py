"""The report of `status`, and its rows about resources and labels."""

from __future__ import annotations

from dataclasses import dataclass

from capacityd.model.codec import encode
from capacityd.model.errors import Cause
from capacityd.model.key import Key
from capacityd.model.messages import NO_STATUS, ServiceStatus
from capacityd.model.node import ConditionReason
from capacityd.model.plan import Change
from capacityd.model.reading import Quantity, Reading, Unknown
from capacityd.worker.pass_state import PassStatus


@dataclass(frozen=True, slots=True)
class ResourceRow:
    """A resource or a label that is configured or published. The fields are those of `status --json`."""

    name: str
    kind: str
    """Key.kind, which is "resource" or "label"."""
    reading: int | str | None
    """The number, "absent", "unknown" or "unconfigured"; None for a label."""
    expect: int | None
    """The value of `expect`; None if it is not configured."""
    published: int | None
    """The number in the Node's annotation. Here and in the next two fields, None means that the Node has no such value,
    or that the Node is unknown."""
    capacity: str | None
    """The number in capacity, or the label's value."""
    allocatable: str | None
    """The number in allocatable, or the label's value."""
    cause: Cause | None
    """The cause of an unknown reading; otherwise None."""
    trouble: ConditionReason | None
    """What is wrong with the resource; None if nothing is wrong."""
    note: str
    """The reason or the warning of the reading, or what observe mode prevents; "" for none of these."""

    @property
    def key(self) -> Key:
        """The row's key."""
        return Key(self.name, is_label=self.kind == "label")


@dataclass(frozen=True, slots=True)
class StatusProblem:
    """What is wrong, and what to do."""

    message: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class StatusReport:
    """What `status` shows."""

    service: ServiceStatus | None
    """The status of the running service; None if the service does not run."""
    starts_at_boot: bool | None
    """Whether systemd starts the service at boot; None if unknown, or if systemd has not started the service."""
    last_pass: PassStatus
    """The result of the last reconcile pass. Each of its waits lasts at least until the next pass."""
    resources: tuple[ResourceRow, ...]
    problems: tuple[StatusProblem, ...]
    """What is wrong, most urgent first."""

    @property
    def has_pass(self) -> bool:
        """Whether a reconcile pass has completed, so that the report has its results."""
        return bool(self.last_pass.at)

    def as_dict(self, *, now: float, uptime: float) -> dict[str, object]:
        """The report for JSON output. now: in seconds since the epoch. uptime: the machine's, in seconds."""
        service = self.service or NO_STATUS
        last_pass = self.last_pass
        # In the service's files, 0 means "no time" and "no process", and "" means "no text".
        return {
            "running": self.service is not None,
            "pid": service.pid or None,
            "starts_at_boot": self.starts_at_boot,
            "problems": [encode(problem) for problem in self.problems],
            "node": last_pass.node or None,
            "observe": last_pass.observe,
            "configuration": last_pass.configuration or None,
            "reasons": [reason.value for reason in last_pass.reasons],
            "pass_running": service.pass_running,
            "last_reconcile": last_pass.at or None,
            "next_reconcile": service.next_pass or None,
            "last_read": last_pass.read_at,
            "last_write": last_pass.written_at,
            "watched_since": service.watched_since,
            "resources": [encode(row) for row in self.resources],
            "troubles": [trouble.as_dict() for trouble in last_pass.troubles],
            "waits": [wait.as_dict(now=now, uptime=uptime) for wait in last_pass.waits],
        }


def resource_rows(last_pass: PassStatus) -> tuple[ResourceRow, ...]:
    """A row for each key that the last pass has read or planned."""
    changes = {change.key: change for change in last_pass.changes}
    troubles: dict[Key | None, ConditionReason] = {}
    for trouble in last_pass.troubles:  # most urgent first
        troubles.setdefault(trouble.key, trouble.reason)
    read_keys = {Key(name) for name in last_pass.readings}
    keys = sorted(read_keys | changes.keys())
    return tuple(_row(key, last_pass, changes.get(key), troubles.get(key)) for key in keys)


def _row(key: Key, last_pass: PassStatus, change: Change | None, trouble: ConditionReason | None) -> ResourceRow:
    """The row for a key. change: the key's change in the plan, or None without a plan."""
    reading = None if key.is_label else last_pass.readings.get(key.name)
    note = _reason(reading)
    # In observe mode, capacityd does not write the change.
    if change is not None and change.action.writes and last_pass.observe:
        desired = "removed" if change.desired is None else str(change.desired)
        note = f"would be {desired}: {change.reason}"
    return ResourceRow(
        name=key.name,
        kind=key.kind,
        reading=None if key.is_label else _number_or_outcome(reading),
        expect=None if key.is_label else last_pass.expect.get(key.name),
        published=change.published if change else None,
        capacity=change.stored.capacity if change else None,
        allocatable=change.stored.allocatable if change else None,
        cause=reading.cause if isinstance(reading, Unknown) else None,
        trouble=trouble,
        note=note,
    )


def _number_or_outcome(reading: Reading | None) -> int | str:
    if reading is None:
        return "unconfigured"
    return reading.value if isinstance(reading, Quantity) else reading.outcome


def _reason(reading: Reading | None) -> str:
    """The reason or the warning of a reading; "" for neither."""
    if reading is None:
        return ""
    return reading.warning if isinstance(reading, Quantity) else reading.reason
