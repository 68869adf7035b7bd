"""The clocks of the machine: its uptime and the time that it was suspended."""

from __future__ import annotations

import time

BOOTING = 180.0
"""Seconds of uptime during which drivers and devices may still appear."""


def uptime() -> float:
    """Seconds since the machine booted, including the time that it was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def suspended() -> float:
    """Seconds that the machine was suspended since it booted."""
    return uptime() - time.clock_gettime(time.CLOCK_MONOTONIC)
