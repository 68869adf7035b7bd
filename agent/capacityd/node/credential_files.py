"""Reads a kubeconfig and the files that it names; those of a kubelet only if nobody else could change them.

The kubernetes library waits forever for a pipe and reads files of any size, and its errors contain no advice.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from capacityd.linux.path_walk import open_file
from capacityd.linux.permissions import why_unreadable_to_root
from capacityd.linux.sandbox import sandbox_advice
from capacityd.linux.trust import Flaw, NotTrusted, Trust, flaw_of, open_trusted, trust_in
from capacityd.model.errors import CredentialsMissing, CredentialsNotTrusted, NodeUnauthorized
from capacityd.model.text import printable

if TYPE_CHECKING:
    from capacityd.node.exec_plugin import ExecPlugin

_MAX_FILE_BYTES = 1 << 20
_MAX_NAME = 255
"""Maximum length of a file's name (NAME_MAX)."""
_LOOKS_LIKE_CONTENT = re.compile(
    r"""
    -----BEGIN             # a certificate or key as PEM
    | /LS0tLS1CRUdJTi      # PEM in base64; resolve() has put a folder and a slash before the text
    | /eyJ[\w-]+\.         # a JSON Web Token, which starts with {" in base64
    | \n
    """,
    re.VERBOSE,
)
_MICROK8S = "/var/snap/microk8s/"
"""MicroK8s lets its group microk8s write its kubeconfigs and certificates (snap/hooks/configure in canonical/microk8s).
The group's members may start privileged pods, so this adds nothing to their rights."""
_KUBERNETES = "/etc/kubernetes"
"""Kubespray gives this folder to the user kube (roles/kubernetes/preinstall in kubernetes-sigs/kubespray). Its owner
may add static pods, which may do all that root does, so this adds nothing to the owner's rights."""


def permission_advice(path: str) -> str:
    """Advice if one of the kubelet's files can't be read.

    The service is root without capabilities, so modes, ACLs and security modules apply to the service as well.
    """
    if os.geteuid() != 0:
        return "Run this command as root"
    return why_unreadable_to_root(path) or "Is there an ACL, or a security module such as AppArmor or SELinux?"


def _with_distribution_accounts(trust: Trust, kubeconfig: str) -> Trust:
    """Adds the group or the user that may change the kubelet's files with MicroK8s or Kubespray."""
    if kubeconfig.startswith(_MICROK8S):
        return replace(trust, group_may_write=True)
    if kubeconfig.startswith(f"{_KUBERNETES}/"):
        return trust.with_owner_of(_KUBERNETES)
    return trust


def _not_trusted(subject: str, flaw: Flaw) -> CredentialsNotTrusted:
    """The error for a file or a program that somebody else could change. flaw: what is wrong, and the remedy."""
    return CredentialsNotTrusted(f"{subject} is not used, because {printable(str(flaw))}")


