"""Finds the kubeconfig of the user who runs a command, as kubectl does."""

from __future__ import annotations

import os

from capacityd.model.errors import CredentialsMissing
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.kubeconfig import contexts, load

_PLUGIN_TIMEOUT = 120.0
"""Seconds for an exec plugin, which may wait until the user has logged in with a browser."""


def load_operators(kubeconfig: str | None) -> ClusterAccess:
    """Reads this kubeconfig, or those in $KUBECONFIG, or ~/.kube/config. Raises NodeError.

    Unlike kubectl, does not merge the files of $KUBECONFIG: the current context is the first one in any of the files,
    and the first file that contains this context must also contain its cluster and user.
    """
    if kubeconfig is not None:
        return load(kubeconfig, _PLUGIN_TIMEOUT, of_kubelet=False)
    paths = _paths()
    if len(paths) == 1:
        return load(paths[0], _PLUGIN_TIMEOUT, of_kubelet=False)
    contexts_of = {path: contexts(path) for path in paths}
    current = next((current for current, _ in contexts_of.values() if current), None)
    path = next((path for path, (_, names) in contexts_of.items() if current in names), paths[0])
    return load(path, _PLUGIN_TIMEOUT, of_kubelet=False, context=current)


def _paths() -> list[str]:
    """The existing files. A file of $KUBECONFIG need not exist, but one of them must."""
    variable = os.environ.get("KUBECONFIG") or ""
    listed = [path for path in variable.split(os.pathsep) if path] or [os.path.expanduser("~/.kube/config")]
    if existing := [path for path in listed if os.path.exists(path)]:
        return existing
    places = f"{' and '.join(listed)} (KUBECONFIG)" if variable else f"{listed[0]}, and KUBECONFIG is not set"
    raise CredentialsMissing(f"no kubeconfig found in {places}. Give its path with --kubeconfig", listed)
