"""Runs a program with limits of time and output. Raises the operating system's exceptions; callers name the program."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence

_CHUNK_BYTES = 65536


class ProgramTimeoutError(Exception):
    """The program did not end in time."""


class OutputTooLargeError(Exception):
    """The program wrote more than allowed to standard output or standard error."""


def run_program(
    command: Sequence[str],
    timeout: float,
    environment: Mapping[str, str],
    max_output: int,
    directory: str | None = None,
) -> tuple[int, bytes, bytes]:
    """Runs a program without a shell, in a new session, and kills its process group afterwards.

    timeout: seconds. max_output: limit of bytes for each of the two outputs. directory: None for the current one.

    Returns the exit status (if negative, the signal that killed the program), standard output and standard error. Does
    not wait for processes that the program leaves behind. Raises OSError, ValueError or subprocess.SubprocessError if
    the program can't be started; also ProgramTimeoutError and OutputTooLargeError.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        cwd=directory,
        start_new_session=True,
    )
    assert process.stdout is not None  # noqa: S101  # for mypy: they are pipes
    assert process.stderr is not None  # noqa: S101
    with process.stdout, process.stderr:
        try:
            pipes = process.stdout.fileno(), process.stderr.fileno()
            out, err = _collect(process.pid, pipes, time.monotonic() + timeout, max_output)
        finally:
            # The process has not been reaped yet, so its process group cannot belong to another process.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return process.returncode, out, err


def _collect(pid: int, pipes: tuple[int, int], deadline: float, max_output: int) -> tuple[bytes, bytes]:
    """Returns both outputs once the program has ended. Processes that it left behind may keep the pipes open."""
    output = {pipe: bytearray() for pipe in pipes}
    exited = os.pidfd_open(pid)
    poll = select.poll()
    for fd in (exited, *pipes):
        poll.register(fd, select.POLLIN)
    try:
        while True:
            timeout = deadline - time.monotonic()
            ready = {fd for fd, _ in poll.poll(max(0.0, timeout) * 1000)}
            if timeout < 0 or not ready:
                raise ProgramTimeoutError
            for fd in output.keys() & ready:
                chunk = os.read(fd, _CHUNK_BYTES)
                output[fd] += chunk
                if len(output[fd]) > max_output:
                    raise OutputTooLargeError
                if not chunk:
                    poll.unregister(fd)
            if exited in ready and not output.keys() & {fd for fd, _ in poll.poll(0)}:
                return bytes(output[pipes[0]]), bytes(output[pipes[1]])
    finally:
        os.close(exited)
