"""Prints a reading for probe --explain: which devices count, which do not, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from capacityd.cli.output.terminal import listed, print_line, print_table
from capacityd.config.hints import hints
from capacityd.model.errors import Cause
from capacityd.model.reading import (
    Absent,
    Contribution,
    Quantity,
    Reading,
    Rejection,
    Undetermined,
    Unknown,
    is_below,
    reading_text,
)
from capacityd.schema.config import Resource

_MAX_ROWS = 10  # number of devices with the same sign that get a row each; if there are more, rules group them
_MAX_REASONS = 3  # number of reasons of a rule that get a row each
_MAX_NAMES = 3  # number of devices to list in the row of several devices
_HANGING_ADVICE = "a device or its driver may hang: see dmesg; the service retries"
_SLOW_PROGRAM_ADVICE = "run the program by hand; raise timeout if it is slow"
_HANGING_CAUSES = (Cause.TIMEOUT, Cause.HANGING)

_Row = tuple[str, str, str]  # sign ("+" counted, "?" unknown, "-" not counted), devices, reason


class _Line(NamedTuple):
    """What to say about a device."""

    device: str
    reason: str
    rule: str
    """What devices with different reasons may have in common. If there are many devices, rules group them."""


def print_explanation(resource: Resource, reading: Reading) -> None:
    """Prints one reading, with its explanation if there is one."""
    explanation = reading.explanation
    unit = f" {resource.unit.name}" if resource.unit else ""
    reason = reading.warning if isinstance(reading, Quantity) else reading.reason
    if isinstance(reading, Absent) and explanation and explanation.when:
        reason = "does not apply to this machine"  # _details() prints the failed tests
    expected = f", expected {resource.expect}" if is_below(reading, resource.expect) else ""
    reason_in_brackets = f" ({reason})" if reason else ""
    print_line(f"{resource.name}: {reading_text(reading)}{expected}{reason_in_brackets}")
    print_table(_details(resource, reading), indent=2)
    counted: Sequence[Contribution] = ()
    if isinstance(reading, Quantity):
        counted = reading.contributions
    elif explanation:
        counted = explanation.counted  # of an unknown resource: the devices that match for certain
    undetermined = explanation.undetermined if explanation else ()
    rows = [*_counted(counted, unit), *_undetermined(undetermined), *_rejected(reading.rejections)]
    print_table(rows, indent=2, signs=True)


def _details(resource: Resource, reading: Reading) -> Iterator[tuple[str, str]]:
    """Yields label and text of the lines above the devices."""
    for hint in hints(resource):  # probable mistakes in the configuration
        yield "hint", f"{hint.key}: {hint.text}" if hint.key else hint.text
    explanation = reading.explanation
    if explanation is None:
        # The reason says everything, except what to do about a detector that hangs.
        if isinstance(reading, Unknown) and reading.cause in _HANGING_CAUSES:
            yield "advice", _SLOW_PROGRAM_ADVICE if resource.detector == "exec" else _HANGING_ADVICE
        return
    if explanation.detail:
        yield "detail", explanation.detail
    for test in explanation.when:
        yield "when", str(test)  # with the machine's value
    advice = [explanation.advice, *(undetermined.advice for undetermined in explanation.undetermined)]
    for text in dict.fromkeys(filter(None, advice)):  # without duplicates
        yield "advice", text
    for text in explanation.hints:
        yield "hint", text


def _counted(contributions: Sequence[Contribution], unit: str) -> Iterator[_Row]:
    """The rows of counted devices. unit: with a space before it; "" for none."""
    lines = []
    for counted in contributions:
        parts = (f"{counted.amount}{unit}", counted.note, counted.detail)
        text = "  ".join(part for part in parts if part)
        lines.append(_Line(counted.device, reason=text, rule=text))
    is_one_group = len(lines) > _MAX_ROWS and len({line.rule for line in lines}) == 1
    if is_one_group:
        lines = [line._replace(reason=f"{line.reason} each") for line in lines]
    yield from _rows("+", lines)


def _undetermined(undetermined: Sequence[Undetermined]) -> Iterator[_Row]:
    """The rows of devices of which it is unknown whether they count."""
    lines = []
    for uncertain in undetermined:
        text = "; ".join(part for part in (uncertain.reason, uncertain.detail) if part)
        lines.append(_Line(uncertain.device, reason=text, rule=uncertain.reason))
    yield from _rows("?", lines)


def _rejected(rejections: Sequence[Rejection]) -> Iterator[_Row]:
    """The rows of rejected devices. Devices that fail the same tests form a group, regardless of their values."""
    lines = []
    for rejection in rejections:
        failed_tests = " ".join(f"{test.key}={test.wanted}" for test in rejection.mismatches)
        # If an `except` table excludes the device, no test has failed.
        lines.append(_Line(rejection.device, reason=rejection.reason, rule=failed_tests or rejection.reason))
    yield from _rows("-", lines)


def _rows(sign: str, lines: Sequence[_Line]) -> Iterator[_Row]:
    """The rows for devices: a row for each or, if there are many devices, some rows for each rule."""
    if len(lines) <= _MAX_ROWS:
        for line in lines:
            yield sign, line.device, line.reason
        return
    devices_by_rule: dict[str, dict[str, list[str]]] = {}  # rule -> reason -> devices
    for line in lines:
        devices_by_rule.setdefault(line.rule, {}).setdefault(line.reason, []).append(line.device)
    for devices_by_reason in devices_by_rule.values():
        most_devices_first = sorted(devices_by_reason.items(), key=lambda item: -len(item[1]))
        for reason, devices in most_devices_first[:_MAX_REASONS]:
            yield sign, listed(devices, most=_MAX_NAMES), reason
        rest = most_devices_first[_MAX_REASONS:]
        if rest:
            example, _devices = rest[0]
            others = [device for _reason, devices in rest for device in devices]
            yield sign, listed(others, most=_MAX_NAMES), f"same rule, for example: {example}"
