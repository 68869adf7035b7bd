"""Reads the API server's address and the credentials from a kubeconfig.

The kubernetes library's loader is not suitable. It continues without credentials if the user is missing, an exec plugin
fails, or a tokenFile is empty. It ignores `as`, and treats the text "false" in insecure-skip-tls-verify as true. Up to
version 22, it also ignores tls-server-name. tests/clientgo/shapes.py lists how this module differs from client-go.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

import yaml

from capacityd.linux.trust import Trust, trust_of_current_user
from capacityd.model.cluster_access import ClusterAccess
from capacityd.model.errors import CredentialsMissing, NodeUnauthorized
from capacityd.model.text import printable
from capacityd.node.credential_files import CredentialFiles
from capacityd.node.documents.fields import InvalidDocument, JsonObject, object_at, objects_at, text_at
from capacityd.node.exec_plugin import run_plugin
from capacityd.node.kubelet_kubeconfig import find_kubelet_kubeconfig

PLUGIN_TIMEOUT = 30.0
"""Seconds for an exec plugin in a kubelet's kubeconfig."""
# With groups, the API server does not let a token impersonate its own Node (KEP-5284).
_UNSUPPORTED = ("auth-provider", "username", "as-groups", "as-uid", "as-user-extra")
"""Keys of a user that capacityd does not support. If it ignored them, requests would have other rights, or none."""
_HOST = r"(\[[0-9A-Fa-f:.]+\]|[^][\s:/?#@]+)(:[0-9]{1,5})?"
"""A host and a port. An IPv6 address is in brackets."""
_SERVER_URL = re.compile(rf"https?://{_HOST}(/[^\s?#@]*)?", re.IGNORECASE)
"""A server without user, password and parameters, because a library's error may quote them."""
_PROXY_URL = re.compile(rf"http://([^\s/]*@)?{_HOST}/?", re.IGNORECASE)
_EXEC_EXTENSION = "client.authentication.k8s.io/exec"
"""The name of a cluster's extension that is sent to an exec plugin."""


def load(
    kubeconfig: str | None, plugin_timeout: float | None = PLUGIN_TIMEOUT, *, trust: Trust | None = None
) -> ClusterAccess:
    """Reads a kubelet's kubeconfig and all files that it names. Caches nothing, because the kubelet renews its files.

    kubeconfig: the path; None for the first of the kubelet's usual paths that exists. plugin_timeout: seconds for an
    exec plugin. None checks the plugin without running it, so its credentials are missing. trust: who may be able to
    change the files; None for root and the user of this process.

    Raises CredentialsMissing if a file does not exist, NodeUnauthorized if a file cannot be read or used, and
    NodeUnreachable if the plugin fails or takes too long.
    """
    files = CredentialFiles(kubeconfig or find_kubelet_kubeconfig(), trust=trust or trust_of_current_user())
    return Kubeconfig(files).cluster_access(plugin_timeout)


