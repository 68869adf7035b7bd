"""status: what the service last saw, published, holds back and could not do, and what it will do next."""

from __future__ import annotations

import argparse
import time
from typing import Any

from capacityd import state
from capacityd.cli.text import as_json, columns


def status(options: argparse.Namespace) -> int:
    """Prints the service's state; exit status 1 if it is off, 4 if something is unknown, refused or wrong."""
    where = state.folder()
    seen, service = state.read(where, "status.json"), state.running(where)
    found = _collected(seen, service, state.read(where, "check.json"))
    if options.json:
        print(as_json(found | {"service": dict(service) if service else None}))
    else:
        print("\n".join(_screen(seen, service, found)))
    if service is None:
        return 1
    return 4 if found["trouble"] or found["mistakes"] or any(r["wrong"] for r in found["resources"]) else 0


def _collected(seen: dict[str, Any], service: Any, check: dict[str, Any]) -> dict[str, Any]:
    readings = {r["name"]: r for r in seen.get("readings", [])}
    changes = {c["name"]: c for c in seen.get("plan", {}).get("changes", [])}
    held = seen.get("held", {})
    resources = []
    for name in sorted({*readings, *changes}):
        reading, change = readings.get(name), changes.get(name, {})
        outcome = reading["outcome"] if reading else "no longer configured"
        resources.append(
            {
                "name": name,
                "reading": reading["quantity"] if outcome == "quantity" and reading else outcome,
                "published": seen.get("published", {}).get(name),
                "capacity": seen.get("capacity", {}).get(name),
                "allocatable": seen.get("allocatable", {}).get(name),
                "note": _note(reading, change, held.get(name), bool(seen.get("observe"))),
                "held_until": held.get(name),
                "wrong": outcome == "unknown" or change.get("action") == "refuse",
            }
        )
    trouble = (service or {}).get("trouble") or seen.get("trouble") or ""
    deaf = list((service or {}).get("deaf", []))
    mistakes = check.get("mistakes", [])
    times = {key: seen.get(key) for key in ("looked", "asked", "wrote")}
    return {
        "node": seen.get("plan", {}).get("node"),
        "observe": bool(seen.get("observe")),
        "reasons": seen.get("reasons", []),
        "next": (service or {}).get("next"),
        "trouble": trouble,
        "deaf": deaf,
        "mistakes": mistakes,
        "kept": bool(mistakes and check.get("kept")),
        "resources": resources,
    } | times


def _note(reading: dict[str, Any] | None, change: dict[str, Any], held_until: float | None, observe: bool) -> str:
    if held_until is not None:
        return f"held back for {max(0.0, held_until - time.time()):.0f} s more"
    if change.get("action") == "refuse":
        return str(change["reason"])
    if observe and change.get("action") in ("set", "remove"):
        return f"would be {change['new'] or 'removed'}: {change['reason']}"
    return str(reading["reason"]) if reading else ""


def _screen(seen: dict[str, Any], service: Any, found: dict[str, Any]) -> list[str]:
    lines = [f"service: running, process {service['pid']}" if service else "service: not running (capacityd run)"]
    if not seen:
        return [*lines, "it has not looked yet"]
    lines += [f"Node: {found['node'] or 'not reached yet'}" + (", only observed" if found["observe"] else "")]
    lines += [f"looked: {_ago(found['looked'])} ({', '.join(found['reasons'])})"]
    lines += [f"asked the Node: {_ago(found['asked'])}", f"wrote: {_ago(found['wrote'])}"]
    if found["next"]:
        lines.append(f"next look: in {max(0.0, found['next'] - time.time()):.0f} s, or when something changes")
    lines += [f"trouble: {found['trouble']}"] if found["trouble"] else []
    lines += [f"can't hear: {problem}" for problem in found["deaf"]]
    lines += [f"configuration: {mistake}" for mistake in found["mistakes"]]
    lines += ["configuration: the one before it stays in force"] if found["kept"] else []
    rows = [("", "READING", "PUBLISHED", "CAPACITY", "ALLOCATABLE", "")]
    for r in found["resources"]:
        cells = ("-" if r[key] is None else str(r[key]) for key in ("reading", "published", "capacity", "allocatable"))
        rows.append((r["name"], *cells, r["note"]))
    return [*lines, "", *columns(rows)]


def _ago(moment: float | None) -> str:
    return "never" if moment is None else f"{max(0.0, time.time() - moment):.0f} s ago"
