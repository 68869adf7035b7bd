"""run: replaces this process with the service, which starts a worker for each pass."""

from __future__ import annotations

import errno
import json
import os
import sys

from capacityd.cli.options import Options, refuse_combinations
from capacityd.linux.atomic_file import write_error
from capacityd.model.codec import encode
from capacityd.model.errors import CapacitydError
from capacityd.model.modules import require_service_modules
from capacityd.model.options import Selection
from capacityd.worker import runtime_files

# A program in Python that runs a module's main(). The program's first argument is the folder with the package, because
# Python's option -I ignores PYTHONPATH.
_START = "import sys; sys.path.insert(0, sys.argv[1]); from capacityd.{} import main; sys.exit(main(sys.argv[2:]))"
_PACKAGE_PARENT = os.path.abspath(f"{__file__}/../../../..")  # the folder with the package capacityd


def run(options: Options) -> int:
    """Executes the service as a new program, so that the command line's modules use no memory. Does not return."""
    require_service_modules()
    refuse_combinations(options, writes=True)  # otherwise every worker would fail
    directory = runtime_files.runtime_directory()
    if service := runtime_files.running_service(directory):
        raise CapacitydError(f"the service is already running (PID {service.pid or '?'})")
    _require_writable(directory)
    worker = worker_command(directory, options.selection)
    watcher = command_for("watcher.main")
    command = command_for("service.main", directory, *watcher, "--", *worker)
    os.execv(command[0], command)  # noqa: S606


def _require_writable(directory: str) -> None:
    """Creates the runtime directory if it is missing. Raises CapacitydError if this process may not write to it."""
    try:
        os.makedirs(directory, mode=0o755, exist_ok=True)
        if os.access(directory, os.W_OK):  # True even on a full file system, where the service runs without its files
            return
        code = write_error(directory) or errno.EACCES
    except OSError as e:
        code = e.errno or errno.EIO
    advice = "run it as root" if os.geteuid() != 0 else "make it writable, or name another in RUNTIME_DIRECTORY"
    raise CapacitydError(f"the folder {directory} cannot be written: {os.strerror(code)}; {advice}")


def worker_command(directory: str, selection: Selection) -> list[str]:
    """The command of a worker. directory: the runtime directory."""
    return command_for("worker.main", directory, json.dumps(encode(selection)))


def command_for(module: str, *arguments: str) -> list[str]:
    """The command that runs main(arguments) of the module capacityd.MODULE. It ignores Python's environment variables,
    such as PYTHONPATH."""
    return [sys.executable, "-I", "-c", _START.format(module), _PACKAGE_PARENT, *arguments]
