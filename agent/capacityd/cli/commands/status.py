"""status: collects the service's state, its last readings, the Node, pending changes and errors with advice."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from capacityd.cli import refuse_other_sources
from capacityd.cli.output.status import print_status
from capacityd.cli.output.terminal import print_json
from capacityd.host.cpu_memory import usage
from capacityd.linux.clock import uptime
from capacityd.model.errors import Cause, HostError
from capacityd.model.quantity import plain
from capacityd.model.text import duration_text
from capacityd.worker import runtime_files

_PROBLEMS = ("refused", "denied", "below_expect", "not_allocatable")


def status(options: argparse.Namespace) -> int:
    """Prints the service's state. Returns exit status 1 if it is not running, 4 if there is an error.

    Raises UsageError for an option that selects another machine or Node.
    """
    refuse_other_sources(options, "status is about the service on this machine")
    directory, now = runtime_files.folder(), time.time()
    last_pass, service = runtime_files.read(directory, "status.json"), runtime_files.running(directory)
    state = _state(last_pass, service, runtime_files.read(directory, "check.json"), now)
    state["stale_reason"] = _stale_reason(directory, service) if service else ""
    metrics = runtime_files.read(directory, "metrics.json")
    state |= {"metrics_error": str(metrics.get("error", "")), "metrics_advice": str(metrics.get("advice", ""))}
    errors = _errors(state, service, now)
    service = dict(service) | _usage(service["pid"]) if service else None
    if options.json:
        print_json(state | {"service": service})
    else:
        print_status(state, service, bool(last_pass), errors, now)
    if service is None:
        return 1
    return 4 if errors else 0


def _usage(pid: object) -> dict[str, Any]:
    """Memory of the resident process, CPU time of it and its ended workers; null if that cannot be read."""
    used = None
    if isinstance(pid, int):
        with suppress(HostError):
            used = usage(pid)
    return {"memory_bytes": used and used.memory, "cpu_seconds": used and used.cpu}


def _stale_reason(directory: str, service: Mapping[str, Any]) -> str:
    """Why the files may be older than the service's state; "" if they are not."""
    if error := runtime_files.unwritable(directory):
        return f"{directory} is not writable: {error}; the information below is stale"
    overdue = service.get("overdue_at_uptime")
    if overdue is not None and uptime() > overdue:
        return "the next reconcile pass is overdue; the service may be stuck"
    return ""


def _state(
    last_pass: Mapping[str, Any], service: Mapping[str, Any] | None, check: Mapping[str, Any], now: float
) -> dict[str, Any]:
    readings = {r["name"]: r for r in last_pass.get("readings", [])}
    changes = {c["name"]: c for c in last_pass.get("plan", {}).get("changes", [])}
    expect = last_pass.get("expect", {})
    # The API server returns 1000 as "1k".
    capacity = {name: plain(quantity) for name, quantity in last_pass.get("capacity", {}).items()}
    allocatable = {name: plain(quantity) for name, quantity in last_pass.get("allocatable", {}).items()}
    resources = []
    for name in sorted({*readings, *changes}):
        reading, change = readings.get(name), changes.get(name, {})
        # Without a reading, a key is kept because the file that configures it may be unreadable.
        outcome = reading["outcome"] if reading else None if change.get("action") == "keep" else "unconfigured"
        row = {
            "name": name,
            "reading": reading["quantity"] if outcome == "quantity" and reading else outcome,
            "expect": expect.get(name),
            "published": last_pass.get("published", {}).get(name),
            "capacity": capacity.get(name),
            "allocatable": allocatable.get(name),
            "held_until": last_pass.get("held_until", {}).get(name),
            "cause": reading.get("cause") if reading else None,
            "refused": change.get("action") == "refuse",
            "denied": change.get("action") == "deny",
            "below_expect": name in last_pass.get("below_expected", {}),
            "not_allocatable": name in last_pass.get("not_allocatable", {}),
        }
        row["degraded"] = outcome == "unknown" or any(row[problem] for problem in _PROBLEMS)
        resources.append(row | {"note": _note(row, reading, change, bool(last_pass.get("observe")), now)})
    errors = check.get("errors", [])
    resident = service or {}
    return {
        "node": last_pass.get("plan", {}).get("node"),
        "observe": bool(last_pass.get("observe")),
        "reasons": last_pass.get("reasons", []),
        "next_reconcile": resident.get("next_reconcile"),
        "error": resident.get("error") or last_pass.get("error") or "",
        "event_source_errors": list(resident.get("event_source_errors", [])),
        "configuration_errors": errors,
        "configuration": last_pass.get("configuration"),
        "previous_configuration_active": bool(errors and check.get("previous_active")),
        "resources": resources,
    } | {key: last_pass.get(key) for key in ("last_reconcile", "last_read", "last_write")}


