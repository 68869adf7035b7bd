"""Messages with a command for root, about paths that a shell would change or run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from capacityd.host.program import run_trusted
from capacityd.linux.permissions import why_unreadable_to_root
from capacityd.model.errors import HostError
from tests.support.reachable import make_reachable

OTHER = 12345  # the uid of another user
# A shell that runs this name would create the file "ran".
NAME = 'it\'s a $(touch ran) `x`; "y" & z.toml'
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    make_reachable(tmp_path)
    folder = tmp_path / NAME
    folder.mkdir()
    path = folder / NAME
    path.write_text('[resources."example.com/a"]\nstatic = 1\n')
    path.chmod(0o755)
    return path


def why_unreadable(file: Path) -> str:
    return why_unreadable_to_root(str(file))


def why_not_run(file: Path) -> str:
    with pytest.raises(HostError) as error:
        run_trusted([str(file)], 5.0)
    return str(error.value)


def make_private_to_another(file: Path) -> None:
    os.chown(file, OTHER, OTHER)
    file.chmod(0o600)


def make_program_without_loader(file: Path) -> None:
    program = Path("/bin/true").read_bytes()
    file.write_bytes(program.replace(b"/ld-linux", b"/no-linux"))


# what is done to the file, how the message is obtained, and the command in the message
MESSAGES: dict[str, tuple[Callable[[Path], object], Callable[[Path], str], str]] = {
    "unreadable to its owner": (lambda file: file.chmod(0o044), why_unreadable, "chmod u+r FILE"),
    "unreadable to root": (make_private_to_another, why_unreadable, "chown root FILE"),
    "not executable": (lambda file: file.chmod(0o644), why_not_run, "chmod +x FILE"),
    "with a byte order mark": (
        lambda file: file.write_bytes(b"\xef\xbb\xbf#!/bin/sh\n"),
        why_not_run,
        "sed -i '1s/^\\xef\\xbb\\xbf//' FILE",
    ),
    "without its loader": (make_program_without_loader, why_not_run, "file FILE"),
    "with a carriage return": (
        lambda file: file.write_bytes(b"#!/bin/sh\r\n"),
        why_not_run,
        "sed -i 's/\\r$//' FILE",
    ),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_a_shell_runs_the_command_of_a_message(file: Path, tmp_path: Path, case: str) -> None:
    """Each command names the file, and nothing in the file's name is run."""
    change, message_about, command = MESSAGES[case]
    change(file)
    text = message_about(file)
    # The command ends the message, as in "...: chmod u+r FILE)" or "... (`file FILE` names it)".
    script = text[re.search("(chown|chmod|sed|(?<=`)file) ", text).start() :]  # type: ignore[union-attr]
    script = script.removesuffix(" names it)").removesuffix("`").removesuffix(")")
    # These shell functions print a command's words, instead of running it.
    names = ("chown", "chmod", "sed", "file")
    functions = "".join(f"{name}() {{ printf '%s\\n' {name} \"$@\" END; }}\n" for name in names)
    done = subprocess.run(["sh", "-ec", functions + script], capture_output=True, text=True, check=True, cwd=tmp_path)
    expected = [str(file) if word == "FILE" else word for word in shlex.split(command)]
    assert done.stdout.removesuffix("\nEND\n").split("\n") == expected
    assert not (tmp_path / "ran").exists()
