"""Runs the protocol suite on each version of Kubernetes, on pairs of versions, and with each client.

Each run is a run of pytest with the mark protocol. If a run fails, the others still run. At the end, a line for each
run shows its result. Arguments choose runs by name. `--list` prints the names.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests import ROOT
from tests.cluster.binaries import BuildError, pinned
from tests.cluster.clients import ALL, client
from tests.cluster.releases import minor, programs, releases

SKEW = 3
"""The number of minor versions by which a kubelet may be older than its API server."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run. prepare: a function that builds or installs what the run needs, and returns environment variables."""

    name: str
    prepare: Callable[[], Mapping[str, str]]
    options: tuple[str, ...] = field(default=())


def runs() -> list[Run]:
    """All runs, in order. The oldest possible, the pinned and the newest version also run with an older kubelet."""
    versions = releases()
    skewed = sorted({SKEW, versions.index(pinned()), len(versions) - 1})
    pairs = [(versions[server], versions[server - SKEW]) for server in skewed]
    planned = [on(version, version) for version in versions]
    planned += [on(server, kubelet) for server, kubelet in pairs]
    return planned + [with_client(*pair) for pair in ALL]


def on(server: str, kubelet: str) -> Run:
    """The run on this version of the control plane. If the kubelet's differs, only tests with a kubelet run."""

    def prepare() -> dict[str, str]:
        programs(server, kubelet)
        return {}

    name = minor(server) if server == kubelet else f"{minor(server)}-kubelet-{minor(kubelet)}"
    skew = () if server == kubelet else ("--kubelet", kubelet)
    return Run(name, prepare, ("--kubernetes", server, *skew))


def with_client(version: str, urllib3: str) -> Run:
    """The run with this client, on the pinned version of Kubernetes."""
    name = f"client-{version}-urllib3-{urllib3}"
    return Run(name, lambda: {"CAPACITYD_PYTHON": str(client(version, urllib3))})


def suite(run: Run) -> str:
    """Runs the suite. Returns "passed", "flaky" if the failed tests pass when repeated, or "FAILED"."""
    try:
        environment = os.environ | run.prepare()
    except (BuildError, RuntimeError) as error:
        print(error, file=sys.stderr, flush=True)
        return "FAILED"
    command: list[str | Path] = [sys.executable, "-m", "pytest", "-q", "-n", "3", "--dist", "loadscope"]
    command += ["-o", f"cache_dir=.pytest_cache/{run.name}", "-m", "protocol", *run.options, "tests/cluster"]
    again = ["--last-failed", "--last-failed-no-failures", "none"]
    for options, result in (([], "passed"), (again, "flaky")):
        if subprocess.run([*command, *options], cwd=ROOT, env=environment).returncode == 0:
            return result
    return "FAILED"


def main(arguments: list[str]) -> int:
    names = [run.name for run in runs()]
    if arguments == ["--list"]:
        print("\n".join(names))
        return 0
    if unknown := [name for name in arguments if name not in names]:
        print(f"no run is called {', '.join(unknown)}: {' '.join(names)}", file=sys.stderr)
        return 2
    results = []
    for run in [run for run in runs() if run.name in (arguments or names)]:
        print(f"== {run.name}", flush=True)
        begun = time.monotonic()
        results.append(f"{run.name}: {suite(run)}, {time.monotonic() - begun:.0f} s")
        print(f"== {results[-1]}", flush=True)
    print("\n".join(results))
    return 1 if any("FAILED" in result for result in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
