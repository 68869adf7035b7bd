"""Notices when an administrator or a time service sets the clock (timerfd_create(2))."""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from capacityd.model.reasons import PassReason

_CLOCK_REALTIME = 0
_TFD_TIMER_ABSTIME, _TFD_TIMER_CANCEL_ON_SET = 1, 2
_ITIMERSPEC = struct.Struct("@4l")  # interval and expiration, each in seconds and nanoseconds
_EXPIRATION = (1 << 31) - 1
"""When the timer expires, in seconds since the epoch: January 2038, the latest time that fits in a C long of 4 bytes.
The timer reports that the clock was set, even after it has expired."""


class ClockEvents:
    """An event each time that the clock is set. A gradual correction causes no event. Raises OSError."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = int(self._libc.timerfd_create(_CLOCK_REALTIME, os.O_NONBLOCK | os.O_CLOEXEC))
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "steps of the clock can't be noticed")
        try:
            self._set_timer()
        except OSError:
            self.close()
            raise

    def fileno(self) -> int:
        return self._fd

    def drain(self) -> set[PassReason]:
        """Returns the reason for a pass if the clock was set since the last call."""
        try:
            os.read(self._fd, 8)
        except BlockingIOError:
            return set()
        except OSError as e:
            if e.errno != errno.ECANCELED:
                raise
            self._set_timer()
            return {PassReason.RESUME}
        return set()  # the timer has expired

    def _set_timer(self) -> None:
        value = _ITIMERSPEC.pack(0, 0, _EXPIRATION, 0)
        flags = _TFD_TIMER_ABSTIME | _TFD_TIMER_CANCEL_ON_SET
        if self._libc.timerfd_settime(self._fd, flags, value, None) < 0:
            code = ctypes.get_errno()
            # ECANCELED: somebody set the clock at this moment. The kernel has set the timer nevertheless.
            if code != errno.ECANCELED:
                raise OSError(code, "steps of the clock can't be noticed")

    def close(self) -> None:
        os.close(self._fd)
