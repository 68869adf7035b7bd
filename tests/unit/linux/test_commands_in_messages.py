"""Messages with a command for root, about paths that a shell would change or run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from capacityd.config import load
from capacityd.host.program import run_trusted
from capacityd.linux.permissions import why_unreadable_to_root
from capacityd.linux.trust import SERVICE_TRUST, flaw_of, flaw_of_command
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


def given(path: Path) -> None:
    os.chown(path, OTHER, OTHER, follow_symlinks=False)


def of_another(file: Path) -> str:
    given(file)
    return str(flaw_of(str(file), SERVICE_TRUST))


def writable_by_all(file: Path) -> str:
    file.chmod(0o666)
    return str(flaw_of(str(file), SERVICE_TRUST))


def writable_by_its_group(file: Path) -> str:
    file.parent.chmod(0o775)
    os.chown(file.parent, 0, OTHER)
    return str(flaw_of(str(file), SERVICE_TRUST))


def link_of_another(file: Path) -> str:
    link = file.with_name(NAME.replace("toml", "link"))
    link.symlink_to(file)
    given(link)
    return str(flaw_of(str(link), SERVICE_TRUST))


def unreadable_to_its_owner(file: Path) -> str:
    file.chmod(0o044)
    return why_unreadable_to_root(str(file))


def unreadable_to_root(file: Path) -> str:
    given(file)
    file.chmod(0o600)
    return why_unreadable_to_root(str(file))


def configuration(file: Path) -> str:
    folder = file.parent / "etc/capacityd/conf.d"
    folder.mkdir(parents=True)
    file.rename(folder / file.name)
    (folder / file.name).chmod(0o044)
    (problem,) = load(root=str(file.parent)).problems
    return problem.message


def argument(file: Path) -> str:
    given(file)
    return str(flaw_of_command(["/bin/cat", str(file)], SERVICE_TRUST))


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


MESSAGES: dict[str, tuple[Callable[[Path], str], list[str]]] = {
    "of another": (of_another, ["chown root FILE"]),
    "writable by all": (writable_by_all, ["chmod go-w FILE"]),
    "writable by its group": (writable_by_its_group, ["chmod go-w FOLDER"]),
    "link of another": (link_of_another, ["chown -h root LINK"]),
    "unreadable to its owner": (unreadable_to_its_owner, ["chmod u+r FILE"]),
    "unreadable to root": (unreadable_to_root, ["chown root FILE"]),
    "configuration": (configuration, ["chmod u+r CONFIGURATION"]),
    "argument": (argument, ["chown root FILE"]),
    "not executable": (not_executable, ["chmod +x FILE"]),
    "with a byte order mark": (with_a_byte_order_mark, ["sed -i '1s/^\\xef\\xbb\\xbf//' FILE"]),
    "without its loader": (without_its_loader, ["file FILE"]),
    "with a carriage return": (with_a_carriage_return, ["sed -i 's/\\r$//' FILE"]),
}


@pytest.mark.parametrize(("message", "commands"), MESSAGES.values(), ids=MESSAGES)
def test_a_shell_runs_the_command_of_a_message(
    file: Path, tmp_path: Path, message: Callable[[Path], str], commands: list[str]
) -> None:
    """Each command names the file, and nothing in the file's name is run."""
    text = message(file)
    script = text[re.search("(chown|chmod|sed|(?<=`)file) ", text).start() :]  # type: ignore[union-attr]
    script = script.removesuffix(" names it)").removesuffix("`") if script.startswith("file") else script
    script = script.removesuffix(")")
    names = ("chown", "chmod", "sed", "file")
    printed = "".join(f"{name}() {{ printf '%s\\n' {name} \"$@\" END; }}\n" for name in names)
    done = subprocess.run(["sh", "-ec", printed + script], capture_output=True, text=True, check=True, cwd=tmp_path)
    places = {
        "FILE": str(file),
        "FOLDER": str(file.parent),
        "LINK": str(file.with_name(NAME.replace("toml", "link"))),
        "CONFIGURATION": str(file.parent / "etc/capacityd/conf.d" / file.name),
    }
    shown = [[places.get(word, word) for word in shlex.split(command)] for command in commands]
    assert [part.split("\n") for part in done.stdout.removesuffix("\nEND\n").split("\nEND\n")] == shown
    assert not (tmp_path / "ran").exists()
