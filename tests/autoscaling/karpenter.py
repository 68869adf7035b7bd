"""Karpenter with its provider kwok, built once from its Go module, and running beside a control plane.

kwok is a provider without machines: it creates the Node of a NodeClaim, and nothing runs there. As a command this
module builds the program, prints its progress on standard error and prints the folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.binaries import BuildError, find_go, go_environment, locked
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import ADMIN
from tests.cluster.processes import Daemon, free_port
from tests.network import persistently

_MODULE = Path(__file__).with_name("karpenter")
_NAME = "sigs.k8s.io/karpenter"
_DEFINITIONS = ("pkg/apis/crds", "kwok/apis/crds")


def installation() -> Path:
    """Returns the folder with the program `karpenter` and the folder `crds`, built now if need be."""
    key = hashlib.sha256(b"\0".join((_MODULE / name).read_bytes() for name in ("go.mod", "go.sum"))).hexdigest()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "capacityd", "karpenter")
    folder = cache / key[:16]
    if not (folder / "karpenter").exists():
        with locked(folder):
            # Another run may have built it while this one waited for the lock.
            if not (folder / "karpenter").exists():
                _build(folder)
    return folder


def _build(folder: Path) -> None:
    go = find_go()
    print(f"building Karpenter with {go}: once, about 4 minutes on 2 cores", file=sys.stderr, flush=True)
    start = time.monotonic()
    source = json.loads(persistently(lambda: _go(go, "mod", "download", "-json", _NAME), BuildError))["Dir"]
    (folder / "crds").mkdir(exist_ok=True)
    for file in (file for definitions in _DEFINITIONS for file in Path(source, definitions).glob("*.yaml")):
        shutil.copyfile(file, folder / "crds" / file.name)
    unfinished = folder / ".karpenter"
    build = ("build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", str(unfinished), f"{_NAME}/kwok")
    persistently(lambda: _go(go, *build), BuildError)
    unfinished.rename(folder / "karpenter")
    print(f"built Karpenter: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)


def _go(go: Path, *arguments: str) -> str:
    command: list[str | Path] = ["nice", "-n", "10", go, *arguments]
    done = subprocess.run(command, cwd=_MODULE, env=go_environment(), stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise BuildError(f"go {' '.join(arguments)} failed; its output is above")
    return done.stdout


@contextmanager
def karpenter(cluster: Cluster) -> Iterator[Daemon]:
    """Karpenter, running; its kinds are defined, and nothing else is."""
    folder = installation()
    kubeconfig = cluster.kubeconfig(ADMIN)
    kubectl: list[str | Path] = [cluster.binaries["kubectl"], "--kubeconfig", kubeconfig]
    subprocess.run([*kubectl, "apply", "--server-side", "-f", folder / "crds"], check=True, capture_output=True)
    kinds = [*kubectl, "wait", "--for=condition=Established", "crd", "--all"]
    subprocess.run(kinds, check=True, capture_output=True)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(cluster.folder),
        "KUBECONFIG": str(kubeconfig),
        "SYSTEM_NAMESPACE": "default",
        "CLUSTER_NAME": "tests",
        "FEATURE_GATES": "NodeOverlay=true",
        "DISABLE_LEADER_ELECTION": "true",
        "METRICS_PORT": str(free_port()),
        "HEALTH_PROBE_PORT": str(free_port()),
    }
    with Daemon([folder / "karpenter"], cluster.folder / "karpenter.log", env=environment) as daemon:
        yield daemon


if __name__ == "__main__":
    try:
        print(installation())
    except BuildError as error:
        sys.exit(f"Karpenter: {error}")
