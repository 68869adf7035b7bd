"""Writes and removes the metrics file for node_exporter's textfile collector.

node_exporter would report an old file beside a new one, without an error. So if the configured path changes, the
service removes the file at the earlier path. The service removes only files that contain its own metrics.

Each reconcile pass replaces the file, so the series of removed resources disappear. If the file can't be written, the
pass continues, and the resident process logs the error once. The time stamps in the old file show its age.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from capacityd.linux.atomic_file import replace_file
from capacityd.linux.opening import UntrustedLink, open_data_folder
from capacityd.linux.sandbox import SANDBOX_PAGE, UNIT
from capacityd.model.messages import MetricsResult
from capacityd.model.modules import import_failure
from capacityd.schema.config import Config
from capacityd.worker import metrics
from capacityd.worker.pass_state import PassStatus

_FIRST_LINE = b"# HELP capacityd_resource_published "
"""The start of each metrics file. The package's postrm contains the same text."""

_ADVICE = {
    errno.ENOENT: "create the folder (prometheus-node-exporter provides /var/lib/prometheus/node-exporter) and restart"
    f" the service, which does not see all folders: {SANDBOX_PAGE}",
    errno.EROFS: f"the sandbox of {UNIT} makes the folder read-only until the service is restarted: {SANDBOX_PAGE}",
    errno.EACCES: "root must own the folder, because the service has no right to other users' files",
}
"""errno of a failed write -> advice."""

_OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def replace(earlier_path: str | None, config: Config, status: PassStatus) -> MetricsResult | None:
    """Writes the configured file, and removes the file at the earlier path if the path has changed.

    Returns an error or the written path; None if no file is configured and no error has occurred.

    earlier_path: the path in the last pass; None if the last pass wrote no file. status: the status of this pass.
    """
    path = config.settings.textfile
    removal_error = ""
    if earlier_path and earlier_path != path:
        removal_error = remove(earlier_path)
    written = _write(path, config, status) if path else None
    if written and written.error:
        return written
    if removal_error:
        return MetricsResult(path or "", removal_error, advice="delete it")
    return written


def remove(path: str) -> str:
    """Removes the file if it contains the service's metrics. Returns why the removal failed; "" after success."""
    try:
        with _path_in_open_folder(path) as path_in_folder:
            if _contains_own_metrics(path_in_folder):
                os.unlink(path_in_folder)
    except (FileNotFoundError, NotADirectoryError):  # the file is already gone
        return ""
    except OSError as e:
        return f"{path} could not be removed: {e.strerror}; node_exporter still reports its old metrics"
    return ""


def _write(path: str, config: Config, status: PassStatus) -> MetricsResult:
    try:
        content = metrics.metrics_text(config, status)
        with _path_in_open_folder(path) as path_in_folder:
            # node_exporter runs as another user, so all users may read the file. It ignores the unfinished *.new.
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


@contextmanager
def _path_in_open_folder(path: str) -> Iterator[str]:
    """Yields a path to the file that leads through its folder's descriptor. Then closes the folder. Raises OSError.

    The folder is not opened through a link that another user has made (linux/opening.py).
    """
    folder, name = os.path.split(path)
    try:
        fd = open_data_folder(folder)
    except UntrustedLink as e:
        raise OSError(errno.ELOOP, str(e)) from e
    try:
        yield f"/proc/self/fd/{fd}/{name}"
    finally:
        os.close(fd)


def _contains_own_metrics(path: str) -> bool:
    """Whether this is a regular file with the service's metrics. The service writes no links. Raises OSError."""
    if not stat.S_ISREG(os.lstat(path).st_mode):
        return False
    fd = os.open(path, _OPEN_FLAGS)
    with open(fd, "rb") as f:
        return f.read(len(_FIRST_LINE)) == _FIRST_LINE
