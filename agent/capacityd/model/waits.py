"""Why and until when a pass waits: one type, and one text for `plan`, `status`, the journal and JSON."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from capacityd.model.text import duration_text


class WaitReason(str, Enum):
    """The action that is delayed, and why. The values are the same in JSON."""

    LOWER_AFTER = "lower_after"  # no lower number is written yet: it may be temporary
    RATE_LIMIT = "rate_limit"  # the resource is not written: it has been written often lately
    DENIED = "denied"  # a change is not tried again yet: the API server has denied it
    UNKNOWN = "unknown"  # the resource is not read again yet: it could not be read
    NOT_STORED = "not_stored"  # the condition is not written again yet: the API server does not store it
    ALLOCATABLE = "allocatable"  # the condition stays False: allocatable was repaired more than once
    DEVICE_PLUGINS = "device_plugins"  # the kubelet's list of device plugins is not read again yet: it was unreadable
    EXPIRY = "expiry"  # the resource is not read again yet: its reading is still valid
    OTHER_AGENT = "other_agent"  # a write waits: another capacityd writes this Node
    CONFLICT = "conflict"  # the Node is not read again yet: another writer changed it before each write
    START_JITTER = "start_jitter"  # the Node is not read for the first time yet: a whole fleet may have started


_TEXTS = {
    WaitReason.LOWER_AFTER: "held back for {} more, in case it comes back (lower_after)",
    WaitReason.RATE_LIMIT: "held back for {} more, because it keeps changing (rate limit)",
    WaitReason.DENIED: "tried again in {} (denied)",
    WaitReason.UNKNOWN: "read again in {} (unknown)",
    WaitReason.NOT_STORED: "the condition is written again in {}, because the API server does not store it",
    WaitReason.ALLOCATABLE: "the condition stays False for {} more, in case allocatable is reduced again",
    WaitReason.DEVICE_PLUGINS: "the kubelet's list of device plugins is read again in {}",
    WaitReason.EXPIRY: "read again in {}, when its reading becomes too old",
    WaitReason.OTHER_AGENT: "waits {} more, because another capacityd writes this Node",
    WaitReason.CONFLICT: "the Node is read again in {}, because another writer came in between",
    WaitReason.START_JITTER: "the Node is first read in {} (start_jitter)",
}
"""Reason -> text. {} is the time that is left."""


@dataclass(frozen=True, slots=True)
class Wait:
    """An action that is delayed until a time."""

    until: float
    """Seconds of uptime."""
    reason: WaitReason
    name: str = ""
    """The resource that waits; "" if the Node, its condition or its annotations wait."""

    def text(self, uptime: float) -> str:
        """The reason for the wait, and how much of it is left. uptime: the current one, in seconds."""
        return _TEXTS[self.reason].format(duration_text(self.until - uptime))

    def until_epoch(self, *, now: float, uptime: float) -> float:
        """The end of the wait in seconds since the epoch. now: the current time, also since the epoch.
        uptime: the current one, in seconds."""
        return now + (self.until - uptime)

    @property
    def holds_change(self) -> bool:
        """Whether one of capacityd's limits holds back a change of a resource."""
        limits = (WaitReason.LOWER_AFTER, WaitReason.RATE_LIMIT, WaitReason.OTHER_AGENT)
        return bool(self.name) and self.reason in limits
