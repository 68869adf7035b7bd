"""The main function of the resident process."""

from __future__ import annotations

from capacityd.linux.stderr import use_nonblocking_stderr
from capacityd.linux.subreaper import become_subreaper
from capacityd.linux.systemd import EntryKind, Priority, log
from capacityd.model.reasons import Job
from capacityd.service.event_sources import ignore_signals
from capacityd.service.loop import Service
from capacityd.service.service_lock import ServiceLock


def main(arguments: list[str]) -> int:
    """Runs the service. Returns the exit status.

    arguments: FOLDER WATCHER... -- WORKER...: the runtime directory and two commands. WORKER starts a worker. WATCHER
    starts the watcher; the command that the watcher runs to read its target follows it.
    """
    use_nonblocking_stderr()
    folder, *commands = arguments
    separator = commands.index("--")
    watcher = commands[:separator]
    worker = commands[separator + 1 :]
    try:
        lock = ServiceLock(folder)
    except BlockingIOError:
        log(Priority.ERROR, f"the service is already running; see {folder}/service.json", EntryKind.DEGRADED)
        return 1
    except OSError as e:
        log(Priority.ERROR, f"{e.filename} could not be opened: {e.strerror}; remove it", EntryKind.DEGRADED)
        return 1
    become_subreaper()
    try:
        return Service(command=worker, watcher=[*watcher, *worker, Job.TARGET.value], folder=folder, lock=lock).run()
    finally:
        ignore_signals()  # a signal from now on must not replace the exit status
