"""Finds the kubeconfig of the operator who runs a command, as kubectl does."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from capacityd.model.errors import CredentialsMissing, UsageError
from capacityd.model.text import printable
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.credential_files import CredentialFiles
from capacityd.node.kubeconfig import Kubeconfig
from kubectl_capacityd.cluster.environment_proxy import proxy_from_environment

_PLUGIN_TIMEOUT = 120.0
"""Seconds for an exec plugin, which may wait until the operator has logged in with a browser."""


class _Contexts(NamedTuple):
    """The contexts in a kubeconfig."""

    current: str | None
    """The name of the current context; None or "" if there is none."""
    names: frozenset[str]
    """The names of all contexts."""


def load_operators(kubeconfig: str | None, context: str | None = None) -> ClusterAccess:
    """Reads this kubeconfig, or those in $KUBECONFIG, or ~/.kube/config.

    context: the one to use; None or "": the current context. Raises NodeError, and UsageError if no file contains the
    context.

    Without a proxy-url, uses the proxy of the environment (HTTPS_PROXY), as kubectl does.
    Unlike kubectl, does not merge the files of $KUBECONFIG: the current context is the first one in any of the files,
    and the first file that contains this context must also contain its cluster and user.
    """
    access = _load(_paths(kubeconfig), context)
    return replace(access, proxy=access.proxy or proxy_from_environment(access.server))


def _load(paths: Sequence[str], context: str | None) -> ClusterAccess:
    if len(paths) == 1 and not context:
        return _load_file(paths[0])
    contexts_by_path = {path: _contexts(path) for path in paths}
    if context:
        _require_known(context, contexts_by_path)
    else:
        context = next((found.current for found in contexts_by_path.values() if found.current), None)
    for path, found in contexts_by_path.items():
        if context in found.names:
            return _load_file(path, context)
    # Raises: no file names a current context, or no file contains the context that one of them names.
    return _load_file(paths[0], context)


def _load_file(kubeconfig: str, context: str | None = None) -> ClusterAccess:
    """Reads one kubeconfig and all files that it names. context: None for the current one."""
    return _read(kubeconfig).access(_PLUGIN_TIMEOUT, context)


def _contexts(kubeconfig: str) -> _Contexts:
    """The contexts of one kubeconfig. Raises NodeUnauthorized."""
    document = _read(kubeconfig)
    return _Contexts(document.current_context, document.context_names())


def _read(kubeconfig: str) -> Kubeconfig:
    """An operator's kubeconfig. As in kubectl, no owner or mode is refused."""
    return Kubeconfig(CredentialFiles(kubeconfig, trust=None))


def context_names(kubeconfig: str | None) -> list[str]:
    """Returns the contexts of the files that load_operators() reads. Raises NodeError."""
    names: set[str] = set()
    for path in _paths(kubeconfig):
        names |= _contexts(path).names
    return sorted(names)


def _require_known(context: str, contexts_by_path: Mapping[str, _Contexts]) -> None:
    """Raises UsageError if none of these files contains the context."""
    known = sorted({name for found in contexts_by_path.values() for name in found.names})
    if context not in known:
        among = f"must be one of {', '.join(known)}" if known else "there is none"
        files = " and ".join(contexts_by_path)
        raise UsageError(printable(f'no context "{context}" (--context) in {files}; {among}'))


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
