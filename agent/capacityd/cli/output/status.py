"""Prints the service's state for `status`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from capacityd.cli.output.terminal import print_line, print_table
from capacityd.model.text import duration_text

_OLD_VALUES = 100.0  # seconds after which the age of the Node's values is printed
_HEADER = ("RESOURCE", "READING", "CAPACITY", "ALLOCATABLE", "EXPECT", "NOTE")
_EXPECT_COLUMN = _HEADER.index("EXPECT")


def print_status(
    state: Mapping[str, Any],
    service: Mapping[str, Any] | None,
    passed: bool,
    errors: Sequence[tuple[str, str]],
    now: float,
) -> None:
    """Prints the state, and the errors, each with advice. passed: whether a reconcile pass has completed."""
    print_line(_summary(state, service, passed, bool(errors)))
    if passed:
        print_line(_times(state, service, now))
    if service and service["memory_bytes"] is not None:
        memory = f"{service['memory_bytes'] / 2**20:.0f} MiB of memory"
        print_line(f"uses {memory}, has used {service['cpu_seconds']:.1f} s of CPU time")
    if passed:
        print_line()
        _print_resources(state, now)
    if errors:
        print_line()
    for error, advice in errors:
        print_line(error, sign="!")
        if advice:
            print_line(f"→ {advice}", indent=2)


def _print_resources(state: Mapping[str, Any], now: float) -> None:
    rows = [_HEADER, *map(_row, state["resources"])]
    if not state["resources"]:
        print_line("no resource is configured: see `capacityd devices --toml` and capacityd.toml(5)")
        return
    if all(r["expect"] is None for r in state["resources"]):
        rows = [(*row[:_EXPECT_COLUMN], *row[_EXPECT_COLUMN + 1 :]) for row in rows]
    print_table(rows)
    if age := _age_of_values(state, now):
        print_line(age)


def _summary(state: Mapping[str, Any], service: Mapping[str, Any] | None, passed: bool, degraded: bool) -> str:
    if service is None:
        return "capacityd is not running" + ("; this is its last known state" if passed else "")
    running = f"capacityd is running (PID {service['pid']})"
    if not passed:
        return f"{running}, no reconcile pass completed yet"
    node = f"Node {state['node']}" if state["node"] else "no Node yet"
    if state["observe"]:
        node = f"{node} is not written (observe = true)"
    return f"{running}, {'degraded' if degraded else 'healthy'}; {node}"


def _times(state: Mapping[str, Any], service: Mapping[str, Any] | None, now: float) -> str:
    times = [
        f"last pass {_ago(state['last_reconcile'], now)} ({', '.join(state['reasons'])})",
        f"Node read {_ago(state['last_read'], now)}",
        f"written {_ago(state['last_write'], now)}" if state["last_write"] else "never written",
    ]
    if service and state["next_reconcile"]:
        times.append(f"next pass in {duration_text(state['next_reconcile'] - now)} or after an event")
    return ", ".join(times)


def _row(r: Mapping[str, Any]) -> tuple[str, ...]:
    reading, capacity, allocatable = (
        "" if r[key] is None else str(r[key]) for key in ("reading", "capacity", "allocatable")
    )
    expect = "" if r["expect"] is None else f"{'!' if r['below_expect'] else ''}{r['expect']}"
    note = r["note"]
    if r["refused"] or r["denied"]:  # the reason is among the errors below the table
        note = "refused" if r["refused"] else "denied"
    elif r["reading"] == "unknown":
        note = "last value kept" if r["published"] is not None else ""
    elif r["published"] is not None and r["held_until"] is None and not note and capacity != str(r["published"]):
        note = f"published as {r['published']}"
    return r["name"], reading, capacity, allocatable, expect, note


def _age_of_values(state: Mapping[str, Any], now: float) -> str:
    """How old the Node's values are, which are not read while nothing changes; "" if that does not matter."""
    if not state["last_read"]:
        return ""
    if all(r["capacity"] == r["allocatable"] for r in state["resources"]):
        old = now - state["last_read"] > _OLD_VALUES
        return f"capacity and allocatable were read {_ago(state['last_read'], now)}" if old else ""
    return f"allocatable differed from capacity {_ago(state['last_read'], now)}: another writer changes it"


def _ago(moment: float | None, now: float) -> str:
    return "never" if moment is None else f"{duration_text(now - moment)} ago"
