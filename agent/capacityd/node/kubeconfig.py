"""Reads the API server's address and the credentials from a kubeconfig.

The kubernetes library's loader is not suitable. It continues without credentials if the user is missing, an exec plugin
fails, or a tokenFile is empty. It ignores `as`, and treats the text "false" in insecure-skip-tls-verify as true. Up to
version 22, it also ignores tls-server-name. See tests/cluster/test_library.py.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager

from capacityd.linux.trust import Trust, own_trust
from capacityd.model.errors import NodeUnauthorized
from capacityd.model.text import printable
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.credential_files import CredentialFiles
from capacityd.node.documents.exec_credential import Credential
from capacityd.node.errors import no_library_error
from capacityd.node.identity import token_user
from capacityd.node.kubeconfig_document import Entry, KubeconfigDocument
from capacityd.node.kubelet_kubeconfig import find_kubelet_kubeconfig
from capacityd.node.proxy import has_bare_ipv6_address, is_http_url, proxy_problem
from capacityd.node.user_entry import user_plugin, user_problem, user_token

_PLUGIN_TIMEOUT = 30.0
"""Seconds for an exec plugin in a kubelet's kubeconfig."""


def load(
    kubeconfig: str | None, plugin_timeout: float | None = _PLUGIN_TIMEOUT, *, trust: Trust | None = None
) -> ClusterAccess:
    """Reads a kubelet's kubeconfig and all files that it names. Nothing is cached: the kubelet renews its certificate.

    kubeconfig: None for the first existing one of the kubelet's usual paths. plugin_timeout: seconds for which an exec
    plugin may run; None: the plugin is checked but not run, so its credentials are missing. trust: who may be able to
    change the files; None: root and the user of this process.

    Raises CredentialsMissing if a file does not exist, NodeUnauthorized if a file cannot be read or used, and
    NodeUnreachable if the plugin does not end in time.
    """
    path = kubeconfig or find_kubelet_kubeconfig()
    files = CredentialFiles(path, trust=trust or own_trust())
    return load_context(path, files, plugin_timeout=plugin_timeout)


def explaining(path: str) -> AbstractContextManager[None]:
    """Raises NodeUnauthorized for an exception of a library that reads this kubeconfig."""
    # The message of a library's exception may quote a secret.
    return no_library_error(
        lambda e: NodeUnauthorized(f"the kubeconfig {printable(path)} cannot be used: {type(e).__name__}")
    )


def load_context(
    path: str, files: CredentialFiles, plugin_timeout: float | None, context_name: str | None = None
) -> ClusterAccess:
    """Reads a context of a kubeconfig. Raises the errors of load(). NodeUnauthorized has the paths of all files that
    were read, or could not be.

    files: reads the kubeconfig and the files that it names. plugin_timeout: as in load(). context_name: None for the
    current context.
    """
    with explaining(path):
        try:
            return _access(KubeconfigDocument(path, files), plugin_timeout=plugin_timeout, context_name=context_name)
        except NodeUnauthorized as e:
            e.files = e.files or files.paths()  # CredentialsMissing already names the missing files
            raise


def _access(document: KubeconfigDocument, plugin_timeout: float | None, context_name: str | None) -> ClusterAccess:
    """Returns how to reach the cluster of a context. context_name: None for the current context."""
    if document.is_empty:
        raise document.error("is empty: create it anew, as the cluster's installer does")
    name = context_name or document.current_context
    if not name:
        raise document.error("contains no current-context")
    context = document.entry("context", name=name)
    cluster = document.entry("cluster", name=document.text(context, "cluster") or "")
    user_name = document.text(context, "user")
    user = document.entry("user", name=user_name) if user_name else {}
    if problem := user_problem(user):
        raise document.error(problem)
    credential = _stored_credential(document, user)
    # For user_key. Changes if a file gets another user's token or certificate, not if a token is renewed.
    user_of_files = (token_user(credential.token or ""), credential.certificate)
    # As in client-go, a token or certificate in the kubeconfig takes precedence over that of an exec plugin.
    if "exec" in user and not credential.token and not credential.certificate:
        on_terminal = not document.files.of_kubelet and sys.stdin.isatty() and sys.stderr.isatty()
        plugin = user_plugin(document, user, cluster, on_terminal=on_terminal)
        program = plugin.find()
        document.files.require_trusted_plugin(plugin, program)
        if plugin_timeout is not None:
            credential = plugin.run(program, plugin_timeout)
    if bool(credential.certificate) != bool(credential.key):
        raise document.error("has a client certificate without its key, or a key without its certificate")
    if credential.token and not (credential.token.isascii() and credential.token.isprintable()):
        raise document.error("refers to a token with invalid characters. Is it the right file?")
    return ClusterAccess(
        kubeconfig=document.path,
        server=_server(document, cluster),
        authority=document.pem(cluster, "certificate-authority"),
        verify=not document.flag(cluster, "insecure-skip-tls-verify"),
        server_name=document.text(cluster, "tls-server-name"),
        proxy=_proxy(document, cluster),
        token=credential.token,
        certificate=credential.certificate,
        key=credential.key,
        impersonated=document.text(user, "as") or "",
        user_key=repr((user_name, sorted(map(repr, user.items())), user_of_files)),
        files=document.files.paths(),
    )


def _stored_credential(document: KubeconfigDocument, user: Entry) -> Credential:
    """Returns the credential that the kubeconfig, or a file that it names, contains. A missing part is None."""
    return Credential(
        token=user_token(document, user),
        certificate=document.pem(user, "client-certificate"),
        key=document.pem(user, "client-key"),
    )


def _server(document: KubeconfigDocument, cluster: Entry) -> str:
    server = (document.text(cluster, "server") or "").rstrip("/")
    if has_bare_ipv6_address(server):
        raise document.error("has a server whose IPv6 address is not in brackets, as in https://[2001:db8::1]:6443")
    # A message quotes the server, so the server must not contain a password or parameters.
    if not is_http_url(server) or any(character in server for character in "@?#"):
        raise document.error("has no server such as https://192.0.2.1:6443")
    return server


def _proxy(document: KubeconfigDocument, cluster: Entry) -> str | None:
    proxy = document.text(cluster, "proxy-url")
    if proxy and (problem := proxy_problem(proxy)):
        raise document.error(f"has an invalid proxy-url; {problem}")
    return proxy or None
