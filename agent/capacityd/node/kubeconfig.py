"""Reads the API server's address and the credentials from a kubeconfig.

The kubernetes library's loader is not suitable. It continues without credentials if the user is missing, an exec plugin
fails, or a tokenFile is empty. It ignores `as`, and treats the text "false" in insecure-skip-tls-verify as true. Up to
version 22, it also ignores tls-server-name. tests/clientgo/shapes.py lists how this module differs from client-go.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

import yaml

from capacityd.linux.trust import Trust, own_trust
from capacityd.model.errors import CapacitydError, CredentialsMissing, NodeUnauthorized
from capacityd.model.text import printable
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.credential_files import CredentialFiles
from capacityd.node.documents.exec_credential import Credential
from capacityd.node.exec_plugin import ExecPlugin, credential_of
from capacityd.node.kubelet_kubeconfig import find_kubelet_kubeconfig
from capacityd.node.proxy import is_http_url, proxy_problem

_Entry: TypeAlias = Mapping[str, Any]
"""A mapping in a kubeconfig, such as a user."""

PLUGIN_TIMEOUT = 30.0
"""Seconds for an exec plugin in a kubelet's kubeconfig."""
# Key in a kubeconfig -> the type of its value. All other keys have text.
_KINDS: dict[str, type] = {"contexts": list, "clusters": list, "users": list, "exec": dict, "args": list}
_KINDS |= {"env": list, "extensions": list, "insecure-skip-tls-verify": bool, "provideClusterInfo": bool}
_KIND_NAMES: dict[type, str] = {str: "text", list: "a list", dict: "a mapping", bool: "true or false"}
_UNSUPPORTED = {
    "auth-provider": "Kubernetes 1.26 removed it; use an exec plugin",
    "username": "Kubernetes 1.19 removed passwords",
    # With groups, the API server does not let a token impersonate its own Node (KEP-5284).
    **dict.fromkeys(("as-groups", "as-uid", "as-user-extra"), "only the user can be impersonated (as)"),
}


class _Loader(yaml.CSafeLoader):  # type: ignore[misc]  # exists only with libyaml, which all packages contain
    """Reads numbers and dates as text, because a name or a token may look like a number or a date."""

    yaml_implicit_resolvers: ClassVar[Mapping[str, Any]] = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag.endswith((":bool", ":null", ":merge"))]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


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
    files = CredentialFiles(kubeconfig or find_kubelet_kubeconfig(), trust=trust or own_trust())
    return Kubeconfig(files).access(plugin_timeout)


