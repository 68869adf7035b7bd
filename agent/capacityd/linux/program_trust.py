"""Finds each file that a command runs, and checks it with the rule of trust.py. A flaw is a file or folder that
somebody else can change.

A command runs its program, the interpreter in the program's first line, the program that env(1) looks up in PATH, and
what its arguments name: a script, a folder of modules, or the text of a script, as in
["/bin/sh", "-c", "/opt/count | wc -l"]. Nothing here knows which arguments a program runs and which it only reads, so
every path in them is checked.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from capacityd.linux.program_start import first_line
from capacityd.linux.trust import Flaw, Trust, flaw_of_folder, flaw_of_program

_MAX_DEPTH = 5
"""How many programs are followed, each started by the one before. Of scripts that are each other's interpreters, the
kernel follows four (execve(2))."""
_WORD = re.compile(r"""[^\s"'`;|&<>(){}$=:,@]+""")
"""A word of a script, or a part of an option, as in --include=/opt/a:/opt/b."""
_REMEDY_FOR_DATA = "if it is only data, name it in a script of root instead"
_REMEDY_FOR_LOOKUP = "write the absolute path of the program instead"


def flaw_of_command(command: Sequence[str], search_path: str, trust: Trust, *, depth: int = _MAX_DEPTH) -> Flaw | None:
    """The first flaw of a command that is started in the folder /; None if there is none.

    command: the program's path and its arguments. search_path: the command's PATH. depth: how many programs are still
    followed from this one to the one that it starts.
    """
    flaw = _flaw_of_start(command, search_path, trust, depth=depth)
    return flaw or flaw_of_texts(command[1:], search_path, trust, depth=depth)


def flaw_of_texts(texts: Iterable[str], search_path: str, trust: Trust, *, depth: int = _MAX_DEPTH) -> Flaw | None:
    """The first flaw of a path in arguments or variables of a command that is started in /; None if there is none.

    search_path: the command's PATH. depth: as for flaw_of_command().
    """
    for text in texts:
        for path in _paths(text):
            flaw = _flaw_of_start([path], search_path, trust, depth=depth)
            if flaw is None:
                continue
            # If the file's first line has an argument for the interpreter, this function was called for it before.
            already_has_remedy = flaw.remedy.endswith(_REMEDY_FOR_DATA)
            return flaw if already_has_remedy else replace(flaw, remedy=f"{flaw.remedy}; {_REMEDY_FOR_DATA}")
    return None


def flaw_of_name(name: str, search_path: str, trust: Trust) -> Flaw | None:
    """The flaw of the folders in which a program's name is looked up, until it is found; None if there is none."""
    found = shutil.which(name, path=search_path)
    for folder in search_path.split(os.pathsep):
        if not folder.startswith("/"):
            return Flaw(name, "is looked up in the current folder, because of PATH", remedy=_REMEDY_FOR_LOOKUP)
        if flaw := flaw_of_folder(folder, trust):
            # Other programs need the mode of a shared folder such as /tmp, so the remedy is not to change the mode.
            return replace(flaw, remedy=_REMEDY_FOR_LOOKUP) if _is_shared(flaw.path) else flaw
        if found == os.path.join(folder, name):
            break
    return None


def _is_shared(path: str) -> bool:
    """Whether this is a folder in which each user may create files; False if it has disappeared."""
    try:
        return bool(os.stat(path).st_mode & stat.S_ISVTX)
    except OSError:
        return False


def _paths(text: str) -> Iterator[str]:
    """The absolute paths that an argument may name: as a whole, in an option, or in the text of a script."""
    words = dict.fromkeys([text, *_WORD.findall(text)])  # each once, in this order
    for word in words:
        yield os.path.join("/", word)  # a relative path starts at /, the folder in which commands are started
        if word.startswith("-") and "/" in word:
            yield word[word.index("/") :]  # /opt/modules in -I/opt/modules


