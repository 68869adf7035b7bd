"""Reads a kubeconfig and the files that it names. A kubelet's files must not be writable by untrusted users."""

from __future__ import annotations

import os
from dataclasses import replace

from capacityd.linux.path_walk import open_file
from capacityd.linux.permissions import why_unreadable_to_root
from capacityd.linux.sandbox import sandbox_advice
from capacityd.linux.trust import Flaw, NotTrusted, Trust, open_trusted
from capacityd.model.errors import CredentialsMissing, CredentialsNotTrusted, NodeUnauthorized
from capacityd.model.text import printable

_MAX_FILE_BYTES = 1024 * 1024
_MICROK8S = "/var/snap/microk8s/"
"""MicroK8s lets its group microk8s write its kubeconfigs and certificates (snap/hooks/configure in canonical/microk8s).
The group's members may start privileged pods, so they have root's rights anyway."""
_KUBERNETES = "/etc/kubernetes"
"""Kubespray gives this folder to the user kube (roles/kubernetes/preinstall in kubernetes-sigs/kubespray). The owner
may add static pods, so this user has root's rights anyway."""


def permission_advice(path: str) -> str:
    """How to get the permission to read one of the kubelet's files, for a message.

    The service is root without capabilities, so modes, ACLs and security modules apply to it.
    """
    if os.geteuid() != 0:
        return "Run this command as root"
    return why_unreadable_to_root(path) or "Is there an ACL, or a security module such as AppArmor or SELinux?"


def not_trusted_error(subject: str, flaw: Flaw) -> CredentialsNotTrusted:
    """The error for a file or program that an untrusted user can change. subject: the file's name in the message."""
    return CredentialsNotTrusted(f"{subject} is not used, because {printable(str(flaw))}")


class CredentialFiles:
    """A kubeconfig and its files. Each file is read once, so that a certificate and its key match."""

    def __init__(self, kubeconfig: str, trust: Trust | None) -> None:
        """trust: who may be able to change a kubelet's files; None for an operator's kubeconfig.

        Like kubectl, capacityd does not check who can change an operator's files.
        """
        self.kubeconfig = kubeconfig
        self.trust = None if trust is None else _with_distribution_accounts(trust, kubeconfig)
        self._contents: dict[str, bytes | None] = {}  # path -> content; None if the file could not be read

    def paths(self) -> tuple[str, ...]:
        """Returns the absolute paths of all requested files, including those that could not be read."""
        return tuple(os.path.abspath(path) for path in self._contents)

    def resolve(self, path: str) -> str:
        """Returns a path in the kubeconfig as an absolute path. Relative paths begin in the kubeconfig's folder."""
        folder = os.path.dirname(os.path.abspath(self.kubeconfig))
        return os.path.join(folder, path)

    def read(self, path: str, subject: str) -> bytes:
        """Returns the content of a file. subject: the file in messages, such as "the token file named in KUBECONFIG".

        Messages omit the path, because a user may have entered a secret in its place. Raises CredentialsMissing if the
        file does not exist, NodeUnauthorized if the file cannot be read.
        """
        content = self._contents.get(path)
        if content is None:
            self._contents[path] = None  # paths() also returns a file that cannot be read
            content = self._read(path, subject)
            self._contents[path] = content
        return content

    def _read(self, path: str, subject: str) -> bytes:
        try:
            os.stat(path)  # raises FileNotFoundError for a missing file, even in an untrusted folder
            fd = open_file(path) if self.trust is None else open_trusted(path, self.trust)
            with open(fd, "rb") as f:
                content = f.read(_MAX_FILE_BYTES + 1)
        except NotTrusted as e:
            raise not_trusted_error(subject, e.flaw) from e
        except FileNotFoundError as e:
            question = "" if self.trust is None else ". Has the kubelet joined the cluster?"
            raise CredentialsMissing(f"{subject} does not exist{question}{sandbox_advice([path])}") from e
        except (OSError, ValueError) as e:  # ValueError: the path contains a null character
            reason = e.strerror if isinstance(e, OSError) else "it is not a path"
            advice = ""
            if isinstance(e, PermissionError) and self.trust is not None:
                advice = f". {permission_advice(path)}"
            raise NodeUnauthorized(f"{subject} cannot be read: {reason}{advice}") from e
        if len(content) > _MAX_FILE_BYTES:
            raise NodeUnauthorized(f"{subject} is larger than {_MAX_FILE_BYTES} bytes")
        return content


def _with_distribution_accounts(trust: Trust, kubeconfig: str) -> Trust:
    """Also trusts the group of MicroK8s or the user of Kubespray that may change the kubelet's files."""
    if kubeconfig.startswith(_MICROK8S):
        return replace(trust, group_may_write=True)
    if kubeconfig.startswith(f"{_KUBERNETES}/"):
        return trust.with_owner_of(_KUBERNETES)
    return trust
