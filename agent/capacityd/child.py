"""A child of the service: it checks the configuration, or looks, and says what came of it in lines of JSON."""

from __future__ import annotations

import json
import os
import signal
import time

from capacityd.orphans import end_children

TYPE_CHECKING = False  # typing itself would stay in memory
if TYPE_CHECKING:
    from typing import Any

_MOST_SAID = 1 << 20


class Child:
    """A child under way. allowed: seconds that it has."""

    def __init__(self, command: list[str], allowed: float) -> None:
        self.deadline = time.monotonic() + allowed
        self._read, write = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._read, False)
        try:
            out = [(os.POSIX_SPAWN_DUP2, write, 1)]
            self.pid = os.posix_spawn(command[0], command, os.environ, file_actions=out, setpgroup=0)
        finally:
            os.close(write)
        self._said = b""
        self._over = False

    def fileno(self) -> int:
        return self._read

    def hear(self) -> tuple[list[dict[str, Any]], bool]:
        """What it has said since, and whether that was all."""
        try:
            piece = os.read(self._read, 65536)
        except BlockingIOError:
            return [], False
        self._over = not piece
        self._said += piece
        *lines, self._said = self._said.split(b"\n")
        return [found for line in lines if (found := _message(line))], self._over or len(self._said) > _MOST_SAID

    def end(self) -> str:
        """Ends it, if it hasn't ended, and all that it started; the signal that ended it, "" if none or ours."""
        os.close(self._read)
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        killed = end_children(time.monotonic() + 1.0).get(self.pid, 0) & 0x7F
        hint = " (out of memory?)" if killed == signal.SIGKILL else ""
        return f"{signal.Signals(killed).name}{hint}" if killed and self._over else ""


def _message(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
