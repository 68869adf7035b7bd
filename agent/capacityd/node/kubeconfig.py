"""Reads the API server's address and the credentials from a kubeconfig.

The kubernetes library's loader is not suitable. It continues without credentials if the user is missing, an exec plugin
fails, or a tokenFile is empty. It ignores `as`, and treats the text "false" in insecure-skip-tls-verify as true. Up to
version 22, it also ignores tls-server-name. See tests/cluster/test_library.py.
"""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager

from capacityd.linux.trust import Trust
from capacityd.model.errors import CredentialsMissing, NodeUnauthorized
from capacityd.model.text import printable
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.credential_files import CredentialFiles
from capacityd.node.errors import no_library_error
from capacityd.node.exec_plugin import ExecPlugin
from capacityd.node.identity import token_user
from capacityd.node.kubelet_kubeconfig import first_path
from capacityd.node.proxy import has_bare_ipv6_address, is_http_url, proxy_problem
from capacityd.node.user_entry import user_problem
from capacityd.node.yaml_text import InvalidYaml, parse_yaml

_PLUGIN_TIMEOUT = 30.0


def load(
    kubeconfig: str | None,
    plugin_timeout: float | None = _PLUGIN_TIMEOUT,
    *,
    of_kubelet: bool = True,
    context: str | None = None,
    trust: Trust | None = None,
) -> ClusterAccess:
    """Reads this kubeconfig (by default the kubelet's) and all files that it names.

    Nothing is cached, because the kubelet renews its certificate. plugin_timeout: seconds for which an exec plugin may
    run; None only checks it, and leaves out its credentials.
    of_kubelet: whether it is the kubelet's kubeconfig, not a person's. context: replaces the current context. trust:
    who may be able to change the kubelet's files; default: own_trust(). Raises CredentialsMissing if a file does not
    exist, NodeUnauthorized if a file cannot be read or used, and NodeUnreachable if the plugin does not end in time.
    """
    path = kubeconfig or first_path()
    files = CredentialFiles(path, of_kubelet=of_kubelet, trust=trust)
    with _explaining(path):
        try:
            on_terminal = not of_kubelet and sys.stdin.isatty() and sys.stderr.isatty()
            return _Kubeconfig(path, files, on_terminal=on_terminal).access(plugin_timeout, context)
        except NodeUnauthorized as e:
            e.files = e.files or files.paths()
            raise


def contexts(kubeconfig: str) -> tuple[str | None, frozenset[str]]:
    """Returns the current context and the names of all contexts of a person's kubeconfig. Raises NodeUnauthorized."""
    with _explaining(kubeconfig):
        return _Kubeconfig(kubeconfig, CredentialFiles(kubeconfig, of_kubelet=False)).contexts()


def _explaining(path: str) -> AbstractContextManager[None]:
    # The library's exception message may quote a secret.
    return no_library_error(
        lambda e: NodeUnauthorized(f"the kubeconfig {printable(path)} cannot be used: {type(e).__name__}")
    )


