"""Where a worker starts: it checks the configuration, or makes one reconcile pass."""

from __future__ import annotations

import argparse

from capacityd.linux import systemd
from capacityd.model.errors import CapacitydError
from capacityd.worker import send_message
from capacityd.worker.check_job import check
from capacityd.worker.reconcile_job import reconcile_once


def child(options: argparse.Namespace) -> int:
    """Runs the job that the service has started it for. An error is in its message; the service reports it."""
    systemd.use_nonblocking_stderr()
    try:
        return (
            check(options) if options.job == "check" else reconcile_once(options, frozenset(options.reasons.split(",")))
        )
    except CapacitydError as e:
        send_message({"done": True, "failed": True, "error": str(e)})
        return e.exit_status
