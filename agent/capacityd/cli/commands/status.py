"""status: collects the service's state, its last readings, the Node, pending changes and errors with advice."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from capacityd.cli.output.problems import problems_in
from capacityd.cli.output.status import ResourceRow, ServiceReport, StatusReport, print_status
from capacityd.cli.output.terminal import print_json
from capacityd.cli.parser import refuse_other_sources
from capacityd.host.cpu_memory import usage
from capacityd.linux.clock import uptime
from capacityd.linux.unit import unit_state
from capacityd.model.codec import encode
from capacityd.model.errors import CapacitydError, HostError
from capacityd.model.messages import ServiceStatus
from capacityd.model.plan import Action, Change
from capacityd.model.quantity import plain
from capacityd.model.text import duration_text
from capacityd.worker import runtime_files
from capacityd.worker.pass_state import NodeStatus, Outcome, PassStatus, ReadingStatus

_NO_PASS = PassStatus(at=0.0, reasons=())
_NO_SERVICE = ServiceStatus(pid=0, next_reconcile=0.0, overdue_at_uptime=0.0)
_UNIT = "capacityd.service"


def status(options: argparse.Namespace) -> int:
    """Prints the service's state. Returns exit status 1 if it is not running, 4 if there is an error.

    Raises UsageError for an option that selects another machine or Node, NodeError only with --kubeconfig.
    """
    refuse_other_sources(options, "status is about the service on this machine")
    directory, now = runtime_files.runtime_directory(), time.time()
    report = _report(directory, now)
    if options.kubeconfig is not None:
        report = replace(report, device_classes=_device_classes(report, options.kubeconfig))
    errors = problems_in(report, now, unit_state(_UNIT) if report.service is None else None)
    if options.json:
        print_json(encode(report))
    else:
        print_status(report, errors, now)
    if report.service is None:
        return 1
    return 4 if errors else 0


def _report(directory: str, now: float) -> StatusReport:
    running, last_service = runtime_files.running(directory), runtime_files.read_service(directory) or _NO_SERVICE
    last_pass, unreadable = None, ""
    try:
        last_pass = runtime_files.read_state(directory).status
    except CapacitydError as e:
        unreadable = f"{e}; what the last pass left is not shown"
    last_pass, resident = last_pass or _NO_PASS, (running and running.status) or _NO_SERVICE
    return StatusReport(
        node=last_pass.node.name if last_pass.node else None,
        observe=last_pass.observe,
        reasons=last_pass.reasons,
        next_reconcile=resident.next_reconcile or None,
        error=resident.error or last_pass.error,
        event_source_errors=resident.event_source_errors,
        configuration_errors=last_service.configuration_errors,
        configuration=last_pass.configuration or None,
        previous_configuration_active=bool(last_service.configuration_errors and last_service.previous_active),
        resources=_resources(last_pass, now),
        last_reconcile=last_pass.at or None,
        last_read=last_pass.node.read_at if last_pass.node else None,
        last_write=last_pass.written_at,
        stale_reason=unreadable or (_stale_reason(directory, resident) if running else ""),
        pass_running=resident.pass_running,
        condition_not_stored=bool(last_pass.node and last_pass.node.condition_not_stored),
        other_resources=last_pass.node.others if last_pass.node else {},
        slow_activity=resident.slow_activity,
        slow_since=resident.slow_since or None,
        metrics_error=last_service.metrics_error,
        metrics_advice=last_service.metrics_advice,
        service=_service(running.status) if running else None,
    )


def _device_classes(report: StatusReport, kubeconfig: str) -> Mapping[str, tuple[str, ...]]:
    """The DeviceClasses that serve a published resource, as far as the user of this kubeconfig may list them.

    A kubelet may not (NodeRules in k8s.io/kubernetes, plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go).
    """
    from capacityd.node.node_list import read_device_classes  # with ssl 15 ms, for this option only

    classes = read_device_classes(kubeconfig)
    return {
        row.name: classes[row.name] for row in report.resources if row.published is not None and row.name in classes
    }


def _service(status: ServiceStatus | None) -> ServiceReport:
    """The resident process, with its memory and CPU time as far as they can be read."""
    if status is None:
        return ServiceReport()
    report = ServiceReport(
        pid=status.pid,
        next_reconcile=status.next_reconcile,
        error=status.error,
        event_source_errors=status.event_source_errors,
    )
    with suppress(HostError):
        used = usage(status.pid)
        report = replace(report, memory_bytes=used.memory, cpu_seconds=used.cpu)
    return report


def _stale_reason(directory: str, service: ServiceStatus) -> str:
    """Why the files may be older than the service's state; "" if they are up to date."""
    if error := runtime_files.unwritable(directory):
        return f"{directory} is not writable: {error}; the information below is stale"
    if service is not _NO_SERVICE and uptime() > service.overdue_at_uptime:
        return "the next reconcile pass is overdue; the service may be stuck"
    return ""