class Kubeconfig:
    """The content of a kubeconfig. Raises NodeUnauthorized if it is invalid."""

    def __init__(self, files: CredentialFiles) -> None:
        """Reads only the kubeconfig. access() also reads the files that the kubeconfig names."""
        self._files = files
        self._subject = f"the kubeconfig {printable(files.kubeconfig)}"  # for messages
        text = files.read(files.kubeconfig, self._subject).decode("utf-8-sig", "replace")
        try:
            content = next(yaml.load_all(text, _Loader), None)  # kubectl also reads only the first document
        except Exception as e:  # noqa: BLE001  # yaml raises undocumented exceptions, whose messages quote the text
            mark = getattr(e, "problem_mark", None)
            place = f", line {mark.line + 1}" if mark else ""
            raise self._error(f"is not valid YAML{place}") from None
        self._content = self._mapping({} if content is None else content, "the file")

    @property
    def current_context(self) -> str:
        """The name of the current context; "" if there is none."""
        return self._value(self._content, "current-context") or ""

    def context_names(self) -> frozenset[str]:
        """Returns the names of all contexts."""
        contexts = self._value(self._content, "contexts") or []
        return frozenset(str(context.get("name")) for context in contexts if isinstance(context, dict))

    def access(self, plugin_timeout: float | None, context_name: str | None = None) -> ClusterAccess:
        """Returns how to reach the API server of a context. Raises the errors of load().

        plugin_timeout: seconds for an exec plugin; None checks the plugin without running it. context_name: None for
        the current context.
        """
        if not self._content:
            raise self._error("is empty: create it anew, as the cluster's installer does")
        try:
            return self._access(plugin_timeout, context_name or self.current_context)
        except CapacitydError:
            raise
        except Exception as e:  # noqa: BLE001  # a library's exception, whose message may quote a secret
            raise self._error(f"cannot be used: {type(e).__name__}") from None

    def _access(self, plugin_timeout: float | None, name: str) -> ClusterAccess:
        if not name:
            raise self._error("contains no current-context: choose one with `kubectl config use-context`")
        context = self._entry("context", name)
        cluster = self._entry("cluster", self._value(context, "cluster") or "")
        user_name = self._value(context, "user") or ""
        user = self._entry("user", user_name) if user_name else {}
        self._require_supported(user)
        certificate = self._pem(user, "client-certificate")
        credential = Credential(self._token(user), certificate, key=self._pem(user, "client-key"))
        # As in client-go, a token or a certificate in the kubeconfig takes precedence over an exec plugin.
        if not credential.token and not certificate and (entry := self._value(user, "exec")):
            credential = credential_of(self._plugin(entry, cluster), self._files.trust, plugin_timeout)
        if bool(credential.certificate) != bool(credential.key):
            raise self._error("has a client certificate without its key, or a key without its certificate")
        if credential.token and not (credential.token.isascii() and credential.token.isprintable()):
            raise self._error("refers to a token with invalid characters. Is it the right file?")
        return ClusterAccess(
            kubeconfig=printable(self._files.kubeconfig),
            server=self._server(cluster),
            authority=self._pem(cluster, "certificate-authority"),
            verify=not self._value(cluster, "insecure-skip-tls-verify"),
            server_name=self._value(cluster, "tls-server-name"),
            proxy=self._proxy(cluster),
            token=credential.token,
            certificate=credential.certificate,
            key=credential.key,
            impersonated=self._value(user, "as") or "",
            digest=self._files.digest(),
            files=self._files.paths(),
        )

    def _error(self, problem: str) -> NodeUnauthorized:
        """Returns the error to raise. problem: the end of a sentence about the kubeconfig."""
        return NodeUnauthorized(f"{self._subject} {problem}")

    def _mapping(self, value: object, name: str) -> _Entry:
        if not isinstance(value, dict):
            raise self._error(f"is invalid: {name} is not a mapping; is it a kubeconfig?")
        return value

    def _value(self, entry: _Entry, key: str) -> Any:
        """The value at this key; None if it is missing. Raises NodeUnauthorized if the value has a wrong type."""
        value = entry.get(key)
        kind = _KINDS.get(key, str)
        if value is not None and not isinstance(value, kind):
            raise self._error(f"is invalid: {key} is not {_KIND_NAMES[kind]}")
        return value

    def _entry(self, kind: str, name: str) -> _Entry:
        """The entry of this kind ("context", "cluster" or "user") with this name."""
        for entry in self._value(self._content, f"{kind}s") or []:
            if isinstance(entry, dict) and entry.get("name") == name:
                return self._mapping(entry.get(kind) or {}, kind)
        which = "with the name of its current-context" if kind == "context" else "that its context names"
        may_be_in_other_file = self._files.trust is None and kind != "context"
        advice = " (`kubectl config view --flatten` merges the files of KUBECONFIG into one)"
        raise self._error(f"has no {kind} {which}{advice if may_be_in_other_file else ''}")

    def _require_supported(self, user: _Entry) -> None:
        """Raises NodeUnauthorized if a user of the kubeconfig has settings that capacityd does not support."""
        for key, advice in _UNSUPPORTED.items():
            if user.get(key):
                raise self._error(f"uses {key}: {advice}")
        impersonated = self._value(user, "as") or ""  # sent in the header Impersonate-User
        if not (impersonated.isascii() and impersonated.isprintable()):
            raise self._error("names a user with invalid characters (as)")

    def _token(self, user: _Entry) -> str | None:
        """The token from tokenFile or, without tokenFile, from the kubeconfig; None if both are missing."""
        file = self._value(user, "tokenFile")
        if not file:
            return (self._value(user, "token") or "").strip() or None
        subject = f"the token file named in {self._subject}"
        token = self._files.read(self._files.resolve(file), subject).decode("latin-1").strip()
        if not token:
            raise CredentialsMissing(f"{subject} is empty")
        return token

    def _pem(self, entry: _Entry, key: str) -> str | None:
        """The text in KEY-data (base64), or in the file that KEY names; None if both are missing."""
        if data := self._value(entry, f"{key}-data"):
            try:
                return base64.b64decode("".join(data.split()), validate=True).decode("latin-1")
            except ValueError as e:
                raise self._error(f"is invalid: {key}-data is not base64") from e
        path = self._value(entry, key)
        if not path:
            return None
        # Comments in PEM files may have any encoding. The certificates and keys are ASCII.
        return self._files.read(self._files.resolve(path), f"the {key} named in {self._subject}").decode("latin-1")

    def _plugin(self, entry: _Entry, cluster: _Entry) -> ExecPlugin:
        """The exec plugin of a user. cluster: the cluster's entry, whose content the plugin may ask for."""
        command = self._value(entry, "command")
        if not command:
            raise self._error("has an exec plugin without a command")
        mode = self._value(entry, "interactiveMode")
        is_operators = self._files.trust is None
        on_terminal = is_operators and mode != "Never" and sys.stdin.isatty() and sys.stderr.isatty()
        if mode == "Always" and not on_terminal:
            raise self._error("has an exec plugin that needs a terminal (interactiveMode: Always)")
        variables = [self._mapping(variable, "exec.env") for variable in self._value(entry, "env") or []]
        return ExecPlugin(
            kubeconfig=self._files.kubeconfig,
            version=self._value(entry, "apiVersion") or "",
            # As in client-go, a command with a slash is relative to the kubeconfig's folder.
            command=self._files.resolve(command) if "/" in command else command,
            arguments=tuple(map(str, self._value(entry, "args") or [])),
            variables={self._value(v, "name") or "": self._value(v, "value") or "" for v in variables},
            cluster=self._cluster_info(cluster) if self._value(entry, "provideClusterInfo") else None,
            on_terminal=on_terminal,
        )

    def _cluster_info(self, cluster: _Entry) -> _Entry:
        """The cluster in the form that an exec plugin expects (client.authentication.k8s.io)."""
        keys = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
        info = {key: cluster[key] for key in keys if key in cluster}
        if authority := self._pem(cluster, "certificate-authority"):
            info["certificate-authority-data"] = base64.b64encode(authority.encode("latin-1")).decode("ascii")
        for extension in self._value(cluster, "extensions") or []:
            if isinstance(extension, dict) and extension.get("name") == "client.authentication.k8s.io/exec":
                info["config"] = extension.get("extension")
        return info

    def _server(self, cluster: _Entry) -> str:
        server = (self._value(cluster, "server") or "").rstrip("/")
        # A URL with a user, a password or parameters is refused, because a library's error may quote the URL.
        if not is_http_url(server) or any(character in server for character in "@?#"):
            raise self._error("has no server such as https://192.0.2.1:6443, or https://[2001:db8::1]:6443")
        return server

    def _proxy(self, cluster: _Entry) -> str | None:
        proxy = self._value(cluster, "proxy-url")
        if proxy and (problem := proxy_problem(proxy)):
            raise self._error(f"has an invalid proxy-url; {problem}")
        return proxy or None
