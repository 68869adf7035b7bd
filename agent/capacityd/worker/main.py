"""Where a worker starts: it checks the configuration, or makes one reconcile pass."""

from __future__ import annotations

import argparse

from capacityd.linux import systemd
from capacityd.model.errors import CapacitydError
from capacityd.model.messages import CheckResult, Failure, Job, PassReason, PassResult
from capacityd.worker import send_message
from capacityd.worker.check_job import check
from capacityd.worker.reconcile_job import reconcile_once


def child(options: argparse.Namespace) -> int:
    """Runs the job that the service has started it for. An error is in its message; the service reports it."""
    systemd.use_nonblocking_stderr()
    try:
        if options.job == Job.CHECK:
            return check(options)
        return reconcile_once(options, frozenset(map(PassReason, options.reasons.split(","))))
    except CapacitydError as e:
        send_message(CheckResult(error=str(e)) if options.job == Job.CHECK else PassResult(Failure(str(e))))
        return e.exit_status
