"""status: shows the service's state, its last readings and the Node, and what is wrong, with advice."""

from __future__ import annotations

import time
from dataclasses import replace

from capacityd.cli.options import Options
from capacityd.cli.output.problems import (
    configuration_problems,
    node_problems,
    not_running_problem,
    resource_problems,
    service_problems,
    stale_problems,
)
from capacityd.cli.output.status import print_status
from capacityd.cli.output.status_report import StatusReport, resource_rows
from capacityd.cli.output.terminal import print_json, print_message
from capacityd.config import load
from capacityd.config.saved import changed_files
from capacityd.linux.clock import uptime
from capacityd.linux.sandbox import UNIT
from capacityd.linux.unit import UnitState, unit_state
from capacityd.model.codec import encode
from capacityd.model.errors import CapacitydError
from capacityd.model.messages import NO_STATUS, ServiceStatus
from capacityd.model.waits import Wait
from capacityd.worker import runtime_files
from capacityd.worker.pass_state import PassStatus


def status(options: Options) -> int:
    """Prints the service's state. Returns exit status 1 if the service is not running, 4 if there is a problem."""
    now = time.time()
    current_uptime = uptime()
    report = _report(runtime_files.runtime_directory(), now=now, current_uptime=current_uptime, unit=unit_state(UNIT))
    if options.json:
        troubles = [trouble.as_dict() for trouble in report.troubles]
        waits = [wait.as_dict(now=now, uptime=current_uptime) for wait in report.waits]
        print_json(encode(report) | {"troubles": troubles, "waits": waits})
        for problem in report.problems:
            print_message(problem.message)
    else:
        print_status(report, now=now, uptime=current_uptime)
    if not report.running:
        return 1
    return 4 if report.problems else 0


def _report(directory: str, now: float, current_uptime: float, unit: UnitState | None) -> StatusReport:
    """The report. directory: the runtime directory. now: in seconds since the epoch."""
    service = runtime_files.running(directory)
    # A service that has ended leaves its last status. The configuration's errors in that status still hold.
    last_service = service or runtime_files.read_service(directory) or NO_STATUS
    last_pass, stale_because = _read_state(directory)
    if service is not None:
        stale_because = stale_because or _stale_because(directory, service, current_uptime)
    waits = _waits_until_next_pass(last_pass, service, now=now, uptime=current_uptime)
    last_pass = replace(last_pass, waits=waits)
    rows = resource_rows(last_pass, now=now, uptime=current_uptime)
    problems = (
        *stale_problems(stale_because),
        *(service_problems(service, last_pass, now) if service else [not_running_problem(rows, unit)]),
        *configuration_problems(last_service, _changed_files(service, active_hash=last_pass.configuration)),
        *node_problems(last_pass),
        *resource_problems(last_pass, rows, last_service),
    )
    # In the service's files, 0 means "no time" and "no process", and "" means "no text".
    running = service or NO_STATUS
    return StatusReport(
        running=service is not None,
        pid=running.pid or None,
        starts_at_boot=_starts_at_boot(unit) if service else None,
        problems=problems,
        node=last_pass.node or None,
        observe=last_pass.observe,
        configuration=last_pass.configuration or None,
        reasons=last_pass.reasons,
        pass_running=running.pass_running,
        last_reconcile=last_pass.at or None,
        next_reconcile=running.next_reconcile or None,
        last_read=last_pass.read_at,
        last_write=last_pass.written_at,
        watched_since=running.watched_since,
        resources=rows,
        troubles=last_pass.troubles,
        waits=waits,
    )


def _read_state(directory: str) -> tuple[PassStatus, str]:
    """The last pass's status, and why it can't be read; "" if it can be read or is missing."""
    try:
        return runtime_files.read_state(directory), ""
    except CapacitydError as e:
        return PassStatus(), f"{e}; the last pass's state is not shown"


def _changed_files(service: ServiceStatus | None, active_hash: str) -> tuple[str, ...]:
    """The files that have changed since the service read them. Empty if the configuration is still the active one.

    A configuration that this user may not read counts as changed. active_hash: the hash of the active configuration.
    """
    read_files = service.configuration_files if service else None
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
    last_pass: PassStatus, service: ServiceStatus | None, now: float, uptime: float
) -> tuple[Wait, ...]:
    """The last pass's waits, earliest first. Empty if no service runs, because then no pass ends the waits.

    Only a pass ends a wait, so each wait lasts at least until the next pass. now: in seconds since the epoch. uptime:
    the machine's, in seconds.
    """
    if service is None:
        return ()
    next_pass_uptime = uptime + (service.next_reconcile - now)
    waits = [replace(wait, until=max(wait.until, next_pass_uptime)) for wait in last_pass.waits]
    return tuple(sorted(waits, key=lambda wait: wait.until))


def _stale_because(directory: str, service: ServiceStatus, uptime: float) -> str:
    """Why the files may be older than the running service's state; "" if they are up to date."""
    if error := runtime_files.why_unwritable(directory):
        return f"{directory} is not writable: {error}; the information below is stale"
    if service is not NO_STATUS and uptime > service.overdue_at_uptime:  # the service has written a status
        return "the next reconcile pass is overdue; the service may be stuck"
    return ""
