"""The reading of a resource (a quantity, absent or unknown), and its explanation."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import ClassVar, TypeAlias

from capacityd.model.errors import Cause


@dataclass(frozen=True, slots=True)
class Contribution:
    """A counted device."""

    device: str
    amount: int | float
    """What the device adds to the quantity, in the resource's unit, before `reduce` and `reserve` apply."""
    note: str = ""
    """How the amount came about, for people."""
    detail: str = ""
    """Further text from the device or program. Filled in only with --explain."""
    valid_for: float | None = None
    """Seconds until the file with the amount is older than `max_age`; None for no limit."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of a configured value with the value of a device or of the machine."""

    key: str
    value: str
    """The actual value, or why it could not be read."""
    wanted: str
    matches: bool | None
    """Whether the value matches; None if the value could not be read."""
    default: bool = False
    """Whether the detector adds this test by default."""

    def __str__(self) -> str:
        if self.matches:
            return f"{self.key} {self.value} matches"
        if self.matches is None:
            return f"{self.key} could not be read: {self.value}"
        by_default = " by default" if self.default else ""
        return f"{self.key} is {self.value}, wanted {self.wanted}{by_default}"


@dataclass(frozen=True, slots=True)
class Rejection:
    """A device that was not counted."""

    device: str
    reason: str
    """The rule that excludes the device."""
    mismatches: tuple[Comparison, ...] = ()
    """For each table of the resource, the first key that does not match. Empty if an `except` table excludes the
    device."""


@dataclass(frozen=True, slots=True)
class Undetermined:
    """A device for which it is unknown whether it counts, or how much."""

    device: str
    reason: str
    advice: str
    """How to fix the problem."""
    detail: str = ""
    """The text from the machine that could not be used."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The details that `probe --explain` adds to a reading. They may quote any file that this user may read."""

    detail: str = ""
    """The text from the machine that could not be used; "" if `undetermined` contains such texts."""
    when: tuple[Comparison, ...] = ()
    """All tests of `when`, if they exclude this machine, or may exclude it."""
    undetermined: tuple[Undetermined, ...] = ()
    counted: tuple[Contribution, ...] = ()
    """The devices that count although the resource is unknown. Other readings list them as contributions."""
    advice: str = ""
    """How to fix a problem that does not concern a single device."""
    hints: tuple[str, ...] = ()
    """Probable mistakes in the configuration."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """The machine has this quantity of the resource."""

    outcome: ClassVar[str] = "quantity"  # the name in JSON and metrics

    value: int
    """The quantity in the resource's unit."""
    contributions: tuple[Contribution, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    """Filled in only with --explain, like `explanation`."""
    warning: str = ""
    explanation: Explanation | None = None
    valid_for: float | None = None
    """Seconds until the resource must be read again: the shortest valid_for of its contributions; None: no limit."""


@dataclass(frozen=True, slots=True)
class Absent:
    """Everything could be read, and nothing matches."""

    outcome: ClassVar[str] = "absent"  # the name in JSON and metrics

    reason: str
    rejections: tuple[Rejection, ...] = ()
    explanation: Explanation | None = None
    applies: bool = True
    """Whether the resource is expected on this machine; False if `when` excludes the machine."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Something could not be read. The published quantity stays on the Node."""

    outcome: ClassVar[str] = "unknown"  # the name in JSON and metrics

    reason: str
    """The reason as text for people. Programs use the cause."""
    cause: Cause = Cause.UNREADABLE
    rejections: tuple[Rejection, ...] = ()
    explanation: Explanation | None = None


Reading: TypeAlias = Quantity | Absent | Unknown


def reading_text(reading: Reading | None) -> str:
    """The quantity of a reading as text, "absent" or "unknown"; "none" if the resource is not configured."""
    if reading is None:
        return "none"
    return str(reading.value) if isinstance(reading, Quantity) else reading.outcome


def without_details(reading: Reading) -> Reading:
    """The part of a reading that the service keeps: without devices and without the explanation."""
    if isinstance(reading, Quantity):
        return replace(reading, contributions=(), rejections=(), explanation=None, valid_for=None)
    return replace(reading, rejections=(), explanation=None)


def is_below(reading: Reading, expect: int | None) -> bool:
    """Whether the machine has less than `expect`; False if the reading is unknown, or `when` excludes the machine."""
    if expect is None or isinstance(reading, Unknown):
        return False
    if isinstance(reading, Absent):
        return reading.applies
    return reading.value < expect


def reading_as_dict(name: str, reading: Reading) -> dict[str, object]:
    """The reading for JSON output. With --explain, the output also contains `rejected` and `explanation`.

    For a quantity, `reason` contains the warning.
    """
    document: dict[str, object] = {
        "name": name,
        "outcome": reading.outcome,
        "quantity": None,
        "cause": reading.cause.value if isinstance(reading, Unknown) else None,
        "reason": "",
        "contributions": [],
    }
    if isinstance(reading, Quantity):
        document["quantity"] = reading.value
        document["reason"] = reading.warning
        document["contributions"] = [_contribution_as_dict(contribution) for contribution in reading.contributions]
    else:
        document["reason"] = reading.reason
    if reading.rejections:
        document["rejected"] = [asdict(rejection) for rejection in reading.rejections]
    if reading.explanation is not None:
        document["explanation"] = asdict(reading.explanation)
    return document


def _contribution_as_dict(contribution: Contribution) -> dict[str, object]:
    notes = [text for text in (contribution.note, contribution.detail) if text]
    return {"device": contribution.device, "amount": contribution.amount, "note": "; ".join(notes)}
