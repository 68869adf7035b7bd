"""The job of one reconcile pass: probe, reconcile, and save what the next pass, status and the metrics need."""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from capacityd.config import load
from capacityd.discovery.runner import Discovery, discover, probe
from capacityd.host.kubelet import device_plugin_names, kubelet_started_at
from capacityd.linux.clock import uptime
from capacityd.model.config import Config
from capacityd.model.host import Host
from capacityd.model.reading import Reading, Unknown, reading_as_dict
from capacityd.reconcile import machine_record
from capacityd.reconcile.reconcile import ReconcileResult, expectations, reconcile
from capacityd.reconcile.state import PassContext
from capacityd.worker import journal, metrics, runtime_files, send_message
from capacityd.worker.context import host_of, node_name_of, node_of

_LOCK_TIMEOUT = 30.0  # seconds that a pass waits for a command by hand that writes


def reconcile_once(options: argparse.Namespace, reasons: frozenset[str]) -> int:
    """Probes, and reconciles the Node if it has to."""
    # Without a snapshot there was no room for one at boot: then the files themselves are what would be in it.
    config, host = runtime_files.kept_config(options.folder) or load(options.config).config, host_of(options)
    if "boot" in reasons and config.settings.start_jitter:
        return _start_later(options, config, host, reasons)
    began = time.monotonic()
    metrics.begin(options.folder, config)
    before = runtime_files.read(options.folder, "status.json")
    discovery = discover(config, host, node_name_of(options, config, host))
    readings = discovery.readings
    send_message({"probed": True})
    save_errors: list[str] = []
    found = _reconcile_and_save(options, config, host, readings, reasons, save_errors)
    if not save_errors:  # else the next pass would not know that this has been reported
        journal.send(journal.reading_entries(readings, found, before, first="boot" in reasons))
    send_message(
        {
            "done": True,
            "failed": found.failed,
            "error": found.error,
            "retry_after": found.retry_after,
            "cause": found.cause,
            "files": found.files,
            "requeue_after": found.requeue_after,
            "node_read": found.outcome is not None,
            "status": _status_line(readings, found),
        }
    )
    _write_metrics(options.folder, config, discovery, found, time.monotonic() - began)
    return 0


def _write_metrics(where: str, config: Config, discovery: Discovery, found: ReconcileResult, duration: float) -> None:
    """Last in a pass, so that a file that can't be written costs it nothing."""
    figures = metrics.PassMetrics(
        config,
        discovery.readings,
        runtime_files.read(where, "status.json"),
        duration,
        discovery.durations,
        configuration_errors=len(_configuration_errors(where)),
    )
    wrote = int(found.outcome is not None and found.outcome.applied)
    message, bad = metrics.finish(where, figures, not found.failed, wrote)
    if message:
        journal.send([journal.Entry("metrics", journal.WARNING if bad else journal.NOTICE, message)])


def _start_later(options: argparse.Namespace, config: Config, host: Host, reasons: frozenset[str]) -> int:
    """Probes, so that the service is ready, and reads the Node later: a fleet that boots at once causes no peak."""

    readings = probe(config, host, node_name_of(options, config, host))
    start_in = random.uniform(0.0, config.settings.start_jitter)  # noqa: S311  # jitter is no secret
    where = options.folder
    found = ReconcileResult(runtime_files.kept_memory(where), requeue_after=start_in)
    with runtime_files.collecting_errors([]):
        runtime_files.write(
            where, "status.json", runtime_files.read(where, "status.json") | _status(readings, reasons, found, config)
        )
    send_message({"probed": True})
    send_message(
        {"done": True, "start_in": start_in, "node_read": False, "status": f"reading the Node in {start_in:.0f} s"}
    )
    return 0


