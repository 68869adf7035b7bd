"""The values of an explanation: why each device did not count, which came nearest, what can't be read, what to do.

explain.py makes them; a plain probe loads neither.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from capacityd.evidence import Evidence


@dataclass(frozen=True, slots=True)
class Compared:
    """What was asked for under a key, and what the device or machine says. holds: None if it can't be read, then is
    the reason stands in its place. default: nobody wrote it, the detector asks for it by itself."""

    key: str
    value: str
    asked: str
    holds: bool | None
    default: bool = False

    def as_dict(self) -> dict[str, object]:
        """As JSON has it."""
        return {"key": self.key, "is": self.value, "asked": self.asked, "holds": self.holds, "default": self.default}

    def __str__(self) -> str:
        if self.holds:
            return f"{self.key} {self.value} yes"
        if self.holds is None:
            return f"{self.key} can't be read: {self.value}"
        asks = "by default only" if self.default else "you ask for"
        return f"{self.key} is {self.value}, {asks} {self.asked}" + (" counts" if self.default else "")


@dataclass(frozen=True, slots=True)
class Rejection:
    """A device that did not count, and the rule by which. differs: what it says, beside what was asked for."""

    device: str
    reason: str
    differs: tuple[Compared, ...] = ()


@dataclass(frozen=True, slots=True)
class Nearest:
    """The device that has most in common with what was asked for. compared: all keys of the table that it comes
    nearest to; table: its number, 0 if there is only one. excepted: by what it is left out though it matches."""

    device: str
    table: int
    compared: tuple[Compared, ...]
    excepted: str = ""


@dataclass(frozen=True, slots=True)
class Doubt:
    """A device of which it can't be known whether it counts, or for how much, and what to do about it."""

    device: str
    reason: str
    advice: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """when: each of its tests, if they don't all hold. counted: what would count of a resource that is unknown."""

    when: tuple[Compared, ...] = ()
    nearest: Nearest | None = None
    doubts: tuple[Doubt, ...] = ()
    counted: tuple[Evidence, ...] = ()
    advice: str = ""

    def as_dict(self) -> dict[str, object]:
        """As JSON has it."""
        near = self.nearest
        return {
            "when": [c.as_dict() for c in self.when],
            "nearest": near and asdict(near) | {"compared": [c.as_dict() for c in near.compared]},
            "doubts": [asdict(d) for d in self.doubts],
            "counted": [asdict(e) for e in self.counted],
            "advice": self.advice,
        }
