"""A file for node_exporter's textfile collector: replaced as a whole, and readable by all."""

from __future__ import annotations

import errno

from capacityd.linux.atomic_file import replace_file

_HINTS = {
    errno.ENOENT: "make the folder (prometheus-node-exporter brings /var/lib/prometheus/node-exporter), then restart",
    errno.EROFS: "the service's sandbox keeps it from there: a folder that is not Debian's own needs ReadWritePaths= in"
    " a drop-in of the unit, and one that was made later a restart of the service",
    errno.EACCES: "the folder must belong to root, for the service has no right to other users' files",
}


def advice(error: OSError) -> str:
    """What to do about an error of replace(); empty if nothing is known."""
    return _HINTS.get(error.errno or 0, "")


def replace(path: str, content: bytes) -> None:
    """Replaces a file, readable by all: node_exporter runs as another user. Raises OSError."""
    replace_file(path, content, 0o644, unfinished=f"{path}.new")  # not *.prom, so that node_exporter does not read it
