"""Prints a reading for probe --explain: which devices count, which do not, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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

_MAX_ROWS = 10  # if more devices have the same sign, each reason gets a row instead of each device
_MAX_NAMES = 3  # number of devices to list in such a row
_HANGING_ADVICE = "a device or its driver may hang: see dmesg; the service retries"
_SLOW_PROGRAM_ADVICE = "run the program by hand; raise timeout if it is slow"
_HANGING_CAUSES = (Cause.TIMEOUT, Cause.HANGING)

_Row = tuple[str, str, str]  # sign ("+" counted, "?" unknown, "-" not counted), devices, reason


def print_explanation(resource: Resource, reading: Reading) -> None:
    """Prints one reading, with its explanation if there is one."""
    explanation = reading.explanation
    unit = f" {resource.unit}" if resource.unit else ""
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
    for key, hint in hints(resource):  # probable mistakes in the configuration
        yield "hint", f"{key}: {hint}" if key else hint
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
    """The rows of counted devices. unit: a space and the unit, or "" for a plain number."""
    reasons = []
    for counted in contributions:
        parts = (f"{counted.amount}{unit}", counted.note, counted.detail)
        reasons.append((counted.device, "  ".join(part for part in parts if part)))
    yield from _rows("+", reasons)


def _undetermined(undetermined: Sequence[Undetermined]) -> Iterator[_Row]:
    """The rows of devices that may or may not count."""
    reasons = [(item.device, "; ".join(part for part in (item.reason, item.detail) if part)) for item in undetermined]
    yield from _rows("?", reasons)


def _rejected(rejections: Sequence[Rejection]) -> Iterator[_Row]:
    yield from _rows("-", [(rejection.device, rejection.reason) for rejection in rejections])


def _rows(sign: str, reasons: Sequence[tuple[str, str]]) -> Iterator[_Row]:
    """A row for each device or, if there are many devices, for each reason. reasons: pairs of device and reason."""
    if len(reasons) <= _MAX_ROWS:
        for device, reason in reasons:
            yield sign, device, reason
        return
    devices_by_reason: dict[str, list[str]] = {}
    for device, reason in reasons:
        devices_by_reason.setdefault(reason, []).append(device)
    for reason, devices in devices_by_reason.items():
        each = " each" if sign == "+" and len(devices) > 1 else ""
        yield sign, listed(devices, most=_MAX_NAMES), f"{reason}{each}"