class Kubeconfig:
    """The content of a kubeconfig. Raises NodeUnauthorized if it is invalid."""

    current_context: str
    """The name of the current context; "" if there is none."""
    contexts: Mapping[str, JsonObject]
    """Name -> context."""

    def __init__(self, files: CredentialFiles) -> None:
        """Reads only the kubeconfig. cluster_access() also reads the files that the kubeconfig names."""
        self._files = files
        self._subject = f"the kubeconfig {printable(files.kubeconfig)}"  # for messages
        text = files.read(files.kubeconfig, self._subject).decode("utf-8-sig", "replace")
        try:
            content = next(yaml.load_all(text, yaml.CSafeLoader), None)  # kubectl also reads only the first document
        except Exception as e:  # noqa: BLE001  # yaml raises undocumented exceptions, whose messages quote the text
            mark = getattr(e, "problem_mark", None)
            place = f", line {mark.line + 1}" if mark else ""
            raise self._error(f"is not valid YAML{place}") from None
        try:
            root = object_at({"the file": content}, "the file")  # {} for an empty file; names "the file" in errors
            self.current_context = text_at(root, "current-context") or ""
            self.contexts = _by_name(root, "context")
            self._clusters = _by_name(root, "cluster")
            self._users = _by_name(root, "user")
        except InvalidDocument as e:
            raise self._error(f"is invalid: {e}") from e

    def cluster_access(self, plugin_timeout: float | None, context_name: str | None = None) -> ClusterAccess:
        """Returns how to reach the API server of a context. Raises the errors of load().

        plugin_timeout: seconds for an exec plugin; None checks the plugin without running it. context_name: None for
        the current context.
        """
        try:
            return self._access(plugin_timeout, context_name or self.current_context)
        except InvalidDocument as e:
            raise self._error(f"is invalid: {e}") from e

    def _access(self, plugin_timeout: float | None, context_name: str) -> ClusterAccess:
        if not context_name:
            raise self._error("contains no current-context: is it complete? `kubectl config use-context` chooses one")
        if context_name not in self.contexts:
            raise self._error("has no context with the name of its current-context")
        context = self.contexts[context_name]
        cluster = self._entry(self._clusters, context, "cluster")
        user = self._entry(self._users, context, "user") if context.get("user") else {}
        unsupported = [key for key in _UNSUPPORTED if user.get(key)]
        if unsupported:
            raise self._error(f"uses {unsupported[0]}, which capacityd does not support")
        authority = self._pem(cluster, "certificate-authority")
        token = self._token(user)
        certificate = self._pem(user, "client-certificate")
        key = self._pem(user, "client-key")
        plugin = object_at(user, "exec")
        # As in client-go, a token or a certificate in the kubeconfig takes precedence over an exec plugin.
        if plugin and not token and not certificate:
            cluster_info = _cluster_info(cluster, authority)
            token, certificate, key = run_plugin(plugin, cluster_info, self._files, plugin_timeout)
        if bool(certificate) != bool(key):
            raise self._error("has a client certificate without its key, or a key without its certificate")
        impersonated = text_at(user, "as")
        for text in (token, impersonated):
            if text and not (text.isascii() and text.isprintable()):  # it can't be sent in a header
                raise self._error("refers to a token or a user (as) with invalid characters. Is it the right file?")
        return ClusterAccess(
            kubeconfig=printable(self._files.kubeconfig),
            server=self._server(cluster),
            authority=authority,
            verify=cluster.get("insecure-skip-tls-verify") is not True,
            server_name=text_at(cluster, "tls-server-name"),
            proxy=self._proxy(cluster),
            token=token,
            certificate=certificate,
            key=key,
            impersonated=impersonated,
        )

    def _error(self, problem: str) -> NodeUnauthorized:
        """Returns the error to raise. problem: the end of a sentence about the kubeconfig."""
        return NodeUnauthorized(f"{self._subject} {problem}")

    def _entry(self, entries: Mapping[str, JsonObject], context: JsonObject, kind: str) -> JsonObject:
        """The cluster or the user that a context names. entries: all clusters or users. kind: "cluster" or "user"."""
        name = text_at(context, kind) or ""
        if name in entries:
            return entries[name]
        advice = ""
        if self._files.trust is None:  # an operator's entries may be in another file
            advice = " (`kubectl config view --flatten` merges the files of KUBECONFIG into one)"
        raise self._error(f"has no {kind} that its context names{advice}")

    def _token(self, user: JsonObject) -> str | None:
        """The token in the file at `tokenFile`; without `tokenFile`, the value of `token`; None if both are missing."""
        file = text_at(user, "tokenFile")
        if not file:
            token = (text_at(user, "token") or "").strip()
            return token or None
        subject = f"the token file named in {self._subject}"
        content = self._files.read(self._files.resolve(file), subject)
        token = content.decode("latin-1").strip()  # decodes any bytes; the caller checks the characters
        if not token:
            raise CredentialsMissing(f"{subject} is empty")
        return token

    def _pem(self, entry: JsonObject, key: str) -> str | None:
        """The PEM text in KEY-data (base64), or in the file that KEY names; None if both are missing."""
        data = text_at(entry, f"{key}-data")
        if data:
            try:
                without_space = "".join(data.split())
                return base64.b64decode(without_space, validate=True).decode("latin-1")
            except ValueError as e:
                raise self._error(f"is invalid: {key}-data is not base64") from e
        path = text_at(entry, key)
        if not path:
            return None
        subject = f"the {key} named in {self._subject}"
        content = self._files.read(self._files.resolve(path), subject)
        return content.decode("latin-1")  # decodes any bytes; only comments may be other than ASCII

    def _server(self, cluster: JsonObject) -> str:
        server = (text_at(cluster, "server") or "").rstrip("/")
        if not _SERVER_URL.fullmatch(server):
            raise self._error("has no server such as https://192.0.2.1:6443, or https://[2001:db8::1]:6443")
        return server

    def _proxy(self, cluster: JsonObject) -> str | None:
        proxy = text_at(cluster, "proxy-url")
        problem = proxy_problem(proxy) if proxy else ""
        if problem:
            raise self._error(f"has an invalid proxy-url; {problem}")
        return proxy or None


def _by_name(content: JsonObject, kind: str) -> dict[str, JsonObject]:
    """Name -> entry of this kind ("context", "cluster" or "user")."""
    entries = objects_at(content, f"{kind}s")
    return {text_at(entry, "name") or "": object_at(entry, kind) for entry in entries}


def _cluster_info(cluster: JsonObject, authority: str | None) -> dict[str, Any]:
    """The cluster in the form that an exec plugin expects (client.authentication.k8s.io). authority: PEM."""
    keys = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
    info = {key: cluster[key] for key in keys if key in cluster}
    if authority:
        info["certificate-authority-data"] = base64.b64encode(authority.encode("latin-1")).decode("ascii")
    for extension in objects_at(cluster, "extensions"):
        if extension.get("name") == _EXEC_EXTENSION:
            info["config"] = extension.get("extension")
    return info


def proxy_problem(proxy: str) -> str:
    """How to fix a proxy's URL; "" if the URL can be used."""
    if _PROXY_URL.fullmatch(proxy):
        return ""
    return "name an HTTP proxy, such as http://192.0.2.1:3128 (SOCKS and TLS to the proxy are not supported)"
