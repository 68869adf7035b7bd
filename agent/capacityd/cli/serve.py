"""run, the service, and the two children that it starts: one checks the configuration, the other looks once."""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from capacityd import journal, metrics, state
from capacityd.cli.context import host_of, node_name_of, node_of, require_together
from capacityd.cli.process import own_command
from capacityd.detectors import load as load_detector
from capacityd.errors import CapacitydError
from capacityd.host import Host
from capacityd.host.kubelet import CHECKPOINT, SOCKET, device_plugin_names, kubelet_began
from capacityd.look import Look, look
from capacityd.memory import Circumstances, Memory
from capacityd.model import Config, DeviceDetector, Reading, Unknown
from capacityd.probe import allowed_seconds
from capacityd.probe import probe as read_all
from capacityd.report import plan_as_dict, reading_as_dict

_PATIENCE = 30.0  # seconds that a look waits for a command by hand that writes
_PASSED_ON = ("config", "machine", "node_file", "kubeconfig", "node_name")


def run(options: argparse.Namespace) -> int:
    """Becomes the service: a process of its own, without what the command line has loaded. Returns only on failure."""
    require_together(options, reads_only=False)  # its looks would fail for ever
    where = state.folder()
    try:
        os.makedirs(where, mode=0o755, exist_ok=True)
    except OSError as e:
        raise CapacitydError(f"{where} could not be made: {os.strerror(e.errno or 0)} (run as root?)") from e
    if found := state.running(where):
        raise CapacitydError(f"the service runs already, as process {found['pid']}")
    if not os.access(where, os.W_OK):
        raise CapacitydError(f"{where} may not be written (run as root?)")
    passed = [f"--{name.replace('_', '-')}={v}" for name in _PASSED_ON if (v := getattr(options, name)) is not None]
    service = own_command("daemon", where, *own_command("__main__", *passed, "child", where))
    os.execv(service[0], service)  # noqa: S606


def child(options: argparse.Namespace) -> int:
    """What the service starts: check, or look with its reasons. What goes wrong the service tells, but not twice."""
    try:
        return _check(options) if options.job == "check" else _look(options, frozenset(options.reasons.split(",")))
    except CapacitydError as e:
        _say({"done": True, "failed": True, "trouble": str(e)})
        return e.exit_status


def _check(options: argparse.Namespace) -> int:
    """Leaves the configuration for the looks, if it is better than what is there: a bad reload keeps the good one."""
    from capacityd.config import load

    loaded = load(options.config)
    before = state.kept_config(options.folder) if options.reasons == "reload" else None
    told = [p.located() for p in loaded.problems]
    state.write(options.folder, "check.json", {"mistakes": told, "kept": before is not None})
    mistakes = [
        journal.Entry("mistake", journal.ERROR, text, {"CONFIG_FILE": p.file})
        for p, text in zip(loaded.problems, told, strict=True)
    ]
    if loaded.problems and before is not None:
        message = "the configuration has mistakes, so the one before it stays in force"
        mistakes.append(journal.Entry("mistake", journal.ERROR, message))
        config = before
    else:
        state.keep_config(options.folder, loaded)
        config = loaded.config
    journal.send(mistakes)
    _say({"done": True, "watch": _watches(config, options)})
    return 0


def _watches(config: Config, options: argparse.Namespace) -> dict[str, Any]:
    """What the service has to listen to for this configuration."""
    from capacityd.node.credentials import PLACES

    subsystems: set[str] = set()
    kernel: set[str] = set()
    chosen = options.kubeconfig or config.settings.kubeconfig
    files = dict.fromkeys([chosen] if chosen else PLACES, "credentials") | dict.fromkeys(
        [SOCKET, CHECKPOINT], "kubelet"
    )
    for resource in config.resources:
        detector = load_detector(resource.detector)
        if isinstance(detector, DeviceDetector):
            subsystems |= set(detector.subsystems)
            subsystems |= set(resource.named(detector.scope.key) if detector.scope else ())
            kernel |= {what for what in ("links", "addresses", "mounts") if getattr(detector, what)}
        elif detector.watched:
            files |= {str(table.settings[detector.watched]): "file" for table in resource.tables}
    recheck = config.settings.recheck
    allowed = sum(allowed_seconds(resource) for resource in config.resources)
    heard = {"subsystems": sorted(subsystems), "kernel": sorted(kernel), "files": files}
    return heard | {"allowed": allowed, "recheck": recheck}


def _look(options: argparse.Namespace, reasons: frozenset[str]) -> int:
    """Probes, and brings the Node into line if it has to."""
    config, host = state.kept_config(options.folder), host_of(options)
    if config is None:
        raise CapacitydError(f"{options.folder} holds no configuration; the check has not run")
    if "boot" in reasons and config.settings.start_jitter:
        return _start_later(options, config, host, reasons)
    began = time.monotonic()
    metrics.begin(options.folder, config)
    said: list[Look] = []
    lost: list[str] = []
    before = state.read(options.folder, "status.json")

    def early(readings: Mapping[str, Reading], pending: frozenset[str]) -> None:
        _say({"probed": True})
        said.append(_bring(options, config, host, readings, reasons, lost, pending))

    readings = read_all(config, host, node_name_of(options, config, host), early=early)
    _say({"probed": True})
    # What the Node had to be asked for has been done early, unless it failed.
    rest = frozenset({"due"}) if said and not said[0].failed else reasons
    found = _bring(options, config, host, readings, rest, lost)
    if not lost:  # else nothing tells the next look that it has been told
        journal.send(journal.reading_entries(readings, found, before, first="boot" in rest))
    _say(
        {
            "done": True,
            "failed": found.failed,
            "trouble": found.trouble,
            "retry_after": found.retry_after,
            "again_in": found.again_in,
            "asked": any(part.outcome is not None for part in (*said, found)),
            "status": _line(readings, found),
        }
    )
    _measure(options.folder, config, readings, [*said, found], time.monotonic() - began)
    return 0


