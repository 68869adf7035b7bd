"""status: collects the service's state, its last readings, the Node, pending changes, and errors with advice."""

from __future__ import annotations

import time
from dataclasses import replace

from capacityd.cli.options import Options, refuse_other_sources
from capacityd.cli.output.problems import problems_in
from capacityd.cli.output.status import print_status
from capacityd.cli.output.status_report import ResourceRow, ServiceReport, StatusReport, WaitReport
from capacityd.cli.output.terminal import print_json
from capacityd.config import load
from capacityd.config.saved import changed_files
from capacityd.linux.clock import uptime
from capacityd.linux.sandbox import UNIT
from capacityd.linux.unit import UnitState, unit_state
from capacityd.model.codec import encode
from capacityd.model.errors import CapacitydError
from capacityd.model.label import is_label, resources_first
from capacityd.model.messages import ServiceStatus
from capacityd.model.node import NodeState, annotated_quantities
from capacityd.model.plan import Action, Change
from capacityd.model.quantity import plain
from capacityd.model.reading import Quantity, Reading, Unknown, is_below, outcome_of
from capacityd.reconcile import machine_record
from capacityd.worker import runtime_files
from capacityd.worker.pass_state import PassState, PassStatus

_NO_PASS = PassStatus(at=0.0)  # no pass has completed
_NO_SERVICE = ServiceStatus(pid=0, next_reconcile=0.0, overdue_at_uptime=0.0)  # the service is not running


def status(options: Options) -> int:
    """Prints the service's state. Returns exit status 1 if it is not running, 4 if there is an error.

    Raises UsageError for an option that selects another machine or Node.
    """
    refuse_other_sources(options, "status is about the service on this machine")
    now = time.time()
    unit = unit_state(UNIT)
    report = _report(runtime_files.runtime_directory(), now=now, unit=unit)
    errors = problems_in(report, now=now, unit=unit)
    if options.json:
        print_json(encode(report))
    else:
        print_status(report, errors, now=now)
    if report.service is None:
        return 1
    return 4 if errors else 0


def _report(directory: str, now: float, unit: UnitState | None) -> StatusReport:
    running = runtime_files.running(directory)
    # The service's last status, also of a service that has ended; now_running is only that of a running one.
    last_written = runtime_files.read_service(directory) or _NO_SERVICE
    now_running = _NO_SERVICE
    if running is not None and running.status is not None:
        now_running = running.status
    state = PassState()
    unreadable = ""
    try:
        state = runtime_files.read_state(directory)
    except CapacitydError as e:
        unreadable = f"{e}; the last pass's state is not shown"
    node = state.memory.node
    last_pass = state.status or _NO_PASS
    published_nothing = not unreadable and _has_published_nothing(node)
    if running is None and published_nothing and node is not None and annotated_quantities(node.annotation):
        # `withdraw` has changed the Node since the last pass.
        node = None
        last_pass = _NO_PASS
    last_pass = _with_waits_until_next_pass(last_pass, now_running, now=now)
    return StatusReport(
        node=node.name if node else None,
        observe=last_pass.observe,
        reasons=last_pass.reasons,
        next_reconcile=now_running.next_reconcile or None,
        error=now_running.error or last_pass.error,
        event_source_errors=now_running.event_source_errors,
        configuration_errors=last_written.configuration_errors,
        configuration=last_pass.configuration or None,
        previous_configuration_active=bool(last_written.configuration_errors and last_written.previous_active),
        resources=_resources(last_pass, node),
        waits=_waits(last_pass, now),
        last_reconcile=last_pass.at or None,
        last_read=last_pass.read_at,
        last_write=last_pass.written_at,
        stale_reason=unreadable or (_stale_reason(directory, now_running) if running else ""),
        pass_running=now_running.pass_running,
        condition_not_stored=last_pass.condition_not_stored,
        other_resources=last_pass.others,
        slow_activity=now_running.slow_activity,
        slow_since=now_running.slow_since or None,
        metrics_error=last_written.metrics_error,
        metrics_advice=last_written.metrics_advice,
        watched_since=now_running.watched_since,
        not_watched=now_running.not_watched,
        published_nothing=published_nothing,
        changed_files=_changed_files(now_running, last_pass.configuration),
        starts_at_boot=unit.enabled if running and unit and unit.active else None,
        impersonated=state.review.user if state.review and state.review.impersonated else None,
        other_agent=last_pass.health.other_agent.quantities if last_pass.health.other_agent else None,
        service=ServiceReport(running.status.pid if running.status else None) if running else None,
    )


def _has_published_nothing(node: NodeState | None) -> bool:
    """Whether the Node keeps nothing of this machine, as far as the machine knows. node: as a pass last knew it."""
    try:
        record = machine_record.read(machine_record.state_directory())
    except CapacitydError:
        return False
    if record is None:
        return node is None or not annotated_quantities(node.annotation)
    return not record.all_names


def _changed_files(service: ServiceStatus, active: str) -> tuple[str, ...]:
    """The files that make the configuration differ from the active one. active: the hash of the active one.

    Files that this user may not read count as soon as they are saved.
    """
    files = service.configuration_files
    changed = changed_files(files.path, files.stamps) if files else ()
    if not files or not changed:
        return ()
    loaded = load(files.path)
    return () if not loaded.problems and loaded.config.digest == active else changed


