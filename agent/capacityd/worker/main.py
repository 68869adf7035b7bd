"""The main function of a worker: it checks the configuration, runs one reconcile pass, or determines what to watch."""

from __future__ import annotations

import sys
import traceback

from capacityd.model.errors import CapacitydError
from capacityd.model.messages import CheckResult, Failure, Message, PassResult
from capacityd.model.modules import import_failure
from capacityd.model.options import WorkerOptions
from capacityd.model.reasons import Job
from capacityd.model.watch import TargetError
from capacityd.worker import send_message


def worker(options: WorkerOptions) -> int:
    """Runs the worker's job and returns the exit status. The service reports errors."""
    try:
        return _run_job(options)
    except CapacitydError as e:
        error = e
    except Exception as e:  # noqa: BLE001  # a library that cannot be imported, or a defect
        failure = import_failure(e)
        if failure is None:
            # Not the exception's message, because it may quote a file or a server, and others may read the journal.
            print("".join(traceback.format_tb(e.__traceback__)), type(e).__name__, file=sys.stderr)
            return 1
        error = failure
    send_message(_failed(options.job, str(error)))
    return error.exit_status


def _failed(job: Job, error: str) -> Message | TargetError:
    """The result of a job that could not be run."""
    match job:
        case Job.CHECK:
            return CheckResult(error=error)
        case Job.TARGET:
            return TargetError(error)
    return PassResult(Failure(error))


def _run_job(options: WorkerOptions) -> int:
    # These imports are here so that a missing module fails the job. During a system upgrade, a module may be missing.
    from capacityd.linux.stderr import use_nonblocking_stderr

    use_nonblocking_stderr()
    if options.job == Job.CHECK:
        from capacityd.worker.check_job import check

        return check(options)
    if options.job == Job.TARGET:
        from capacityd.worker.target_job import determine_target

        return determine_target(options)
    from capacityd.worker.reconcile_job import reconcile_once

    return reconcile_once(options)
