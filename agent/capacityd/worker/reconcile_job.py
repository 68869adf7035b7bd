"""The job of one reconcile pass: probe, reconcile, and save the state for the next pass, `status` and the metrics."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from capacityd.discovery.runner import discover
from capacityd.host.kubelet import device_plugin_names
from capacityd.linux.clock import uptime
from capacityd.model.codec import encode
from capacityd.model.errors import CapacitydError
from capacityd.model.host import Host
from capacityd.model.messages import JobRequest, NodeToWatch, PassResult, Probed
from capacityd.model.node import NodeState
from capacityd.model.options import WorkerOptions
from capacityd.model.plan import MachineRecord
from capacityd.model.reading import Reading, without_details
from capacityd.model.reasons import PassReason
from capacityd.model.waits import Wait, WaitReason
from capacityd.node import CredentialsCache
from capacityd.reconcile import machine_record
from capacityd.reconcile.apply import RecordFile
from capacityd.reconcile.facts import Facts
from capacityd.reconcile.reconcile import Access, reconcile
from capacityd.reconcile.result import ReconcileResult
from capacityd.worker import journal, metrics, metrics_file, pass_memory, runtime_files, send_message
from capacityd.worker.active_config import active_config
from capacityd.worker.answer import answer_of, failure_of
from capacityd.worker.pass_memory import PassMemory
from capacityd.worker.pass_state import NO_PASS, PassState, PassStatus, other_writers
from capacityd.worker.runtime_files import CheckedConfig
from capacityd.worker.selection import host_of, node_name_of, node_of

_LOCK_TIMEOUT = 30.0  # seconds that a pass waits for a user's command that writes


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The input of a pass."""

    options: WorkerOptions
    checked: CheckedConfig
    """The active configuration, and the errors of the last check, which may have rejected a newer configuration."""
    host: Host
    request: JobRequest
    last: PassMemory
    """What the last pass has left."""


@dataclass(frozen=True, slots=True)
class _Reconciled:
    """The result of reconciling the Node."""

    result: ReconcileResult
    cache: CredentialsCache
    """Contains the API server's review of the credentials, and the files with the credentials."""
    save_errors: tuple[str, ...]
    """Why the machine record could not be saved."""


def reconcile_once(options: WorkerOptions, request: JobRequest) -> int:
    """Probes, and reconciles the Node if necessary. Returns the exit status."""
    began = time.monotonic()
    last = pass_memory.from_text(request.memory)
    inputs = _Inputs(options, active_config(options), host_of(options.selection), request, last)
    config = inputs.checked.config
    at_boot = PassReason.BOOT in request.reasons
    if at_boot and config.settings.start_jitter:
        _start_later(inputs)
        return 0
    discovery = discover(config, inputs.host, node_name_of(options.selection, config, inputs.host))
    readings = discovery.readings
    send_message(Probed())
    reconciled = _reconcile(inputs, readings)
    result, review = reconciled.result, reconciled.cache.review
    failure = failure_of(result, reconciled.save_errors)
    status = _status(inputs, readings, result)
    logged = journal.logged_after(readings, last, uptime())
    counters = metrics.count_pass(last.counters, config, status, lost=request.lost, succeeded=failure is None)
    memory = PassMemory(result.memory, status, review, logged, counters)
    _show(options, PassState(_public(result.memory.node, status), status, review))
    journal.send(journal.outcome_entries(result, status, previous=last.status))
    journal.send(journal.first_pass_entries(readings, result, previous=last.status))
    journal.send(journal.reading_entries(readings, result, previous=last, logged=logged, at_boot=at_boot))
    answer = answer_of(
        result,
        readings,
        failure,
        memory=pass_memory.to_text(memory),
        credential_files=reconciled.cache.files,
        last_readings=(last.status or NO_PASS).readings,
    )
    if target := reconciled.cache.target:
        send_message(NodeToWatch(json.dumps(encode(target))))
    send_message(answer)
    pass_metrics = metrics.PassMetrics(
        config,
        status=status,
        node=result.memory.node,
        counters=counters,
        durations=discovery.durations,
        configuration_errors=len(inputs.checked.errors),
    )
    # The last step of a pass: if the file can't be written, nothing else is lost.
    duration = time.monotonic() - began
    if metrics_result := metrics_file.replace(machine_record.state_directory(), pass_metrics, duration):
        send_message(metrics_result)
    return 0


