"""The machine of a history (tests/support/shortest.py): real workers, files and requests.

Only time is simulated: the clocks of a pass are ahead by the time that should have passed since the history began.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from capacityd.model.reading import Quantity, Reading
from tests.cluster.controlplane import Cluster
from tests.cluster.file_faults import unreadable
from tests.cluster.kills import Killer, killer
from tests.cluster.real_server import RealServer, real_server
from tests.cluster.service import Service, service
from tests.support.machines import bare

_START = 10_000.0


class RealMachine:
    """Created by real_machine()."""

    def __init__(self, s: Service, server: RealServer, passes: Killer) -> None:
        self.server = server
        self.record = s.state_directory / "published.json"
        self.uptime = _START
        self.kill_at: int | None = None
        self.killed = ""
        self._s, self._passes = s, passes
        self._readings: dict[str, Reading] = {}
        self._record_errno = 0
        self._record_fault = ExitStack()

    @property
    def readings(self) -> dict[str, Reading]:
        return self._readings

    @readings.setter
    def readings(self, readings: dict[str, Reading]) -> None:
        """The quantity of a resource is a number in a file. The resource is absent if a second file is missing."""
        self._readings = readings
        lines = []
        for name, reading in sorted(readings.items()):
            number = self._s.folder / name.partition("/")[2]
            condition = number.with_suffix(".applies")
            condition.unlink(missing_ok=True)
            if isinstance(reading, Quantity):
                number.write_text(str(reading.value))
                condition.touch()
            lines += [f'[resources."{name}"]', f'file = {{ path = "{number}" }}', f'when = {{ path = "{condition}" }}']
        self._s.configure("\n".join(lines), lower_after="0s", lower_after_boot="0s")

    @property
    def record_errno(self) -> int:
        return self._record_errno

    @record_errno.setter
    def record_errno(self, code: int) -> None:
        if code == self._record_errno:
            return
        self._record_errno = code
        self._record_fault.close()
        if code:
            self._record_fault.enter_context(self._unreadable_record(code))

    @contextmanager
    def _unreadable_record(self, code: int) -> Iterator[None]:
        """Creates the record if it is missing, because the mount needs a file."""
        missing = not self.record.exists()
        self.record.touch()
        with unreadable(self._s, self.record, code):
            yield
        if missing:
            self.record.unlink()

    @property
    def error(self) -> str:
        return self._s.last_pass().error

    def make_pass(self, *reasons: str) -> bool:
        """Makes a pass. Returns False if it was killed."""
        self.server.make_allocatable()
        self._passes.start(",".join(reasons), self.uptime - _START, self.kill_at)
        self.killed, self.kill_at = self._passes.finish(), None
        return not self.killed

    def reset(self) -> None:
        """A new machine with a new Node."""
        self.record_errno = 0
        self.uptime = _START
        for folder in (self._s.runtime_directory, self._s.state_directory):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        self.server.reset()


@contextmanager
def real_machine(cluster: Cluster) -> Iterator[RealMachine]:
    """A machine, and its Node on the cluster."""
    with service(cluster, bare()) as s, real_server(cluster, s.node) as server, killer(s) as passes:
        s.connect(server.url)
        s.join(server.url)
        machine = RealMachine(s, server, passes)
        try:
            yield machine
        finally:
            machine.record_errno = 0