def _with_waits_until_next_pass(last_pass: PassStatus, service: ServiceStatus, now: float) -> PassStatus:
    """The last pass, with waits that last at least until the next pass: what waits is not done before it.

    Without a service, nothing waits. now: in seconds since the epoch.
    """
    if service is _NO_SERVICE:
        return replace(last_pass, waits=())
    next_pass_uptime = uptime() + (service.next_reconcile - now)
    waits = tuple(replace(wait, until=max(wait.until, next_pass_uptime)) for wait in last_pass.waits)
    return replace(last_pass, waits=waits)


def _waits(last_pass: PassStatus, now: float) -> tuple[WaitReport, ...]:
    """The reasons for later passes, earliest first."""
    current_uptime = uptime()
    return tuple(
        WaitReport(
            reason=wait.reason,
            name=wait.name or None,
            until=wait.until_epoch(now, current_uptime),
            text=wait.text(current_uptime),
        )
        for wait in sorted(last_pass.waits, key=lambda wait: wait.until)
    )


def _stale_reason(directory: str, service: ServiceStatus) -> str:
    """Why the files may be older than the service's state; "" if they are up to date."""
    if error := runtime_files.why_unwritable(directory):
        return f"{directory} is not writable: {error}; the information below is stale"
    if service is not _NO_SERVICE and uptime() > service.overdue_at_uptime:
        return "the next reconcile pass is overdue; the service may be stuck"
    return ""


def _resources(last_pass: PassStatus, node: NodeState | None) -> tuple[ResourceRow, ...]:
    changes = {change.name: change for change in last_pass.changes}
    return tuple(
        _resource(name, last_pass, node, changes.get(name))
        for name in sorted({*last_pass.readings, *changes}, key=resources_first)
    )


def _resource(name: str, last_pass: PassStatus, node: NodeState | None, change: Change | None) -> ResourceRow:
    reading = last_pass.readings.get(name)
    health = last_pass.health
    capacity = node.stored(name) if node else None
    allocatable = (node.allocatable or {}).get(name) if node else None
    wait = next((wait for wait in last_pass.waits if wait.name == name and wait.holds_change), None)
    overwritten = None
    if name in health.not_allocatable:
        _published, overwritten = health.not_allocatable[name]
    row = ResourceRow(
        name=name,
        reading=_reading(reading, change, not_configured=name in health.not_configured),
        expect=last_pass.expect.get(name),
        published=annotated_quantities(node.annotation).get(name) if node else None,
        # The API server returns 1000 as "1k".
        capacity=None if capacity is None else plain(capacity),
        allocatable=None if allocatable is None else plain(allocatable),
        held_until=wait.until_epoch(time.time(), uptime()) if wait else None,
        cause=reading.cause if isinstance(reading, Unknown) else None,
        refused=change is not None and change.action is Action.REFUSE,
        denied=name in health.denied,
        not_configured=name in health.not_configured,
        below_expect=_is_below(name, last_pass, change),
        not_allocatable=name in health.not_allocatable,
        overwritten=overwritten,
    )
    wrong = (row.refused, row.denied, row.not_configured, row.below_expect, row.not_allocatable)
    degraded = row.cause is not None or any(wrong)
    if wait is not None and row.cause is None:  # for an unknown resource, the cause is more important
        note = wait.text(uptime())
    else:
        note = _note(row, reading, change, observe=last_pass.observe)
    return replace(row, degraded=degraded, note=note)


def _is_below(name: str, last_pass: PassStatus, change: Change | None) -> bool:
    """Whether a resource is less than expected. There may be no plan yet, or the plan may be older than `expect`."""
    reading = last_pass.readings.get(name)
    expect = last_pass.expect.get(name)
    if reading is None or expect is None:
        return False
    if name in last_pass.health.below_expected:
        quantity, _expected_by_plan = last_pass.health.below_expected[name]
        return quantity < expect
    if change and change.action in (Action.HOLD, Action.REFUSE, Action.DENY):
        return False
    return is_below(reading, expect)


def _reading(reading: Reading | None, change: Change | None, *, not_configured: bool) -> int | str | None:
    """The quantity or, if there is none, the outcome; None if it is unknown whether the resource is configured."""
    if change and is_label(change.name):
        return None
    if reading is None:
        # Without a reading, a plan keeps the key because the file that configures it may be unreadable.
        return None if change and change.action is Action.KEEP and not not_configured else "unconfigured"
    return reading.value if isinstance(reading, Quantity) else outcome_of(reading).value


def _note(row: ResourceRow, reading: Reading | None, change: Change | None, *, observe: bool) -> str:
    """The reason that the last column shows."""
    if change and (row.refused or row.denied):
        verb = "refused" if row.refused else "denied"
        return f"{verb}: {change.reason}"
    if change and observe and change.action.writes:
        result = plain(change.new) if change.new else "removed"
        return f"would be {result}: {change.reason}"
    if reading is None:
        return change.reason if change and change.action is Action.KEEP else ""
    return reading.warning if isinstance(reading, Quantity) else reading.reason
