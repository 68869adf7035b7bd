"""status: collects the service's state, its last readings, the Node, pending changes, and problems with advice."""

from __future__ import annotations

import time
from dataclasses import replace

from capacityd.cli.options import Options
from capacityd.cli.output.problems import problems_in
from capacityd.cli.output.resource_rows import resource_rows
from capacityd.cli.output.status import print_status
from capacityd.cli.output.status_report import StatusReport
from capacityd.cli.output.terminal import print_json, print_message
from capacityd.config import load
from capacityd.config.saved import changed_files
from capacityd.linux.clock import uptime
from capacityd.linux.sandbox import UNIT
from capacityd.linux.unit import UnitState, unit_state
from capacityd.model.codec import encode
from capacityd.model.errors import CapacitydError
from capacityd.model.messages import NO_STATUS, ConfigFiles, ServiceStatus
from capacityd.model.waits import Wait
from capacityd.worker import runtime_files
from capacityd.worker.pass_state import PassStatus


def status(options: Options) -> int:
    """Prints the service's state. Returns exit status 1 if the service is not running, 4 if there is a problem."""
    now = time.time()
    unit = unit_state(UNIT)
    current_uptime = uptime()
    report = _report(runtime_files.runtime_directory(), now=now, current_uptime=current_uptime, unit=unit)
    problems = problems_in(report, now=now, unit=unit)
    if options.json:
        troubles = [trouble.as_dict() for trouble in report.troubles]
        waits = [wait.as_dict(now=now, uptime=current_uptime) for wait in report.waits]
        print_json(encode(report) | {"troubles": troubles, "waits": waits})
        for problem in problems:
            print_message(problem.message)
    else:
        print_status(report, problems, now=now, uptime=current_uptime)
    if not report.running:
        return 1
    return 4 if problems else 0


def _report(directory: str, now: float, current_uptime: float, unit: UnitState | None) -> StatusReport:
    """The report. directory: the runtime directory. now: in seconds since the epoch."""
    service = runtime_files.running(directory)
    # A service that has ended leaves its last status. Its errors about the configuration and the metrics still hold.
    last_status = service or runtime_files.read_service(directory) or NO_STATUS
    running_status = service or NO_STATUS
    last_pass, why_unreadable = _read_state(directory)
    waits = _waits_until_next_pass(last_pass, running_status, now=now, uptime=current_uptime)
    last_pass = replace(last_pass, waits=waits)
    stale_reason = why_unreadable
    if service and not stale_reason:
        stale_reason = _stale_reason(directory, running_status, current_uptime)
    # In the service's files, 0.0 means "no time", and "" means "no text".
    return StatusReport(
        node=last_pass.node or None,
        observe=last_pass.observe,
        reasons=last_pass.reasons,
        next_reconcile=running_status.next_reconcile or None,
        error=running_status.error or last_pass.error,
        event_source_errors=running_status.event_source_errors,
        configuration_errors=last_status.configuration_errors,
        configuration=last_pass.configuration or None,
        previous_configuration_active=bool(last_status.configuration_errors) and last_status.previous_active,
        resources=resource_rows(last_pass, now=now, uptime=current_uptime),
        troubles=last_pass.troubles,
        waits=waits,
        last_reconcile=last_pass.at or None,
        last_read=last_pass.read_at,
        last_write=last_pass.written_at,
        stale_reason=stale_reason,
        pass_running=running_status.pass_running,
        slow_activity=running_status.slow_activity,
        slow_since=running_status.slow_since or None,
        metrics_error=last_status.metrics_error,
        metrics_advice=last_status.metrics_advice,
        watched_since=running_status.watched_since,
        not_watched=running_status.not_watched,
        changed_files=_changed_files(running_status.configuration_files, active_hash=last_pass.configuration),
        starts_at_boot=_starts_at_boot(unit) if service else None,
        running=service is not None,
        pid=service.pid or None if service else None,
    )


def _read_state(directory: str) -> tuple[PassStatus, str]:
    """The last pass's status, and why it can't be read; "" if it can be read or is missing."""
    try:
        return runtime_files.read_state(directory), ""
    except CapacitydError as e:
        return PassStatus(), f"{e}; the last pass's state is not shown"


def _changed_files(read_files: ConfigFiles | None, active_hash: str) -> tuple[str, ...]:
    """The changed files, if the configuration differs from the active configuration.

    A configuration that this user may not read counts as different. read_files: the files that the service has read,
    or None. active_hash: the hash of the active configuration.
    """
    if read_files is None:
        return ()
    changed = changed_files(read_files.path, read_files.stamps)
    if not changed:
        return ()
    loaded = load(read_files.path)
    # After a change of a comment, for example, the hash is the same.
    is_active = not loaded.problems and loaded.config.digest == active_hash
    return () if is_active else changed


def _starts_at_boot(unit: UnitState | None) -> bool | None:
    """Whether systemd starts the running service at boot; None if systemd has not started it."""
    if unit is None or not unit.active:
        return None
    return unit.enabled


def _waits_until_next_pass(
    last_pass: PassStatus, service: ServiceStatus, now: float, uptime: float
) -> tuple[Wait, ...]:
    """The last pass's waits, earliest first. Empty if no service runs, because then no pass ends the waits.

    Only a pass ends a wait, so each wait lasts at least until the next pass. now: in seconds since the epoch. uptime:
    the machine's, in seconds.
    """
    if service is NO_STATUS:
        return ()
    next_pass_uptime = uptime + (service.next_reconcile - now)
    waits = [replace(wait, until=max(wait.until, next_pass_uptime)) for wait in last_pass.waits]
    return tuple(sorted(waits, key=lambda wait: wait.until))


def _stale_reason(directory: str, service: ServiceStatus, uptime: float) -> str:
    """Why the files may be older than the running service's state; "" if they are up to date."""
    if error := runtime_files.why_unwritable(directory):
        return f"{directory} is not writable: {error}; the information below is stale"
    if service is not NO_STATUS and uptime > service.overdue_at_uptime:
        return "the next reconcile pass is overdue; the service may be stuck"
    return ""
