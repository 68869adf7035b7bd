"""Finds the kubeconfig of the user who runs a command, as kubectl does."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from capacityd.model.errors import CredentialsMissing, UsageError
from capacityd.model.text import printable
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.environment_proxy import proxy_from_environment
from capacityd.node.kubeconfig import contexts, load

_PLUGIN_TIMEOUT = 120.0
"""Seconds for an exec plugin, which may wait until the user has logged in with a browser."""


def load_operators(kubeconfig: str | None, context: str | None = None) -> ClusterAccess:
    """Reads this kubeconfig, or those in $KUBECONFIG, or ~/.kube/config.

    context: replaces the current context, unless it is empty. Raises UsageError if no file contains it, and NodeError.

    Without a proxy-url, uses the proxy of the environment (HTTPS_PROXY), as kubectl does.
    Unlike kubectl, does not merge the files of $KUBECONFIG: the current context is the first one in any of the files,
    and the first file that contains this context must also contain its cluster and user.
    """
    access = _load(_paths(kubeconfig), context)
    return replace(access, proxy=access.proxy or proxy_from_environment(access.server))


def _load(paths: Sequence[str], context: str | None) -> ClusterAccess:
    if len(paths) == 1 and not context:
        return load(paths[0], plugin_timeout=_PLUGIN_TIMEOUT, of_kubelet=False)
    contexts_of = {path: contexts(path) for path in paths}  # path -> its current context, and all of its contexts
    if context:
        _require(context, contexts_of)
        selected: str | None = context
    else:
        selected = next((current for current, _ in contexts_of.values() if current), None)
    # If no file contains the context, load() says so about the first file.
    path = next((path for path, (_, names) in contexts_of.items() if selected in names), paths[0])
    return load(path, plugin_timeout=_PLUGIN_TIMEOUT, of_kubelet=False, context=selected)


def context_names(kubeconfig: str | None) -> list[str]:
    """Returns the contexts of the files that load_operators() reads. Raises NodeError."""
    found: set[str] = set()
    for path in _paths(kubeconfig):
        _, names = contexts(path)
        found |= names
    return sorted(found)


def _require(context: str, contexts_of: Mapping[str, tuple[str | None, frozenset[str]]]) -> None:
    """Raises UsageError if none of these files contains the context."""
    known = sorted({name for _, names in contexts_of.values() for name in names})
    if context not in known:
        among = f"must be one of {', '.join(known)}" if known else "there is none"
        files = " and ".join(contexts_of)
        raise UsageError(printable(f'no context "{context}" (--context) in {files}; {among}'))


def _paths(kubeconfig: str | None) -> Sequence[str]:
    """The existing files. A file of $KUBECONFIG need not exist, but one of them must."""
    if kubeconfig is not None:
        return [kubeconfig]
    variable = os.environ.get("KUBECONFIG") or ""
    listed = [path for path in variable.split(os.pathsep) if path]
    if not listed:
        listed = [os.path.expanduser("~/.kube/config")]
    existing = [path for path in listed if os.path.exists(path)]
    if existing:
        return existing
    places = f"{' and '.join(listed)} (KUBECONFIG)" if variable else f"{listed[0]}, and KUBECONFIG is not set"
    raise CredentialsMissing(f"no kubeconfig found in {places}. Give its path with --kubeconfig", files=listed)
