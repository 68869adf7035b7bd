"""What comes over the network once, for the tests' programs: mirrors and proxies have bad moments."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PAUSES = (5.0, 20.0, 60.0)
"""Seconds before each further attempt."""


def persistently(fetch: Callable[[], T], failures: type[Exception] | tuple[type[Exception], ...]) -> T:
    """What fetch returns, tried again after each pause if one of these failures comes; the last one goes through."""
    for pause in PAUSES:
        try:
            return fetch()
        except failures as e:
            print(f"it failed and is tried again in {pause:g} s: {e}", file=sys.stderr, flush=True)
            time.sleep(pause)
    return fetch()
