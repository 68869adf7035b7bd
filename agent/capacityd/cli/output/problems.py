"""The problems that `status` shows, each with advice. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from capacityd.cli.output.status import is_too_slow, slow_activity
from capacityd.cli.output.status_report import Problem, ResourceRow, StatusReport
from capacityd.linux.unit import UnitState
from capacityd.model.errors import Cause
from capacityd.model.node import CONDITION
from capacityd.model.other_agent import other_agent_text
from capacityd.model.plan import HOW_TO_WITHDRAW
from capacityd.model.quantity import plain
from capacityd.model.text import duration_text

_NOT_EXECUTED = 200
"""From this exit status on, systemd could not execute the program (systemd.exec(5), "Process Exit Codes")."""
# {}: the command of systemctl.
_START_ADVICE = "start it: `systemctl {} capacityd`; see why it stopped: `journalctl -u capacityd`"


def problems_in(report: StatusReport, now: float, unit: UnitState | None) -> list[Problem]:
    """The problems in a report. now: in seconds since the epoch. unit: the systemd unit's state."""
    return [
        *_service_problems(report, now=now, unit=unit),
        *_configuration_problems(report),
        *_node_problems(report),
        *_resource_problems(report),
    ]


def _service_problems(report: StatusReport, now: float, unit: UnitState | None) -> Iterator[Problem]:
    """Yields the problems of the service and of its passes."""
    if report.service is None:
        is_failing = unit is not None and unit.failing
        if not report.published_nothing:
            yield Problem("the Node keeps its capacity, but nothing updates it", _start_advice(unit))
        elif is_failing:  # a service that was stopped after `withdraw` is no problem
            yield Problem("the service has published nothing", _start_advice(unit))
    if report.stale_reason:
        advice = "see `journalctl -u capacityd` for what the service has logged since"
        yield Problem(report.stale_reason, advice)
    elif report.service and report.error:
        yield Problem(report.error, _next_attempt(report, now))
    # A pass may have failed for the same reason as the watch. Then the error above contains the reason.
    is_other_reason = report.not_watched not in report.error
    if report.service and report.not_watched and is_other_reason:
        advice = "until it is, passes read the Node: once a minute while something is wrong, else every five minutes"
        yield Problem(f"the Node is not watched: {report.not_watched}", advice)
    if is_too_slow(report, now):
        yield Problem(slow_activity(report, now), "the service will give up and try again")
    for error in report.event_source_errors:
        yield Problem(error, "a reconcile pass looks for changes once a minute")
    if report.service and report.metrics_error:
        yield Problem(report.metrics_error, report.metrics_advice)


def _configuration_problems(report: StatusReport) -> Iterator[Problem]:
    """Yields the errors in the configuration. The last problem has the advice for all."""
    if not report.configuration_errors:
        return
    advice = "fix it, then run `systemctl reload capacityd`"
    if report.previous_configuration_active:
        advice += "; until then the previous configuration stays active"
    *others, last = report.configuration_errors
    for error in others:
        yield Problem(error)
    yield Problem(last, advice)


def _node_problems(report: StatusReport) -> Iterator[Problem]:
    """Yields the problems of the Node as a whole."""
    if report.condition_not_stored:
        message = f"the condition {CONDITION} on the Node is not the one that capacityd wrote"
        yield Problem(message, "look for an admission policy or webhook that changes the status of Nodes")
    if report.other_agent is not None:
        message = other_agent_text(report.other_agent)
        yield Problem(message, "stop one of the two, or let each machine use its own Node (node_name, its kubeconfig)")
    if kept := [row.name for row in report.resources if row.not_configured]:
        message = f"no resource is configured, but the Node keeps {', '.join(kept)}"
        remove = f"remove what is kept: {HOW_TO_WITHDRAW}"
        yield Problem(message, f"configure resources and run `systemctl reload capacityd`, or {remove}")


def _resource_problems(report: StatusReport) -> Iterator[Problem]:
    """Yields a problem for each degraded resource, unless another problem in the report is about it."""
    # While the previous configuration is active, the listed errors are those of the rejected one.
    lists_active_errors = bool(report.configuration_errors) and not report.previous_configuration_active
    for row in report.resources:
        if row.not_configured:  # _node_problems() lists the resource
            continue
        if row.cause is Cause.CONFIGURATION and lists_active_errors:  # _configuration_problems() lists the error
            continue
        if row.degraded:
            yield _resource_problem(row)


def _next_attempt(report: StatusReport, now: float) -> str:
    """When the next pass may succeed; "" if that is not known."""
    if report.pass_running:
        return "the next attempt runs now"
    if not report.next_reconcile:
        return ""
    return f"next attempt in {duration_text(report.next_reconcile - now)} or after an event"


def _start_advice(unit: UnitState | None) -> str:
    """What to do if the service is not running. unit: None: systemd has no such unit."""
    if unit is None:
        return _START_ADVICE.format("enable --now")
    if unit.failing and unit.exit_status >= _NOT_EXECUTED:
        why = f"systemd cannot start it in its sandbox (exit status {unit.exit_status}, see systemd.exec(5))"
        return f"{why}: `journalctl -u capacityd` says what this system lacks, `systemctl cat capacityd` what needs it"
    if unit.failing:
        why = f"it fails to start (exit status {unit.exit_status})"
        return f"{why}: see why with `journalctl -u capacityd`, then run `systemctl restart capacityd`"
    if unit.masked:
        return "it is masked: run `systemctl unmask capacityd`, then `systemctl enable --now capacityd`"
    return _START_ADVICE.format("start" if unit.enabled else "enable --now")


def _resource_problem(row: ResourceRow) -> Problem:
    """The most important problem of a degraded resource."""
    explain = "see `capacityd probe --explain`"
    if row.refused or row.denied:
        return Problem(f"{row.name}: {row.note}")
    if row.cause is Cause.CONFIGURATION:
        return Problem(f"{row.name}: unknown: {row.note}")
    if row.cause is not None:
        return Problem(f"{row.name}: unknown: {row.note}", explain)
    if row.below_expect:
        return Problem(f"{row.name}: {row.reading}, expected {row.expect}", explain)
    # Only one problem is left: the resource is not allocatable, because another writer has lowered allocatable.
    is_lower_now = plain(row.allocatable) == row.overwritten  # both are "none" if the Node has no allocatable
    if is_lower_now:
        less = f"allocatable is {row.allocatable or 'unset'}"
    else:  # capacityd has repaired allocatable, but an earlier repair has not lasted
        less = f"allocatable was {row.overwritten} and has been restored"
    return Problem(
        f"{row.name}: published as {row.published}, {less}",
        "another writer changes it: see `kubectl get node -o yaml --show-managed-fields`",
    )
