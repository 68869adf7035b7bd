"""The main function of the resident process."""

from __future__ import annotations

from capacityd.linux.stderr import use_nonblocking_stderr
from capacityd.linux.subreaper import become_subreaper
from capacityd.linux.systemd import Priority, log
from capacityd.service.event_sources import ignore_signals
from capacityd.service.loop import Service
from capacityd.service.service_lock import ServiceLock


def main(arguments: list[str]) -> int:
    """Runs the service. Returns the exit status.

    arguments: the runtime directory, the command of the watcher, "--", and the command of a worker.
    """
    use_nonblocking_stderr()
    folder, *words = arguments
    separator = words.index("--")
    watcher_command = words[:separator]
    worker_command = words[separator + 1 :]
    try:
        lock = ServiceLock(folder)
    except BlockingIOError:
        log(Priority.ERROR, f"the service is already running; see {folder}/service.json")
        return 1
    except OSError as e:  # such as ELOOP for a link, or EISDIR for a folder, in place of the file
        log(Priority.ERROR, f"{e.filename} could not be opened: {e.strerror}; remove it")
        return 1
    become_subreaper()
    try:
        return Service(worker_command, watcher_command, folder, lock).run()
    finally:
        ignore_signals()
