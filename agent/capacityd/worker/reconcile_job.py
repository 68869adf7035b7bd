"""The job of one reconcile pass: runs the pass, and saves its result for `status`, the journal and the metrics."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

from capacityd.config import load
from capacityd.discovery.runner import probe
from capacityd.host.kubelet import device_plugin_names
from capacityd.linux.clock import BOOT_SECONDS, uptime
from capacityd.model.errors import CapacitydError
from capacityd.model.messages import JobRequest, Message, PassResult, Probed
from capacityd.model.node import CONDITION, ConditionReason, Node
from capacityd.model.options import Selection
from capacityd.model.plan import Trouble
from capacityd.model.published import published_in
from capacityd.model.reading import Reading, without_details
from capacityd.model.reasons import PassReason
from capacityd.model.waits import Wait, WaitReason
from capacityd.node.identity import CredentialsCache
from capacityd.reconcile.denial import THE_CONDITION
from capacityd.reconcile.inputs import Inputs
from capacityd.reconcile.memory import MIN_INTERVAL, Memory
from capacityd.reconcile.reconcile import Pass, PassEnd
from capacityd.worker import journal, metrics_file, pass_memory, runtime_files, send_message
from capacityd.worker.answer import answer_of
from capacityd.worker.pass_memory import PassMemory
from capacityd.worker.pass_state import PassStatus
from capacityd.worker.runtime_files import CheckedConfig
from capacityd.worker.selection import host_of, node_of

_STARTS_ANEW = frozenset({PassReason.CONFIG, PassReason.START})
"""Reasons for a pass that ignores earlier writes and denials, and identifies the Node anew: a person has asked for the
pass, or credentials are new."""

_CHANGE_ONLY_READINGS = frozenset({PassReason.DEVICES, PassReason.FILE, PassReason.KERNEL})
"""Reasons after which only readings can have changed. A pass with only these reasons sends nothing if no reading has
changed and the Node is watched."""

_HEARTBEAT_SHARE = 0.5
"""A pass refreshes the condition's heartbeat when the heartbeat is older than this share of the resync period."""