def _resources(last_pass: PassStatus, now: float) -> tuple[ResourceRow, ...]:
    node = last_pass.node or NodeStatus("", 0.0)
    changes = {change.name: change for change in node.changes}
    return tuple(
        _resource(name, last_pass, node, changes.get(name), now) for name in sorted({*last_pass.readings, *changes})
    )


def _resource(name: str, last_pass: PassStatus, node: NodeStatus, change: Change | None, now: float) -> ResourceRow:
    reading, expect = last_pass.readings.get(name), last_pass.expect.get(name)
    action = change.action if change else None
    row = ResourceRow(
        name=name,
        reading=_reading(reading, action),
        expect=expect,
        published=last_pass.published.get(name),
        # The API server returns 1000 as "1k".
        capacity=plain(node.capacity[name]) if name in node.capacity else None,
        allocatable=plain(node.allocatable[name]) if name in node.allocatable else None,
        held_until=last_pass.held_until.get(name),
        cause=reading.cause if reading else None,
        refused=action is Action.REFUSE,
        denied=action is Action.DENY,
        below_expect=action not in (Action.REFUSE, Action.DENY) and _is_below(name, last_pass, node),
        not_allocatable=name in node.not_allocatable,
        overwritten=node.not_allocatable[name][1] if name in node.not_allocatable else None,
    )
    unknown = reading is not None and reading.outcome is Outcome.UNKNOWN
    degraded = unknown or row.refused or row.denied or row.below_expect or row.not_allocatable
    return replace(row, degraded=degraded, note=_note(row, reading, change, now, observe=last_pass.observe))


def _is_below(name: str, last_pass: PassStatus, node: NodeStatus) -> bool:
    """Whether a resource is less than expected. After the Node was read, the expectation may have changed."""
    reading, expect = last_pass.readings.get(name), last_pass.expect.get(name)
    if expect is None or reading is None or reading.outcome is Outcome.UNKNOWN:
        return False
    if name in node.below_expected:
        return node.below_expected[name][0] < expect
    # A quantity that is held back is not on the Node yet; an absent reading does not tell whether `when` applies.
    known = reading.quantity is not None and name not in last_pass.held_until
    return known and (reading.quantity or 0) < expect


def _reading(reading: ReadingStatus | None, action: Action | None) -> int | str | None:
    """The quantity, else the outcome; None if it is not known whether the resource is configured."""
    if reading is None:
        # Without a reading, a key is kept because the file that configures it may be unreadable.
        return None if action is Action.KEEP else "unconfigured"
    return reading.quantity if reading.outcome is Outcome.QUANTITY else reading.outcome.value


def _note(row: ResourceRow, reading: ReadingStatus | None, change: Change | None, now: float, *, observe: bool) -> str:
    """The pending change or the reason, for the last column."""
    if row.held_until is not None:
        quantity, published, wait = row.reading, row.published, duration_text(row.held_until - now)
        if isinstance(quantity, int) and (published is None or quantity > published):
            return f"set to {quantity} in {wait} (rate limit)"
        return f"{f'lowered to {quantity}' if isinstance(quantity, int) else 'removed'} in {wait} unless it recovers"
    if change and (row.refused or row.denied):
        return f"{'refused' if row.refused else 'denied'}: {change.reason}"
    if change and observe and change.action.writes:
        return f"would be {plain(change.new) if change.new else 'removed'}: {change.reason}"
    if reading is None:
        return change.reason if change and change.action is Action.KEEP else ""
    return reading.reason if reading.outcome is not Outcome.QUANTITY or reading.reason else ""
