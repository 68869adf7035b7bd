"""status: shows the service's state, its last readings and the Node, and what is wrong, with advice."""

from __future__ import annotations

import time
from dataclasses import replace

from capacityd.cli.options import Options
from capacityd.cli.output.problems import (
    configuration_problems,
    node_problems,
    resource_problems,
    service_problems,
    start_advice,
)
from capacityd.cli.output.status import print_status
from capacityd.cli.output.status_report import StatusProblem, StatusReport, resource_rows
from capacityd.cli.output.terminal import print_json, print_message
from capacityd.config.saved import changed_files
from capacityd.linux.clock import uptime
from capacityd.linux.sandbox import UNIT
from capacityd.linux.unit import UnitState, unit_state
from capacityd.model.errors import CapacitydError
from capacityd.model.messages import NO_STATUS, ServiceStatus
from capacityd.model.waits import Wait
from capacityd.worker import runtime_files
from capacityd.worker.pass_state import PassStatus

_STALE_ADVICE = "see `journalctl -u capacityd` for what the service has logged since"


def status(options: Options) -> int:
    """Prints the service's state. Returns exit status 1 if the service is not running, 4 if there is a problem."""
    now = time.time()
    current_uptime = uptime()
    report = _report(runtime_files.runtime_directory(), now=now, current_uptime=current_uptime, unit=unit_state(UNIT))
    if options.json:
        print_json(report.as_dict(now=now, uptime=current_uptime))
        for problem in report.problems:
            print_message(problem.message)
    else:
        print_status(report, now=now, uptime=current_uptime)
    if report.service is None:
        return 1
    return 4 if report.problems else 0


def _report(directory: str, now: float, current_uptime: float, unit: UnitState | None) -> StatusReport:
    """The report. directory: the runtime directory. now: in seconds since the epoch. current_uptime: in seconds."""
    service = runtime_files.running_service(directory)
    last_pass = PassStatus()
    problems: list[StatusProblem] = []
    try:
        last_pass = runtime_files.read_state(directory)
    except CapacitydError as e:
        problems.append(StatusProblem(f"{e}; the last pass's state is not shown", _STALE_ADVICE))
    if service is None:
        problems.append(StatusProblem("the service does not run, so nothing updates the Node", start_advice(unit)))
        last_pass = replace(last_pass, waits=())  # only the service's passes end waits
    else:
        stale_because = _why_stale(directory, service, current_uptime)
        if stale_because:
            problems.append(StatusProblem(stale_because, _STALE_ADVICE))
        problems += service_problems(service, last_pass, now)
        next_pass_uptime = current_uptime + (service.next_pass - now)
        last_pass = replace(last_pass, waits=_until_next_pass(last_pass.waits, next_pass_uptime))
    # A service that has ended leaves its last status. The configuration's errors in that status still hold.
    last_service = service or runtime_files.read_service(directory) or NO_STATUS
    problems += configuration_problems(last_service, _changed_files(service))
    problems += node_problems(last_pass)
    problems += resource_problems(last_pass, last_service)
    return StatusReport(
        service,
        starts_at_boot=_starts_at_boot(unit) if service else None,
        last_pass=last_pass,
        resources=resource_rows(last_pass),
        problems=tuple(problems),
    )


def _why_stale(directory: str, service: ServiceStatus, uptime: float) -> str:
    """Why the service's files may be older than its state; "" if they are up to date."""
    if error := runtime_files.why_unwritable(directory):
        return f"{directory} is not writable: {error}; the information below is stale"
    has_written_status = service is not NO_STATUS  # running_service() returns NO_STATUS before the first status
    if has_written_status and uptime > service.overdue_at_uptime:
        return "the next reconcile pass is overdue; the service may be stuck"
    return ""


def _until_next_pass(waits: tuple[Wait, ...], next_pass_uptime: float) -> tuple[Wait, ...]:
    """The waits, earliest first. Only a pass ends a wait, so each wait lasts at least until the next pass.

    next_pass_uptime: the machine's uptime at the next pass, in seconds.
    """
    lasting = [replace(wait, until=max(wait.until, next_pass_uptime)) for wait in waits]
    return tuple(sorted(lasting, key=lambda wait: wait.until))


def _changed_files(service: ServiceStatus | None) -> tuple[str, ...]:
    """The files of the configuration that have changed since the running service read them."""
    if service is None or service.configuration_files is None:
        return ()
    return changed_files(service.configuration_files.path, service.configuration_files.stamps)


def _starts_at_boot(unit: UnitState | None) -> bool | None:
    """Whether systemd starts the running service at boot; None if systemd has not started it."""
    if unit is None or not unit.active:
        return None
    return unit.enabled