def _public(node: NodeState | None, status: PassStatus) -> NodeState | None:
    """The Node without labels that capacityd does not use: everybody on the machine may read state.json."""
    return node.with_labels_of([change.name for change in status.changes]) if node else None


def _show(options: WorkerOptions, state: PassState) -> None:
    """Saves the state for `status`, which says if the folder is not writable. No decision depends on this file."""
    with suppress(CapacitydError):
        runtime_files.write_state(options.folder, state)


def _start_later(inputs: _Inputs) -> None:
    """Probes, so that the service becomes ready, but reads the Node later, so that machines that boot together do not
    send their requests at the same time."""
    node_name = node_name_of(inputs.options.selection, inputs.checked.config, inputs.host)
    readings = discover(inputs.checked.config, inputs.host, node_name).readings
    start_in = random.uniform(0.0, inputs.checked.config.settings.start_jitter)  # noqa: S311  # jitter is no secret
    now = uptime()
    wait = Wait(now + start_in, WaitReason.START_JITTER)
    status = _status(inputs, readings, ReconcileResult.not_run(inputs.last.reconcile, now, wait))
    memory = replace(inputs.last, status=status)
    _show(inputs.options, PassState(memory.reconcile.node, status, memory.review))
    send_message(Probed())
    send_message(PassResult(memory=pass_memory.to_text(memory), start_in=start_in, status=wait.text(now)))


def _reconcile(inputs: _Inputs, readings: Mapping[str, Reading]) -> _Reconciled:
    """Reconciles the Node if necessary.

    If the machine record can't be saved (a full /var), higher quantities are still written, but nothing is lowered or
    removed.
    """
    options, config, host = inputs.options, inputs.checked.config, inputs.host
    cache = CredentialsCache(inputs.last.review)
    save_errors: list[str] = []
    directory = machine_record.state_directory()
    with runtime_files.locked(options.folder, retry_timeout=_LOCK_TIMEOUT):
        record: MachineRecord | None = None
        record_errors: list[str] = []
        with runtime_files.errors_added_to(record_errors):
            record = machine_record.read(directory)
        # If the record can't be read, machine_record_error below says why.
        unwritable = "" if record_errors else machine_record.why_unwritable(directory)
        facts = Facts(
            readings,
            config,
            now=time.time(),
            uptime=uptime(),
            reasons=inputs.request.reasons,
            machine_record=record,
            machine_record_error="".join(record_errors),
            configuration_errors=inputs.checked.errors,
            save_error=unwritable,
            memory=inputs.last.reconcile,
        )
        access = Access(
            open_node=partial(node_of, options.selection, config, host, cache),
            device_plugins=partial(device_plugin_names, host),
            record_file=RecordFile(
                intend=partial(machine_record.intend, directory),  # called before a write to the Node
                replace=partial(machine_record.replace, directory),  # called after a conflict or a rejection
            ),
        )
        result = reconcile(facts, access)
        if result.outcome is not None:
            with runtime_files.errors_added_to(save_errors):
                machine_record.confirm(directory, result.outcome.plan)
    return _Reconciled(result, cache, save_errors=tuple(save_errors))


def _status(inputs: _Inputs, readings: Mapping[str, Reading], result: ReconcileResult) -> PassStatus:
    """The status of the pass. Facts about the Node come from the last pass that knew it."""
    now = time.time()
    last = inputs.last.status or NO_PASS
    plan, outcome = result.plan, result.outcome
    status = PassStatus(
        at=now,
        reasons=tuple(sorted(inputs.request.reasons)),
        readings={name: without_details(reading) for name, reading in readings.items()},
        observe=inputs.checked.config.settings.observe,
        error=result.node_error,
        configuration=inputs.checked.config.digest,
        expect=inputs.checked.config.expectations(),
        waits=result.waits,
        changes=plan.changes if plan else last.changes,
        health=plan.health if plan else last.health,
        others=last.others,
        condition_not_stored=last.condition_not_stored,
        read_at=last.read_at,
        written_at=last.written_at,
    )
    if outcome is None:
        return status
    return replace(
        status,
        others=other_writers(outcome.node_state, outcome.plan.write.annotated, device_plugin_names(inputs.host)),
        condition_not_stored=outcome.condition_not_stored,
        read_at=now,
        written_at=now if outcome.applied else last.written_at,
    )
