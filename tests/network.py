"""Downloads for the tests, with retries, because mirrors and proxies fail now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PAUSES = (5.0, 20.0, 60.0)
"""Seconds before each further attempt."""


def persistently(fetch: Callable[[], T], failures: type[Exception] | tuple[type[Exception], ...]) -> T:
    """Returns what fetch returns. After one of these failures, waits and tries again; raises the last failure."""
    for pause in PAUSES:
        try:
            return fetch()
        except failures as e:
            print(f"it failed and is tried again in {pause:g} s: {e}", file=sys.stderr, flush=True)
            time.sleep(pause)
    return fetch()
