"""Runs promtool from Debian's package. The package is not installed, because that would start a server."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.network import persistently


def promtool(*arguments: str | Path, text: bytes = b"") -> str:
    """Returns what promtool prints. text: its standard input. Raises AssertionError if promtool fails."""
    result = subprocess.run([_program(), *arguments], input=text, capture_output=True)
    output = (result.stdout + result.stderr).decode()
    assert result.returncode == 0, output
    return output


def check_rules(folder: Path, scrapes: Sequence[Mapping[str, float]], interval: str, **test: Any) -> None:
    """Lets promtool test alerts or queries on these scrapes.

    scrapes: the value of each series, one mapping for each interval. test: other fields of the test, and rule_files.
    """
    series = [  # "_" stands for a missing sample
        {"series": name, "values": " ".join("_" if name not in scrape else repr(scrape[name]) for scrape in scrapes)}
        for name in sorted(set().union(*scrapes))
    ]
    files = {"rule_files": test.pop("rule_files", []), "evaluation_interval": "5m"}
    document = {**files, "tests": [{"interval": interval, "input_series": series, **test}]}
    (folder / "test.json").write_text(json.dumps(document))
    promtool("test", "rules", folder / "test.json")


def _program() -> Path:
    """The path of promtool. Its package (19 MB) is downloaded once into the cache."""
    if installed := shutil.which("promtool"):
        return Path(installed)
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "capacityd")
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "prometheus.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "promtool").exists():
            persistently(lambda: _fetch(folder / "promtool"), RuntimeError)
    return folder / "promtool"


def _fetch(target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="capacityd-prometheus-") as top:
        os.chmod(top, 0o755)  # apt downloads as the user _apt
        # On a new machine the package lists may be old, or missing.
        download = "apt-get download --quiet prometheus"
        script = f"{download} || {{ apt-get update --quiet && {download}; }}"
        result = subprocess.run(["sh", "-c", script], cwd=top, capture_output=True, text=True)
        if result.returncode:
            raise RuntimeError(f"apt-get could not fetch prometheus:\n{result.stdout}{result.stderr}")
        (package,) = Path(top).glob("*.deb")
        subprocess.run(["dpkg-deb", "--extract", package, top], check=True)
        unfinished = target.with_suffix(".new")
        shutil.copy(Path(top, "usr/bin/promtool"), unfinished)
        unfinished.rename(target)