def _reconcile_and_save(
    options: argparse.Namespace,
    config: Config,
    host: Host,
    readings: Mapping[str, Reading],
    reasons: frozenset[str],
    save_errors: list[str],
) -> ReconcileResult:
    """Reconciles the Node if it has to, and saves the result. save_errors: receives why something could not be saved.

    Where nothing can be kept (a full /run or /var), the Node still gets what it needs, but nothing is lowered or
    removed: that it came back meanwhile would not be remembered.
    """
    where, directory = options.folder, machine_record.state_directory()

    with runtime_files.locked(where, _LOCK_TIMEOUT):
        memory, reviews = runtime_files.kept_memory(where), runtime_files.kept_reviews(where)
        with runtime_files.collecting_errors(save_errors):
            runtime_files.keep_memory(where, memory)
        record = machine_record.read(directory)
        found = reconcile(
            config,
            readings,
            reasons,
            memory,
            PassContext(
                now=time.time(),
                uptime=uptime(),
                kubelet_started_at=kubelet_started_at(host),
                record=record,
                configuration_errors=_configuration_errors(where),
                unwritable="; ".join([*save_errors, *filter(None, [machine_record.not_writable(directory)])]),
            ),
            lambda: node_of(options, config, host, config.settings.observe, reviews),
            lambda: device_plugin_names(host),
            partial(machine_record.intend, directory, record),
        )
        with runtime_files.collecting_errors(save_errors):
            if found.outcome is not None and not config.settings.observe:
                machine_record.settle(directory, machine_record.read(directory), found.outcome.plan)
        with runtime_files.collecting_errors(save_errors):
            runtime_files.keep_reviews(where, reviews)
            runtime_files.keep_memory(where, found.memory)
    before = runtime_files.read(where, "status.json")
    with runtime_files.collecting_errors(save_errors):
        runtime_files.write(where, "status.json", before | _status(readings, reasons, found, config))
    journal.send(journal.outcome_entries(found, before))
    if reason := found.unwritable or "".join(save_errors[:1]):
        message = f"{reason}; until this is fixed, nothing is lowered or removed"
        cause = found.cause if found.failed else "state"
        return replace(found, error="; ".join(filter(None, (message, found.error))), failed=True, cause=cause)
    return found


def _configuration_errors(where: str) -> tuple[str, ...]:
    """The errors of the last check. A rejected reload leaves the previous configuration active, without them."""
    return tuple(runtime_files.read(where, "check.json").get("errors", ()))


def _status(
    readings: Mapping[str, Reading], reasons: frozenset[str], found: ReconcileResult, config: Config
) -> dict[str, object]:
    """What `status` shows of this pass. Values of the Node stay from the last pass that read it."""
    status: dict[str, object] = {
        "last_reconcile": time.time(),
        "reasons": sorted(reasons),
        "observe": config.settings.observe,
        "readings": [reading_as_dict(name, reading) for name, reading in readings.items()],
        "error": found.error,
        "published": dict(found.memory.published),
        "configuration": config.digest,
        "expect": expectations(config),
        "requeue_after": found.requeue_after,
        "held_until": {name: time.time() + left for name, left in found.held.items()},
    }
    if found.outcome is not None:
        names = {c.name for c in found.outcome.plan.changes}
        node, health = found.outcome.state, found.outcome.plan.health
        status |= {
            "condition": [node.condition.reason, node.condition.status] if node.condition else None,
            "denied": dict(health.denied),
            "below_expected": {name: list(pair) for name, pair in health.below_expected.items()},
            "not_allocatable": {name: list(pair) for name, pair in health.not_allocatable.items()},
            "last_read": time.time(),
            "plan": found.outcome.plan.as_dict(),
            "capacity": {n: q for n, q in (node.capacity or {}).items() if n in names},
            "allocatable": {n: q for n, q in (node.allocatable or {}).items() if n in names},
        }
        if found.outcome.applied:
            status["last_write"] = time.time()
    return status


def _status_line(readings: Mapping[str, Reading], found: ReconcileResult) -> str:
    """One line for systemctl status."""
    if found.error:
        return f"waiting for a kubeconfig: {found.error}" if found.cause == "credentials" else found.error
    unknown = sum(isinstance(r, Unknown) for r in readings.values())
    parts = [f"{len(found.memory.published)} of {len(readings)} resources published"]
    parts += [f"{unknown} unknown"] if unknown else []
    parts += [f"{len(found.memory.denied)} denied"] if found.memory.denied else []
    parts += [f"{len(found.held)} held back"] if found.held else []
    return ", ".join(parts)
