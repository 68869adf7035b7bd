"""The job that checks the configuration and saves it for all later workers."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import replace

from capacityd.config import Loaded, load
from capacityd.config.saved import stamps_of
from capacityd.detectors import load_detector
from capacityd.discovery.child import MAX_BUSY, max_blocked_of
from capacityd.linux.systemd import EntryKind, Priority
from capacityd.model.device_plugins import CHECKPOINT
from capacityd.model.errors import CapacitydError
from capacityd.model.messages import CheckResult, ConfigFiles, ServiceConfig
from capacityd.model.options import Selection
from capacityd.model.reasons import KernelEvents, PassReason
from capacityd.node.kubelet_kubeconfig import KUBECONFIG_PATHS
from capacityd.schema.config import Config
from capacityd.schema.device import SUBSYSTEM, DeviceDetector
from capacityd.worker import journal, runtime_files, send_message
from capacityd.worker.journal import JournalEntry
from capacityd.worker.runtime_files import CheckedConfig


def check(folder: str, selection: Selection, reasons: Collection[PassReason]) -> int:
    """Checks the configuration, and saves it for later workers. Returns the exit status.

    If a reload finds errors, the previous configuration stays active, and is saved with the new errors. If the
    configuration can't be saved, the check fails, and the service retries it. Until then, workers use the previous
    configuration or, at boot, read the configuration's files.

    folder: the runtime directory. reasons: why the job is due. PassReason.CONFIG means a reload.
    """
    path = os.path.abspath(selection.config) if selection.config else None  # None stands for the usual places
    files = ConfigFiles(path, stamps_of(path))  # before load(), so that a change during load() is noticed
    loaded = load(selection.config)
    errors = tuple(problem.public_text() for problem in loaded.problems)  # without quotes from private files
    is_reload = PassReason.CONFIG in reasons
    previous = runtime_files.read_config(folder) if is_reload else None
    kept_previous = previous if errors else None
    active = kept_previous.config if kept_previous else loaded.config
    result = CheckResult(
        service_config(active, selection),
        configuration_errors=errors,
        previous_active=kept_previous is not None,
        files=files,
    )
    try:
        runtime_files.write_config(folder, CheckedConfig(active, errors))
    except CapacitydError as e:
        used_by_workers = previous.config if previous else active  # the previous configuration is still saved
        send_message(replace(result, config=service_config(used_by_workers, selection), error=str(e)))
        return 1
    journal.log_entries(_journal_entries(loaded, previous))
    send_message(result)
    return 0


def _journal_entries(loaded: Loaded, previous: CheckedConfig | None) -> Iterator[JournalEntry]:
    """The journal entries about a check. previous: the configuration before a reload; None if this is no reload."""
    for problem in loaded.problems:
        fields = {"CONFIG_FILE": problem.file}
        yield JournalEntry(EntryKind.CONFIGURATION_REJECTED, Priority.ERROR, problem.public_text(), fields)
    for warning in loaded.warnings:
        yield JournalEntry(None, Priority.WARNING, warning.public_text(), {"CONFIG_FILE": warning.file})
    if previous is None:
        return
    if loaded.problems:
        message = "the configuration has errors; the previous configuration stays active"
        yield JournalEntry(EntryKind.CONFIGURATION_REJECTED, Priority.ERROR, message)
    elif previous.config.digest != loaded.config.digest:
        old = previous.config.digest or "none"
        new = loaded.config.digest or "none"
        message = f"the configuration changed: hash {old} → {new}"
        yield JournalEntry(None, Priority.NOTICE, message, {"OLD": old, "NEW": new})


def service_config(config: Config, selection: Selection) -> ServiceConfig:
    """The part of the configuration that the resident process needs. selection: the options of the command line."""
    subsystems: set[str] = set()
    kernel_events: set[KernelEvents] = set()
    kubeconfig = selection.kubeconfig or config.settings.kubeconfig
    kubeconfig_paths = [kubeconfig] if kubeconfig else KUBECONFIG_PATHS
    files = dict.fromkeys(kubeconfig_paths, PassReason.CONFIG)  # path -> why a change starts a reconcile pass
    files[CHECKPOINT] = PassReason.NODE  # the kubelet's file that lists the device plugins
    for resource in config.resources:
        files |= dict.fromkeys(resource.when_paths, PassReason.FILE)
        detector = load_detector(resource.detector)
        if isinstance(detector, DeviceDetector):
            subsystems.update(detector.udev_subsystems)
            subsystems.update(resource.texts_for(SUBSYSTEM))
            kernel_events |= detector.kernel_events
            if resource.has_test("system"):
                kernel_events |= detector.system_events
        elif detector.watched:  # the name of the setting with the path of a file to watch
            watched_paths = [str(table.settings[detector.watched]) for table in resource.tables]
            files |= dict.fromkeys(watched_paths, PassReason.FILE)
    blocked_times = [max_blocked_of(resource) for resource in config.resources]
    return ServiceConfig(
        subsystems=tuple(sorted(subsystems)),
        kernel=tuple(sorted(kernel_events)),
        files=files,
        # An upper limit, because several detectors run at the same time.
        detectors_timeout=MAX_BUSY + sum(blocked_times),
        resync=config.settings.resync,
    )
