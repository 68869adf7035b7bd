"""The main function of a worker: it reads jobs from standard input, and does them."""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from typing import NoReturn

from capacityd.model.codec import decode, parse
from capacityd.model.errors import CapacitydError
from capacityd.model.messages import CheckResult, JobRequest, PassResult
from capacityd.model.modules import import_failure
from capacityd.model.options import Selection
from capacityd.model.reasons import Job
from capacityd.worker import send_message


def main(arguments: list[str]) -> None:
    """Does the jobs from standard input until it has run a pass or a job has failed. Does not return.

    arguments: the runtime directory, the Selection as JSON, and EARLY if the first job will probably be a pass.
    """
    folder, selection_json, *early = arguments
    selection = decode(Selection, parse(selection_json.encode()))
    if early:
        _import_for_pass()
    status = 0
    for line in sys.stdin.buffer:  # the input ends when the service ends or no longer needs this worker
        request = decode(JobRequest, parse(line))
        status = do_job(folder, selection, request)
        if status or request.job is Job.RECONCILE:
            break
    _exit(status)


def _import_for_pass() -> None:
    """Imports what a pass needs. Ignores errors, because the pass reports them."""
    with suppress(Exception):
        from capacityd.node import api_node, client  # noqa: F401
        from capacityd.worker import reconcile_job  # noqa: F401


def _exit(status: int) -> NoReturn:
    """Ends the process without the interpreter's finalization, which may take longer than the pass itself."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(status)


def do_job(folder: str, selection: Selection, request: JobRequest) -> int:
    """Does the job and returns the exit status. Sends errors to the service. folder: the runtime directory."""
    try:
        return _dispatch(folder, selection, request)
    except CapacitydError as e:
        error = e
    except Exception as e:  # noqa: BLE001  # a library that cannot be imported, or a defect
        failure = import_failure(e)
        if failure is None:
            # The exception's message may quote a private file, and other users may read the journal.
            stack = "".join(traceback.format_tb(e.__traceback__))
            print(stack, type(e).__name__, file=sys.stderr)
            return 1
        error = failure
    if request.job is Job.CHECK:
        send_message(CheckResult(error=str(error)))
    else:
        send_message(PassResult(str(error), memory=request.memory))
    return error.exit_status


def _dispatch(folder: str, selection: Selection, request: JobRequest) -> int:
    # A module may be missing during a system upgrade. Then an import here fails only the job, not the worker.
    from capacityd.linux.stderr import use_nonblocking_stderr

    use_nonblocking_stderr()
    if request.job is Job.CHECK:
        from capacityd.worker.check_job import check

        return check(folder, selection, request.reasons)
    from capacityd.worker.reconcile_job import PassJob

    PassJob(folder, selection, request).run()
    return 0
