"""What a command runs, and who could change it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from capacityd.linux.program_trust import flaw_of_command, flaw_of_name
from capacityd.linux.trust import service_trust
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
    ["SAFE", "THEIRS", "BAD.data", "--file=BAD", "/nonexistent", "x" * 5000, "\ud800"],
    ["/bin/sh", "-c", "cat /dev/null", "SAFE"],
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
)


def filled(folders: Folders, command: Sequence[str]) -> list[str]:
    words = {"SAFE": folders.safe, "BAD": folders.bad, "THEIRS": str(folders.theirs)}
    for suffix, content in ((".data", b"1\n"), (".sh", b"echo 1\n"), (".elf", b"\x7fELF\2")):
        Path(folders.bad + suffix).write_bytes(content)
    filled = list(command)
    for word, text in words.items():
        filled = [argument.replace(word, text) for argument in filled]
    return filled


@pytest.mark.parametrize("command", HARMLESS, ids=range(len(HARMLESS)))
def test_a_command_that_only_root_can_change(folders: Folders, command: Sequence[str]) -> None:
    assert folders.flaw(*filled(folders, command)) == ""


@pytest.mark.parametrize("command", HARMFUL, ids=" ".join)
def test_a_command_that_another_user_can_change(folders: Folders, command: Sequence[str]) -> None:
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
        ("#!/bin/sh '", ""),
        ("#!", ""),
        ("", ""),
    ],
)
def test_the_interpreter_of_a_script(folders: Folders, first: str, flaw: str) -> None:
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


def test_a_pipe_is_not_read(folders: Folders) -> None:
    os.mkfifo(folders.ours / "pipe.py")
    assert folders.flaw("/bin/cat", str(folders.ours / "pipe.py")) == ""
    assert folders.flaw(str(folders.ours / "pipe.py")) == ""
