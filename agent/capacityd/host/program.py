"""Runs another program: no shell, a small environment, bounded time and output, and nothing of it left behind."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Sequence

from capacityd.errors import HostError
from capacityd.host import Output
from capacityd.orphans import adopt_orphans, end_children
from capacityd.printable import printable

_MOST = 65536
_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}


def run(command: Sequence[str], timeout: float) -> Output:
    """Runs a program to its end, at most timeout seconds. Call it in a process that has no other children.

    Raises HostError if it can't be started, does not end in time or says more than 64 KiB.
    """
    _check(command[0])
    adopt_orphans()
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_ENVIRONMENT,
            cwd="/",
            start_new_session=True,
        )
    except OSError as e:
        raise HostError(f"{command[0]} could not be started: {os.strerror(e.errno or 0)}", e.errno) from e
    try:
        out, err = _collect(process, command[0], time.monotonic() + timeout, timeout)
        return Output(process.wait(), printable(out.strip()), printable(err.strip()))
    finally:
        end_children(time.monotonic() + 1)


def _check(program: str) -> None:
    try:
        mode = os.stat(program).st_mode
    except OSError as e:
        raise HostError(f"{program} can't be run: {os.strerror(e.errno or 0)}", e.errno) from e
    if not os.access(program, os.X_OK):
        raise HostError(f"{program} is not executable (chmod +x)")
    if mode & 0o002:
        raise HostError(f"{program} can be written by everybody, so it is not run (chmod o-w)")


def _collect(process: subprocess.Popen[bytes], name: str, deadline: float, timeout: float) -> tuple[bytes, bytes]:
    assert process.stdout is not None  # noqa: S101  # for mypy: they are pipes
    assert process.stderr is not None  # noqa: S101
    said = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    ended = os.pidfd_open(process.pid)
    poll = select.poll()
    for fd in (ended, *said):
        poll.register(fd, select.POLLIN)
    try:
        while True:
            left = deadline - time.monotonic()
            ready = {fd for fd, _ in poll.poll(max(0.0, left) * 1000)}
            if left < 0 or not ready:
                raise HostError(f"{name} did not end within {timeout:g} s")
            # What a program leaves behind may hold the pipes open for ever: its own end counts, not theirs.
            last = ended in ready
            for fd in said.keys() & ready:
                if not _take(fd, said[fd], name):
                    poll.unregister(fd)
            if last and not (said.keys() & {fd for fd, _ in poll.poll(0)}):
                return bytes(said[process.stdout.fileno()]), bytes(said[process.stderr.fileno()])
    finally:
        os.close(ended)
        process.stdout.close()
        process.stderr.close()


def _take(fd: int, said: bytearray, name: str) -> bool:
    piece = os.read(fd, _MOST)
    said += piece
    if len(said) > _MOST:
        raise HostError(f"{name} said more than {_MOST} bytes; one whole number is expected")
    return bool(piece)
