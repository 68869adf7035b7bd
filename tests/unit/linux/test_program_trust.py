"""What a command runs, and who could change it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from capacityd.linux.program_trust import flaw_of_command, flaw_of_name
from capacityd.linux.trust import service_trust
from tests import ROOT
from tests.support.reachable import make_reachable

OTHER = 12345
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users")


class Folders:
    """A folder of root with the program `safe`, and a folder of another user with the program `theirs`."""

    def __init__(self, top: Path) -> None:
        make_reachable(top)
        self.ours, self.theirs = top / "ours", top / "theirs"
        self.ours.mkdir()
        self.theirs.mkdir()
        os.chown(self.theirs, OTHER, OTHER)
        self.safe = self.script("safe", "#!/bin/sh\necho 1\n")
        self.bad = self.script("bad", "#!/bin/sh\necho 1\n", self.theirs)
        os.chown(self.bad, OTHER, OTHER)

    def script(self, name: str, text: str, folder: Path | None = None) -> str:
        path = (folder or self.ours) / name
        path.write_text(text)
        path.chmod(0o755)
        return str(path)

    def flaw(self, *command: str, search_path: str = "/usr/bin:/bin") -> str:
        flaw = flaw_of_command(command, search_path, service_trust())
        return flaw.path if flaw else ""


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


# commands; SAFE, BAD, OURS and THEIRS stand for the programs and folders above
HARMLESS: tuple[Sequence[str], ...] = (
    ["SAFE"],
    ["SAFE", "OURS", "OURS/missing", "--file=SAFE", "/nonexistent", "x" * 5000, "\ud800", "a\0b", "/", ""],
    ["SAFE", "theirs", "https://example.com/count", "s/theirs/ours/", "[/]", "/dev/tty", "/proc/self/mounts"],
    ["/bin/sh", "-c", "cat /dev/null /sys/devices/*/count 2>/dev/null | wc -l", "SAFE"],
    ["/usr/bin/env", "-i", "A=1", "SAFE"],
    ["/usr/bin/env", "no-such-program"],
    ["/usr/bin/env"],
    ["/nonexistent"],
)
HARMFUL: tuple[Sequence[str], ...] = (
    ["BAD"],
    ["/bin/sh", "BAD"],
    ["/bin/sh", "-e", "BAD.sh"],
    ["/usr/bin/timeout", "5", "BAD.elf"],
    ["/bin/sh", "THEIRS/./bad"],
    ["/usr/bin/env", "BAD"],
    ["/usr/bin/env", "-S", "/bin/sh BAD"],
    ["/usr/bin/env", "-u", "A", "-i", "PATH=THEIRS:/bin", "bad"],
    ["/usr/bin/env", "sh", "BAD"],
    ["/usr/bin/python3", "BAD.data"],
    ["/usr/bin/python3", "-u", "THEIRS"],
    ["/usr/bin/python3", "THEIRS/missing"],
    ["/usr/bin/perl", "-ITHEIRS", "SAFE"],
    ["/usr/bin/perl", "-I", "THEIRS", "SAFE"],
    ["/usr/bin/java", "-cp", "OURS:THEIRS", "Count"],
    ["/usr/bin/env", "PYTHONPATH=THEIRS", "SAFE"],
    ["/bin/bash", "--rcfile=BAD.data", "-i"],
    ["/bin/sh", "-c", "BAD.data"],
    ["/bin/sh", "-c", "set -e;. BAD.data"],
    ["/bin/sh", "-c", "x=$(BAD)|wc -l"],
    ["/bin/sh", "-c", '"BAD" 2>/dev/null'],
    ["/usr/bin/awk", "-fBAD.data"],
)


def filled(folders: Folders, command: Sequence[str]) -> list[str]:
    words = {"SAFE": folders.safe, "BAD": folders.bad, "THEIRS": str(folders.theirs), "OURS": str(folders.ours)}
    for suffix, content in ((".data", b"1\n"), (".sh", b"echo 1\n"), (".elf", b"\x7fELF\2")):
        Path(folders.bad + suffix).write_bytes(content)
    filled = list(command)
    for word, text in words.items():
        filled = [argument.replace(word, text) for argument in filled]
    return filled


@pytest.mark.parametrize("command", HARMLESS, ids=range(len(HARMLESS)))
def test_a_command_that_only_root_can_change_is_trusted(folders: Folders, command: Sequence[str]) -> None:
    assert folders.flaw(*filled(folders, command)) == ""


@pytest.mark.parametrize("command", HARMFUL, ids=" ".join)
def test_a_command_that_another_user_can_change_is_not_trusted(folders: Folders, command: Sequence[str]) -> None:
    assert folders.flaw(*filled(folders, command)) == str(folders.theirs)


@pytest.mark.parametrize(
    ("first", "flaw"),
    [
        ("#!/bin/sh", ""),
        ("#! /bin/sh -e", ""),
        ("#!{bad}", "THEIRS"),
        ("#! {bad} -x", "THEIRS"),
        ("#!/bin/sh {bad}", "THEIRS"),
        ("#!{chain}", "THEIRS"),
        ("#!/usr/bin/env sh", ""),
        ("#!/usr/bin/env -S sh -e", ""),
        ("#!/usr/bin/env -S A=1 {bad}", "THEIRS"),
        ("#!/usr/bin/env -S PATH={theirs} bad", "THEIRS"),
        ("#!/usr/bin/env -S PATH={theirs}:/usr/bin sh", "THEIRS"),
        ("#!/usr/bin/env -S --chdir=/tmp sh", "/usr/bin/env"),
        ("#!/usr/bin/env -S ${{HOME}}/x", "/usr/bin/env"),
        ("#!{env} bad", "PATH"),
        ("#!bin/sh", "SCRIPT"),
        ("#!{own}", ""),  # the kernel gives up
        ("#!\t{bad}\t-x", "THEIRS"),
        ("#!/bin/sh -c{bad}", "THEIRS"),
        ("#!/bin/sh '", ""),
        ("#!", ""),
        ("", ""),
    ],
)
def test_a_script_is_trusted_only_with_its_interpreter(folders: Folders, first: str, flaw: str) -> None:
    chain = folders.script("chain", f"#!{folders.bad}\n")
    (folders.ours / "env").symlink_to("/usr/bin/env")
    values = {"bad": folders.bad, "theirs": folders.theirs, "chain": chain, "env": folders.ours / "env"}
    script = folders.script("script", f"{first.format(**values, own=folders.ours / 'script')}\necho 1\n")
    search_path = f"/usr/bin:/bin:{folders.theirs}" if flaw == "PATH" else "/usr/bin:/bin"
    found = folders.flaw(script, search_path=search_path)
    places = {"THEIRS": str(folders.theirs), "PATH": str(folders.theirs), "SCRIPT": script}
    assert found == places.get(flaw, flaw)


def test_a_name_is_looked_up_only_where_nobody_else_can_create_it(folders: Folders) -> None:
    """A folder after the one that has the program does not matter."""

    def flaw(*search_path: Path | str) -> str:
        found = flaw_of_name("safe", ":".join(map(str, search_path)), service_trust())
        return found.path if found else ""

    assert flaw(folders.ours, folders.theirs) == ""
    assert flaw("/nonexistent", folders.ours) == ""
    assert flaw(folders.theirs, folders.ours) == str(folders.theirs)
    assert flaw(folders.theirs / "missing", folders.ours) == str(folders.theirs)
    assert flaw("/tmp", folders.ours) == "/tmp"


def test_nobody_is_told_to_change_the_mode_of_tmp() -> None:
    flaw = flaw_of_name("sh", "/tmp:/bin", service_trust())
    assert flaw is not None
    assert (flaw.path, flaw.remedy) == ("/tmp", "write the absolute path of the program instead")


def test_a_relative_folder_of_path_depends_on_the_current_folder() -> None:
    for search_path in (":/bin", "bin:/bin", "/nonexistent:."):
        flaw = flaw_of_name("sh", search_path, service_trust())
        assert flaw is not None
        assert flaw.path == "sh"
    assert flaw_of_name("sh", "/bin:", service_trust()) is None


def test_a_pipe_is_not_read(folders: Folders) -> None:
    os.mkfifo(folders.ours / "pipe.py")
    assert folders.flaw("/bin/cat", str(folders.ours / "pipe.py")) == ""
    assert folders.flaw(str(folders.ours / "pipe.py")) == ""


def test_the_remedy_for_an_argument_allows_that_it_is_data(folders: Folders) -> None:
    """The message names both ways out."""
    flaw = flaw_of_command(["/bin/cat", folders.bad], "/bin", service_trust())
    assert flaw is not None
    assert flaw.remedy == f"chown root {folders.theirs}; if it is only data, name it in a script of root instead"


def test_a_script_that_root_without_capabilities_cannot_read_is_not_trusted(folders: Folders) -> None:
    """The kernel reads its first line, and runs the interpreter."""
    script = folders.script("script", f"#!{folders.bad}\n")
    os.chmod(script, 0o111)
    code = (
        "import sys; from capacityd.linux.program_trust import flaw_of_command as f; "
        "from capacityd.linux.trust import service_trust; print(f([sys.argv[1]], '', service_trust()))"
    )
    command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", sys.executable, "-c", code, script]
    done = subprocess.run(command, cwd=ROOT / "agent", capture_output=True, text=True, check=True)
    why = f"{script} can't be read, so its interpreter is not known: chmod u+r {script}"
    assert done.stdout.strip() == why
