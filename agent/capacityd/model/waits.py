"""Why and until when a pass waits: one type, and one text for `plan`, `status`, the journal and JSON."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from capacityd.model.key import Key
from capacityd.model.text import duration_text


class WaitReason(str, Enum):
    """The action that is delayed, and why. The values are the same in JSON."""

    LOWER_AFTER = "lower_after"  # no lower number is written yet: it may be temporary
    RATE_LIMIT = "rate_limit"  # the Node is not written: it has been written often lately
    DENIED = "denied"  # a number or the condition is not tried again yet: the API server has denied it
    READ = "read"  # a resource, the list of device plugins or an overwritten Node is not read again yet
    START_JITTER = "start_jitter"  # the Node is not read for the first time yet: a whole fleet may have started


_TEXTS = {
    WaitReason.LOWER_AFTER: "held back for {} more, in case it comes back (lower_after)",
    WaitReason.RATE_LIMIT: "held back for {} more, because the Node has been written often (rate limit)",
    WaitReason.DENIED: "tried again in {} (denied)",
    WaitReason.READ: "read again in {}",
    WaitReason.START_JITTER: "the Node is first read in {} (start_jitter)",
}
"""Reason -> text. {} is the time that is left."""


@dataclass(frozen=True, slots=True)
class Wait:
    """An action that is delayed until a time."""

    until: float
    """Seconds of uptime."""
    reason: WaitReason
    key: Key | None = None
    """The key that waits; None: the Node, its condition or its annotations wait."""

    def text(self, uptime: float) -> str:
        """The reason for the wait, and how much of it is left. uptime: the current one, in seconds."""
        return _TEXTS[self.reason].format(duration_text(self.until - uptime))

    def until_epoch(self, *, now: float, uptime: float) -> float:
        """The end of the wait in seconds since the epoch. now: the current time, also since the epoch.
        uptime: the current one, in seconds."""
        return now + (self.until - uptime)

    def as_dict(self, *, now: float, uptime: float) -> dict[str, object]:
        """The wait for JSON output. now: in seconds since the epoch. uptime: the current one, in seconds."""
        return {
            "reason": self.reason.value,
            "name": self.key.name if self.key else None,
            "kind": self.key.kind if self.key else None,
            "until": self.until_epoch(now=now, uptime=uptime),
            "text": self.text(uptime),
        }

    @property
    def holds_change(self) -> bool:
        """Whether one of capacityd's limits holds back the change of a key."""
        return self.key is not None and self.reason in (WaitReason.LOWER_AFTER, WaitReason.RATE_LIMIT)