def _flaw_of_start(command: Sequence[str], search_path: str, trust: Trust, *, depth: int) -> Flaw | None:
    """The first flaw of the program that a command starts. Ignores the arguments, unless the program is env, which
    starts one of them."""
    program, *arguments = command
    try:
        flaw = flaw_of_program(program, trust)
    except ValueError:  # no path has these characters, so the command can't be started
        return None
    if flaw or depth == 0:
        return flaw
    # With and without links, because env may be a link to busybox, or a link with another name may lead to env.
    if "env" in (os.path.basename(program), os.path.basename(os.path.realpath(program))):
        return _flaw_of_env(program, arguments, search_path, trust, depth=depth)
    try:
        interpreter = _interpreter(program)
    except OSError:
        if not os.access(program, os.X_OK):
            return None  # the program can't be started
        # The kernel starts the interpreter even of a script that this process can't read.
        remedy = shlex.join(["chmod", "u+r", program])
        return Flaw(program, "can't be read, so its interpreter is not known", remedy=remedy)
    if not interpreter:
        return None
    if not interpreter[0].startswith("/"):
        return Flaw(program, "has an interpreter without an absolute path", remedy="write its absolute path")
    return flaw_of_command(interpreter, search_path, trust, depth=depth - 1)


def _flaw_of_env(env: str, arguments: Sequence[str], search_path: str, trust: Trust, *, depth: int) -> Flaw | None:
    """The flaw of what env(1) starts. env: the path of env. depth: as for flaw_of_command()."""
    started = _started_by_env(arguments, search_path)
    if started is None:
        return Flaw(env, "has options that are not supported here", remedy=_REMEDY_FOR_LOOKUP)
    command, path_of_command = started
    if not command:
        return None  # env prints the variables
    name, *rest = command
    if "/" in name:
        program = os.path.join("/", name)
    else:
        if flaw := flaw_of_name(name, path_of_command, trust):
            return flaw
        found = shutil.which(name, path=path_of_command)
        if found is None:
            return None  # env can't start the program
        program = found
    return _flaw_of_start([program, *rest], path_of_command, trust, depth=depth - 1)


def _started_by_env(arguments: Sequence[str], search_path: str) -> tuple[list[str], str] | None:
    """The command that env(1) starts, and its PATH; None for options that are not supported here.

    The command's program may be a name that env looks up in this PATH.
    """
    words = list(arguments)  # what is left of the command line
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option in ("-", "-i", "-v", "-iv", "-vi", "--ignore-environment", "--debug"):
            continue
        if option in ("-u", "--unset") and words:
            words.pop(0)
        elif option.startswith(("-S", "-vS")):  # the text of further words: in the option, or in the next argument
            text = option.partition("S")[2]
            if not text and words:
                text = words.pop(0)
            words = [*_split(text), *words]
        elif option == "--":
            break
        else:
            return None
    while words and "=" in words[0]:
        variable, _, value = words.pop(0).partition("=")
        if variable == "PATH":
            search_path = value
    # env -S replaces ${NAME} by a variable that is not known here.
    if words and "$" in words[0]:
        return None
    return words, search_path


def _interpreter(program: str) -> list[str]:
    """The interpreter in a script's first line, and its argument; empty if the file is no script. Raises OSError."""
    if not os.path.isfile(program):  # reading a device or a pipe may have an effect
        return []
    line = first_line(program)
    if not line.startswith(b"#!"):
        return []
    # The kernel passes everything behind the interpreter's path as a single argument (execve(2)).
    words = re.split(rb"[ \t]+", line.removeprefix(b"#!").strip(b" \t\n"), maxsplit=1)
    return [os.fsdecode(word) for word in words if word]


def _split(text: str) -> list[str]:
    """The words of a text, as env -S splits it."""
    try:
        return shlex.split(text)
    except ValueError:  # a quote is not closed
        return text.split()
