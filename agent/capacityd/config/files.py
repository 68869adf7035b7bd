"""Finds the files of the configuration, in the order of merging, and reads them.

The order of the files follows the UAPI configuration files specification, with one exception: the main file comes
between the vendors' files and the administrator's files. Masking also follows the specification: an administrator's
file replaces a vendor's file of the same name. Only root may be able to change the files (linux/trust.py), because the
files can name programs that the service runs as root.
"""

from __future__ import annotations

import codecs
import errno
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field

from capacityd.config.places import LOCAL_FOLDER, MAIN_FILE, VENDOR_FOLDERS, problems_of_misplaced_files
from capacityd.linux.path_walk import open_regular
from capacityd.linux.permissions import why_unreadable_to_root
from capacityd.linux.trust import NotTrusted, Trust, find_trusted, trust_in, trust_of_current_user, trusted_names
from capacityd.model.errors import ConfigError

MAX_FILE_BYTES = 2**20

_SKIPPED_NAME = re.compile(
    r"""
    \..*                                          # hidden
    | README.*
    | lost\+found
    | .*~ | \#.*\# | .*\.swp                      # left by an editor
    | .*\.(bak|old|new|orig|disabled)             # a copy
    | .*\.toml.+                                  # a copy, such as x.toml.1
    | .*\.((dpkg|ucf)-[a-z]+|rpm(new|save|orig))  # left by a package manager
    """,
    re.VERBOSE,
)
"""The name of a file that is skipped."""

_WRONG_NAME = 'is not read, because its name does not end with ".toml"; rename or remove it'
_DEV_NULL = os.makedev(1, 3)
"""The device number of /dev/null (null(4))."""


@dataclass(slots=True)
class Files:
    """The files to read, and the errors of their folders."""

    need_permissions: bool
    """Whether the files' modes must allow root to read the files. The service runs as root without the capability to
    ignore modes."""
    trust: Trust
    """The users and groups that may change the files. If a user names a path in a command, the path's owner and the
    groups that may write to the path are included."""
    masking_paths: set[str] = field(default_factory=set)
    """Paths of files that replace a vendor's file of the same name. Only a file that replaces another may be empty."""
    folders: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    """Path of a folder -> the names of its files that are read; None if there is no such folder."""
    paths: list[str] = field(default_factory=list)
    """The files, in the order of merging. Later files override earlier ones."""
    skipped: list[str] = field(default_factory=list)
    """Paths of files that are left unread on purpose: hidden files, copies, and files of other programs."""
    failures: dict[str, str] = field(default_factory=dict)
    """Path -> the error, for unusable folders, and for unread files that are probably meant as configuration."""


def files_of_service(root: str) -> Files:
    """The files that the service reads. root: the folder used as /."""
    files = Files(need_permissions=os.geteuid() == 0, trust=trust_of_current_user())
    vendor_files: dict[str, str] = {}  # name -> path
    for folder in VENDOR_FOLDERS:
        files_in_folder = _list_folder(os.path.join(root, folder), files)
        files.masking_paths |= _masking_paths(files_in_folder, vendor_files)
        vendor_files |= files_in_folder
    main_file = os.path.join(root, MAIN_FILE)
    main_files: list[str] = []
    if os.path.lexists(main_file):
        main_files.append(main_file)
        files.folders[os.path.dirname(main_file)] = (os.path.basename(main_file),)
    local_files = _list_folder(os.path.join(root, LOCAL_FOLDER), files)
    files.masking_paths |= _masking_paths(local_files, vendor_files)
    files.failures |= problems_of_misplaced_files(root)
    unmasked_names = vendor_files.keys() - local_files.keys()
    files.paths += [vendor_files[name] for name in sorted(unmasked_names)]
    files.paths += main_files
    files.paths += local_files.values()
    return files


def _masking_paths(later_files: Mapping[str, str], earlier_files: Mapping[str, str]) -> set[str]:
    """The paths of later files that replace an earlier file of the same name.

    later_files, earlier_files: name -> path.
    """
    return {path for name, path in later_files.items() if name in earlier_files}


def files_at(path: str) -> Files:
    """The file at this path or, for a folder, the files in it."""
    files = Files(need_permissions=False, trust=trust_in(path))
    if not os.path.lexists(path):
        files.failures[path] = "no such file or folder"
    elif not os.path.isdir(path):
        files.paths.append(path)
    else:
        files_in_folder = _list_folder(path, files, may_have_other_files=True)
        files.paths += files_in_folder.values()
        if not files.paths and not files.failures:
            files.failures[path] = "contains no file whose name ends with .toml"
    return files


