"""The user in a kubeconfig: the token, the exec plugin, and what is not supported."""

from __future__ import annotations

import base64
import os

from capacityd.model.errors import CredentialsMissing
from capacityd.node.exec_plugin import ExecPlugin
from capacityd.node.kubeconfig_document import Entry, KubeconfigDocument

_UNSUPPORTED = {
    "auth-provider": "Kubernetes 1.26 removed it; use an exec plugin",
    "username": "Kubernetes 1.19 removed passwords",
    # With a group, the API server denies the impersonation of a token's own Node (KEP-5284).
    **dict.fromkeys(("as-groups", "as-uid", "as-user-extra"), "only the user can be impersonated (as)"),
}


def user_problem(user: Entry) -> str:
    """Why this user is not supported, as the end of a sentence about the kubeconfig; "" if it is supported."""
    for key, advice in _UNSUPPORTED.items():
        if user.get(key):
            return f"uses {key}: {advice}"
    impersonated = user.get("as")  # sent in the header Impersonate-User
    if isinstance(impersonated, str) and not (impersonated.isascii() and impersonated.isprintable()):
        return "names a user with invalid characters (as)"
    return ""


def user_token(document: KubeconfigDocument, user: Entry) -> str | None:
    """Returns the token in the file that tokenFile names, else that in the kubeconfig; None if there is neither."""
    file = document.text(user, "tokenFile")
    if not file:
        return (document.text(user, "token") or "").strip() or None
    files = document.files
    path = files.resolve(file)
    token = files.read(path, "the token file").strip()
    if not token:
        raise CredentialsMissing(f"{files.shown(path, 'the token file')} is empty", files=[os.path.abspath(path)])
    return token


def user_plugin(document: KubeconfigDocument, user: Entry, cluster: Entry, *, on_terminal: bool) -> ExecPlugin:
    """Returns the exec plugin of a user who has one. cluster: the plugin may ask for the content of this entry.

    on_terminal: whether there is a terminal, on which the plugin may talk to the user.
    """
    entry = document.mapping(user["exec"], "exec")
    command = document.text(entry, "command") or ""
    if not command:
        raise document.error("has an exec plugin without a command")
    mode = entry.get("interactiveMode")
    is_interactive = on_terminal and mode != "Never"
    if mode == "Always" and not is_interactive:
        why = "has an exec plugin that needs a terminal (interactiveMode: Always)"
        raise document.error(why)
    arguments = entry.get("args") or []
    variables = entry.get("env") or []
    if not isinstance(arguments, list) or not isinstance(variables, list):
        raise document.error("is invalid: args or env of exec is not a list")
    environment = {}
    for item in variables:
        variable = document.mapping(item, "exec.env")
        name = document.text(variable, "name")
        value = document.text(variable, "value") or ""
        if name:
            environment[name] = value
    return ExecPlugin(
        kubeconfig=document.path,
        version=document.text(entry, "apiVersion") or "",
        # As in client-go: a path with a slash is relative to the kubeconfig; other names are looked up in PATH.
        command=document.files.resolve(command) if "/" in command else command,
        arguments=tuple(map(str, arguments)),
        environment=environment,
        cluster=_cluster_info(document, cluster) if document.flag(entry, "provideClusterInfo") else None,
        install_hint=document.text(entry, "installHint") or "",
        on_terminal=is_interactive,
    )


def _cluster_info(document: KubeconfigDocument, cluster: Entry) -> Entry:
    """Returns the cluster in the form that an exec plugin expects (client.authentication.k8s.io)."""
    info = {}
    for key in ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url"):
        if key in cluster:
            info[key] = cluster[key]
    authority = document.pem(cluster, "certificate-authority")
    if authority:
        info["certificate-authority-data"] = base64.b64encode(authority.encode("latin-1")).decode("ascii")
    extensions = cluster.get("extensions")
    if not isinstance(extensions, list):
        return info
    for extension in extensions:
        if isinstance(extension, dict) and extension.get("name") == "client.authentication.k8s.io/exec":
            info["config"] = extension.get("extension")
    return info
