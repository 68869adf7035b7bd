"""Finds the kubeconfig of the operator who runs a command, as kubectl does."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from capacityd.model.errors import CredentialsMissing, UsageError
from capacityd.model.text import printable
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.credential_files import CredentialFiles
from capacityd.node.kubeconfig import Kubeconfig
from kubectl_capacityd.cluster.environment_proxy import proxy_from_environment

_PLUGIN_TIMEOUT = 120.0
"""Seconds for an exec plugin, which may wait until the operator has logged in with a browser."""


def load_operators(kubeconfig: str | None, context: str | None = None) -> ClusterAccess:
    """Reads this kubeconfig, or those in $KUBECONFIG, or ~/.kube/config.

    context: the one to use; None or "": the current context. Raises NodeError, and UsageError if no file contains the
    context.

    Without a proxy-url, uses the proxy of the environment (HTTPS_PROXY), as kubectl does.
    Unlike kubectl, does not merge the files of $KUBECONFIG: the current context is the first one in any of the files,
    and the first file that contains this context must also contain its cluster and user.
    """
    files = _read(kubeconfig)
    if context:
        known = _names_in(files)
        if context not in known:
            among = f"must be one of {', '.join(known)}" if known else "there is none"
            paths = " and ".join(files)
            raise UsageError(printable(f'no context "{context}" (--context) in {paths}; {among}'))
    else:
        context = next((file.current_context for file in files.values() if file.current_context), None)
    # If no file contains the context that one of them names, or none names one, the first file raises the error.
    first, *_ = files.values()
    chosen = next((file for file in files.values() if context in file.context_names()), first)
    access = chosen.access(_PLUGIN_TIMEOUT, context)
    return replace(access, proxy=access.proxy or proxy_from_environment(access.server))


def context_names(kubeconfig: str | None) -> list[str]:
    """Returns the contexts of the files that load_operators() reads. Raises NodeError."""
    return _names_in(_read(kubeconfig))


def _names_in(files: dict[str, Kubeconfig]) -> list[str]:
    return sorted({name for file in files.values() for name in file.context_names()})


def _read(kubeconfig: str | None) -> dict[str, Kubeconfig]:
    """Path -> content of each of an operator's kubeconfigs. As in kubectl, no owner or mode is refused."""
    return {path: Kubeconfig(CredentialFiles(path, trust=None)) for path in _paths(kubeconfig)}


def _paths(kubeconfig: str | None) -> Sequence[str]:
    """The files that are not missing. Not every file in $KUBECONFIG needs to exist. Raises CredentialsMissing if none
    does."""
    if kubeconfig is not None:
        return [kubeconfig]
    variable = os.environ.get("KUBECONFIG") or ""
    listed = [path for path in variable.split(os.pathsep) if path]
    if not listed:
        listed = [os.path.expanduser("~/.kube/config")]
    existing = [path for path in listed if not _is_missing(path)]
    if existing:
        return existing
    places = f"{' and '.join(listed)} (KUBECONFIG)" if variable else f"{listed[0]}, and KUBECONFIG is not set"
    raise CredentialsMissing(f"no kubeconfig found in {places}. Give its path with --kubeconfig", files=listed)


def _is_missing(path: str) -> bool:
    """Whether there is no such file. A file in a folder that the user may not enter is not missing, but unreadable."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        pass
    return False
