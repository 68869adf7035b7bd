"""Prints a reading for probe --explain: which devices count, which do not, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from capacityd.cli.output.terminal import listed, print_line, print_table
from capacityd.config.hints import hints
from capacityd.model.config import Resource
from capacityd.model.errors import Cause
from capacityd.model.reading import Absent, Contribution, Quantity, Reading, Rejection, Unknown, is_below, reading_text

_MAX_ROWS = 10  # limit of devices with the same sign; more devices are grouped by rule
_MAX_NAMES = 3  # devices to list for a group, and reasons to list for a rule
_HANGING_ADVICE = "a device or its driver may hang: see dmesg; the service retries"
_HANGING_CAUSES = (Cause.TIMEOUT, Cause.HANGING)

_Row = tuple[str, str, str]  # sign, devices, reason


def print_explanation(resource: Resource, reading: Reading) -> None:
    """Prints one reading, with its explanation if there is one."""
    explanation = reading.explanation
    unit = f" {resource.unit.name}" if resource.unit else ""
    value, reason = reading_text(reading), reading.warning if isinstance(reading, Quantity) else reading.reason
    if isinstance(reading, Absent) and explanation and explanation.when:
        reason = "does not apply to this machine"
    if is_below(reading, resource.expect):
        value += f", expected {resource.expect}"
    print_line(f"{resource.name}: {value}" + (f" ({reason})" if reason else ""))
    print_table(_details(resource, reading), indent=2)
    counted = explanation.counted if explanation else ()
    if isinstance(reading, Quantity):
        counted = reading.contributions
    undetermined = [
        (u.device, "; ".join(filter(None, (u.reason, u.detail.text))), u.reason)
        for u in (explanation.undetermined if explanation else ())
    ]
    rows = [*_counted(counted, unit), *_grouped("?", undetermined), *_rejected(reading.rejections)]
    print_table(rows, indent=2, signs=True)


def _details(resource: Resource, reading: Reading) -> Iterator[tuple[str, str]]:
    """Yields label and text of the lines above the devices."""
    yield from (("hint", ": ".join((*hint.path[1:], hint.text))) for hint in hints(resource))
    explanation = reading.explanation
    if explanation is None:
        # The reason is enough, unless a detector hangs.
        if isinstance(reading, Unknown) and reading.cause in _HANGING_CAUSES:
            program = resource.detector == "exec"
            yield "advice", "run the program by hand; raise timeout if it is slow" if program else _HANGING_ADVICE
        return
    yield from [("detail", explanation.detail.text)] if explanation.detail else []
    yield from (("when", str(compared)) for compared in explanation.when)
    advice = dict.fromkeys([explanation.advice, *(u.advice for u in explanation.undetermined)])
    yield from (("advice", text) for text in advice if text)
    yield from (("hint", text) for text in explanation.hints)


def _counted(contributions: Sequence[Contribution], unit: str) -> Iterator[_Row]:
    rows = [(c.device, "  ".join(filter(None, (f"{c.amount}{unit}", c.note, c.detail.text)))) for c in contributions]
    equal = len({text for _, text in rows}) == 1 and len(rows) > _MAX_ROWS
    yield from _grouped("+", [(d, f"{text} each" if equal else text, text) for d, text in rows])


def _rejected(rejections: Sequence[Rejection]) -> Iterator[_Row]:
    """The rows of rejected devices. Devices that fail the same tests form a group, regardless of their values."""
    rule = {r.device: " ".join(f"{c.key}={c.wanted}" for c in r.mismatches) or r.reason for r in rejections}
    yield from _grouped("-", [(r.device, r.reason, rule[r.device]) for r in rejections])


def _grouped(sign: str, rows: Sequence[tuple[str, str, str]]) -> Iterator[_Row]:
    """Groups rows if there are many. rows: device, reason, and the rule to group by."""
    if len(rows) <= _MAX_ROWS:
        yield from ((sign, device, reason) for device, reason, _ in rows)
        return
    groups: dict[str, dict[str, list[str]]] = {}
    for device, reason, rule in rows:
        groups.setdefault(rule, {}).setdefault(reason, []).append(device)
    for reasons in groups.values():
        most_common = sorted(reasons.items(), key=lambda item: -len(item[1]))
        yield from ((sign, listed(devices, _MAX_NAMES), reason) for reason, devices in most_common[:_MAX_NAMES])
        if others := [device for _, devices in most_common[_MAX_NAMES:] for device in devices]:
            yield sign, listed(others, _MAX_NAMES), f"same rule, for example: {most_common[_MAX_NAMES][0]}"
