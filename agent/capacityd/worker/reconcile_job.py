"""The job of one reconcile pass: probe, reconcile, and leave what the next pass, status and the metrics need."""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from capacityd.config import load
from capacityd.discovery.runner import discover, probe
from capacityd.host.kubelet import device_plugin_names, kubelet_started_at
from capacityd.linux.clock import uptime
from capacityd.model.config import Config
from capacityd.model.errors import StateError
from capacityd.model.host import Host
from capacityd.model.messages import Failure, PassReason, PassResult, Probed, RetryCause
from capacityd.model.node import MachineRecord
from capacityd.model.reading import Reading, Unknown
from capacityd.node import Review
from capacityd.reconcile import machine_record
from capacityd.reconcile.reconcile import Access, ReconcileResult, expectations, reconcile
from capacityd.reconcile.state import PassContext
from capacityd.worker import journal, metrics, runtime_files, send_message
from capacityd.worker.await_node import await_node, registration_expected
from capacityd.worker.context import host_of, node_name_of, node_of
from capacityd.worker.pass_state import NodeStatus, PassState, PassStatus, ReadingStatus

_LOCK_TIMEOUT = 30.0  # seconds that a pass waits for a command by hand that writes


@dataclass(frozen=True, slots=True)
class _Pass:
    """What a pass is made with."""

    options: argparse.Namespace
    config: Config
    configuration_errors: tuple[str, ...]
    """Of the last check. A rejected reload leaves the previous configuration active, without them."""
    host: Host
    reasons: frozenset[PassReason]
    state: PassState
    """What the last pass left."""
    save_errors: tuple[str, ...]
    """Why the state could not be read, or could not be written."""


def reconcile_once(options: argparse.Namespace, reasons: frozenset[PassReason]) -> int:
    """Probes, and reconciles the Node if it has to."""
    began = time.monotonic()
    this = _prepared(options, reasons)
    if PassReason.BOOT in reasons and this.config.settings.start_jitter:
        return _start_later(this)
    discovery = discover(this.config, this.host, node_name_of(options, this.config, this.host))
    readings = discovery.readings
    send_message(Probed())
    reviews = dict(this.state.reviews)
    result, errors = _reconciled(this, readings, reviews)
    status = _status(this, readings, result)
    logged = journal.logged_after(readings, this.state, uptime())
    counters = metrics.counted(
        this.state.counters, this.config, status, options.lost, succeeded=_failure(result, errors) is None
    )
    with runtime_files.collecting_errors(errors):
        runtime_files.write_state(options.folder, PassState(result.state, status, reviews, logged, counters))
    journal.send(journal.outcome_entries(result, this.state.status))
    if not errors:  # else the next pass would not know that this has been reported
        journal.send(journal.reading_entries(readings, result, this.state, logged, PassReason.BOOT in reasons))
    failure = _failure(result, errors)
    answer = PassResult(
        failure,
        requeue_after=result.requeue_after,
        node_read=result.outcome is not None,
        status=_status_line(readings, result, failure),
    )
    if (
        failure
        and failure.cause is RetryCause.MISSING
        and (seconds := registration_expected(this.config, this.host, options))
    ):
        send_message(replace(answer, awaits_node=seconds))
        if await_node(node_of(options, this.config, this.host, reads_only=True, reviews=reviews), seconds):
            return reconcile_once(options, reasons)
    send_message(answer)
    figures = metrics.PassMetrics(
        this.config, readings, status, counters, discovery.durations, len(this.configuration_errors)
    )
    # Last in a pass, so that a file that can't be written costs it nothing.
    if written := metrics.replace_textfile(this.state.counters.path, figures, time.monotonic() - began):
        send_message(written)
    return 0


def _prepared(options: argparse.Namespace, reasons: frozenset[PassReason]) -> _Pass:
    """Reads the configuration and the state of the last pass, and makes sure that this pass can leave its own."""
    where, errors, state = options.folder, list[str](), PassState()
    if saved := runtime_files.read_config(where):
        config, configuration_errors = saved.restored(), saved.errors
    else:  # there was no room for it at boot: then the files themselves are what would be in it
        loaded = load(options.config)
        config, configuration_errors = loaded.config, tuple(problem.located() for problem in loaded.problems)
    with runtime_files.collecting_errors(errors):
        state = runtime_files.read_state(where)
    with runtime_files.collecting_errors(errors):
        runtime_files.reserve_state(where)
    return _Pass(options, config, configuration_errors, host_of(options), reasons, state, tuple(errors))