class CredentialFiles:
    """A kubeconfig and its files. Each file is read once, so that a certificate and its key match."""

    def __init__(self, kubeconfig: str, trust: Trust | None) -> None:
        """trust: who may be able to change the files of a kubelet; None for the kubeconfig of an operator.

        An operator's files are read whoever could change them, as kubectl does: only the operator depends on them.
        """
        self._kubeconfig = kubeconfig
        self._trust = None if trust is None else _with_distribution_accounts(trust, kubeconfig)
        self._folder = os.path.dirname(os.path.abspath(kubeconfig))
        self._contents: dict[str, str] = {}  # path -> content
        self._paths: dict[str, None] = {}  # a set in the order of the reads, also of those that failed

    @property
    def of_kubelet(self) -> bool:
        """Whether this is a kubelet's kubeconfig, not an operator's."""
        return self._trust is not None

    @property
    def merge_advice(self) -> str:
        """Advice if an entry is missing, which kubectl may find in another file of an operator's $KUBECONFIG."""
        return "" if self.of_kubelet else " (`kubectl config view --flatten` merges the files of KUBECONFIG into one)"

    def paths(self) -> tuple[str, ...]:
        """Returns the absolute paths of all files that were read or could not be read."""
        return tuple(map(os.path.abspath, self._paths))

    def resolve(self, path: str) -> str:
        """Returns the absolute form of a path in the kubeconfig. The path may be relative to its folder."""
        return os.path.join(self._folder, path)

    def read(self, path: str, purpose: str) -> str:
        """Returns the content of a file. purpose: what messages call the file, such as "the token file".

        Raises CredentialsMissing if the file does not exist, NodeUnauthorized if it cannot be read.
        """
        if _is_content(path):
            raise NodeUnauthorized(
                f"{purpose} named in {printable(self._kubeconfig)} is not a path. "
                "Is it the content of the file instead?"
            )
        self._paths[path] = None
        if path not in self._contents:
            content = self._content(path, shown=self.shown(path, purpose))
            # Comments in PEM files may have any encoding. The parts that we use are ASCII.
            encoding = "utf-8" if path == self._kubeconfig else "latin-1"
            self._contents[path] = content.decode(encoding, errors="replace")
        return self._contents[path]

    def shown(self, path: str, purpose: str) -> str:
        """The file as the subject of a message, such as "the token file named in KUBECONFIG, PATH,".

        Without the path if nothing exists there: a secret may stand in the path's place. purpose: as in read().
        """
        named = purpose if path == self._kubeconfig else f"{purpose} named in {printable(self._kubeconfig)}"
        is_shown = path == self._kubeconfig or os.path.lexists(path)
        return f"{named}, {printable(path)}," if is_shown else named

    def require_trusted_plugin(self, plugin: ExecPlugin, program: str | None) -> None:
        """Raises CredentialsNotTrusted if somebody else could change the exec plugin, or which program is run as it.

        An operator's plugin is only refused if somebody else could change the kubeconfig.
        """
        if self._trust is None:
            # The operator has chosen this kubeconfig, so its owner and group are trusted.
            flaw = flaw_of(self._kubeconfig, trust_in(self._kubeconfig))
        else:
            flaw = plugin.flaw(program, self._trust)
        if flaw:
            raise _not_trusted(f"the exec plugin named in {printable(self._kubeconfig)}", flaw)

    def _open(self, path: str) -> int:
        os.stat(path)  # a missing file is an error of its own, also in a folder of another user
        return open_file(path) if self._trust is None else open_trusted(path, self._trust)

    def _content(self, path: str, shown: str) -> bytes:
        """Reads the file. shown: the file for a message."""
        try:
            with open(self._open(path), "rb") as f:
                content = f.read(_MAX_FILE_BYTES + 1)
        except NotTrusted as e:
            raise _not_trusted(shown, e.flaw) from e
        except FileNotFoundError as e:
            question = ". Has the kubelet joined the cluster?" if self.of_kubelet else ""
            raise CredentialsMissing(
                f"{shown} does not exist{question}{sandbox_advice([path])}",
                files=[os.path.abspath(path)],
            ) from e
        except PermissionError as e:
            advice = f". {permission_advice(path)}" if self.of_kubelet else ""
            raise NodeUnauthorized(f"{shown} cannot be read: permission denied{advice}") from e
        except (OSError, ValueError) as e:  # ValueError: a null character
            reason = e.strerror if isinstance(e, OSError) else "it is not a path"
            raise NodeUnauthorized(f"{shown} cannot be read: {reason}") from e
        if len(content) > _MAX_FILE_BYTES:
            raise NodeUnauthorized(f"{shown} is larger than {_MAX_FILE_BYTES} bytes")
        return content


def _is_content(path: str) -> bool:
    """Whether the text is a file's content instead of its path. Messages quote paths, but must not quote secrets."""
    has_long_name = any(len(name) > _MAX_NAME for name in path.split("/"))
    return has_long_name or _LOOKS_LIKE_CONTENT.search(path) is not None
