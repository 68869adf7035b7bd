"""The metrics file for node_exporter's textfile collector: writes it, and removes it where it is no longer written.

node_exporter reports an old file without an error, beside a new one. So the state directory lists the paths of the
files that this machine has written, also across boots. Only a file with the metrics of the service is removed.

Each reconcile pass replaces the file, so the series of removed resources disappear. If this fails, the pass continues,
the resident process logs the error once, and the time stamps in the file show its age.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from capacityd.linux.atomic_file import read_regular_file, replace_file
from capacityd.linux.opening import ForeignLink, open_data_folder
from capacityd.linux.sandbox import SANDBOX_PAGE, UNIT
from capacityd.model.messages import MetricsResult
from capacityd.model.modules import import_failure
from capacityd.worker import metrics
from capacityd.worker.metrics import PassMetrics

_LIST = "textfiles"
"""The list in the state directory, one path a line. The package's postrm reads it, too."""
_FIRST_LINE = b"# HELP capacityd_resource_outcome "
"""How each file starts that this version or an older one has written. The package's postrm has the same text."""

_ADVICE = {
    errno.ENOENT: "create the folder (prometheus-node-exporter provides /var/lib/prometheus/node-exporter) and restart"
    f" the service, which does not see all folders: {SANDBOX_PAGE}",
    errno.EROFS: f"the sandbox of {UNIT} makes the folder read-only until the service is restarted: {SANDBOX_PAGE}",
    errno.EACCES: "root must own the folder, because the service has no right to other users' files",
}
"""Number of an error in writing the file -> advice."""


def replace(directory: str, pass_metrics: PassMetrics, duration: float) -> MetricsResult | None:
    """Writes the configured file, and removes earlier ones at other paths. Returns an error, or the written path; None
    if no file is configured and no error has occurred.

    directory: the state directory. duration: of the pass, in seconds.
    """
    path = pass_metrics.config.settings.textfile
    failed_removal = _remove_earlier(directory, path)
    if not path:
        return failed_removal
    written = _write(path, pass_metrics, duration)
    if written.error:  # matters more than an error of an earlier file
        return written
    return failed_removal or written


def _remove_earlier(directory: str, path: str | None) -> MetricsResult | None:
    """Removes the listed files except the one at this path, and lists this path. Returns what is wrong; None: nothing.

    path: the configured file; None if no file is configured. A list that can't be read stays as it is, so the files are
    removed once it can be read.
    """
    try:
        listed = _listed(directory)
    except OSError as e:
        return MetricsResult(path or "", _not_read(directory, e), advice="make it readable for root, or delete it")
    failed = _remove(earlier for earlier in listed if earlier != path)
    configured = [path] if path else []
    _save_list(directory, before=listed, paths=[*failed, *configured])
    if not failed:
        return None
    earlier, error = next(iter(failed.items()))
    return MetricsResult(path or earlier, _not_removed(earlier, error), advice="delete it")


def remove_all(directory: str) -> list[str]:
    """Removes the files that this machine has written. Returns an error for each that could not be removed, or for the
    list of the files.

    directory: the state directory.
    """
    try:
        listed = _listed(directory)
    except OSError as e:
        return [_not_read(directory, e)]
    failed = _remove(listed)
    _save_list(directory, before=listed, paths=[*failed])
    return [f"{_not_removed(path, error)}: delete it" for path, error in failed.items()]


def _write(path: str, pass_metrics: PassMetrics, duration: float) -> MetricsResult:
    try:
        content = metrics.exposition(pass_metrics, duration)
        with _path_in_open_folder(path) as path_in_folder:
            # node_exporter runs as another user. It does not read the unfinished file, whose name ends with .new.
            replace_file(path_in_folder, content, 0o644)
    except OSError as e:
        error = f"{path} could not be written: {e.strerror}"
        return MetricsResult(path, error, advice=_ADVICE.get(e.errno or 0, ""))
    except Exception as e:
        if not import_failure(e):
            raise
        error = f"{path} is not written: {e}"
        return MetricsResult(path, error, advice="it needs the package python3-prometheus-client")
    return MetricsResult(path)


def _not_removed(path: str, error: OSError) -> str:
    return f"{path} could not be removed: {error.strerror}; node_exporter still reports its old metrics"


def _not_read(directory: str, error: OSError) -> str:
    path = os.path.join(directory, _LIST)
    return f"{path} could not be read: {error.strerror}; metrics files at the paths that it lists are not removed"


def _remove(paths: Iterable[str]) -> dict[str, OSError]:
    """Removes those of the files that have the service's metrics. Returns path -> error, for each failed removal."""
    failed = {}
    for path in paths:
        try:
            with _path_in_open_folder(path) as path_in_folder:
                if _is_of_service(path_in_folder):
                    os.unlink(path_in_folder)
        except (FileNotFoundError, NotADirectoryError):  # it is already gone
            continue
        except OSError as e:
            failed[path] = e
    return failed


@contextmanager
def _path_in_open_folder(path: str) -> Iterator[str]:
    """A path of the file that leads through its open folder. Raises OSError.

    A link to the folder that another user has made is not followed (linux/opening.py).
    """
    folder, name = os.path.split(path)
    try:
        fd = open_data_folder(folder)
    except ForeignLink as e:
        raise OSError(errno.ELOOP, str(e)) from e
    try:
        yield f"/proc/self/fd/{fd}/{name}"
    finally:
        os.close(fd)


def _is_of_service(path: str) -> bool:
    """Whether this is a file with the service's metrics. A link is not the service's: a pass that writes the file
    replaces a link. Raises OSError."""
    if not stat.S_ISREG(os.lstat(path).st_mode):
        return False
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as f:
        return f.read(len(_FIRST_LINE)) == _FIRST_LINE


def _listed(directory: str) -> list[str]:
    """The paths in the list; empty if nothing was written yet. Raises OSError if the list can't be read."""
    try:
        content = read_regular_file(os.path.join(directory, _LIST))
    except FileNotFoundError:
        return []
    return [line for line in os.fsdecode(content).split("\n") if line.startswith("/")]


def _save_list(directory: str, *, before: Sequence[str], paths: Sequence[str]) -> None:
    """Saves the list if it differs from the one before. Without a list, only a later removal of the files is lost."""
    if paths == before:
        return
    try:
        content = "".join(f"{path}\n" for path in paths if "\n" not in path)
        replace_file(os.path.join(directory, _LIST), os.fsencode(content), 0o644, durable=True)
    except OSError:
        return  # the condition says that nothing can be saved (StateNotWritable)
