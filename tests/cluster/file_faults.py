"""Faults of capacityd's files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.agent import PYTHON
from tests.cluster.processes import PATIENCE, Daemon
from tests.cluster.service import Service
from tests.support import fuse


@contextmanager
def unreadable(s: Service, path: Path, code: int) -> Iterator[None]:
    """Accessing this file fails with this errno (by FUSE), only on the service's machine."""
    server = Daemon(
        s.machine.inside([PYTHON, "-I", fuse.__file__, path, str(code)]), s.folder / f"fuse-{path.name}.log"
    )
    server.wait_for_line("mounted", PATIENCE)
    try:
        yield
    finally:
        s.machine.run("umount", "--lazy", path)
        server.stop()
