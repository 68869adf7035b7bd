"""Prints a reading for probe --explain: which devices count, which do not, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from capacityd.cli.output.terminal import listed, print_line, print_table
from capacityd.config.hints import hints
from capacityd.model.config import Resource
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

_MAX_ROWS = 10  # number of devices with the same sign that get a row each; more devices are grouped by rule
_MAX_NAMES = 3  # number of devices to list for a group, and of reasons to list for a rule
_HANGING_ADVICE = "a device or its driver may hang: see dmesg; the service retries"
_SLOW_PROGRAM_ADVICE = "run the program by hand; raise timeout if it is slow"
_HANGING_CAUSES = (Cause.TIMEOUT, Cause.HANGING)

_Row = tuple[str, str, str]  # sign, devices, reason


def print_explanation(resource: Resource, reading: Reading) -> None:
    """Prints one reading, with its explanation if there is one."""
    explanation = reading.explanation
    unit = f" {resource.unit.name}" if resource.unit else ""
    value = reading_text(reading)
    reason = reading.warning if isinstance(reading, Quantity) else reading.reason
    if isinstance(reading, Absent) and explanation and explanation.when:
        reason = "does not apply to this machine"
    if is_below(reading, resource.expect):
        value += f", expected {resource.expect}"
    in_brackets = f" ({reason})" if reason else ""
    print_line(f"{resource.name}: {value}{in_brackets}")
    print_table(_details(resource, reading), indent=2)
    counted: Sequence[Contribution] = ()
    if isinstance(reading, Quantity):
        counted = reading.contributions
    elif explanation:
        counted = explanation.counted
    undetermined = explanation.undetermined if explanation else ()
    rows = [*_counted(counted, unit), *_undetermined(undetermined), *_rejected(reading.rejections)]
    print_table(rows, indent=2, signs=True)


def _details(resource: Resource, reading: Reading) -> Iterator[tuple[str, str]]:
    """Yields label and text of the lines above the devices."""
    for hint in hints(resource):
        yield "hint", f"{hint.key}: {hint.text}" if hint.key else hint.text
    explanation = reading.explanation
    if explanation is None:
        # The reason is enough, unless a detector hangs.
        if isinstance(reading, Unknown) and reading.cause in _HANGING_CAUSES:
            is_program = resource.detector == "exec"
            yield "advice", _SLOW_PROGRAM_ADVICE if is_program else _HANGING_ADVICE
        return
    if explanation.detail:
        yield "detail", explanation.detail.text
    for compared in explanation.when:
        yield "when", str(compared)
    advice = [explanation.advice, *(device.advice for device in explanation.undetermined)]
    for text in dict.fromkeys(advice):  # each once
        if text:
            yield "advice", text
    for text in explanation.hints:
        yield "hint", text


def _counted(contributions: Sequence[Contribution], unit: str) -> Iterator[_Row]:
    """The rows of counted devices. unit: with a space before it; "" for none."""
    devices = [counted.device for counted in contributions]
    texts = ["  ".join(filter(None, (f"{c.amount}{unit}", c.note, c.detail.text))) for c in contributions]
    is_one_group = len(set(texts)) == 1 and len(texts) > _MAX_ROWS
    each = " each" if is_one_group else ""
    yield from _grouped("+", [(device, f"{text}{each}", text) for device, text in zip(devices, texts, strict=True)])


def _undetermined(undetermined: Sequence[Undetermined]) -> Iterator[_Row]:
    """The rows of devices of which it is unknown whether they count."""
    rows = []
    for device in undetermined:
        text = "; ".join(filter(None, (device.reason, device.detail.text)))
        rows.append((device.device, text, device.reason))
    yield from _grouped("?", rows)


def _rejected(rejections: Sequence[Rejection]) -> Iterator[_Row]:
    """The rows of rejected devices. Devices that fail the same tests form a group, regardless of their values."""
    rows = []
    for rejection in rejections:
        failed_tests = " ".join(f"{compared.key}={compared.wanted}" for compared in rejection.mismatches)
        rows.append((rejection.device, rejection.reason, failed_tests or rejection.reason))
    yield from _grouped("-", rows)


def _grouped(sign: str, rows: Sequence[tuple[str, str, str]]) -> Iterator[_Row]:
    """Groups rows if there are many. rows: device, reason, and the rule to group by."""
    if len(rows) <= _MAX_ROWS:
        for device, reason, _rule in rows:
            yield sign, device, reason
        return
    devices_by_rule: dict[str, dict[str, list[str]]] = {}  # rule -> reason -> devices
    for device, reason, rule in rows:
        devices_by_rule.setdefault(rule, {}).setdefault(reason, []).append(device)
    for devices_by_reason in devices_by_rule.values():
        most_common = sorted(devices_by_reason.items(), key=lambda item: -len(item[1]))
        for reason, devices in most_common[:_MAX_NAMES]:
            yield sign, listed(devices, most=_MAX_NAMES), reason
        rest = most_common[_MAX_NAMES:]
        if rest:
            example, _devices = rest[0]
            others = [device for _reason, devices in rest for device in devices]
            yield sign, listed(others, most=_MAX_NAMES), f"same rule, for example: {example}"
