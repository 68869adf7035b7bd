"""Finds the kubeconfig of the operator who runs a command, as kubectl does."""

from __future__ import annotations

import os
from collections.abc import Sequence

from capacityd.model.cluster_access import ClusterAccess
from capacityd.model.errors import CredentialsMissing, UsageError
from capacityd.model.text import printable
from capacityd.node.credential_files import CredentialFiles
from capacityd.node.kubeconfig import Kubeconfig
from kubectl_capacityd.cluster.environment_proxy import proxy_from_environment

_PLUGIN_TIMEOUT = 120.0
"""Seconds for an exec plugin, which may wait until the operator has logged in with a browser."""


def load_operators(kubeconfig: str | None, context: str | None = None) -> ClusterAccess:
    """Reads an operator's kubeconfig. Raises NodeError, and UsageError if no file contains the context.

    kubeconfig: a path. None: the files in $KUBECONFIG or, by default, ~/.kube/config. context: the context to use; None
    or "" for the current context.

    Without a proxy-url, uses the proxy of the environment (HTTPS_PROXY), as kubectl does.
    Unlike kubectl, does not merge the files of $KUBECONFIG. The first file with a current context names the context
    to use. The first file that contains the context must also contain the context's cluster and user.
    """
    files = _read_files(kubeconfig)
    if context:
        _require_context(context, files)
    else:
        current_contexts = [file.current_context for file in files.values() if file.current_context]
        context = current_contexts[0] if current_contexts else None
    with_context = [file for file in files.values() if context in file.contexts]
    # If no file has a current context, or no file contains the context, the first file raises the error.
    file = next(iter(with_context or files.values()))
    access = file.cluster_access(_PLUGIN_TIMEOUT, context)
    if not access.proxy:
        access.proxy = proxy_from_environment(access.server)
    return access


def _require_context(context: str, files: dict[str, Kubeconfig]) -> None:
    """Raises UsageError if no file contains the context."""
    known = _names_in(files)
    if context not in known:
        choices = f"must be one of {', '.join(known)}" if known else "there is none"
        paths = " and ".join(files)
        raise UsageError(printable(f'no context "{context}" (--context) in {paths}; {choices}'))


def context_names(kubeconfig: str | None) -> list[str]:
    """Returns the contexts of the files that load_operators() reads. Raises NodeError."""
    return _names_in(_read_files(kubeconfig))


def _names_in(files: dict[str, Kubeconfig]) -> list[str]:
    """The names of all contexts in the files, sorted."""
    names: set[str] = set()
    for file in files.values():
        names.update(file.contexts)
    return sorted(names)


def _read_files(kubeconfig: str | None) -> dict[str, Kubeconfig]:
    """The operator's kubeconfigs: path -> content. The files may have any owner and mode, because kubectl allows it."""
    return {path: Kubeconfig(CredentialFiles(path, trust=None)) for path in _paths(kubeconfig)}


def _paths(kubeconfig: str | None) -> Sequence[str]:
    """The files to read, without missing files in $KUBECONFIG. Raises CredentialsMissing if there are none."""
    if kubeconfig is not None:
        return [kubeconfig]
    in_variable = [path for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    listed = in_variable or [os.path.expanduser("~/.kube/config")]
    existing = [path for path in listed if not _is_missing(path)]
    if existing:
        return existing
    if in_variable:
        places = f"{' and '.join(in_variable)} (KUBECONFIG)"
    else:
        places = f"{listed[0]}, and KUBECONFIG names no file"
    raise CredentialsMissing(f"no kubeconfig found in {places}. Give its path with --kubeconfig")


def _is_missing(path: str) -> bool:
    """Whether a file does not exist. A file in a folder that the user may not enter counts as existing."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False
