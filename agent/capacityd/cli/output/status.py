"""Prints the service's state for `status`."""

from __future__ import annotations

from capacityd.cli.output.status_report import ResourceRow, StatusReport
from capacityd.cli.output.terminal import print_line, print_table
from capacityd.model.messages import ServiceStatus
from capacityd.model.text import duration_text
from capacityd.worker.pass_state import PassStatus

_HEADER = ("RESOURCE", "READING", "CAPACITY", "ALLOCATABLE", "NOTE")


def print_status(report: StatusReport, *, now: float, uptime: float) -> None:
    """Prints the report. now: in seconds since the epoch. uptime: the machine's, in seconds."""
    print_line(_summary(report))
    if report.has_pass:
        print_line(_times(report.last_pass, report.service, now))
    if report.starts_at_boot is False:  # None: unknown
        print_line("disabled: it will not start at the next boot; to change that: `systemctl enable capacityd`")
    _print_problems(report)
    if report.has_pass:
        print_line()
        _print_resources(report)
        for wait in report.last_pass.waits:
            subject = "Node" if wait.key is None else str(wait.key)
            print_line(f"{subject}: {wait.text(uptime)}")


def _print_problems(report: StatusReport) -> None:
    if report.problems:
        print_line()
        if report.service is not None and report.service.pass_running:
            print_line("a pass runs now, so this may be out of date:")
    for problem in report.problems:
        print_line(problem.message, sign="!")
        if problem.advice:
            print_line(f"→ {problem.advice}", indent=2)


def _print_resources(report: StatusReport) -> None:
    if report.resources:
        print_table([_row(row) for row in report.resources], _HEADER)
    else:
        print_line("no resource is configured: see `capacityd devices --toml` and capacityd.toml(5)")


def _row(row: ResourceRow) -> tuple[str, ...]:
    """The row for a resource, with the columns of _HEADER."""
    reading = "" if row.reading is None else str(row.reading)
    return str(row.key), reading, row.capacity or "", row.allocatable or "", _note(row)


def _note(row: ResourceRow) -> str:
    """The text in the column NOTE. The problems above the table say more about a trouble or an unknown reading."""
    if row.trouble is not None:
        return row.trouble.value
    return row.note if row.cause is None else ""


def _summary(report: StatusReport) -> str:
    if report.service is None:
        if report.has_pass:
            return "capacityd is not running; this is its last known state"
        return "capacityd is not running; `sudo capacityd plan` shows what the Node keeps"
    running = f"capacityd is running (PID {report.service.pid or '?'})"
    if not report.has_pass:
        return f"{running}, no reconcile pass completed yet"
    node = f"Node {report.last_pass.node}" if report.last_pass.node else "no Node yet"
    not_written = " is not written (observe = true)" if report.last_pass.observe else ""
    health = "degraded" if report.problems else "healthy"
    return f"{running}, {health}; {node}{not_written}"


def _times(last_pass: PassStatus, service: ServiceStatus | None, now: float) -> str:
    """When the last pass and the last write took place, and when the next pass is due.

    now: in seconds since the epoch.
    """
    reasons = ", ".join(reason.value for reason in last_pass.reasons)
    times = [f"last pass {_ago(last_pass.at, now)} ({reasons})"]
    if service is not None and service.watched_since:
        times.append(f"Node watched for {duration_text(now - service.watched_since)}")
    else:
        times.append(f"Node read {_ago(last_pass.read_at, now)}")
    if last_pass.written_at is None:
        times.append("never written")
    else:
        times.append(f"written {_ago(last_pass.written_at, now)}")
    if service is not None and service.pass_running:
        times.append("a pass runs now")
    elif service is not None and service.next_pass:
        times.append(f"next pass in {duration_text(service.next_pass - now)} or after an event")
    return ", ".join(times)


def _ago(moment: float | None, now: float) -> str:
    return "never" if moment is None else f"{duration_text(now - moment)} ago"