def _note(
    row: Mapping[str, Any], reading: Mapping[str, Any] | None, change: Mapping[str, Any], observe: bool, now: float
) -> str:
    if row["held_until"] is not None:
        quantity, published, left = row["reading"], row["published"], duration_text(row["held_until"] - now)
        if isinstance(quantity, int) and (published is None or quantity > published):
            return f"set to {quantity} in {left} (rate limit)"
        return f"{f'lowered to {quantity}' if isinstance(quantity, int) else 'removed'} in {left} unless it recovers"
    if row["refused"] or row["denied"]:
        return f"{'refused' if row['refused'] else 'denied'}: {change['reason']}"
    if observe and change.get("action") in ("set", "remove"):
        return f"would be {change['new'] or 'removed'}: {change['reason']}"
    if reading is None:
        return str(change["reason"]) if change["action"] == "keep" else ""
    return str(reading["reason"])


def _errors(state: Mapping[str, Any], service: Mapping[str, Any] | None, now: float) -> list[tuple[str, str]]:
    """Returns pairs of error and advice; advice is "" if the error needs none."""
    errors = []
    if service is None:
        advice = "start it: `systemctl enable --now capacityd`; see why it stopped: `journalctl -u capacityd`"
        errors.append(("the Node keeps its capacity, but nothing updates it", advice))
    if state["stale_reason"]:
        errors.append((state["stale_reason"], "see `journalctl -u capacityd` for what the service logged since"))
    elif service and state["error"]:
        retry = f"next attempt in {duration_text(state['next_reconcile'] - now)}" if state["next_reconcile"] else ""
        errors.append((state["error"], retry))
    errors += [(error, "changes are detected at the next reconcile pass") for error in state["event_source_errors"]]
    if service and state["metrics_error"]:
        errors.append((state["metrics_error"], state["metrics_advice"]))
    rejected = state["previous_configuration_active"]
    errors += [(error, "") for error in state["configuration_errors"]]
    if state["configuration_errors"]:
        previous = "; until then the previous configuration stays active" if rejected else ""
        errors[-1] = (errors[-1][0], f"fix it, then run `systemctl reload capacityd`{previous}")
    for r in state["resources"]:
        misconfigured = r["cause"] == Cause.CONFIGURATION.value
        if r["degraded"] and not (misconfigured and state["configuration_errors"] and not rejected):
            errors.append(_resource_error(r, misconfigured))
    return errors


def _resource_error(r: Mapping[str, Any], misconfigured: bool) -> tuple[str, str]:
    explain = "see `capacityd probe --explain`"
    if r["refused"] or r["denied"]:
        return f"{r['name']}: {r['note']}", ""
    if r["reading"] == "unknown":
        return f"{r['name']}: unknown: {r['note']}", "" if misconfigured else explain
    if r["below_expect"]:
        return f"{r['name']}: {r['reading']}, expected {r['expect']}", explain
    return (
        f"{r['name']}: published as {r['published']}, allocatable is {r['allocatable'] or 'unset'}",
        "another writer changes it: see `kubectl get node -o yaml --show-managed-fields`",
    )
