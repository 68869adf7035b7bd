"""The job that checks the configuration, and saves a snapshot of it for all later workers."""

from __future__ import annotations

import argparse

from capacityd.config import load
from capacityd.detectors import load as load_detector
from capacityd.discovery.child import MAX_RUNNING, allowed_seconds
from capacityd.host.kubelet import CHECKPOINT, SOCKET
from capacityd.model.config import Config
from capacityd.model.device import DeviceDetector
from capacityd.node.kubelet_kubeconfig import KUBECONFIG_PATHS
from capacityd.worker import journal, runtime_files, send_message


def check(options: argparse.Namespace) -> int:
    """Saves a snapshot of the configuration for later workers, unless a reload has errors: then the old one stays.

    If it can't be saved, the check fails and is retried. Until then workers use the previous snapshot or, at boot, the
    files themselves.
    """
    loaded = load(options.config)
    before = runtime_files.kept_config(options.folder) if options.reasons == "reload" else None
    located = [p.located() for p in loaded.problems]
    errors: list[str] = []
    with runtime_files.collecting_errors(errors):
        runtime_files.write(options.folder, "check.json", {"errors": located, "previous_active": before is not None})
    entries = [
        journal.Entry("configuration error", journal.ERROR, text, {"CONFIG_FILE": p.file})
        for p, text in zip(loaded.problems, located, strict=True)
    ]
    entries += [
        journal.Entry("configuration warning", journal.WARNING, p.located(), {"CONFIG_FILE": p.file})
        for p in loaded.warnings
    ]
    if loaded.problems and before is not None:
        message = "the configuration has errors; the previous configuration stays active"
        entries.append(journal.Entry("configuration error", journal.ERROR, message))
        config = before
    else:
        with runtime_files.collecting_errors(errors):
            runtime_files.keep_config(options.folder, loaded)
        config = before if errors and before is not None else loaded.config
    watch = _event_subscriptions(config, options)
    if errors:
        send_message({"done": True, "failed": True, "error": errors[0], "watch": watch})
        return 1
    journal.send(entries)
    send_message({"done": True, "watch": watch})
    return 0


def _event_subscriptions(config: Config, options: argparse.Namespace) -> dict[str, object]:
    """What the resident process has to watch for this configuration."""
    subsystems: set[str] = set()
    kernel: set[str] = set()
    chosen = options.kubeconfig or config.settings.kubeconfig
    files = dict.fromkeys([chosen] if chosen else KUBECONFIG_PATHS, "credentials") | {
        SOCKET: "kubelet",
        CHECKPOINT: "plugins",
    }
    for resource in config.resources:
        detector = load_detector(resource.detector)
        if isinstance(detector, DeviceDetector):
            subsystems |= set(detector.subsystems)
            subsystems |= set(resource.literals(detector.scope.key) if detector.scope else ())
            kernel |= {what for what in ("links", "addresses", "mounts", "swaps") if getattr(detector, what)}
        elif detector.watched:
            files |= {str(table.settings[detector.watched]): "file" for table in resource.tables}
    allowed = MAX_RUNNING + sum(allowed_seconds(resource) for resource in config.resources)
    events = {"subsystems": sorted(subsystems), "kernel": sorted(kernel), "files": files}
    return events | {"allowed": allowed, "resync": config.settings.resync}
