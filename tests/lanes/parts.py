"""What each lane runs. A part is one tool or one run of pytest; parts of a lane run side by side."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests import ROOT
from tests.cluster.binaries import SERVERS
from tests.lanes import needs
from tests.lanes.needs import Need

_CORES = os.cpu_count() or 1
_BIN = ".venv/bin/"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a lane. make builds the targets in prepare, then the commands run in turn in the project's folder.

    after: a part that must end before. needs: what the machine needs besides these targets.
    """

    name: str
    commands: tuple[tuple[str, ...], ...]
    prepare: tuple[str, ...] = ()
    after: str | None = None
    needs: tuple[Need, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    pytest: bool = False
    whole_again: bool = False
    """Whether a failure repeats all tests, because they depend on each other."""


def lane(name: str) -> list[Part]:
    """The parts of a lane, or the single part with that name. Raises KeyError."""
    return LANES[name] if name in LANES else [ALONE[name]]


def _tool(name: str, *commands: str, **more: Any) -> Part:
    return Part(name, tuple(tuple(shlex.split(command)) for command in commands), **more)


def _pytest(name: str, *places: str, options: str = "", marks: str = "", **more: Any) -> Part:
    selected = ("-m", marks) if marks else ()
    command = (f"{_BIN}python", "-m", "pytest", "-q", *shlex.split(options), *selected)
    return Part(name, ((*command, *places),), pytest=True, **more)


_LINT = _tool("lint", f"{_BIN}ruff check --quiet", f"{_BIN}ruff format --check --quiet")
_TYPES = _tool("types", f"{_BIN}mypy")
_IMPORTS = _tool("imports", f"{_BIN}lint-imports --no-cache")
_SPELLING = _tool("spelling", f"{_BIN}codespell")
_WORKFLOWS = _tool("workflows", "build/bin/actionlint", prepare=("build/bin/actionlint",))
_SITE = _tool(
    "site",
    "rm -rf build/site",
    "sh packaging/site/build .venv-packaging/bin build/site",
    prepare=(".venv-packaging/ready",),
)

# Creates a user, and an environment for that user.
_AS_USER = _tool("as-user", ".ci/check-as-user", needs=(needs.root,))

# The project may lie in a folder that other users cannot enter, for example in /root.
_OTHER_USER = _pytest("other-user", "tests/unit", marks="other_user")
_PRIVATE_FOLDER = Part(
    "private-folder",
    ((".ci/in-private-folder", *_OTHER_USER.commands[0]),),
    needs=(needs.root, needs.namespaces),
    pytest=True,
)

# make test runs the first group of the tests that need root; make ci adds the second.
_SHORT, _REST = "short and not whole", "not short and not whole"

_UNIT = ("tests/unit", "tests/corpus")


def _unit(name: str, marks: str = "", workers: int = _CORES + 2, **more: Any) -> Part:
    # More workers than cores: some of these tests wait for processes and clocks.
    return _pytest(name, *_UNIT, options=f"-n {workers} --dist worksteal --timeout=300", marks=marks, **more)


def _kubernetes(name: str, programs: Sequence[str] = ()) -> Part:
    """Builds these Kubernetes programs (by default all), unless they are in the cache."""
    command = ("nice", f"{_BIN}python", "-m", "tests.cluster.binaries", *programs)
    return Part(name, (command,), needs=(needs.root, needs.namespaces, needs.control_plane))


_SERVERS, _KUBERNETES = _kubernetes("servers", SERVERS), _kubernetes("kubernetes")


def _files(folder: str, longest: tuple[str, ...]) -> list[str]:
    """The test files of a folder. Those whose names begin with one of `longest` take longest, and so come first."""
    names = sorted(path.name for path in (ROOT / folder).glob("test_*.py"))
    names.sort(key=lambda name: not name.startswith(longest))
    return [f"{folder}/{name}" for name in names]


def _cluster(name: str, *, workers: int, marks: str = "", after: Part = _KUBERNETES) -> Part:
    # Each worker has its own control plane and runs whole files, the longest first. Most of these tests wait.
    options = f"-n {workers} --dist loadscope --no-loadscope-reorder"
    files = _files("tests/cluster", longest=("test_s",))
    return _pytest(name, *files, options=options, marks=marks, after=after.name, needs=after.needs)


def _package(name: str, *, workers: int, marks: str = "") -> Part:
    files = _files("tests/package", longest=("test_l", "test_r", "test_s"))
    # Only the release tests need the tools that make a release.
    tools: tuple[str, ...] = () if marks == _SHORT else (".venv-packaging/ready",)
    return _pytest(
        name,
        *files,
        options=f"-n {workers} --dist loadscope --no-loadscope-reorder",
        marks=marks,
        prepare=("packages-package", *tools),
        needs=(needs.root, needs.namespaces),
    )


def _machine(name: str, marks: str = "") -> Part:
    # The tests are steps that depend on each other.
    return _pytest(
        name,
        "tests/machine",
        marks=marks,
        prepare=("packages-machine",),
        after="kubernetes",
        needs=(needs.root, needs.namespaces, needs.control_plane),
        whole_again=True,
    )


def _adding(name: str, marks: str = "") -> Part:
    """Follows the pages on adding a setting or a detector, in a copy of the project."""
    return _pytest(name, "tests/adding", marks=marks)


_FAST = _unit("fast", marks="not slow", workers=_CORES, environment={"HYPOTHESIS_PROFILE": "quick"})
_CHECK = [_LINT, _SPELLING, _IMPORTS, _FAST, _TYPES]

LANES = {
    "check": _CHECK,
    "test": [
        _SERVERS,
        *_CHECK,
        _package("package-short", workers=1, marks=_SHORT),
        _cluster("cluster-short", workers=1, marks=_SHORT, after=_SERVERS),
    ],
    "rest": [
        _KUBERNETES,
        _machine("machine-rest", marks="not whole"),
        # make check runs all other tests. It tries a fifth of hypothesis' examples.
        _unit("unit-rest", marks="slow or hypothesis"),
        _cluster("cluster-rest", workers=2 * _CORES, marks=_REST),
        _package("package-rest", workers=_CORES, marks=_REST),
        _adding("adding-rest", marks="not whole"),
        _AS_USER,
        _PRIVATE_FOLDER,
        _SITE,
        _WORKFLOWS,
    ],
    "whole": [
        _KUBERNETES,
        *(part for part in _CHECK if part is not _FAST),
        _machine("machine"),
        _unit("unit"),
        _cluster("cluster", workers=2 * _CORES),
        _package("package", workers=_CORES),
        _adding("adding"),
        _AS_USER,
        _PRIVATE_FOLDER,
        _SITE,
        _WORKFLOWS,
    ],
}
"""The longest parts come first, so that they do not end long after all others."""

ALONE = {part.name: part for parts in (LANES["check"], LANES["whole"]) for part in parts}
