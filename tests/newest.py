"""The newest of everything that is pinned, which is how to know what moving a pin would break.

The tools of pyproject.toml, the client for Kubernetes, and the versions of Kubernetes that the Go module proxy has and
releases.txt has not. It changes no pin, and is not part of CI: it may fail without a change of ours.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import tomli

from tests import ROOT
from tests.cluster import releases
from tests.cluster.clients import install as install_client
from tests.cluster.matrix import Run, suite
from tests.pythons import install, unit

FOLDER = ROOT / "build/newest"
CHECKS = {
    "ruff check": ["ruff", "check", "--quiet"],
    "ruff format": ["ruff", "format", "--check", "--quiet"],
    "mypy": ["mypy"],
    "import-linter": ["lint-imports", "--no-cache"],
    "codespell": ["codespell"],
}


def tools() -> list[str]:
    """The names of the tools that pyproject.toml pins."""
    project = tomli.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [requirement.partition("==")[0] for requirement in project["optional-dependencies"]["dev"]]


def versions(python: Path) -> dict[str, str]:
    """What is installed for this Python, by name."""
    output = subprocess.check_output([python, "-m", "pip", "list", "--format=freeze"], text=True)
    return dict(line.split("==", 1) for line in output.splitlines() if "==" in line)


def moved(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """What is newer or is new, as lines."""
    return [
        f"{name}: {before.get(name, 'none')} -> {after[name]}"
        for name in sorted(after)
        if before.get(name) != after[name]
    ]


def steps() -> dict[str, Callable[[], bool]]:
    """Everything that is tried, by name, and whether it passes. The environments are there."""
    checks: dict[str, Callable[[], bool]] = {
        name: lambda command=command: _passes(command)  # type: ignore[misc]
        for name, command in CHECKS.items()
    }
    checks["unit tests"] = lambda: unit(FOLDER / "tools")
    client = Run("client-newest", lambda: {"CAPACITYD_PYTHON": str(FOLDER / "client/bin/python")})
    checks["the newest client for Kubernetes"] = lambda: suite(client) != "FAILED"
    for version in releases.newest():
        if version not in releases.releases():
            run = Run(version, dict, ("--kubernetes", version))
            checks[f"Kubernetes {version}"] = lambda run=run: suite(run) != "FAILED"  # type: ignore[misc]
    return checks


def _passes(command: list[str]) -> bool:
    return subprocess.run([FOLDER / "tools/bin" / command[0], *command[1:]], cwd=ROOT).returncode == 0


def main() -> int:
    install(FOLDER / "tools", "/usr/bin/python3", ["--editable=.", *tools()], "--system-site-packages")
    install_client(FOLDER / "client", "kubernetes", "urllib3")
    for line in moved(versions(Path(sys.executable)), versions(FOLDER / "tools/bin/python")):
        print(line)
    results = {}
    for name, passes in steps().items():
        print(f"== {name}", flush=True)
        results[name] = "passed" if passes() else "BROKE"
    print("\n".join(f"{name}: {output}" for name, output in results.items()))
    return 1 if "BROKE" in results.values() else 0


if __name__ == "__main__":
    sys.exit(main())
