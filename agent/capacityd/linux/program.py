"""Runs a program with limits of time and output. The exceptions do not name the program."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress

_CHUNK_BYTES = 65536
_SECONDS_TO_DIE = 1.0


class ProgramTimeoutError(Exception):
    """The program did not end in time."""


class OutputTooLargeError(Exception):
    """The program wrote more than allowed to one of its outputs. The message names this output."""


def run_program(
    command: Sequence[str],
    timeout: float,
    environment: Mapping[str, str],
    max_output: int,
    *,
    on_terminal: bool = False,
) -> tuple[int, bytes, bytes]:
    """Runs a program in the folder /, without a shell, in a new session. Then kills its process group.

    A program that hangs in the kernel survives.

    timeout: seconds. max_output: limit of bytes for each of the two outputs. on_terminal: whether the program uses the
    standard input and the standard error of this process; otherwise, its standard input is empty.

    Returns the exit status (if negative, the signal that killed the program), standard output and standard error. Does
    not wait for processes that the program leaves behind. Raises OSError, ValueError or subprocess.SubprocessError if
    the program can't be started; also ProgramTimeoutError and OutputTooLargeError.
    """
    process: subprocess.Popen[bytes] | None = None
    with ExitStack() as stack:
        try:
            process = subprocess.Popen(
                command,
                stdin=None if on_terminal else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=None if on_terminal else subprocess.PIPE,
                env=environment,
                cwd="/",  # interpreters look for modules in the current folder, which may be another user's
                start_new_session=True,
            )
            pipes = [pipe for pipe in (process.stdout, process.stderr) if pipe]
            descriptors = [stack.enter_context(pipe).fileno() for pipe in pipes]
            deadline = time.monotonic() + timeout
            outputs = _collect_outputs(process.pid, descriptors, deadline=deadline, max_output=max_output)
        finally:
            if process is not None:
                # The process has not been reaped yet, so no other process group has its number.
                os.killpg(process.pid, signal.SIGKILL)
                with suppress(subprocess.TimeoutExpired):  # the program hangs in the kernel, and is left behind
                    process.wait(_SECONDS_TO_DIE)
    if on_terminal:
        (output,) = outputs
        return process.returncode, output, b""
    output, error_output = outputs
    return process.returncode, output, error_output


def _collect_outputs(pid: int, pipes: Sequence[int], *, deadline: float, max_output: int) -> list[bytes]:
    """Waits for the end of the program, and returns the output in each pipe.

    Does not wait until the pipes are closed, because processes that the program left behind may keep them open.
    pipes: descriptors; the first is that of standard output. deadline: a time of time.monotonic(). max_output: limit of
    bytes for each pipe. Raises ProgramTimeoutError and OutputTooLargeError.
    """
    output_by_pipe = {pipe: bytearray() for pipe in pipes}
    pidfd = os.pidfd_open(pid)  # becomes readable when the program ends
    poll = select.poll()
    for fd in (pidfd, *pipes):
        poll.register(fd, select.POLLIN)
    try:
        while True:
            seconds_left = deadline - time.monotonic()
            if seconds_left < 0:
                raise ProgramTimeoutError
            milliseconds_left = 1000 * seconds_left
            ready = {fd for fd, _events in poll.poll(milliseconds_left)}
            if not ready:
                raise ProgramTimeoutError
            for pipe in output_by_pipe.keys() & ready:
                chunk = os.read(pipe, _CHUNK_BYTES)
                output_by_pipe[pipe] += chunk
                if len(output_by_pipe[pipe]) > max_output:
                    raise OutputTooLargeError("standard output" if pipe == pipes[0] else "standard error")
                if not chunk:
                    poll.unregister(pipe)  # all processes have closed the pipe
            has_ended = pidfd in ready
            if has_ended:
                readable_now = {fd for fd, _events in poll.poll(0)}
                if readable_now.isdisjoint(pipes):  # everything that the program has written has been read
                    return [bytes(output) for output in output_by_pipe.values()]
    finally:
        os.close(pidfd)