def read(path: str, files: Files) -> str:
    """The text of one of the files. A link to /dev/null counts as an empty file, which masks a vendor's file.

    Raises ConfigError, with a line if the content is wrong.
    """
    try:
        target = find_trusted(path, files.trust)
        why_unreadable = _why_unreadable(path, files)
        if why_unreadable:
            raise ConfigError(why_unreadable)
        is_dev_null = stat.S_ISCHR(target.status.st_mode) and target.status.st_rdev == _DEV_NULL
        if is_dev_null:
            return ""
        if not stat.S_ISREG(target.status.st_mode):
            raise ConfigError("is not a regular file")
        descriptor = open_regular(target)
        with open(descriptor, "rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except NotTrusted as e:
        raise ConfigError(_not_trusted_message(e, path)) from e
    except OSError as e:
        raise ConfigError(_os_error_message(e)) from e
    if len(raw) > MAX_FILE_BYTES:
        raise ConfigError("is larger than 1 MiB; is it the right file?")
    return _decoded(raw, masks_another=path in files.masking_paths)


def _decoded(raw: bytes, *, masks_another: bool) -> str:
    """Decodes the text of a file. Raises ConfigError.

    Only a file that masks another file may be empty. Any other empty file has probably lost its content in a power
    failure.
    """
    content = raw.removeprefix(codecs.BOM_UTF8).strip()
    if content == b"" and masks_another:
        return ""
    if content == b"":
        advice = "write it again or remove it; if it is meant to be empty, write a comment into it"
        raise ConfigError(f"is empty, as after a power failure: {advice}", line=1)
    if content.strip(b"\0") == b"":
        raise ConfigError("contains only zero bytes, as after a power failure: write it again or remove it", line=1)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        wrong_byte = e.object[e.start]
        line = e.object.count(b"\n", 0, e.start) + 1
        raise ConfigError(f"is not UTF-8: it has the byte 0x{wrong_byte:02x}; save it as UTF-8", line=line) from e


def _not_trusted_message(error: NotTrusted, path: str) -> str:
    """The message about a configuration file or folder at this path that somebody else could change.

    If the flaw is in a folder above the path, the message names that folder.
    """
    flaw = error.flaw
    folder = "" if flaw.path == path else f"{flaw.path} "
    return f"{folder}{flaw.problem}, but the configuration names programs that run as root: {flaw.remedy}"


def _list_folder(folder: str, files: Files, *, may_have_other_files: bool = False) -> dict[str, str]:
    """Returns the .toml files of a folder, sorted: name -> path. Notes the folder, skipped files and errors in files.

    The caller adds the returned paths to files, in the order of merging. Hidden files are skipped, because editors
    create hidden lock files and swap files.
    may_have_other_files: whether the folder may contain files without the ending .toml.
    """
    files.folders[folder] = None
    try:
        os.stat(folder)  # for a missing folder, trusted_names() would report who could create the folder
        names = trusted_names(folder, files.trust)
    except NotTrusted as e:
        files.failures[folder] = _not_trusted_message(e, folder)
        return {}
    except OSError as e:
        # A missing folder configures nothing, so it is no failure. A dangling link is a failure, because its target may
        # configure resources, and after a failure nothing is removed from the Node.
        has_dangling_link = _is_dangling(folder) or _is_dangling(os.path.dirname(folder))
        is_missing = e.errno == errno.ENOENT and not has_dangling_link
        if not is_missing:
            files.failures[folder] = _os_error_message(e)
        return {}
    why_unreadable = _why_unreadable(folder, files)
    if why_unreadable:
        files.failures[folder] = why_unreadable
        return {}
    paths: dict[str, str] = {}
    for name in sorted(names):
        path = os.path.join(folder, name)
        if name.endswith(".toml") and not name.startswith("."):
            paths[name] = path
        elif may_have_other_files or _SKIPPED_NAME.fullmatch(name):
            files.skipped.append(path)
        else:
            files.failures[path] = _WRONG_NAME
    files.folders[folder] = tuple(paths)
    return paths


def _why_unreadable(path: str, files: Files) -> str:
    """Why root needs more permissions to read a file or folder; "" if root can read it, or may ignore its mode."""
    return why_unreadable_to_root(path) if files.need_permissions else ""


def _os_error_message(error: OSError) -> str:
    """Why a file or folder that was found can't be read."""
    if error.errno == errno.ENOENT:  # a link whose target is missing, because the link itself was found
        return "is a dangling symbolic link; fix or remove it"
    if error.errno == errno.EACCES:
        return "is not readable by this user; run as root, or grant read permission"
    return f"cannot be read: {error.strerror}"


def _is_dangling(path: str) -> bool:
    """Whether a path is a symbolic link without a target."""
    return os.path.islink(path) and not os.path.exists(path)
