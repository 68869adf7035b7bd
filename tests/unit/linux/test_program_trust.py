"""What a command runs, and who could change it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from capacityd.linux.trust import SERVICE_TRUST, flaw_of_command
from tests import ROOT
from tests.support.reachable import make_reachable

OTHER = 12345  # the uid of another user
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users")


class Folders:
    """A folder of root with the program `safe`, and a folder of another user with the program `bad`."""

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

    def flaw(self, *command: str) -> str:
        flaw = flaw_of_command(command, SERVICE_TRUST)
        return flaw.path if flaw else ""


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


# SAFE, BAD, OURS and THEIRS stand for the programs and folders above. BAD.elf and BAD.data are other files beside BAD.
HARMLESS: tuple[Sequence[str], ...] = (
    ["SAFE"],
    ["SAFE", "OURS", "OURS/missing", "--file=SAFE", "/nonexistent", "x" * 5000, "\ud800", "a\0b", "/", ""],
    ["SAFE", "theirs", "https://example.com/count", "s/theirs/ours/", "[/]", "/dev/tty", "/proc/self/mounts"],
    ["/bin/df", "THEIRS"],
    ["/nonexistent"],
    # What root writes into an option or a text is root's decision: nothing knows which part of it is run.
    ["/usr/bin/env", "-S/bin/sh BAD"],
    ["/bin/sh", "-c", "cd THEIRS; ./bad"],
)
HARMFUL: tuple[Sequence[str], ...] = (
    ["BAD"],
    ["/bin/sh", "BAD"],
    ["/usr/bin/timeout", "5", "BAD.elf"],
    ["/bin/sh", "THEIRS/./bad"],
    ["/usr/bin/env", "sh", "BAD.data"],
    ["/usr/bin/python3", "THEIRS/missing"],
)


def filled(folders: Folders, command: Sequence[str]) -> list[str]:
    words = {"SAFE": folders.safe, "BAD": folders.bad, "THEIRS": str(folders.theirs), "OURS": str(folders.ours)}
    for suffix, content in ((".data", b"1\n"), (".elf", b"\x7fELF\2")):
        Path(folders.bad + suffix).write_bytes(content)
    filled = list(command)
    for word, text in words.items():
        filled = [argument.replace(word, text) for argument in filled]
    return filled


@pytest.mark.parametrize("number", range(len(HARMLESS)))
def test_a_command_that_only_root_can_change_is_trusted(folders: Folders, number: int) -> None:
    assert folders.flaw(*filled(folders, HARMLESS[number])) == ""


@pytest.mark.parametrize("command", HARMFUL, ids=" ".join)
def test_a_command_that_another_user_can_change_is_not_trusted(folders: Folders, command: Sequence[str]) -> None:
    assert folders.flaw(*filled(folders, command)) == str(folders.theirs)


@pytest.mark.parametrize(
    ("first_line", "flaw"),
    [
        ("#!/bin/sh", ""),
        ("#! /bin/sh -e", ""),
        ("#!{bad}", "THEIRS"),
        ("#! {bad} -x", "THEIRS"),
        ("#!/bin/sh {bad}", ""),  # an argument is root's decision
        ("#!{chain}", "THEIRS"),  # a script whose interpreter is BAD
        ("#!/usr/bin/env sh", ""),
        ("#!bin/sh", ""),  # relative to /, where the service runs
        ("#!{own}", ""),  # its own interpreter: the kernel does not run it
        ("#!\t{bad}\t-x", "THEIRS"),
        ("#!", ""),
        ("", ""),
    ],
)
def test_a_script_is_trusted_only_with_its_interpreter(folders: Folders, first_line: str, flaw: str) -> None:
    chain = folders.script("chain", f"#!{folders.bad}\n")
    own = folders.ours / "script"
    script = folders.script("script", f"{first_line.format(bad=folders.bad, chain=chain, own=own)}\necho 1\n")
    assert folders.flaw(script) == flaw.replace("THEIRS", str(folders.theirs))


def test_a_pipe_is_not_read(folders: Folders) -> None:
    os.mkfifo(folders.ours / "pipe.py")
    assert folders.flaw("/bin/cat", str(folders.ours / "pipe.py")) == ""
    assert folders.flaw(str(folders.ours / "pipe.py")) == ""


def test_a_script_that_root_without_capabilities_cannot_read_is_not_trusted(folders: Folders) -> None:
    """The kernel can still read the script's first line, and runs the interpreter."""
    script = folders.script("script", f"#!{folders.bad}\n")
    os.chmod(script, 0o111)
    code = (
        "import sys; from capacityd.linux.trust import SERVICE_TRUST, flaw_of_command; "
        "print(flaw_of_command([sys.argv[1]], SERVICE_TRUST))"
    )
    command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", sys.executable, "-c", code, script]
    done = subprocess.run(command, cwd=ROOT / "agent", capture_output=True, text=True, check=True)
    why = f"{script} can't be read, so its interpreter is not known: chmod u+r {script}"
    assert done.stdout.strip() == why
