"""client-go, Kubernetes' own client, for comparison: what it reads from a kubeconfig, and which servers it accepts."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.cluster.binaries import Programs, Source, cache_folder

_FOLDER = Path(__file__).resolve().parent


def client_go(kubeconfigs: Sequence[Path], *, connect: bool = True) -> list[dict[str, Any]]:
    """The outcome for each kubeconfig, as program/main.go describes it. Builds the program if it is missing.

    connect: whether to send a request to the server as well.
    """
    command: list[str | Path] = [_program(), *(["--connect"] if connect else [])]
    lines = "".join(f"{path}\n" for path in kubeconfigs)
    process = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in process.stdout.splitlines()]


def _program() -> Path:
    source = Source(_FOLDER, _version(), packages={"program": "./program"})
    return Programs(cache_folder(_FOLDER, "clientgo"), lambda: source, ["program"])["program"]


def _version() -> str:
    match = re.search(r"k8s\.io/client-go v(\S+)", (_FOLDER / "go.mod").read_text())
    assert match
    return match[1]
