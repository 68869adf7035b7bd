"""The problems that `status` shows, each with advice. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from capacityd.cli.output.status_report import StatusProblem, StatusReport
from capacityd.linux.unit import UnitState
from capacityd.model.errors import Cause
from capacityd.model.node import ConditionReason
from capacityd.model.reasons import Activity
from capacityd.model.text import duration_text

_NOT_EXECUTED = 200
"""The lowest exit status that means that systemd could not execute the program (systemd.exec(5))."""
# {}: the command of systemctl.
_START_ADVICE = "start it: `systemctl {} capacityd`; see why it stopped: `journalctl -u capacityd`"
_ACTIVITIES = {
    Activity.CHECK: ("the check of the configuration", "the file system"),
    Activity.PROBE: ("the reconcile pass", "a detector; hardware or a program may not respond"),
    Activity.NODE: ("the reconcile pass", "the API server, the kubeconfig's exec plugin, or a user's command"),
}
"""Activity -> the slow task, and what it waits for."""
_EXPLAIN = "see `capacityd probe --explain --as-service`"
_ADVICE = {
    ConditionReason.CONFIGURATION_REJECTED: "configure resources and run `systemctl reload capacityd`, or remove what "
    "is kept: `systemctl stop capacityd`, then `capacityd withdraw`",
    ConditionReason.BELOW_EXPECTED: _EXPLAIN,
}
"""Reason -> advice."""


def problems_in(report: StatusReport, now: float, unit: UnitState | None) -> list[StatusProblem]:
    """The problems in a report. now: in seconds since the epoch. unit: the systemd unit's state."""
    return [
        *_service_problems(report, now=now, unit=unit),
        *_configuration_problems(report),
        *_node_problems(report),
        *_resource_problems(report),
    ]


def _service_problems(report: StatusReport, now: float, unit: UnitState | None) -> Iterator[StatusProblem]:
    """Yields the problems of the service and of its passes."""
    if not report.running:
        if any(row.published is not None for row in report.resources):
            yield StatusProblem("nothing updates what the last pass has published", _start_advice(unit))
        elif unit is not None and unit.failing:
            yield StatusProblem("the service does not run", _start_advice(unit))
    if report.stale_reason:
        advice = "see `journalctl -u capacityd` for what the service has logged since"
        yield StatusProblem(report.stale_reason, advice)
    elif report.running and report.error:
        yield StatusProblem(report.error, _next_attempt(report, now))
    # A pass may have failed for the same reason as the watch. Then the error above contains the reason.
    is_other_reason = report.not_watched not in report.error
    if report.running and report.not_watched and is_other_reason:
        advice = "until it is, passes read the Node: once a minute while something is wrong, else every five minutes"
        yield StatusProblem(f"the Node is not watched: {report.not_watched}", advice)
    if slow := _slow_activity(report, now):
        yield StatusProblem(slow, "if it does not end, the service gives up and tries again")
    for error in report.event_source_errors:
        yield StatusProblem(error, "a reconcile pass looks for changes once a minute")
    if report.running and report.metrics_error:
        yield StatusProblem(report.metrics_error, report.metrics_advice)


def _configuration_problems(report: StatusReport) -> Iterator[StatusProblem]:
    """Yields changed files that the service has not read yet, and errors. Only the last error has advice, for all."""
    if report.changed_files:
        files = ", ".join(report.changed_files)
        yield StatusProblem(
            f"the service does not use the newest configuration: {files}", "run `systemctl reload capacityd`"
        )
    if not report.configuration_errors:
        return
    advice = "fix it, then run `systemctl reload capacityd`"
    if report.previous_configuration_active:
        advice += "; until then the previous configuration stays active"
    *others, last = report.configuration_errors
    for error in others:
        yield StatusProblem(error)
    yield StatusProblem(last, advice)


def _node_problems(report: StatusReport) -> Iterator[StatusProblem]:
    """Yields the problems of the Node as a whole."""
    for trouble in report.troubles:
        if trouble.key is not None:
            continue
        if trouble.reason is ConditionReason.OVERWRITTEN:
            advice = "let each machine use its own Node (node_name, its kubeconfig), and each key have one writer"
            yield StatusProblem(trouble.text, advice)
        elif trouble.reason is ConditionReason.DENIED:
            yield StatusProblem(trouble.text, "look for an admission policy or webhook that changes Nodes")


def _resource_problems(report: StatusReport) -> Iterator[StatusProblem]:
    """Yields a problem for each resource that is unknown or in other trouble."""
    # While the previous configuration is active, the listed errors are errors of the rejected configuration.
    lists_active_errors = bool(report.configuration_errors) and not report.previous_configuration_active
    for row in report.resources:
        is_listed = row.cause is Cause.CONFIGURATION and lists_active_errors  # by _configuration_problems()
        if row.cause is not None and not is_listed:
            advice = "" if row.cause is Cause.CONFIGURATION else _EXPLAIN
            yield StatusProblem(f"{row.key}: unknown: {row.note}", advice)
    for trouble in report.troubles:
        if trouble.key is not None and trouble.reason is not ConditionReason.UNKNOWN:
            yield StatusProblem(trouble.summary, _ADVICE.get(trouble.reason, ""))


def _next_attempt(report: StatusReport, now: float) -> str:
    """When the next pass runs; "" if that is not known."""
    if report.pass_running:
        return "the next attempt runs now"
    if not report.next_reconcile:
        return ""
    return f"next attempt in {duration_text(report.next_reconcile - now)} or after an event"


def _start_advice(unit: UnitState | None) -> str:
    """What to do if the service is not running. unit: the state of the systemd unit, or None without such a unit."""
    if unit is None:
        return _START_ADVICE.format("enable --now")
    if unit.failing and not unit.signal and unit.exit_status >= _NOT_EXECUTED:
        why = f"systemd cannot start it in its sandbox (exit status {unit.exit_status}, see systemd.exec(5))"
        return f"{why}: `journalctl -u capacityd` says what this system lacks, `systemctl cat capacityd` what needs it"
    if unit.signal:
        return (
            f"it was killed by signal {unit.signal}, and systemd starts it again; `journalctl -u capacityd` may say why"
        )
    if unit.failing:
        why = f"it fails to start (exit status {unit.exit_status})"
        return f"{why}: see why with `journalctl -u capacityd`, then run `systemctl restart capacityd`"
    if unit.masked:
        return "it is masked: run `systemctl unmask capacityd`, then `systemctl enable --now capacityd`"
    return _START_ADVICE.format("start" if unit.enabled else "enable --now")


def _slow_activity(report: StatusReport, now: float) -> str:
    """What the service does slowly, for how long, and what it waits for; "" if the service is not slow."""
    if report.slow_activity is None or report.slow_since is None:
        return ""
    task, waits_for = _ACTIVITIES[report.slow_activity]
    return f"{task} has been running for {duration_text(now - report.slow_since)}: it waits for {waits_for}"