class PassJob:
    """Runs a pass. Tests replace the methods that use the machine, which come last."""

    def __init__(self, folder: str, selection: Selection, request: JobRequest) -> None:
        """folder: the runtime directory. selection: the options of the command line."""
        self._folder = folder
        self._selection = selection
        self._request = request
        self._last = pass_memory.from_text(request.memory)
        self._checked = self.active_config()
        self._config = self._checked.config
        self._host = host_of(selection)

    def run(self) -> None:
        """Runs the pass. Raises CapacitydError."""
        reasons = self._request.reasons
        settings = self._config.settings
        no_pass_has_ended = self._last.status.at == 0.0
        is_first_pass = PassReason.START in reasons and no_pass_has_ended
        if is_first_pass and settings.start_jitter:
            start_in = random.uniform(0.0, settings.start_jitter)  # noqa: S311  # jitter is no secret
            self._start_later(start_in)
            return
        starts_anew = bool(reasons & _STARTS_ANEW)
        only_readings_may_differ = reasons.issubset(_CHANGE_ONLY_READINGS)
        cache = CredentialsCache(None if starts_anew else self._last.identity)
        end = Pass(
            self.open_node(cache),
            read_machine=self._read_machine,
            inputs_of=self._inputs,
            device_plugins=self.device_plugins,
            memory=self._last.reconcile,
            writes=not settings.observe,
            may_send_nothing=self._request.node_unchanged and only_readings_may_differ,
            resets_limits=starts_anew,
        ).run()
        self._finish(end, cache)

    def _start_later(self, start_in: float) -> None:
        """Reads only the machine, so that the service becomes ready. A later pass reads the Node.

        The delay keeps machines that boot together from sending requests at the same time. start_in: seconds.
        """
        inputs = self._inputs(self._read_machine(None))
        wait = Wait(inputs.uptime + start_in, WaitReason.START_JITTER)
        end = PassEnd(inputs, self._last.reconcile)
        status = replace(self._status_after(end), waits=(wait,))
        self._save_status(status)
        memory = replace(self._last, status=status)
        text = pass_memory.to_text(memory)
        self.send(PassResult(memory=text, start_in=start_in, status=wait.text(inputs.uptime)))

    def _read_machine(self, node_name: str | None) -> Mapping[str, Reading]:
        """Reads all resources, and tells the service that the machine has been read."""
        readings = self.probe(node_name)
        self.send(Probed())
        return readings

    def _inputs(self, readings: Mapping[str, Reading]) -> Inputs:
        settings = self._config.settings
        uptime_now = self.uptime()
        lower_after = settings.lower_after
        if uptime_now < BOOT_SECONDS:  # drivers and devices may still appear
            lower_after = max(lower_after, settings.lower_after_boot)
        heartbeat_after = max(MIN_INTERVAL, settings.resync * _HEARTBEAT_SHARE)
        return Inputs(
            self._config,
            readings,
            self._checked.errors,
            now=self.now(),
            uptime=uptime_now,
            lower_after=lower_after,
            heartbeat_after=heartbeat_after,
        )

    def _finish(self, end: PassEnd, cache: CredentialsCache) -> None:
        """Answers the service, and writes the files and the journal."""
        last = self._last
        status = self._status_after(end)
        self._save_status(status)
        self.log(journal.pass_entries(end, status, last.status))
        memory = PassMemory(end.memory, status, cache.identity, textfile=self._config.settings.textfile)
        text = pass_memory.to_text(memory)
        self.send(answer_of(end, status, last.status, memory=text, cache=cache))
        # The metrics file comes last, so that an error in writing it affects nothing else.
        metrics_result = metrics_file.replace(last.textfile, self._config, status)
        if metrics_result:
            self.send(metrics_result)

    def _save_status(self, status: PassStatus) -> None:
        """Saves the status for `status`. Ignores errors, because no decision depends on the file, and `status` itself
        reports a folder that is not writable."""
        with suppress(CapacitydError):
            runtime_files.write_state(self._folder, status)

    def _status_after(self, end: PassEnd) -> PassStatus:
        """The status after this pass. All data of the Node comes from the last pass that has read the Node."""
        config = self._config
        now = self.now()
        last = self._last.status
        status = replace(
            last,
            at=now,
            reasons=tuple(sorted(self._request.reasons)),
            readings={name: without_details(reading) for name, reading in end.inputs.readings.items()},
            observe=config.settings.observe,
            error=str(end.error) if end.error else "",
            configuration=config.digest,
            expect=config.expectations(),
            waits=end.waits,
            succeeded_at=last.succeeded_at if end.error else now,
        )
        outcome = end.outcome
        if outcome is None:
            return status
        node = outcome.node
        published = published_in(node.annotation)  # not the plan's numbers, because observe mode does not write them
        changes = [
            replace(change, stored=node.stored(change.key), published=published.get(change.key))
            for change in outcome.plan.changes
        ]
        return replace(
            status,
            node=node.name,
            changes=tuple(changes),
            troubles=(*outcome.plan.troubles, *_denied_condition(end.memory)),
            condition=node.condition,
            read_at=now,
            written_at=now if outcome.is_written else last.written_at,
        )

    # The methods that use the machine

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def uptime(self) -> float:
        """Seconds since the machine booted."""
        return uptime()

    def active_config(self) -> CheckedConfig:
        """The active configuration, and the errors of the last check, which may concern a newer configuration."""
        saved = runtime_files.read_config(self._folder)
        if saved:
            return saved
        # The check at boot could not save the configuration, so this worker reads the files.
        loaded = load(self._selection.config)
        return CheckedConfig(loaded.config, tuple(problem.public_text() for problem in loaded.problems))

    def probe(self, node_name: str | None) -> Mapping[str, Reading]:
        """Reads all resources. node_name: None if the name is not known."""
        return probe(self._config, self._host, node_name)

    def device_plugins(self) -> frozenset[str] | None:
        """The names that device plugins have registered; None if their list is unreadable."""
        return device_plugin_names(self._host)

    def open_node(self, cache: CredentialsCache) -> Node:
        """The interface to the Node. cache: what the last pass learned about the credentials."""
        return node_of(self._selection, self._config, self._host, cache)

    def send(self, message: Message) -> None:
        """Sends a message to the service."""
        send_message(message)

    def log(self, entries: Iterable[journal.JournalEntry]) -> None:
        """Writes entries to the journal."""
        journal.log_entries(entries)


def _denied_condition(memory: Memory) -> Iterator[Trouble]:
    """The trouble of a denied condition, if there is one."""
    denial = memory.denied.get(THE_CONDITION)
    if denial:
        yield Trouble(ConditionReason.DENIED, f"the condition {CONDITION} is denied: {denial.explanation}")
