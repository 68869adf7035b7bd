"""Errors of rtnetlink(7) as HostError."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from capacityd.linux.netlink import DumpInterruptedError
from capacityd.model.errors import HostError


@contextmanager
def answers(what: str) -> Iterator[None]:
    """Turns errors into HostError with the kernel's errno. what: that is read, as the message names it."""
    try:
        yield
    except DumpInterruptedError as e:
        raise HostError(f"{what} changed while they were read", e.errno) from e
    except OSError as e:
        raise HostError(f"{what} could not be read: {os.strerror(e.errno or 0)}", e.errno) from e
    except (struct.error, ValueError) as e:
        raise HostError(f"{what} could not be read: the kernel gave another answer") from e
