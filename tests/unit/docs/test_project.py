"""What the root's files say about the project: its address, and the tools that a contributor runs."""

from __future__ import annotations

import re
import subprocess

import yaml

from tests import ROOT

_ADDRESS = re.compile(r"https://[\w.-]+/[\w-]+/capacityd(?![\w-])")


def test_the_projects_address_is_the_same_everywhere() -> None:
    """pyproject.toml, under [project.urls], decides."""
    (address,) = re.findall(r'^Repository = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    listed = subprocess.run(["sh", ROOT / "packaging/sources"], capture_output=True, text=True, check=True).stdout
    written: dict[str, set[str]] = {}
    for name in listed.split("\0"):
        if name.endswith((".md", ".toml", ".yml")) or name.startswith(("debian/", "packaging/")):
            written[name] = set(_ADDRESS.findall((ROOT / name).read_text()))
    assert {name: found for name, found in written.items() if found - {address}} == {}
    where = {name for name, found in written.items() if found}
    assert {"debian/control", "debian/watch", "debian/upstream/metadata", "SECURITY.md"} <= where


def test_pre_commit_runs_what_make_check_runs() -> None:
    (checked,) = re.findall(r"--output-sync=target (unit .*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    hooks = {hook["id"]: hook["entry"].split()[-1] for hook in repository["hooks"]}
    assert sorted(hooks) == sorted(hooks.values()) == sorted(checked.split())
