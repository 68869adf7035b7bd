"""The output of `status`: the service's state, as types and as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from capacityd.cli.output.terminal import print_line, print_table
from capacityd.model.errors import Cause
from capacityd.model.reasons import Activity, PassReason
from capacityd.model.text import duration_text
from capacityd.model.waits import WaitReason
from capacityd.worker.pass_state import OtherWriter

_HEADER = ("RESOURCE", "READING", "CAPACITY", "ALLOCATABLE", "EXPECT", "NOTE")
_EXPECT_COLUMN = _HEADER.index("EXPECT")
_TOO_SLOW = 120.0
"""Seconds after which a slow activity of the service is an error."""


@dataclass(frozen=True, slots=True)
class ResourceRow:
    """A resource, a label, or a key on the Node that capacityd owns but that is not configured."""

    name: str
    reading: int | str | None
    """The quantity, absent, unknown or unconfigured; None if it is unknown whether the resource is configured, and for
    a label."""
    expect: int | None
    published: int | None
    capacity: str | None
    """The quantity in capacity, or the label's value."""
    allocatable: str | None
    held_until: float | None
    """In seconds since the epoch, as are all times here; None: no change is held back."""
    cause: Cause | None
    """The cause of an unknown reading; otherwise None."""
    refused: bool
    denied: bool
    not_configured: bool
    """Whether the key stays on the Node although nothing configures it."""
    below_expect: bool
    not_allocatable: bool
    overwritten: str | None = None
    """Another writer's value, if that is why the resource is not allocatable. It may be restored by now."""
    degraded: bool = False
    """Whether the resource is refused, denied, not configured, less than expected, not allocatable or unknown."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class WaitReport:
    """A reason for a later pass."""

    reason: WaitReason
    name: str | None
    """The resource; None: the Node, its condition or its annotations wait."""
    until: float
    text: str
    """The reason for the wait, and its length."""


@dataclass(frozen=True, slots=True)
class ServiceReport:
    """The resident process."""

    pid: int | None
    """None: not known yet."""


@dataclass(frozen=True, slots=True)
class StatusReport:
    """The complete information of `status`. The fields are those of `status --json`."""

    node: str | None
    observe: bool
    reasons: tuple[PassReason, ...]
    """The reasons for the last pass."""
    next_reconcile: float | None
    error: str
    event_source_errors: tuple[str, ...]
    configuration_errors: tuple[str, ...]
    configuration: str | None
    """The hash of the configuration."""
    previous_configuration_active: bool
    resources: tuple[ResourceRow, ...]
    waits: tuple[WaitReport, ...]
    """The reasons for later passes, earliest first."""
    last_reconcile: float | None
    """None: no pass has completed."""
    last_read: float | None
    last_write: float | None
    stale_reason: str
    """Why this report may be older than the service's state; "" if it is up to date."""
    slow_activity: Activity | None
    """The service's activity, if it is slow."""
    slow_since: float | None
    metrics_error: str
    metrics_advice: str
    service: ServiceReport | None
    """None: the service is not running."""
    pass_running: bool = False
    """Whether a check or a pass is running, or about to run: then the errors are older."""
    condition_not_stored: bool = False
    """Whether the Node lacks the condition, or its condition differs from the written one."""
    other_resources: Mapping[str, OtherWriter] = field(default_factory=dict)
    """Name -> writer, for the Node's extended resources that capacityd does not publish."""
    watched_since: float | None = None
    """None: the Node is not watched."""
    not_watched: str = ""
    """Why the Node is not watched; "" if it is, or if the watch has not begun yet."""
    published_nothing: bool = False
    """Whether the Node keeps nothing of this machine, as far as the machine knows."""
    changed_files: tuple[str, ...] = ()
    """The files that make the configuration differ from the one that the service uses."""
    starts_at_boot: bool | None = None
    """None: unknown, or the service was not started by systemd."""
    impersonated: str | None = None
    """The user as whom the service acts; None: the user of its credentials."""
    other_agent: Mapping[str, tuple[int, int]] | None = None
    """Name -> this machine's quantity, and that of another capacityd that writes the same Node. None: there is none."""


_ACTIVITIES = {
    Activity.CHECK: ("the check of the configuration", "the file system"),
    Activity.PROBE: ("the reconcile pass", "a detector; hardware or a program may not respond"),
    Activity.NODE: ("the reconcile pass", "the API server, the kubeconfig's exec plugin, or a user's command"),
}
"""Activity -> the slow task, and what it waits for."""


@dataclass(frozen=True, slots=True)
class Problem:
    """An error, and advice if there is any."""

    error: str
    advice: str = ""


