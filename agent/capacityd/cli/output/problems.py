"""The problems that `status` shows, each with advice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from capacityd.cli.output.status_report import StatusProblem
from capacityd.linux.unit import UnitState
from capacityd.model.errors import Cause
from capacityd.model.messages import ServiceStatus
from capacityd.model.node import ConditionReason
from capacityd.model.reading import Unknown
from capacityd.model.reasons import Activity
from capacityd.model.text import duration_text
from capacityd.worker.pass_state import PassStatus

_NOT_EXECUTED = 200
"""The lowest of systemd's exit statuses for a program that it could not execute (systemd.exec(5))."""
_START_ADVICE = "start it: `systemctl {} capacityd`; see why it stopped: `journalctl -u capacityd`"
"""For str.format(), with a command of systemctl, such as start."""
_SLOW_AFTER = 30.0
"""Seconds after which a worker's activity is a problem."""
_ACTIVITIES = {
    Activity.CHECK: ("the check of the configuration", "the file system"),
    Activity.PROBE: ("the reconcile pass", "a detector; hardware or a program may not respond"),
    Activity.NODE: ("the reconcile pass", "the API server, the kubeconfig's exec plugin, or a user's command"),
}
"""Activity -> the slow task, and what it waits for."""
_EXPLAIN_ADVICE = "see `capacityd probe --explain --as-service`"
_ADVICE = {
    ConditionReason.CONFIGURATION_REJECTED: "configure resources and run `systemctl reload capacityd`, or remove what "
    "is kept: `systemctl stop capacityd`, then `capacityd withdraw`",
    ConditionReason.BELOW_EXPECTED: _EXPLAIN_ADVICE,
}


def service_problems(service: ServiceStatus, last_pass: PassStatus, now: float) -> Iterator[StatusProblem]:
    """Yields the problems of the running service and of its passes. now: in seconds since the epoch."""
    error = service.error or last_pass.error
    if error:
        yield StatusProblem(error, _next_attempt(service, now))
    # If a pass has failed for the same reason as the watch, the error above already contains the reason.
    if service.not_watched and service.not_watched not in error:
        advice = "passes read the Node instead: once a minute while something is wrong, else every five minutes"
        yield StatusProblem(f"the Node is not watched: {service.not_watched}", advice)
    busy_seconds = now - service.busy_since
    if service.activity is not None and busy_seconds >= _SLOW_AFTER:
        task, waits_for = _ACTIVITIES[service.activity]
        slow = f"{task} has been running for {duration_text(busy_seconds)}: it waits for {waits_for}"
        yield StatusProblem(slow, "if it does not end, the service gives up and tries again")
    for source_error in service.event_source_errors:
        yield StatusProblem(source_error, "a reconcile pass looks for changes once a minute")
    if service.metrics_error:
        yield StatusProblem(service.metrics_error, service.metrics_advice)


def configuration_problems(last_service: ServiceStatus, changed_files: Sequence[str]) -> Iterator[StatusProblem]:
    """Yields a problem for changed files that the service has not read, and for each error in the configuration.

    The advice of the last error is for all errors. last_service: the status of the service, even if it has ended.
    """
    if changed_files:
        message = f"the service does not use the newest configuration: {', '.join(changed_files)}"
        yield StatusProblem(message, "run `systemctl reload capacityd`")
    if not last_service.configuration_errors:
        return
    advice = "fix it, then run `systemctl reload capacityd`"
    if last_service.previous_active:
        advice += "; until then the previous configuration stays active"
    *others, last = last_service.configuration_errors
    for error in others:
        yield StatusProblem(error)
    yield StatusProblem(last, advice)


def node_problems(last_pass: PassStatus) -> Iterator[StatusProblem]:
    """Yields the problems of the Node as a whole."""
    for trouble in last_pass.troubles:
        if trouble.key is not None:  # resource_problems() yields it
            continue
        if trouble.reason is ConditionReason.OVERWRITTEN:
            advice = "let each machine use its own Node (node_name, its kubeconfig), and each key have one writer"
            yield StatusProblem(trouble.text, advice)
        elif trouble.reason is ConditionReason.DENIED:
            yield StatusProblem(trouble.text, "look for an admission policy or webhook that changes Nodes")


def resource_problems(last_pass: PassStatus, last_service: ServiceStatus) -> Iterator[StatusProblem]:
    """Yields a problem for each resource that is unknown or has another problem."""
    # configuration_problems() lists the errors of the newest configuration. While the previous configuration is active,
    # the readings are those of the previous one.
    errors_are_listed = bool(last_service.configuration_errors) and not last_service.previous_active
    for name, reading in last_pass.readings.items():
        if not isinstance(reading, Unknown):
            continue
        message = f"{name}: unknown: {reading.reason}"
        if reading.cause is not Cause.CONFIGURATION:
            yield StatusProblem(message, _EXPLAIN_ADVICE)
        elif not errors_are_listed:
            yield StatusProblem(message)
    for trouble in last_pass.troubles:
        if trouble.key is not None and trouble.reason is not ConditionReason.UNKNOWN:
            yield StatusProblem(trouble.summary, _ADVICE.get(trouble.reason, ""))


def _next_attempt(service: ServiceStatus, now: float) -> str:
    """When the next pass runs; "" if unknown."""
    if service.pass_running:
        return "the next attempt runs now"
    if not service.next_pass:  # 0: unknown
        return ""
    return f"next attempt in {duration_text(service.next_pass - now)} or after an event"


def start_advice(unit: UnitState | None) -> str:
    """What to do if the service is not running. unit: the state of the systemd unit; None if there is no unit."""
    if unit is None:
        return _START_ADVICE.format("enable --now")
    if unit.signal:
        return (
            f"it was killed by signal {unit.signal}, and systemd starts it again; `journalctl -u capacityd` may say why"
        )
    if unit.failing and unit.exit_status >= _NOT_EXECUTED:
        why = f"systemd cannot start it in its sandbox (exit status {unit.exit_status}, see systemd.exec(5))"
        return f"{why}: `journalctl -u capacityd` says what this system lacks, `systemctl cat capacityd` what needs it"
    if unit.failing:
        why = f"it fails to start (exit status {unit.exit_status})"
        return f"{why}: see why with `journalctl -u capacityd`, then run `systemctl restart capacityd`"
    if unit.masked:
        return "it is masked: run `systemctl unmask capacityd`, then `systemctl enable --now capacityd`"
    return _START_ADVICE.format("start" if unit.enabled else "enable --now")
