"""Runs the worker that determines what to watch."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from capacityd.linux.program import OutputTooLargeError, ProgramTimeoutError, run_program
from capacityd.linux.stderr import write_stderr
from capacityd.model.codec import Malformed, decode_variant, parse
from capacityd.model.errors import NodeError, NodeUnauthorized, NodeUnreachable
from capacityd.model.reasons import RetryCause
from capacityd.model.watch import TargetError
from capacityd.node.watch_target import TargetResult, WatchTarget

_TIMEOUT = 90.0
"""Seconds for the worker: more than an exec plugin (30) and a request to the API server (30) may take together."""
_MAX_OUTPUT_BYTES = 4 << 20


def read_target(command: Sequence[str]) -> WatchTarget:
    """Runs the worker. Raises NodeUnreachable if a later attempt may succeed by itself, NodeUnauthorized if not."""
    try:
        status, output, error_output = run_program(
            command, timeout=_TIMEOUT, environment=os.environ, max_output=_MAX_OUTPUT_BYTES
        )
    except ProgramTimeoutError:
        raise NodeUnreachable(f"reading the credentials took more than {_TIMEOUT:.0f} s") from None
    except OutputTooLargeError:
        limit = f"{_MAX_OUTPUT_BYTES >> 20} MiB"
        raise NodeUnreachable(f"the worker that reads the credentials printed more than {limit}") from None
    except (OSError, ValueError, subprocess.SubprocessError) as e:
        raise NodeUnreachable(f"the worker that reads the credentials could not be run: {e}") from None
    write_stderr(error_output.decode(errors="backslashreplace"))  # passes it on
    for line in reversed(output.splitlines()):  # the result is the last line that can be parsed
        try:
            result: TargetResult = decode_variant(TargetResult, parse(line))
        except Malformed:  # a line that a library has printed
            continue
        if isinstance(result, TargetError):
            raise _node_error(result)
        return result
    raise NodeUnreachable(f"the worker that reads the credentials ended without a result (exit status {status})")


def _node_error(result: TargetError) -> NodeError:
    if result.cause is RetryCause.UNREACHABLE:
        return NodeUnreachable(result.reason, result.retry_after)
    return NodeUnauthorized(result.reason)
