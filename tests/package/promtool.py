"""Prometheus' own tool for rules, out of Debian's package: that is not installed, for it would start a server."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.network import persistently


def promtool() -> Path:
    """The program, fetched once into the cache (19 MB)."""
    if installed := shutil.which("promtool"):
        return Path(installed)
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "capacityd")
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "promtool"
    with open(folder / "promtool.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            persistently(lambda: _fetch(program), RuntimeError)
    return program


def _fetch(program: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="capacityd-promtool-") as top:
        os.chmod(top, 0o755)  # apt fetches as a user of its own
        # The lists of a machine that was made for programs to run once may be old, or missing.
        download = "apt-get download --quiet prometheus"
        script = f"{download} || {{ apt-get update --quiet && {download}; }}"
        result = subprocess.run(["sh", "-c", script], cwd=top, capture_output=True, text=True)
        if result.returncode:
            raise RuntimeError(f"apt-get could not fetch prometheus:\n{result.stdout}{result.stderr}")
        (package,) = Path(top).glob("*.deb")
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as tar:
            subprocess.run(["tar", "-x", "-C", top, "./usr/bin/promtool"], stdin=tar.stdout, check=True)
        unfinished = program.with_suffix(".new")
        shutil.copy(Path(top, "usr/bin/promtool"), unfinished)
        unfinished.rename(program)
