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

OTHER = 12345
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


def unreadable_to_its_owner(file: Path) -> str:
    file.chmod(0o044)
    return why_unreadable_to_root(str(file))


def unreadable_to_root(file: Path) -> str:
    os.chown(file, OTHER, OTHER)
    file.chmod(0o600)
    return why_unreadable_to_root(str(file))


def not_run(file: Path) -> str:
    with pytest.raises(HostError) as error:
        run_trusted([str(file)], 5.0)
    return str(error.value)


def not_executable(file: Path) -> str:
    file.chmod(0o644)
    return not_run(file)


def with_a_carriage_return(file: Path) -> str:
    file.write_bytes(b"#!/bin/sh\r\n")
    return not_run(file)


def with_a_byte_order_mark(file: Path) -> str:
    file.write_bytes(b"\xef\xbb\xbf#!/bin/sh\n")
    return not_run(file)


def without_its_loader(file: Path) -> str:
    program = bytearray(Path("/bin/true").read_bytes())
    file.write_bytes(program.replace(b"/ld-linux", b"/no-linux"))
    return not_run(file)


MESSAGES: dict[str, tuple[Callable[[Path], str], str]] = {
    "unreadable to its owner": (unreadable_to_its_owner, "chmod u+r FILE"),
    "unreadable to root": (unreadable_to_root, "chown root FILE"),
    "not executable": (not_executable, "chmod +x FILE"),
    "with a byte order mark": (with_a_byte_order_mark, "sed -i '1s/^\\xef\\xbb\\xbf//' FILE"),
    "without its loader": (without_its_loader, "file FILE"),
    "with a carriage return": (with_a_carriage_return, "sed -i 's/\\r$//' FILE"),
}


@pytest.mark.parametrize(("message", "command"), MESSAGES.values(), ids=MESSAGES)
def test_a_shell_runs_the_command_of_a_message(
    file: Path, tmp_path: Path, message: Callable[[Path], str], command: str
) -> None:
    """Each command names the file, and nothing in the file's name is run."""
    text = message(file)
    script = text[re.search("(chown|chmod|sed|(?<=`)file) ", text).start() :]  # type: ignore[union-attr]
    script = script.removesuffix(" names it)").removesuffix("`") if script.startswith("file") else script
    script = script.removesuffix(")")
    names = ("chown", "chmod", "sed", "file")
    printed = "".join(f"{name}() {{ printf '%s\\n' {name} \"$@\" END; }}\n" for name in names)
    done = subprocess.run(["sh", "-ec", printed + script], capture_output=True, text=True, check=True, cwd=tmp_path)
    shown = [str(file) if word == "FILE" else word for word in shlex.split(command)]
    assert done.stdout.removesuffix("\nEND\n").split("\n") == shown
    assert not (tmp_path / "ran").exists()
