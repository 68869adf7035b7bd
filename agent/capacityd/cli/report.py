"""status: one screen that tells whether the service runs, what it last saw, what is on the Node, what is held back and
comes next, what is wrong, and what to do about it. Short while all is well.
"""

from __future__ import annotations

import argparse
import time

from capacityd import state
from capacityd.cli.terminal import Screen
from capacityd.cli.text import as_json

TYPE_CHECKING = False  # typing costs start-up time
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from capacityd.cli.terminal import Cell

_COPIED = 15.0  # seconds within which a kubelet has copied capacity to allocatable, 10 s by default
_OLD = 100.0  # seconds from which on it is said that what the Node told is from then
_HEADER = ("RESOURCE", "READING", "CAPACITY", "ALLOCATABLE", "")


def status(options: argparse.Namespace) -> int:
    """Prints the service's state; exit status 1 if it is off, 4 if something is wrong: unknown, refused, not heard."""
    where, now = state.folder(), time.time()
    seen, service = state.read(where, "status.json"), state.running(where)
    found = _collected(seen, service, state.read(where, "check.json"), now)
    found["stale"] = _stale(where, service) if service else ""
    found["metrics"] = str(state.read(where, "metrics.json").get("trouble", ""))
    wrong = _wrong(found, service, now)
    if options.json:
        print(as_json(found | {"service": dict(service) if service else None}))
    else:
        _show(found, service, bool(seen), wrong, now)
    if service is None:
        return 1
    return 4 if wrong else 0


def _stale(where: str, service: Mapping[str, Any]) -> str:
    """Why what stands in the files is not what the service knows; "" if it is."""
    if why := state.unwritable(where):
        return f"{where} can't be written: {why}; what stands here is from before"
    late = service.get("late")
    if late is not None and time.clock_gettime(time.CLOCK_BOOTTIME) > late:
        return "it should have looked again by now, and has not said that it did"
    return ""


def _collected(
    seen: Mapping[str, Any], service: Mapping[str, Any] | None, check: Mapping[str, Any], now: float
) -> dict[str, Any]:
    readings = {r["name"]: r for r in seen.get("readings", [])}
    changes = {c["name"]: c for c in seen.get("plan", {}).get("changes", [])}
    held = seen.get("held", {})
    resources = []
    for name in sorted({*readings, *changes}):
        reading, change = readings.get(name), changes.get(name, {})
        # What stays without a reading may well be configured, in a file that can't be read.
        outcome = reading["outcome"] if reading else None if change.get("action") == "keep" else "no longer configured"
        row = {
            "name": name,
            "reading": reading["quantity"] if outcome == "quantity" and reading else outcome,
            "published": seen.get("published", {}).get(name),
            "capacity": seen.get("capacity", {}).get(name),
            "allocatable": seen.get("allocatable", {}).get(name),
            "held_until": held.get(name),
            "wrong": outcome == "unknown" or change.get("action") == "refuse",
        }
        resources.append(row | {"note": _note(row, reading, change, bool(seen.get("observe")), now)})
    mistakes = check.get("mistakes", [])
    said = service or {}
    return {
        "node": seen.get("plan", {}).get("node"),
        "observe": bool(seen.get("observe")),
        "reasons": seen.get("reasons", []),
        "next": said.get("next"),
        "trouble": said.get("trouble") or seen.get("trouble") or "",
        "deaf": list(said.get("deaf", [])),
        "mistakes": mistakes,
        "kept": bool(mistakes and check.get("kept")),
        "resources": resources,
    } | {key: seen.get(key) for key in ("looked", "asked", "wrote")}


def _note(
    row: Mapping[str, Any], reading: Mapping[str, Any] | None, change: Mapping[str, Any], observe: bool, now: float
) -> str:
    if row["held_until"] is not None:
        new, published = row["reading"], row["published"]
        if isinstance(new, int) and (published is None or new > published):
            return f"set to {new} in {_span(row['held_until'] - now)}: it keeps changing"
        becomes = f"lowered to {new}" if isinstance(new, int) else "removed"
        return f"{becomes} in {_span(row['held_until'] - now)}, unless it comes back"
    if change.get("action") == "refuse":
        return f"refused: {change['reason']}"
    if observe and change.get("action") in ("set", "remove"):
        return f"would be {change['new'] or 'removed'}: {change['reason']}"
    if reading is None:
        return str(change["reason"]) if change["action"] == "keep" else ""
    return str(reading["reason"])


def _show(
    found: Mapping[str, Any],
    service: Mapping[str, Any] | None,
    looked: bool,
    wrong: Sequence[tuple[str, str]],
    now: float,
) -> None:
    screen = Screen()
    screen.line(*_verdict(found, service, looked, bool(wrong)))
    if looked:
        screen.line(_when(found, service, now))
        screen.line()
        rows = [_row(r) for r in found["resources"]]
        screen.table(rows, _HEADER, right=(1, 2, 3))
        if not rows:
            screen.line("no resource is configured: see capacityd devices --toml, and /etc/capacityd/capacityd.toml")
        if rows and (lag := _lag(found, now)):
            screen.line((lag, "dim"))
    if wrong:
        screen.line()
    for what, advice in wrong:
        screen.line(("! ", "bad"), what)
        if advice:
            screen.line(f"→ {advice}", indent=2)


