"""Why and until when a pass waits. `plan`, `status`, the journal and JSON show the same text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from capacityd.model.key import Key
from capacityd.model.text import duration_text


class WaitReason(str, Enum):
    """What is delayed, and why. The values are the same in JSON."""

    LOWER_AFTER = "lower_after"  # a lower number is written later, because it may be temporary
    RATE_LIMIT = "rate_limit"  # the Node is written later, because it has been written often
    DENIED = "denied"  # a denied number or condition is tried again later
    READ = "read"  # a resource, the list of device plugins or an overwritten Node is read again later
    START_JITTER = "start_jitter"  # the Node is first read later, because many machines may start at the same time


_TEXTS = {
    WaitReason.LOWER_AFTER: "held back for {} more, in case it comes back (lower_after)",
    WaitReason.RATE_LIMIT: "held back for {} more, because the Node has been written often (rate limit)",
    WaitReason.DENIED: "tried again in {} (denied)",
    WaitReason.READ: "read again in {}",
    WaitReason.START_JITTER: "the Node is first read in {} (start_jitter)",
}
"""Reason -> text. {} stands for the remaining time."""


@dataclass(frozen=True, slots=True)
class Wait:
    """An action that is delayed until a time."""

    until: float
    """Seconds of uptime."""
    reason: WaitReason
    key: Key | None = None
    """The key whose change or reading is delayed; None if the whole Node, its condition or its annotations are."""

    def text(self, uptime: float) -> str:
        """The reason for the wait and the remaining time. uptime: the current uptime in seconds."""
        return _TEXTS[self.reason].format(duration_text(self.until - uptime))

    def until_epoch(self, *, now: float, uptime: float) -> float:
        """The end of the wait in seconds since the epoch. now, uptime: the current time and uptime in seconds."""
        return now + (self.until - uptime)

    def as_dict(self, *, now: float, uptime: float) -> dict[str, object]:
        """The wait for JSON output. now, uptime: the current time and uptime in seconds."""
        return {
            "reason": self.reason.value,
            "name": self.key.name if self.key else None,
            "kind": self.key.kind if self.key else None,
            "until": self.until_epoch(now=now, uptime=uptime),
            "text": self.text(uptime),
        }

    @property
    def holds_change(self) -> bool:
        """Whether a limit of capacityd holds back a change of the key."""
        return self.key is not None and self.reason in (WaitReason.LOWER_AFTER, WaitReason.RATE_LIMIT)
