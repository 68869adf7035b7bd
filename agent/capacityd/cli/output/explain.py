"""Prints a reading for probe --explain: which devices count, which do not, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from capacityd.cli.output.terminal import listed, print_line, print_table
from capacityd.config.hints import hints
from capacityd.model.errors import Cause
from capacityd.model.reading import Contribution, Quantity, Reading, Unknown, is_below, reading_text
from capacityd.schema.config import Resource

_MAX_ROWS = 10
"""Number of devices with the same sign (+, ? or -) that get a row each. If there are more, each reason gets a row."""
_MAX_NAMES = 3
"""Number of devices to list in the row of a reason."""
_HANGING_ADVICE = "a device or its driver may hang: see dmesg; the service retries"
_SLOW_PROGRAM_ADVICE = "run the program by hand; raise timeout if it is slow"
_HANGING_CAUSES = (Cause.TIMEOUT, Cause.HANGING)


def reason_text(reading: Reading, expected: int | None) -> str:
    """The warning of a quantity, or the reason of an absent or unknown reading; "" for none.

    A quantity below `expect` has a remark on that.
    """
    reason = reading.warning if isinstance(reading, Quantity) else reading.reason
    if not is_below(reading, expected):
        return reason
    remark = f"less than the expected {expected}"
    return f"{reason}; {remark}" if reason else remark


def print_explanation(resource: Resource, reading: Reading) -> None:
    """Prints one reading, with its explanation if there is one."""
    reason = reason_text(reading, resource.expect)
    reason_in_brackets = f" ({reason})" if reason else ""
    print_line(f"{resource.name}: {reading_text(reading)}{reason_in_brackets}")
    print_table(_lines_above_devices(resource, reading), indent=2)
    rows = [
        *_rows("+", _counted_devices(resource, reading)),
        *_rows("?", _undetermined_devices(reading)),
        *_rows("-", [(rejection.device, rejection.reason) for rejection in reading.rejections]),
    ]
    print_table(rows, indent=2, signs=True)


def _lines_above_devices(resource: Resource, reading: Reading) -> Iterator[tuple[str, str]]:
    """Yields label and text of each line above the devices."""
    for key, hint in hints(resource):  # probable mistakes in the configuration
        text = f"{key}: {hint}" if key else hint
        yield "hint", text
    explanation = reading.explanation
    if explanation is None:
        # The reason says what is wrong, but not what to do about a detector that hangs.
        if isinstance(reading, Unknown) and reading.cause in _HANGING_CAUSES:
            hanging_advice = _SLOW_PROGRAM_ADVICE if resource.detector == "exec" else _HANGING_ADVICE
            yield "advice", hanging_advice
        return
    if explanation.detail:
        yield "detail", explanation.detail
    for test in explanation.when:
        yield "when", str(test)  # with the machine's value
    advice = [explanation.advice, *(undetermined.advice for undetermined in explanation.undetermined)]
    for text in dict.fromkeys(advice):  # without duplicates
        if text:
            yield "advice", text
    for text in explanation.hints:
        yield "hint", text


def _counted_devices(resource: Resource, reading: Reading) -> list[tuple[str, str]]:
    """Pairs of a device that counts and its amount. If the resource is unknown: the devices that match."""
    contributions: Sequence[Contribution] = ()
    if isinstance(reading, Quantity):
        contributions = reading.contributions
    elif reading.explanation is not None:
        contributions = reading.explanation.counted
    pairs = []
    for contribution in contributions:
        amount = f"{contribution.amount} {resource.unit}" if resource.unit else str(contribution.amount)
        parts = (amount, contribution.note, contribution.detail)
        pairs.append((contribution.device, "  ".join(part for part in parts if part)))
    return pairs


def _undetermined_devices(reading: Reading) -> list[tuple[str, str]]:
    """Pairs of a device that may count and the reason why this is unknown."""
    if reading.explanation is None:
        return []
    pairs = []
    for undetermined in reading.explanation.undetermined:
        detail = f"; {undetermined.detail}" if undetermined.detail else ""
        pairs.append((undetermined.device, f"{undetermined.reason}{detail}"))
    return pairs


def _rows(leading_sign: str, devices: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    """Yields a row for each device or, if there are many devices, for each reason.

    leading_sign: "+" for devices that count, "?" for devices that may count, "-" for devices that do not count.
    devices: pairs of name and reason. The "reason" of a device that counts is its amount.
    """
    if len(devices) <= _MAX_ROWS:
        for name, reason in devices:
            yield leading_sign, name, reason
        return
    names_by_reason: dict[str, list[str]] = {}
    for name, reason in devices:
        names_by_reason.setdefault(reason, []).append(name)
    for reason, names in names_by_reason.items():
        each = " each" if leading_sign == "+" and len(names) > 1 else ""
        yield leading_sign, listed(names, most=_MAX_NAMES), f"{reason}{each}"
