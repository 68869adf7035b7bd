"""The errors that `status` reports, each with advice. Pure."""

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


def problems_in(report: StatusReport, now: float, unit: UnitState | None) -> list[Problem]:
    """The errors in a report. now: in seconds since the epoch. unit: the systemd unit's state."""
    errors = []
    if report.service is None and not report.published_nothing:
        errors.append(Problem("the Node keeps its capacity, but nothing updates it", _start_advice(unit)))
    elif report.service is None and unit is not None and unit.failing:
        errors.append(Problem("the service has published nothing", _start_advice(unit)))
    if report.stale_reason:
        advice = "see `journalctl -u capacityd` for what the service has logged since"
        errors.append(Problem(report.stale_reason, advice))
    elif report.service and report.error:
        errors.append(Problem(report.error, _next_attempt(report, now)))
    if report.service and report.not_watched and report.not_watched not in report.error:
        advice = "until it is, passes read the Node: once a minute while something is wrong, else every five minutes"
        errors.append(Problem(f"the Node is not watched: {report.not_watched}", advice))
    if is_too_slow(report, now):
        errors.append(Problem(slow_activity(report, now), "the service will give up and try again"))
    errors += [
        Problem(error, "a reconcile pass looks for changes once a minute") for error in report.event_source_errors
    ]
    if report.service and report.metrics_error:
        errors.append(Problem(report.metrics_error, report.metrics_advice))
    return [*errors, *_configuration_errors(report), *_node_errors(report)]


def _configuration_errors(report: StatusReport) -> Iterator[Problem]:
    """Yields the errors in the configuration, with the advice once, below all errors."""
    if not report.configuration_errors:
        return
    advice = "fix it, then run `systemctl reload capacityd`"
    if report.previous_configuration_active:
        advice += "; until then the previous configuration stays active"
    *others, last = report.configuration_errors
    yield from map(Problem, others)
    yield Problem(last, advice)


def _node_errors(report: StatusReport) -> Iterator[Problem]:
    """Yields the errors in the Node's condition and those of each resource."""
    if report.condition_not_stored:
        error = f"the condition {CONDITION} on the Node is not the one that capacityd wrote"
        yield Problem(error, "look for an admission policy or webhook that changes the status of Nodes")
    if report.other_agent is not None:
        error = other_agent_text(report.other_agent)
        yield Problem(error, "stop one of the two, or let each machine use its own Node (node_name, its kubeconfig)")
    if kept := [row.name for row in report.resources if row.not_configured]:
        error = f"no resource is configured, but the Node keeps {', '.join(kept)}"
        remove = f"remove what is kept: {HOW_TO_WITHDRAW}"
        yield Problem(error, f"configure resources and run `systemctl reload capacityd`, or {remove}")
    for row in report.resources:
        misconfigured = row.cause is Cause.CONFIGURATION
        # The errors of the active configuration are listed above.
        reported = bool(report.configuration_errors) and not report.previous_configuration_active
        if row.degraded and not row.not_configured and not (misconfigured and reported):
            yield _resource_error(row, misconfigured=misconfigured)


def _next_attempt(report: StatusReport, now: float) -> str:
    """When an error will be retried; "" if it is not known."""
    if report.pass_running:
        return "the next attempt runs now"
    if not report.next_reconcile:
        return ""
    return f"next attempt in {duration_text(report.next_reconcile - now)} or after an event"  # a change of the Node, …


def _start_advice(unit: UnitState | None) -> str:
    """What to do if the service is not running."""
    if unit is not None and unit.failing and unit.exit_status >= _NOT_EXECUTED:
        why = f"systemd cannot start it in its sandbox (exit status {unit.exit_status}, see systemd.exec(5))"
        return f"{why}: `journalctl -u capacityd` says what this system lacks, `systemctl cat capacityd` what needs it"
    if unit is not None and unit.failing:
        why = f"it fails to start (exit status {unit.exit_status})"
        return f"{why}: see why with `journalctl -u capacityd`, then run `systemctl restart capacityd`"
    if unit is not None and unit.masked:
        return "it is masked: run `systemctl unmask capacityd`, then `systemctl enable --now capacityd`"
    start = "start" if unit is not None and unit.enabled else "enable --now"
    return f"start it: `systemctl {start} capacityd`; see why it stopped: `journalctl -u capacityd`"


def _resource_error(row: ResourceRow, *, misconfigured: bool) -> Problem:
    explain = "see `capacityd probe --explain`"
    if row.refused or row.denied:
        return Problem(f"{row.name}: {row.note}")
    if row.cause is not None:
        return Problem(f"{row.name}: unknown: {row.note}", "" if misconfigured else explain)
    if row.below_expect:
        return Problem(f"{row.name}: {row.reading}, expected {row.expect}", explain)
    if plain(row.allocatable) == row.overwritten:
        error = f"allocatable is {row.allocatable or 'unset'}"
    else:  # a repair that has not lasted
        error = f"allocatable was {row.overwritten} and has been restored"
    return Problem(
        f"{row.name}: published as {row.published}, {error}",
        "another writer changes it: see `kubectl get node -o yaml --show-managed-fields`",
    )
