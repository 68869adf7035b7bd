"""Reads a kubeconfig and the files that it names.

The kubernetes library waits forever for a pipe and reads files of any size, and its errors contain no advice.
"""

from __future__ import annotations

import os
import re
import stat

from capacityd.linux.permissions import why_unreadable_to_root
from capacityd.model.errors import CredentialsMissing, NodeDenied
from capacityd.model.text import printable

_MAX_FILE_BYTES = 1 << 20
_MAX_NAME = 255
"""Maximum length of a file's name in bytes (NAME_MAX)."""
_CONTENT = re.compile(r"-----BEGIN|/LS0tLS1CRUdJTi|/eyJ[\w-]+\.|\n")
"""The start of a certificate or key, as PEM or base64, or of a JSON Web Token."""


def permission_advice(path: str) -> str:
    """Advice if one of the kubelet's files can't be read."""
    if os.geteuid() != 0:
        return "Run this command as root"
    return why_unreadable_to_root(path) or "Is there an ACL, or a security module such as AppArmor or SELinux?"


class CredentialFiles:
    """A kubeconfig and its files. Each file is read once, so that a certificate and its key match."""

    def __init__(self, kubeconfig: str, *, of_kubelet: bool) -> None:
        """of_kubelet: whether it is the kubelet's kubeconfig, not a person's; messages depend on it."""
        self._kubeconfig = kubeconfig
        self._of_kubelet = of_kubelet
        self._folder = os.path.dirname(os.path.abspath(kubeconfig))
        self._contents: dict[str, str] = {}
        self._paths: dict[str, None] = {}

    def paths(self) -> tuple[str, ...]:
        """Returns the absolute paths of all files that were read or could not be read."""
        return tuple(map(os.path.abspath, self._paths))

    def resolve(self, path: str) -> str:
        """Returns the absolute form of a path in the kubeconfig; it may be relative to the kubeconfig's folder."""
        return os.path.join(self._folder, path)

    def read(self, path: str, purpose: str) -> str:
        """Returns the content of a file. purpose: for messages.

        Raises CredentialsMissing if it does not exist, NodeDenied if it cannot be read.
        """
        if _is_content(path):
            raise NodeDenied(
                f"{purpose} named in {printable(self._kubeconfig)} is not a path. "
                "Is it the content of the file instead?"
            )
        self._paths[path] = None
        if path not in self._contents:
            content = self._content(path, self.named(path, purpose))
            # Comments in PEM files may have any encoding. The parts that we use are ASCII.
            self._contents[path] = content.decode("utf-8" if path == self._kubeconfig else "latin-1", "replace")
        return self._contents[path]

    def named(self, path: str, purpose: str) -> str:
        """The file for a message, with its path only if the path exists: else it may be something else than a path.

        purpose: as in read().
        """
        named = purpose if path == self._kubeconfig else f"{purpose} named in {printable(self._kubeconfig)}"
        is_shown = path == self._kubeconfig or os.path.lexists(path)
        return f"{named}, {printable(path)}," if is_shown else named

    def _content(self, path: str, file: str) -> bytes:
        try:
            # O_NONBLOCK, because open() on a pipe waits for a writer.
            with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as f:
                if stat.S_ISFIFO(os.fstat(f.fileno()).st_mode):
                    raise NodeDenied(f"{file} is a pipe; it must be a file, because it is read again and again")
                content = f.read(_MAX_FILE_BYTES + 1)
        except FileNotFoundError as e:
            advice = ". Has the kubelet joined the cluster?" if self._of_kubelet else ""
            files, detail = [os.path.abspath(path)], f"the path is {printable(path)}"
            raise CredentialsMissing(f"{file} does not exist{advice}", files, detail=detail) from e
        except PermissionError as e:
            advice = f". {permission_advice(path)}" if self._of_kubelet else ""
            raise NodeDenied(f"{file} cannot be read: permission denied{advice}") from e
        except (OSError, ValueError) as e:
            reason = os.strerror(e.errno) if isinstance(e, OSError) and e.errno else "it is not a path"
            raise NodeDenied(f"{file} cannot be read: {reason}") from e
        if len(content) > _MAX_FILE_BYTES:
            raise NodeDenied(f"{file} is larger than {_MAX_FILE_BYTES} bytes")
        return content


def _is_content(path: str) -> bool:
    """Whether the text is a secret instead of its path. Messages quote paths, but must not quote secrets."""
    return _CONTENT.search(path) is not None or any(len(name) > _MAX_NAME for name in path.split("/"))