class _Kubeconfig:
    """A kubeconfig during parsing."""

    def __init__(self, path: str, files: CredentialFiles, *, on_terminal: bool = False) -> None:
        """on_terminal: whether an exec plugin may talk to the user."""
        self._path = path
        self._files = files
        self._on_terminal = on_terminal

    def contexts(self) -> tuple[str | None, frozenset[str]]:
        """Returns the current context and the names of all contexts."""
        document = self._document()
        entries = document.get("contexts")
        if not isinstance(entries, list):
            entries = []
        names = [entry.get("name") for entry in entries if isinstance(entry, dict)]
        return self._text(document, "current-context"), frozenset(name for name in names if isinstance(name, str))

    def access(self, plugin_timeout: float | None, context_name: str | None = None) -> ClusterAccess:
        """Parses the current context, or the given one, and reads the files that it names."""
        document = self._document()
        if not document:
            raise self._error("is empty: create it anew, as the cluster's installer does")
        current = context_name or self._text(document, "current-context")
        if not current:
            raise self._error("contains no current-context")
        context = self._entry(document, "context", name=current)
        cluster = self._entry(document, "cluster", name=self._text(context, "cluster") or "")
        user_name = self._text(context, "user")
        user = self._entry(document, "user", name=user_name) if user_name else {}
        if problem := user_problem(user):
            raise self._error(problem)
        token = self._token(user)
        certificate = self._pem(user, "client-certificate")
        user_of_files = (token_user(token or ""), certificate)  # differs if a file has another user's content
        private_key = self._pem(user, "client-key")
        if "exec" in user and not token and not certificate:
            plugin = self._plugin(self._mapping(user["exec"], "exec"), cluster)
            self._files.require_trusted_plugin(plugin.flaw)
            if plugin_timeout is not None:
                credential = plugin.run(plugin_timeout)
                token, certificate, private_key = credential.token, credential.certificate, credential.key
        if bool(certificate) != bool(private_key):
            raise self._error("has a client certificate without its key, or a key without its certificate")
        if token and not (token.isascii() and token.isprintable()):
            raise self._error("refers to a token with invalid characters. Is it the right file?")
        return ClusterAccess(
            kubeconfig=printable(self._path),
            server=self._server(cluster),
            authority=self._pem(cluster, "certificate-authority"),
            verify=not self._flag(cluster, "insecure-skip-tls-verify"),
            server_name=self._text(cluster, "tls-server-name"),
            proxy=self._proxy(cluster),
            token=token,
            certificate=certificate,
            key=private_key,
            impersonated=self._text(user, "as") or "",
            user=repr((user_name, sorted(map(repr, user.items())), user_of_files)),
            files=self._files.paths(),
        )

    def _document(self) -> Mapping[str, object]:
        """Returns the content of the kubeconfig. As in kubectl, an empty file is one without entries."""
        try:
            content = parse_yaml(self._files.read(self._path, "the kubeconfig"))
        except InvalidYaml as e:
            raise self._error(str(e)) from None
        return {} if content is None else self._mapping(content, "the file")

    def _entry(self, document: Mapping[str, object], kind: str, name: str) -> Mapping[str, object]:
        """Returns the entry of this kind ("context", "cluster" or "user") with this name."""
        entries = document.get(f"{kind}s") or []
        if not isinstance(entries, list):
            raise self._error(f"is invalid: {kind}s is not a list")
        for entry in entries:
            if isinstance(entry, dict) and entry.get("name") == name:
                return self._mapping(entry.get(kind) or {}, kind)
        which = "that is selected" if kind == "context" else f"that its context names{self._files.merge_advice}"
        raise self._error(f"has no {kind} {which}", detail=f'the name is "{printable(name)}"')

    def _server(self, cluster: Mapping[str, object]) -> str:
        server = (self._text(cluster, "server") or "").rstrip("/")
        if has_bare_ipv6_address(server):
            raise self._error("has a server whose IPv6 address is not in brackets, as in https://[2001:db8::1]:6443")
        # A message quotes the server, so it must not contain a password or parameters.
        if not is_http_url(server) or any(character in server for character in "@?#"):
            raise self._error("has no server such as https://192.0.2.1:6443")
        return server

    def _proxy(self, cluster: Mapping[str, object]) -> str | None:
        proxy = self._text(cluster, "proxy-url")
        if proxy and (problem := proxy_problem(proxy)):
            raise self._error(f"has an invalid proxy-url; {problem}")
        return proxy or None

    def _token(self, user: Mapping[str, object]) -> str | None:
        file = self._text(user, "tokenFile")
        if not file:
            return (self._text(user, "token") or "").strip() or None
        path = self._files.resolve(file)
        token = self._files.read(path, "the token file").strip()
        if not token:
            shown = self._files.shown(path, "the token file")
            raise CredentialsMissing(f"{shown} is empty", files=[os.path.abspath(path)])
        return token

    def _pem(self, entry: Mapping[str, object], key: str) -> str | None:
        """Returns the text in KEY-data (base64), or in the file that KEY names."""
        data = self._text(entry, f"{key}-data")
        if data:
            try:
                return base64.b64decode("".join(data.split()), validate=True).decode("latin-1")
            except ValueError as e:
                raise self._error(f"is invalid: {key}-data is not base64") from e
        path = self._text(entry, key)
        return self._files.read(self._files.resolve(path), f"the {key}") if path else None

    def _plugin(self, entry: Mapping[str, object], cluster: Mapping[str, object]) -> ExecPlugin:
        command = self._text(entry, "command") or ""
        if not command:
            raise self._error("has an exec plugin without a command")
        on_terminal = self._on_terminal and entry.get("interactiveMode") != "Never"
        if entry.get("interactiveMode") == "Always" and not on_terminal:
            why = "has an exec plugin that needs a terminal (interactiveMode: Always)"
            raise self._error(why, detail=f"the plugin is {printable(command)}")
        arguments = entry.get("args") or []
        environment = entry.get("env") or []
        if not isinstance(arguments, list) or not isinstance(environment, list):
            raise self._error("is invalid: args or env of exec is not a list")
        variables = {}
        for item in environment:
            variable = self._mapping(item, "exec.env")
            variables[self._text(variable, "name") or ""] = self._text(variable, "value") or ""
        return ExecPlugin(
            kubeconfig=printable(self._path),
            version=self._text(entry, "apiVersion") or "",
            # As in client-go: a path with a slash is relative to the kubeconfig; other names are looked up in PATH.
            command=self._files.resolve(command) if "/" in command else command,
            arguments=tuple(map(str, arguments)),
            environment={name: value for name, value in variables.items() if name},
            cluster=self._cluster_info(cluster) if self._flag(entry, "provideClusterInfo") else None,
            install_hint=self._text(entry, "installHint") or "",
            on_terminal=on_terminal,
        )

    def _cluster_info(self, cluster: Mapping[str, object]) -> Mapping[str, object]:
        """Returns the cluster in the form that an exec plugin expects."""
        copied = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
        info = {key: cluster[key] for key in copied if key in cluster}
        authority = self._pem(cluster, "certificate-authority")
        if authority:
            info["certificate-authority-data"] = base64.b64encode(authority.encode("latin-1")).decode("ascii")
        extensions = cluster.get("extensions")
        if not isinstance(extensions, list):
            extensions = []
        for extension in extensions:
            if isinstance(extension, dict) and extension.get("name") == "client.authentication.k8s.io/exec":
                info["config"] = extension.get("extension")
        return info

    def _mapping(self, value: object, name: str) -> Mapping[str, object]:
        if not isinstance(value, dict):
            raise self._error(f"is invalid: {name} is not a mapping")
        return value

    def _text(self, entry: Mapping[str, object], key: str) -> str | None:
        value = entry.get(key)
        if value is not None and not isinstance(value, str):
            raise self._error(f"is invalid: {key} is not text")
        return value

    def _flag(self, entry: Mapping[str, object], key: str) -> bool:
        value = entry.get(key)
        if value is not None and not isinstance(value, bool):
            raise self._error(f"is invalid: {key} is neither true nor false")
        return value is True

    def _error(self, problem: str, detail: str = "") -> NodeUnauthorized:
        return NodeUnauthorized(f"the kubeconfig {printable(self._path)} {problem}", detail=detail)
