"""The job of one reconcile pass: runs it, and saves what it has found for `status`, the journal and the metrics."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from capacityd.discovery.runner import probe
from capacityd.host.kubelet import device_plugin_names
from capacityd.linux.clock import BOOT_SECONDS, uptime
from capacityd.model.codec import encode
from capacityd.model.errors import CapacitydError
from capacityd.model.host import Host
from capacityd.model.messages import JobRequest, NodeToWatch, PassResult, Probed
from capacityd.model.options import WorkerOptions
from capacityd.model.published import published_in
from capacityd.model.reading import Reading, without_details
from capacityd.model.reasons import PassReason
from capacityd.model.waits import Wait, WaitReason
from capacityd.node import CredentialsCache
from capacityd.reconcile.inputs import Inputs
from capacityd.reconcile.memory import MIN_INTERVAL
from capacityd.reconcile.reconcile import Pass, PassEnd
from capacityd.worker import journal, metrics_file, pass_memory, runtime_files, send_message
from capacityd.worker.active_config import active_config
from capacityd.worker.answer import answer_of
from capacityd.worker.pass_memory import PassMemory
from capacityd.worker.pass_state import NO_PASS, PassState, PassStatus, other_writers
from capacityd.worker.runtime_files import CheckedConfig
from capacityd.worker.selection import host_of, node_of

_RESETS_LIMITS = frozenset({PassReason.BOOT, PassReason.CONFIG, PassReason.CREDENTIALS})
"""Reasons for a pass that no limit and no denial delays: a person's intent, or new credentials."""

_ONLY_READINGS = frozenset(
    {
        PassReason.ADDRESSES,
        PassReason.DEVICES,
        PassReason.FILE,
        PassReason.HARDWARE,
        PassReason.LINKS,
        PassReason.MOUNTS,
        PassReason.REQUEUE,
        PassReason.SWAPS,
    }
)
"""Reasons for a pass that can only change a reading. If none has changed, the pass sends nothing."""

_HEARTBEAT_SHARE = 0.5
"""A pass refreshes the condition's heartbeat if it is older than this share of the resync period."""


@dataclass(slots=True)
class _Job:
    """A pass as the job runs it."""

    options: WorkerOptions
    request: JobRequest
    checked: CheckedConfig
    """The active configuration, and the errors of the last check, which may have rejected a newer configuration."""
    host: Host
    last: PassMemory
    """What the last pass has left."""

    def read_machine(self, node_name: str | None) -> Mapping[str, Reading]:
        """Reads all resources, and tells the service that the machine has been read."""
        readings = probe(self.checked.config, self.host, node_name)
        send_message(Probed())
        return readings

    def inputs(self, readings: Mapping[str, Reading]) -> Inputs:
        """What the pass knows besides the Node."""
        config, now = self.checked.config, uptime()
        settings = config.settings
        lower_after = settings.lower_after
        if now < BOOT_SECONDS:  # drivers and devices may still appear
            lower_after = max(lower_after, settings.lower_after_boot)
        return Inputs(
            config,
            readings,
            self.checked.errors or config.errors(),  # the configuration in use may have errors that no check has listed
            now=time.time(),
            uptime=now,
            lower_after=lower_after,
            heartbeat_after=max(MIN_INTERVAL, settings.resync * _HEARTBEAT_SHARE),
        )


def reconcile_once(options: WorkerOptions, request: JobRequest) -> int:
    """Runs a pass. Returns the exit status."""
    last = pass_memory.from_text(request.memory)
    job = _Job(options, request, active_config(options), host_of(options.selection), last)
    config = job.checked.config
    if PassReason.BOOT in request.reasons and config.settings.start_jitter:
        _start_later(job)
        return 0
    cache = CredentialsCache(last.review)
    end = Pass(
        node_of(options.selection, config, job.host, cache),
        read_machine=job.read_machine,
        inputs_of=job.inputs,
        device_plugins=partial(device_plugin_names, job.host),
        memory=last.reconcile,
        writes=not config.settings.observe,
        may_send_nothing=request.node_unchanged and request.reasons <= _ONLY_READINGS,
        resets_limits=not request.reasons.isdisjoint(_RESETS_LIMITS),
    ).run()
    _finish(job, end, cache)
    return 0


def _finish(job: _Job, end: PassEnd, cache: CredentialsCache) -> None:
    """Answers the service, and writes the files and the journal."""
    config, last = job.checked.config, job.last
    status = _status(job, end)
    _show(job, PassState(status, _impersonated(cache)))
    journal.send(journal.pass_entries(end, status, last.status or NO_PASS))
    memory = PassMemory(end.memory, status, cache.review, textfile=config.settings.textfile)
    answer = answer_of(
        end,
        status,
        last.status or NO_PASS,
        memory=pass_memory.to_text(memory),
        credential_files=cache.files,
    )
    if target := cache.target:
        send_message(NodeToWatch(json.dumps(encode(target))))
    send_message(answer)
    # The last step of a pass: if the file can't be written, nothing else is lost.
    if metrics_result := metrics_file.replace(last.textfile, config, status):
        send_message(metrics_result)


def _impersonated(cache: CredentialsCache) -> str:
    """The user as whom the service acts; "": the user of its credentials."""
    review = cache.review
    return review.user if review and review.impersonated else ""


def _show(job: _Job, state: PassState) -> None:
    """Saves the state for `status`, which says if the folder is not writable. No decision depends on this file."""
    with suppress(CapacitydError):
        runtime_files.write_state(job.options.folder, state)


def _start_later(job: _Job) -> None:
    """Reads the machine, so that the service becomes ready, but reads the Node later, so that machines that boot
    together do not send their requests at the same time."""
    settings = job.checked.config.settings
    start_in = random.uniform(0.0, settings.start_jitter)  # noqa: S311  # jitter is no secret
    inputs = job.inputs(job.read_machine(None))
    wait = Wait(inputs.uptime + start_in, WaitReason.START_JITTER)
    status = replace(_status(job, PassEnd(inputs, job.last.reconcile)), waits=(wait,))
    memory = replace(job.last, status=status)
    _show(job, PassState(status))
    text = wait.text(inputs.uptime)
    send_message(PassResult(memory=pass_memory.to_text(memory), start_in=start_in, status=text))


def _status(job: _Job, end: PassEnd) -> PassStatus:
    """The status of the pass. What is about the Node comes from the last pass that has read it."""
    config, now = job.checked.config, time.time()
    last = job.last.status or NO_PASS
    denied = end.memory.condition_denied
    status = replace(
        last,
        at=now,
        reasons=tuple(sorted(job.request.reasons)),
        readings={name: without_details(reading) for name, reading in end.inputs.readings.items()},
        observe=config.settings.observe,
        error=str(end.error or ""),
        configuration=config.digest,
        expect=config.expectations(),
        waits=end.waits,
        condition_denied=denied.text if denied else "",
        succeeded_at=last.succeeded_at if end.error else now,
    )
    outcome = end.outcome
    if outcome is None:
        return status
    node = outcome.node
    published = published_in(node.annotation)  # in observe mode, the plan is not carried out
    return replace(
        status,
        node=node.name,
        changes=tuple(
            replace(change, stored=node.stored(change.key), published=published.get(change.key))
            for change in outcome.plan.changes
        ),
        troubles=outcome.plan.troubles,
        condition=node.condition,
        others=other_writers(node, outcome.plan.published, device_plugin_names(job.host)),
        read_at=now,
        written_at=now if outcome.is_written else last.written_at,
    )
