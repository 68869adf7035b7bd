"""The files of the configuration in the order in which they are merged, and their text.

File names merge and mask as in the UAPI configuration files specification, except that the main file comes after the
vendors' files and before the administrator's. Only root may be able to change the files (linux/trust.py), because they
can name programs, which the service runs as root.
"""

from __future__ import annotations

import codecs
import errno
import os
import re
import shlex
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field

from capacityd.config.places import LOCAL, MAIN, VENDORS, misplaced
from capacityd.linux.permissions import owner_and_mode
from capacityd.linux.trust import Trust, flaw_of, flaw_of_folder, own_trust
from capacityd.model.errors import ConfigError

MAX_FILE_BYTES = 1 << 20

_SUFFIX = r"~|\.(bak|old|new|orig|swp|disabled|(dpkg|ucf)-[a-z]+|rpm(new|save|orig))"
_LEFTOVER = re.compile(rf"\..*|README.*|#.*#|.*({_SUFFIX})|lost\+found")
"""Names of files that the journal does not mention: hidden files, and leftovers of editors and package managers."""
_HIDDEN = re.compile(r"\.(?!#).*\.toml")
"""Hidden files that may be meant to be read, unlike the lock files of Emacs."""
_RENAMED = re.compile(rf"[^.].*\.toml({_SUFFIX})")
"""Leftovers that may be meant to be read."""


_WRONG_NAME = 'is not read, because its name does not end with ".toml"'
_CONTENT_IS_LOST = ", as after a power failure: write it again or remove it"
"""The end of a message about a file without content."""


@dataclass(slots=True)
class Files:
    """The files to read, and the errors of their folders."""

    read_by_service: bool
    """Whether these are the files that the service reads. Otherwise, a user has named them in a command."""
    trust: Trust
    """Who may be able to change the files. A user who names a file also trusts its owner and its group."""
    masking: dict[str, str] = field(default_factory=dict)
    """Path of a file -> the vendor's file of the same name, which it replaces. Only such a file may be empty."""
    folders: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    """Path of a folder -> the names of its files that are read; None if there is no such folder."""
    paths: list[str] = field(default_factory=list)
    """In the order in which they are merged; later ones override."""
    failures: dict[str, str] = field(default_factory=dict)
    """Path of an unusable folder -> the reason."""
    ignored: dict[str, str] = field(default_factory=dict)
    """Path of a skipped file -> the reason."""
    leftovers: dict[str, str] = field(default_factory=dict)
    """The same, for files that are probably meant to be skipped."""


def files_of_service(root: str) -> Files:
    """The files that the service reads. root: the folder used as /."""
    files = Files(read_by_service=True, trust=own_trust())
    vendors: dict[str, str] = {}
    for folder in VENDORS:
        vendors |= _list_masking(os.path.join(root, folder), vendors, files)
    main = os.path.join(root, MAIN)
    if os.path.lexists(main):
        files.folders[os.path.dirname(main)] = (os.path.basename(main),)
    local = _list_masking(os.path.join(root, LOCAL), vendors, files)
    files.ignored |= misplaced(root)
    files.paths += [vendors[name] for name in sorted(vendors.keys() - local.keys())]
    if os.path.lexists(main):
        files.paths.append(main)
    files.paths += [local[name] for name in sorted(local)]
    return files


def files_at(path: str) -> Files:
    """The file at this path or, for a folder, the files in it."""
    files = Files(read_by_service=False, trust=own_trust().with_owner_of(path))
    if not os.path.lexists(path):
        files.failures[path] = "no such file or folder"
    elif not os.path.isdir(path):
        files.paths.append(path)
    else:
        files.paths += [path for _, path in sorted(_list_folder(path, files).items())]
        if not files.paths and not files.failures:
            files.failures[path] = "contains no file whose name ends with .toml"
    return files


