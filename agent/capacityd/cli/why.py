"""probe --explain: each reading with what counted and what did not, by which rule, and what came nearest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from capacityd.cli.terminal import Screen
from capacityd.explanation import Nearest, Rejection
from capacityd.model import Absent, Evidence, Quantity, Reading, Resource, Unknown

_MANY = 10  # devices of a resource; more of them are told together by what they have in common
_NAMED = 3  # of those told together
_HANGS = "a device or its driver may hang, dmesg may say more; the service tries again by itself"

_Row = tuple[tuple[str, str], str, str]  # mark, devices, why


def show(screen: Screen, resource: Resource, reading: Reading) -> None:
    """Prints one reading."""
    why = reading.explanation
    unit = f" {resource.unit.name}" if resource.unit else ""
    if isinstance(reading, Quantity):
        value, role, reason = str(reading.value), "good" if reading.value else "warn", reading.warning
    else:
        value, role = ("absent", "warn") if isinstance(reading, Absent) else ("unknown", "bad")
        reason = "does not concern this machine" if why and why.when and role == "warn" else reading.reason
    screen.line((resource.name, "name"), ": ", (value, role), f" ({reason})" if reason else "")
    screen.table([((what, "dim"), text) for what, text in _told(resource, reading)], indent=2)
    counted = reading.evidence if isinstance(reading, Quantity) else why.counted if why else ()
    doubts = [(d.device, d.reason, d.reason) for d in why.doubts] if why else []
    rows = [*_counted(counted, unit), *_together(("?", "bad"), doubts), *_rejected(reading.rejections)]
    screen.table(rows, indent=2)


def _told(resource: Resource, reading: Reading) -> Iterator[tuple[str, str]]:
    """What is told before the devices: what it is, text."""
    why = reading.explanation
    if why is None:
        # Without an explanation the reason says all, but for what hangs.
        if isinstance(reading, Unknown) and ("not end" in reading.reason or "hangs" in reading.reason):
            by_hand = resource.detector == "exec"
            yield "to do", "run the program by hand; timeout gives it more time" if by_hand else _HANGS
        return
    yield from (("when", str(compared)) for compared in why.when)
    if why.nearest:
        yield "nearest", _nearest(why.nearest)
    advice = dict.fromkeys([why.advice, *(doubt.advice for doubt in why.doubts)])
    yield from (("to do", text) for text in advice if text)


def _nearest(near: Nearest) -> str:
    alike = ", ".join(str(c) for c in near.compared if c.holds and not c.default)
    differs = [str(c) for c in near.compared if not c.holds]
    which = f" (table {near.table})" if near.table else ""
    return f"{near.device}{which}: {'; '.join(part for part in (alike, *differs, near.excepted) if part)}"


def _counted(evidence: Sequence[Evidence], unit: str) -> Iterator[_Row]:
    told = [(e.device, f"{e.contributes}{unit}" + (f"  {e.note}" if e.note else ""), "") for e in evidence]
    each = len({text for _, text, _ in told}) == 1 and len(told) > _MANY
    yield from _together(("+", "good"), [(d, f"{text} each" if each else text, text) for d, text, _ in told])


def _rejected(rejections: Sequence[Rejection]) -> Iterator[_Row]:
    """Those that fail by the same keys are told together, however many values they have instead."""
    rule = {r.device: " ".join(f"{c.key}={c.asked}" for c in r.differs) or r.reason for r in rejections}
    yield from _together(("-", "dim"), [(r.device, r.reason, rule[r.device]) for r in rejections])


def _together(mark: tuple[str, str], told: Sequence[tuple[str, str, str]]) -> Iterator[_Row]:
    """told: device, reason, and what it is told together by if there are many."""
    if len(told) <= _MANY:
        yield from ((mark, device, reason) for device, reason, _ in told)
        return
    groups: dict[str, dict[str, list[str]]] = {}
    for device, reason, rule in told:
        groups.setdefault(rule, {}).setdefault(reason, []).append(device)
    for reasons in groups.values():
        often = sorted(reasons.items(), key=lambda item: -len(item[1]))
        yield from ((mark, _some(devices), reason) for reason, devices in often[:_NAMED])
        if rest := [device for _, devices in often[_NAMED:] for device in devices]:
            yield mark, _some(rest), f"by the same rule, such as: {often[_NAMED][0]}"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