def _verdict(found: Mapping[str, Any], service: Mapping[str, Any] | None, looked: bool, wrong: bool) -> Sequence[Cell]:
    if service is None:
        after = "; this is what it last saw" if looked else ""
        return [("capacityd does not run", "bad"), after]
    runs = f"capacityd runs (process {service['pid']})"
    if not looked:
        return [(runs, "strong"), ", and has not looked yet"]
    node = f"Node {found['node']}" if found["node"] else "no Node yet"
    if found["observe"]:
        node = f"{node} is only observed (observe = true)"
    if wrong:
        return [(runs, "strong"), ", but ", ("not all is well", "bad"), f"; {node}"]
    return [(runs, "strong"), ", ", ("all is well", "good"), f"; {node}"]


def _when(found: Mapping[str, Any], service: Mapping[str, Any] | None, now: float) -> str:
    said = [
        f"looked {_ago(found['looked'], now)} ({', '.join(found['reasons'])})",
        f"asked the Node {_ago(found['asked'], now)}",
        f"wrote {_ago(found['wrote'], now)}" if found["wrote"] else "has never written",
    ]
    if service and found["next"]:
        said.append(f"looks again in {_span(found['next'] - now)} or when something changes")
    return ", ".join(said)


def _row(r: Mapping[str, Any]) -> Sequence[Cell]:
    reading, capacity, allocatable = (
        "-" if r[key] is None else str(r[key]) for key in ("reading", "capacity", "allocatable")
    )
    note = r["note"]
    if r["wrong"]:  # what is wrong has a line of its own
        note = "refused" if note.startswith("refused") else "its last value stays" if r["published"] is not None else ""
    elif r["published"] is not None and r["held_until"] is None and not note and not _is(capacity, r["published"]):
        note = f"published as {r['published']}"
    role = "bad" if r["wrong"] else "warn" if r["held_until"] is not None else ""
    return (
        (r["name"], "name"),
        (reading, role) if role else reading,
        capacity,
        allocatable if allocatable == capacity else (allocatable, "dim"),
        (note, role or "dim"),
    )


def _is(capacity: str, published: int) -> bool:
    if capacity == str(published):
        return True
    from capacityd.quantity import same_quantity  # rarely needed: 1k is 1000

    return capacity != "-" and same_quantity(capacity, published)


def _lag(found: Mapping[str, Any], now: float) -> str:
    """What the Node is by now may be something else: it is not asked while nothing changes.

    And the kubelet copies capacity to allocatable later than our last answer, if that was to a write.
    """
    if not found["asked"]:
        return ""
    if all(r["capacity"] == r["allocatable"] for r in found["resources"]):
        old = now - found["asked"] > _OLD
        return f"capacity and allocatable are as they were {_ago(found['asked'], now)}" if old else ""
    if found["wrote"] and found["asked"] - found["wrote"] < _COPIED:
        return "allocatable is as it was at the write; the kubelet copies capacity to it within about 10 s"
    return f"allocatable did not follow capacity {_ago(found['asked'], now)}: does the kubelet run?"


def _wrong(found: Mapping[str, Any], service: Mapping[str, Any] | None, now: float) -> list[tuple[str, str]]:
    """What is wrong, each with what to do about it, if that is not said already."""
    wrong = []
    if service is None:
        advice = 'start it: "systemctl enable --now capacityd"; why it ended: "journalctl -u capacityd"'
        wrong.append(("what is on the Node stays there, and nothing keeps it up to date", advice))
    if found["stale"]:
        wrong.append((found["stale"], '"journalctl -u capacityd" tells what it has said since'))
    elif service and found["trouble"]:
        again = f"it is tried again in {_span(found['next'] - now)}" if found["next"] else ""
        wrong.append((found["trouble"], again))
    wrong += [(problem, "changes are found at the next look") for problem in found["deaf"]]
    if service and found["metrics"]:
        what, _, advice = found["metrics"].partition("; ")
        wrong.append((what, advice))
    kept = "; until then the configuration before it stays in force" if found["kept"] else ""
    for n, mistake in enumerate(found["mistakes"], 1):
        last = n == len(found["mistakes"])
        wrong.append((mistake, f'mend it, then "systemctl reload capacityd"{kept}' if last else ""))
    for r in found["resources"]:
        if r["wrong"]:
            unknown = r["reading"] == "unknown"
            mistaken = unknown and r["note"].startswith("configuration: ")
            if mistaken and found["mistakes"] and not found["kept"]:
                continue  # told above
            advice = '"capacityd probe --explain" looks now and tells more' if unknown and not mistaken else ""
            wrong.append((f"{r['name']}: {'unknown: ' if unknown else ''}{r['note']}", advice))
    return wrong


def _ago(moment: float | None, now: float) -> str:
    return "never" if moment is None else f"{_span(now - moment)} ago"


def _span(seconds: float) -> str:
    """A duration in the unit that suits it."""
    seconds = max(0.0, seconds)
    for most, unit, size in ((100, "s", 1), (100 * 60, "min", 60), (48 * 3600, "h", 3600)):
        if seconds < most:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"