def print_status(report: StatusReport, errors: Sequence[Problem], now: float) -> None:
    """Prints the report and its errors."""
    passed = report.last_reconcile is not None
    print_line(_summary(report, degraded=bool(errors)))
    if passed:
        print_line(_times(report, now))
    if not is_too_slow(report, now) and (activity := slow_activity(report, now)):
        print_line(activity)
    if report.starts_at_boot is False:
        print_line("disabled: it will not start at the next boot; to change that: `systemctl enable capacityd`")
    if report.changed_files:
        print_line(
            f"changed since the last reload: {', '.join(report.changed_files)}; to use it: `systemctl reload capacityd`"
        )
    if passed:
        print_line()
        _print_resources(report)
        _print_other_resources(report)
        _print_waits(report)
    if errors:
        print_line()
        if report.pass_running:
            print_line("errors from before the running pass:")
    for problem in errors:
        print_line(problem.error, sign="!")
        if problem.advice:
            print_line(f"→ {problem.advice}", indent=2)


_WRITERS = {OtherWriter.DEVICE_PLUGIN: "a device plugin's", OtherWriter.UNKNOWN: "another writer's"}


def _print_other_resources(report: StatusReport) -> None:
    """Prints the extended resources that are neither configured nor capacityd's."""
    rows = {row.name for row in report.resources}
    others = [f"{name} ({_WRITERS[writer]})" for name, writer in report.other_resources.items() if name not in rows]
    if others:
        print_line(f"not capacityd's: {', '.join(others)}")


def _print_waits(report: StatusReport) -> None:
    """Prints the reasons for later passes, unless the table contains them."""
    noted = {(row.name, row.note) for row in report.resources}
    for wait in report.waits:
        if wait.name is None:
            of_node = "Node condition and annotations: " if wait.reason is WaitReason.RATE_LIMIT else ""
            print_line(f"{of_node}{wait.text}")
        elif (wait.name, wait.text) not in noted:
            print_line(f"{wait.name}: {wait.text}")


def slow_activity(report: StatusReport, now: float) -> str:
    """The service's slow activity and its duration; "" if it is not slow."""
    if report.slow_activity is None or report.slow_since is None:
        return ""
    task, waits_for = _ACTIVITIES[report.slow_activity]
    return f"{task} has been running for {duration_text(now - report.slow_since)}: it waits for {waits_for}"


def is_too_slow(report: StatusReport, now: float) -> bool:
    """Whether the service's slow activity is an error."""
    return report.slow_since is not None and now - report.slow_since > _TOO_SLOW


def _print_resources(report: StatusReport) -> None:
    rows = [_HEADER, *map(_row, report.resources)]
    if not report.resources:
        print_line("no resource is configured: see `capacityd devices --toml` and capacityd.toml(5)")
        return
    if all(row.expect is None for row in report.resources):
        rows = [(*row[:_EXPECT_COLUMN], *row[_EXPECT_COLUMN + 1 :]) for row in rows]
    print_table(rows)


def _summary(report: StatusReport, *, degraded: bool) -> str:
    passed = report.last_reconcile is not None
    if report.service is None:
        nothing = "; the Node keeps nothing that it has published" if report.published_nothing else ""
        return f"capacityd is not running{nothing}" + ("; this is its last known state" if passed else "")
    pid = report.service.pid
    running = f"capacityd is running (PID {'?' if pid is None else pid})"
    if not passed:
        return f"{running}, no reconcile pass completed yet"
    node = f"Node {report.node}" if report.node else "no Node yet"
    node += f", as {report.impersonated}" if report.impersonated else ""
    if report.observe:
        node = f"{node} is not written (observe = true)"
    return f"{running}, {'degraded' if degraded else 'healthy'}; {node}"


def _times(report: StatusReport, now: float) -> str:
    reasons = ", ".join(reason.value for reason in report.reasons)
    times = [
        f"last pass {_ago(report.last_reconcile, now)} ({reasons})",
        f"Node watched for {duration_text(now - report.watched_since)}"
        if report.watched_since
        else f"Node read {_ago(report.last_read, now)}",
        f"written {_ago(report.last_write, now)}" if report.last_write else "never written",
    ]
    if report.pass_running:
        times.append("a pass runs now")
    elif report.service and report.next_reconcile:
        times.append(f"next pass in {duration_text(report.next_reconcile - now)} or after an event")
    return ", ".join(times)


def _row(row: ResourceRow) -> tuple[str, ...]:
    reading, capacity, allocatable = (
        "" if value is None else str(value) for value in (row.reading, row.capacity, row.allocatable)
    )
    expect = f"{'!' * row.below_expect}{row.expect}" if row.expect is not None else ""
    note = row.note
    if row.refused or row.denied:  # the errors below the table contain the reason
        note = "refused" if row.refused else "denied"
    elif row.cause is not None:
        note = "last value kept" if row.published is not None else ""
    elif row.published is not None and row.held_until is None and not note and capacity != str(row.published):
        note = f"published as {row.published}"
    return row.name, reading, capacity, allocatable, expect, note


def _ago(moment: float | None, now: float) -> str:
    return "never" if moment is None else f"{duration_text(now - moment)} ago"
