"""Prometheus and its tool for rules, from Debian's package: not installed, because that would start a server."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.cluster.processes import free_port
from tests.network import persistently

_PROGRAMS = ("prometheus", "promtool")
_START_TIMEOUT = 120.0  # seconds that a slow machine may take to start it


def program(name: str) -> Path:
    """`prometheus` or `promtool`; the package is fetched once into the cache (19 MB)."""
    if installed := shutil.which(name):
        return Path(installed)
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "capacityd")
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "prometheus.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not all((folder / wanted).exists() for wanted in _PROGRAMS):
            persistently(lambda: _fetch(folder), RuntimeError)
    return folder / name


def _fetch(folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="capacityd-prometheus-") as top:
        os.chmod(top, 0o755)  # apt fetches as a user of its own
        # The lists of a machine that was made for programs to run once may be old, or missing.
        download = "apt-get download --quiet prometheus"
        script = f"{download} || {{ apt-get update --quiet && {download}; }}"
        result = subprocess.run(["sh", "-c", script], cwd=top, capture_output=True, text=True)
        if result.returncode:
            raise RuntimeError(f"apt-get could not fetch prometheus:\n{result.stdout}{result.stderr}")
        (package,) = Path(top).glob("*.deb")
        members = [f"./usr/bin/{name}" for name in _PROGRAMS]
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as tar:
            subprocess.run(["tar", "-x", "-C", top, *members], stdin=tar.stdout, check=True)
        for name in _PROGRAMS:
            unfinished = folder / f"{name}.new"
            shutil.copy(Path(top, "usr/bin", name), unfinished)
            unfinished.rename(folder / name)


def promtool(*arguments: str | Path, text: bytes = b"") -> str:
    """What promtool prints. text: its standard input. Raises AssertionError if it fails."""
    result = subprocess.run([program("promtool"), *arguments], input=text, capture_output=True)
    output = (result.stdout + result.stderr).decode()
    assert result.returncode == 0, output
    return output


@dataclass(frozen=True, slots=True)
class Series:
    """One series of a query's result."""

    labels: Mapping[str, str]
    values: Sequence[tuple[float, float]]
    """Seconds since the epoch, value."""


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running server."""

    address: str

    def query(self, query: str, start: float, end: float, step: float) -> list[Series]:
        """The result of a range query, sorted by its labels. Raises AssertionError with the server's error."""
        answer = self._get("query_range", query=query, start=start, end=end, step=step)
        answers = [
            Series(series["metric"], [(float(at), float(value)) for at, value in series["values"]])
            for series in answer["result"]
        ]
        return sorted(answers, key=lambda series: sorted(series.labels.items()))

    def _get(self, name: str, **parameters: object) -> Any:
        try:
            with urllib.request.urlopen(f"http://{self.address}/api/v1/{name}?{urlencode(parameters)}") as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as e:
            raise AssertionError(f"{parameters}: {e.read().decode()}") from e


@contextmanager
def serving(folder: Path, openmetrics: str = "", config: str = "") -> Iterator[Prometheus]:
    """A server on loopback.

    folder: an empty one, for its files. openmetrics: samples that it has from the start. config: what it scrapes.
    """
    (folder / "prometheus.yml").write_text(config)
    if openmetrics:
        (folder / "samples").write_text(openmetrics)
        promtool("tsdb", "create-blocks-from", "openmetrics", folder / "samples", folder / "data")
    address = f"127.0.0.1:{free_port()}"
    command: list[str | Path] = [
        program("prometheus"),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        "--storage.tsdb.retention.time=100y",  # the samples are as old as they are
        "--query.lookback-delta=30s",  # the samples have no staleness markers: a series that ends is gone
        f"--web.listen-address={address}",
    ]
    with open(folder / "log", "wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as server:
        try:
            _wait_until_ready(server, address, folder / "log")
            yield Prometheus(address)
        finally:
            server.terminate()


def _wait_until_ready(server: subprocess.Popen[bytes], address: str, log: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT
    while time.monotonic() < deadline and server.poll() is None:
        try:
            urllib.request.urlopen(f"http://{address}/-/ready").close()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"prometheus does not serve:\n{log.read_text()}")