def read(path: str, files: Files) -> str:
    """A file's text; "" for /dev/null, which masks another file as an empty one does. Raises ConfigError with the
    reason.

    files: the files to which it belongs. Only a file that masks another one may be empty: any other empty file has
    probably lost its content in a power failure.
    """
    try:
        # Before open(), because open() may have an effect on a device, or wait for the other end of a pipe.
        status = os.stat(path)
        is_dev_null = stat.S_ISCHR(status.st_mode) and status.st_rdev == os.makedev(1, 3)
        if not (is_dev_null or stat.S_ISREG(status.st_mode)):
            raise ConfigError("is not a regular file")
        problem = _permission_problem(path, files)
        if problem is not None:
            culprit, why = problem
            raise ConfigError(why if culprit == path else f"{culprit} {why}")
        if is_dev_null:
            return ""
        with open(path, "rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except OSError as e:
        raise ConfigError(_reason(e)) from e
    if len(raw) > MAX_FILE_BYTES:
        raise ConfigError("is larger than 1 MiB; is it the right file?")
    content = raw.removeprefix(codecs.BOM_UTF8).strip()
    if not content and path not in files.masking:
        raise ConfigError(f"is empty{_CONTENT_IS_LOST}; if it is meant to be empty, write a comment into it", line=1)
    if content and not content.strip(b"\0"):
        raise ConfigError(f"contains only zero bytes{_CONTENT_IS_LOST}", line=1)
    try:
        return raw.decode("utf-8-sig") if content else ""
    except UnicodeDecodeError as e:
        line = e.object.count(b"\n", 0, e.start) + 1
        why = f"is not UTF-8: it has the byte 0x{e.object[e.start]:02x}; save it as UTF-8"
        raise ConfigError(why, line=line) from e


def _permission_problem(path: str, files: Files) -> tuple[str, str] | None:
    """Why a file or folder is rejected: the file or folder with the wrong permissions, which may be a folder above; and
    the reason with the command that fixes it. None if the permissions are right.
    """
    is_folder = os.path.isdir(path)
    flaw = flaw_of_folder(path, files.trust) if is_folder else flaw_of(path, files.trust)
    if flaw is not None:
        culprit_is_folder = is_folder or flaw.path != path
        subject = "a file in it" if culprit_is_folder else "it"
        return flaw.path, f"{flaw.problem}, but {subject} can name programs that run as root: {flaw.remedy}"
    # The service runs as root without CAP_DAC_OVERRIDE. Unlike root in a shell, it needs permission to read.
    status = os.stat(path)
    needed = stat.S_IRUSR | stat.S_IXUSR if is_folder else stat.S_IRUSR
    if files.read_by_service and status.st_mode & needed != needed:
        command = shlex.join(["chmod", "u+rx" if is_folder else "u+r", path])
        state = owner_and_mode(status)
        return path, f"is not readable by its owner ({state}); the service cannot read it either: {command}"
    return None


def _list_masking(folder: str, earlier: Mapping[str, str], files: Files) -> dict[str, str]:
    """As _list_folder(); also adds to files.masking. earlier: name -> path of the files in earlier folders. A file of
    the same name in this folder replaces such a file."""
    paths = _list_folder(folder, files)
    files.masking |= {path: earlier[name] for name, path in paths.items() if name in earlier}
    return paths


def _list_folder(folder: str, files: Files) -> dict[str, str]:
    """Name -> path of a folder's .toml files, without hidden ones (editors' locks and swap files).

    Adds the folder to the failures if it is unusable, and its other files to the ignored ones and the leftovers.
    """
    files.folders[folder] = None
    try:
        names = os.listdir(folder)
        # The service must also be able to enter the folder above. A user can, if listdir() succeeded.
        checked = (os.path.dirname(folder), folder) if files.read_by_service else (folder,)
        problems = [_permission_problem(path, files) for path in checked]
        unusable = dict(problem for problem in problems if problem is not None)
    except OSError as e:
        # A missing folder is empty. A folder behind a dangling link is unknown: nothing on the Node may be removed.
        if e.errno != errno.ENOENT or any(map(_is_dangling, (folder, os.path.dirname(folder)))):
            files.failures[folder] = _reason(e)
        return {}
    files.failures |= unusable
    if unusable:
        return {}
    paths = {name: os.path.join(folder, name) for name in names if name.endswith(".toml") and not name.startswith(".")}
    files.folders[folder] = tuple(sorted(paths))
    for name in sorted(set(names) - paths.keys()):
        other = os.path.join(folder, name)
        if not _LEFTOVER.fullmatch(name):
            files.ignored[other] = _WRONG_NAME
        elif _HIDDEN.fullmatch(name):
            files.leftovers[other] = "is not read, because its name begins with a dot"
        elif _RENAMED.fullmatch(name):
            files.leftovers[other] = _WRONG_NAME
    return paths


def _reason(error: OSError) -> str:
    if error.errno == errno.ENOENT:
        return "is a dangling symbolic link; fix or remove it"
    if error.errno == errno.EACCES:
        return "is not readable by this user; run as root, or grant read permission"
    return f"cannot be read: {error.strerror}"


def _is_dangling(path: str) -> bool:
    return os.path.islink(path) and not os.path.exists(path)
