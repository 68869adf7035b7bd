"""The main function of a worker: it checks the configuration, or runs one reconcile pass."""

from __future__ import annotations

import argparse
import sys
import traceback

from capacityd.model.errors import CapacitydError
from capacityd.model.messages import CheckResult, Failure, PassResult
from capacityd.model.modules import missing_module
from capacityd.model.reasons import Job, PassReason
from capacityd.worker import send_message


def worker(options: argparse.Namespace) -> int:
    """Runs the worker's job and returns the exit status. The service reports errors."""
    try:
        return _run_job(options)
    except ImportError as e:
        error: CapacitydError = missing_module(e)
    except CapacitydError as e:
        error = e
    except Exception as e:  # noqa: BLE001  # a defect
        # Not the exception's message, because it may quote a file or a server, and others may read the journal.
        print("".join(traceback.format_tb(e.__traceback__)), type(e).__name__, file=sys.stderr)
        return 1
    send_message(CheckResult(error=str(error)) if options.job == Job.CHECK else PassResult(Failure(str(error))))
    return error.exit_status


def _run_job(options: argparse.Namespace) -> int:
    # These imports are here so that a missing module fails the job. During a system upgrade, a module may be missing.
    from capacityd.linux.systemd import use_nonblocking_stderr

    use_nonblocking_stderr()
    if options.job == Job.CHECK:
        from capacityd.worker.check_job import check

        return check(options)
    from capacityd.worker.reconcile_job import reconcile_once

    return reconcile_once(options, frozenset(map(PassReason, options.reasons.split(","))))