def _measure(where: str, config: Config, readings: Mapping[str, Reading], looks: list[Look], duration: float) -> None:
    """After the look is done with, so that a file that can't be written costs it nothing."""
    status, check = state.read(where, "status.json"), state.read(where, "check.json")
    mistakes = check.get("mistakes")
    figures = metrics.Figures(
        readings, status, duration, config.settings.recheck, len(mistakes) if isinstance(mistakes, list) else 0
    )
    wrote = sum(part.outcome is not None and part.outcome.applied for part in looks)
    message, bad = metrics.finish(where, config, figures, not looks[-1].failed, wrote)
    if message:
        journal.send([journal.Entry("metrics", journal.WARNING if bad else journal.NOTICE, message)])


def _start_later(options: argparse.Namespace, config: Config, host: Host, reasons: frozenset[str]) -> int:
    """Probes, so that the service is ready, and has the Node asked later: a fleet that boots at once makes no peak."""

    def early(readings: Mapping[str, Reading], pending: frozenset[str]) -> None:
        _say({"probed": True})

    readings = read_all(config, host, node_name_of(options, config, host), early=early)
    start_in = random.uniform(0.0, config.settings.start_jitter)  # noqa: S311  # jitter is no secret
    where = options.folder
    found = Look(state.kept_memory(where), again_in=start_in)
    with _goes_on([]):
        state.write(where, "status.json", state.read(where, "status.json") | _status(readings, reasons, found, config))
    _say({"probed": True})
    _say({"done": True, "start_in": start_in, "asked": False, "status": f"asks the Node in {start_in:.0f} s"})
    return 0


def _bring(
    options: argparse.Namespace,
    config: Config,
    host: Host,
    readings: Mapping[str, Reading],
    reasons: frozenset[str],
    lost: list[str],
    pending: frozenset[str] = frozenset(),
) -> Look:
    """Brings the Node into line if it has to, and leaves what came of it. lost: gets why that could not be left.

    Where nothing can be left (a full /run), the Node still gets what it needs, but nothing that has to last is lowered:
    that it came back meanwhile would not be remembered.
    """
    where = options.folder

    def intend(memory: Memory) -> None:
        with _goes_on(lost):
            state.keep_memory(where, memory)

    with state.locked(where, _PATIENCE):
        memory, reviews = state.kept_memory(where), state.kept_reviews(where)
        intend(memory)
        if lost:
            memory = replace(memory, lower_since={})
        found = look(
            config,
            readings,
            reasons,
            memory,
            Circumstances(
                now=time.time(),
                uptime=time.clock_gettime(time.CLOCK_BOOTTIME),
                kubelet_began=kubelet_began(host),
            ),
            lambda: node_of(options, config, host, config.settings.observe, reviews),
            lambda: device_plugin_names(host),
            pending,
            intend,
        )
        with _goes_on(lost):
            # Not trusted for ever: who is refused asks again who it is.
            state.write(where, "reviews.json", {} if found.failed else reviews)
            state.keep_memory(where, found.memory)
    before = state.read(where, "status.json")
    with _goes_on(lost):
        state.write(where, "status.json", before | _status(readings, reasons, found, config))
    journal.send(journal.outcome_entries(found, before))
    if lost:
        told = f"{lost[0]}; until it can, nothing that has to last is lowered"
        return replace(found, trouble="; ".join(filter(None, (told, found.trouble))), failed=True)
    return found


@contextmanager
def _goes_on(lost: list[str]) -> Iterator[None]:
    """What can't be left for the next look is no reason to do nothing."""
    try:
        yield
    except CapacitydError as e:
        lost.append(str(e))


def _status(readings: Mapping[str, Reading], reasons: frozenset[str], found: Look, config: Config) -> dict[str, object]:
    """What status shows of this look. What only the Node could tell stays from the look before, if it was not asked."""
    said: dict[str, object] = {
        "looked": time.time(),
        "reasons": sorted(reasons),
        "observe": config.settings.observe,
        "readings": [reading_as_dict(name, reading) for name, reading in readings.items()],
        "trouble": found.trouble,
        "published": dict(found.memory.published),
        "again_in": found.again_in,
        "held": {name: time.time() + left for name, left in found.held.items()},
    }
    if found.outcome is not None:
        names = {c.name for c in found.outcome.plan.changes}
        state_ = found.outcome.state
        said |= {
            "asked": time.time(),
            "plan": plan_as_dict(found.outcome.plan),
            "capacity": {n: q for n, q in (state_.capacity or {}).items() if n in names},
            "allocatable": {n: q for n, q in state_.allocatable.items() if n in names},
        }
        if found.outcome.applied:
            said["wrote"] = time.time()
    return said


def _line(readings: Mapping[str, Reading], found: Look) -> str:
    """One line for systemctl status."""
    if found.trouble:
        return found.trouble
    unknown = sum(isinstance(r, Unknown) for r in readings.values())
    parts = [f"{len(found.memory.published)} of {len(readings)} resources published"]
    parts += [f"{unknown} unknown"] if unknown else []
    parts += [f"{len(found.held)} held back"] if found.held else []
    return ", ".join(parts)


def _say(message: dict[str, object]) -> None:
    """A line for the resident process."""
    print(json.dumps(message), flush=True)
