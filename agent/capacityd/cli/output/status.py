"""Prints the service's state for `status`."""

from __future__ import annotations

from collections.abc import Sequence

from capacityd.cli.output.status_report import ResourceRow, StatusReport
from capacityd.cli.output.terminal import print_line, print_table, without_column
from capacityd.model.node import ConditionReason
from capacityd.model.text import duration_text
from capacityd.model.waits import WaitReason

_HEADER = ("RESOURCE", "READING", "CAPACITY", "ALLOCATABLE", "EXPECT", "NOTE")
_EXPECT_COLUMN = _HEADER.index("EXPECT")


def print_status(report: StatusReport, *, now: float, uptime: float) -> None:
    """Prints the report. now: in seconds since the epoch. uptime: the machine's, in seconds."""
    print_line(_summary(report))
    if report.has_pass:
        print_line(_times(report, now))
    if report.starts_at_boot is False:
        print_line("disabled: it will not start at the next boot; to change that: `systemctl enable capacityd`")
    _print_problems(report)
    if report.has_pass:
        print_line()
        _print_resources(report)
        _print_waits(report, uptime)


def _print_problems(report: StatusReport) -> None:
    if report.problems:
        print_line()
        if report.pass_running:
            print_line("a pass runs now, so this may be out of date:")
    for problem in report.problems:
        print_line(problem.message, sign="!")
        if problem.advice:
            print_line(f"→ {problem.advice}", indent=2)


def _print_waits(report: StatusReport, uptime: float) -> None:
    """Prints the reasons for later passes, unless the table contains them."""
    noted = {(row.key, row.note) for row in report.resources}
    for wait in report.waits:
        text = wait.text(uptime)
        if wait.key is None and wait.reason is WaitReason.RATE_LIMIT:
            print_line(f"Node condition and annotations: {text}")  # the text does not say what is held back
        elif wait.key is None:
            print_line(f"Node: {text}")
        elif (wait.key, text) not in noted:
            print_line(f"{wait.key}: {text}")


def _print_resources(report: StatusReport) -> None:
    if not report.resources:
        print_line("no resource is configured: see `capacityd devices --toml` and capacityd.toml(5)")
        return
    rows: Sequence[Sequence[str]] = [_HEADER, *map(_row, report.resources)]
    if all(row.expect is None for row in report.resources):
        rows = without_column(rows, _EXPECT_COLUMN)
    print_table(rows)


def _summary(report: StatusReport) -> str:
    if not report.running:
        if report.has_pass:
            return "capacityd is not running; this is its last known state"
        return "capacityd is not running; `sudo capacityd plan` shows what the Node keeps"
    pid = "?" if report.pid is None else report.pid
    running = f"capacityd is running (PID {pid})"
    if not report.has_pass:
        return f"{running}, no reconcile pass completed yet"
    node = f"Node {report.node}" if report.node else "no Node yet"
    observed = " is not written (observe = true)" if report.observe else ""
    health = "degraded" if report.problems else "healthy"
    return f"{running}, {health}; {node}{observed}"


def _times(report: StatusReport, now: float) -> str:
    reasons = ", ".join(reason.value for reason in report.reasons)
    times = [f"last pass {_ago(report.last_reconcile, now)} ({reasons})"]
    if report.watched_since:
        times.append(f"Node watched for {duration_text(now - report.watched_since)}")
    else:
        times.append(f"Node read {_ago(report.last_read, now)}")
    times.append(f"written {_ago(report.last_write, now)}" if report.last_write else "never written")
    if report.pass_running:
        times.append("a pass runs now")
    elif report.running and report.next_reconcile:
        times.append(f"next pass in {duration_text(report.next_reconcile - now)} or after an event")
    return ", ".join(times)


def _row(row: ResourceRow) -> tuple[str, ...]:
    """The row for a resource, with the columns of _HEADER."""
    reading = "" if row.reading is None else str(row.reading)
    capacity = row.capacity or ""
    allocatable = row.allocatable or ""
    expect = "" if row.expect is None else str(row.expect)
    if row.trouble is ConditionReason.BELOW_EXPECTED:
        expect = f"!{expect}"
    return str(row.key), reading, capacity, allocatable, expect, _note(row)


def _note(row: ResourceRow) -> str:
    """The text in the column NOTE, without what the problems above the table say."""
    if row.trouble is ConditionReason.REFUSED:
        return "refused"
    if row.trouble is ConditionReason.DENIED:
        return "denied"
    if row.cause is not None:
        return "last value kept" if row.published is not None else ""
    if row.trouble is ConditionReason.BELOW_EXPECTED and row.held_until is None:
        return ""
    if row.note:
        return row.note
    if row.published is None or row.capacity == str(row.published):
        return ""
    return f"published as {row.published}"  # another writer has changed the capacity, or the label


def _ago(moment: float | None, now: float) -> str:
    return "never" if moment is None else f"{duration_text(now - moment)} ago"