def _start_later(this: _Pass) -> int:
    """Probes, so that the service is ready, and reads the Node later: a fleet that boots at once causes no peak."""
    readings = probe(this.config, this.host, node_name_of(this.options, this.config, this.host))
    start_in = random.uniform(0.0, this.config.settings.start_jitter)  # noqa: S311  # jitter is no secret
    status = _status(this, readings, ReconcileResult(this.state.reconcile, requeue_after=start_in))
    with runtime_files.collecting_errors([]):
        runtime_files.write_state(this.options.folder, replace(this.state, status=status))
    send_message(Probed())
    send_message(PassResult(start_in=start_in, node_read=False, status=f"reading the Node in {start_in:.0f} s"))
    return 0


def _reconciled(
    this: _Pass, readings: Mapping[str, Reading], reviews: MutableMapping[str, Review]
) -> tuple[ReconcileResult, list[str]]:
    """Reconciles the Node if it has to. Returns the result, and why something could not be saved.

    Where nothing can be kept (a full /run or /var), the Node still gets what it needs, but nothing is lowered or
    removed: that it came back meanwhile would not be remembered. reviews: is updated.
    """
    options, config, host, errors = this.options, this.config, this.host, [*this.save_errors]
    directory = machine_record.state_directory()
    with runtime_files.locked(options.folder, _LOCK_TIMEOUT):
        record, record_error = _read_record(directory)
        unwritable = [*errors, "" if record_error else machine_record.not_writable(directory)]
        result = reconcile(
            config,
            readings,
            PassContext(
                now=time.time(),
                uptime=uptime(),
                reasons=this.reasons,
                kubelet_started_at=kubelet_started_at(host),
                record=record,
                record_error=record_error,
                configuration_errors=this.configuration_errors,
                unwritable="; ".join(filter(None, unwritable)),
            ),
            this.state.reconcile,
            Access(
                partial(node_of, options, config, host, config.settings.observe, reviews),
                partial(device_plugin_names, host),
                partial(machine_record.intend, directory),
            ),
        )
        with runtime_files.collecting_errors(errors):
            if result.outcome is not None and not config.settings.observe:
                machine_record.settle(directory, result.outcome.plan)
    return result, errors


def _read_record(directory: str) -> tuple[MachineRecord | None, str]:
    """The machine's record, or why it can't be read."""
    try:
        return machine_record.read(directory), ""
    except StateError as e:
        return None, str(e)


def _failure(result: ReconcileResult, save_errors: Sequence[str]) -> Failure | None:
    """What has gone wrong in a pass, with what could not be saved."""
    failure = result.failure
    unsaved = result.unwritable or "".join(save_errors[:1])
    if not unsaved:
        return failure
    message = f"{unsaved}; until this is fixed, nothing is lowered or removed"
    if failure is None or result.unwritable:
        return Failure(message, RetryCause.STATE)
    return replace(failure, message=f"{message}; {failure.message}")


def _status(this: _Pass, readings: Mapping[str, Reading], result: ReconcileResult) -> PassStatus:
    """What `status` shows of this pass. Values of the Node stay from the last pass that read it."""
    now, last = time.time(), this.state.status
    node, written_at = (last.node, last.written_at) if last else (None, None)
    if result.outcome is not None:
        node = NodeStatus.of(result.outcome, now)
        written_at = now if result.outcome.applied else written_at
    return PassStatus(
        at=now,
        reasons=tuple(sorted(this.reasons)),
        readings={name: ReadingStatus.of(reading) for name, reading in readings.items()},
        observe=this.config.settings.observe,
        error=result.node_error,
        published=dict(result.state.published),
        configuration=this.config.digest,
        expect=expectations(this.config),
        requeue_after=result.requeue_after,
        held_until={name: now + left for name, left in result.held.items()},
        node=node,
        written_at=written_at,
    )


def _status_line(readings: Mapping[str, Reading], result: ReconcileResult, failure: Failure | None) -> str:
    """One line for systemctl status."""
    if failure:
        waits = failure.cause is RetryCause.CREDENTIALS
        return f"waiting for a kubeconfig: {failure.message}" if waits else failure.message
    unknown = sum(isinstance(r, Unknown) for r in readings.values())
    parts = [f"{len(result.state.published)} of {len(readings)} resources published"]
    parts += [f"{unknown} unknown"] if unknown else []
    parts += [f"{len(result.state.denied)} denied"] if result.state.denied else []
    parts += [f"{len(result.held)} held back"] if result.held else []
    return ", ".join(parts)
