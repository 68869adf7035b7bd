"""Reads a kubeconfig, and all that it points at: how to reach the API server, and as whom.

Not by the client's own loader: that leaves private keys in /tmp, goes on as nobody when an exec plugin fails, and names
neither the file nor the remedy. Everything is read anew each time, because the kubelet renews its certificate.
"""

from __future__ import annotations

import base64
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from urllib.parse import urlsplit

from capacityd.errors import NodeDenied
from capacityd.node.certificate import not_after
from capacityd.node.faults import clip
from capacityd.node.plugin import Plugin
from capacityd.printable import printable

_MOST = 1 << 20  # bytes of a kubeconfig, or of a file that it names
_UNSUPPORTED = {
    "auth-provider": "Kubernetes 1.26 dropped it; use an exec plugin",
    "username": "Kubernetes 1.19 dropped passwords",
    "as": "impersonation is not supported",
}


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach an API server, and as whom. authority, certificate, key: PEM. verify: False trusts any server."""

    kubeconfig: str
    server: str
    authority: str | None = None
    verify: bool = True
    server_name: str | None = None
    proxy: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    certificate: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)

    def expired(self) -> str:
        """When the client certificate ended; "" if it did not, by this machine's clock, or there is none."""
        end = not_after(self.certificate or "")
        return f"{end:%Y-%m-%d %H:%M} UTC" if end is not None and end < datetime.now(timezone.utc) else ""


def access(path: str, plugin_seconds: float) -> Access:
    """Reads this kubeconfig; an exec plugin in it is run, at most for so many seconds.

    Raises NodeDenied for whatever is missing, unreadable or wrong, NodeUnreachable for a plugin that does not end.
    """
    return _Kubeconfig(path).access(plugin_seconds)


class _Kubeconfig:
    """A kubeconfig while it is read, with the files that it names: each is read once, so that a pair fits together."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._where = printable(path)
        self._folder = os.path.dirname(os.path.abspath(path))
        self._files: dict[str, str] = {}

    def access(self, plugin_seconds: float) -> Access:
        """All that it says."""
        document = self._mapping(self._yaml(), "the file")
        current = self._text(document, "current-context")
        if not current:
            raise self._wrong("has no current-context")
        context = self._entry(document, "contexts", "context", current)
        cluster = self._entry(document, "clusters", "cluster", self._text(context, "cluster") or "")
        user_name = self._text(context, "user")
        user = self._entry(document, "users", "user", user_name) if user_name else {}
        for way, why in _UNSUPPORTED.items():
            if user.get(way):
                raise self._wrong(f"uses {way}: {why}")
        token = self._token(user)
        certificate = self._material(user, "client-certificate")
        private_key = self._material(user, "client-key")
        if "exec" in user and not token and not certificate:
            plugin = self._plugin(self._mapping(user["exec"], "exec"), cluster)
            found = plugin.credential(plugin_seconds)
            token, certificate, private_key = found.token, found.certificate, found.key
        if bool(certificate) != bool(private_key):
            raise self._wrong("has a client certificate without its key, or a key without its certificate")
        if token and not (token.isascii() and token.isprintable()):
            raise self._wrong("leads to a token with characters that no token has; is it the right file?")
        return Access(
            kubeconfig=self._where,
            server=self._server(cluster),
            authority=self._material(cluster, "certificate-authority"),
            verify=cluster.get("insecure-skip-tls-verify") is not True,
            server_name=self._text(cluster, "tls-server-name"),
            proxy=self._proxy(cluster),
            token=token,
            certificate=certificate,
            key=private_key,
        )

    def _yaml(self) -> object:
        import yaml

        text = self._read(self._path, "the kubeconfig")
        try:
            return yaml.safe_load(text)
        except (yaml.YAMLError, ValueError, RecursionError) as e:
            # Not the library's whole message: it quotes lines, and there are secrets in them.
            mark = getattr(e, "problem_mark", None)
            line = f", line {mark.line + 1}" if mark is not None else ""
            raise NodeDenied(f"the kubeconfig {self._where} is not YAML{line}") from e

    def _entry(self, document: Mapping[str, object], group: str, kind: str, name: str) -> Mapping[str, object]:
        entries = document.get(group) or []
        if not isinstance(entries, list):
            raise self._wrong(f"has {group} that are no list")
        for entry in entries:
            if isinstance(entry, dict) and entry.get("name") == name:
                return self._mapping(entry.get(kind) or {}, f"{kind} {printable(name)}")
        raise self._wrong(f'has no {kind} named "{printable(name)}"')

    def _server(self, cluster: Mapping[str, object]) -> str:
        server = (self._text(cluster, "server") or "").rstrip("/")
        if not _is_address(server) or "@" in server:
            raise self._wrong("has no server such as https://192.0.2.1:6443")
        return server

    def _proxy(self, cluster: Mapping[str, object]) -> str | None:
        proxy = self._text(cluster, "proxy-url")
        if proxy and not _is_address(proxy):
            raise self._wrong("has a proxy-url that is none such as http://192.0.2.1:3128")
        return proxy or None

    def _token(self, user: Mapping[str, object]) -> str | None:
        path = self._text(user, "tokenFile")
        token = self._read(self._resolved(path), "the token file") if path else self._text(user, "token")
        if path and not (token or "").strip():
            raise self._wrong(f"names the token file {printable(path)}, which is empty")
        return (token or "").strip() or None

    def _material(self, entry: Mapping[str, object], key: str) -> str | None:
        """What stands under key-data, in base64, or in the file that key names."""
        data = self._text(entry, f"{key}-data")
        if data:
            try:
                return base64.b64decode("".join(data.split()), validate=True).decode("latin-1")
            except ValueError as e:
                raise self._wrong(f"has {key}-data that is not base64") from e
        path = self._text(entry, key)
        return self._read(self._resolved(path), f"the {key}") if path else None

    def _plugin(self, entry: Mapping[str, object], cluster: Mapping[str, object]) -> Plugin:
        command = self._text(entry, "command") or ""
        if not command:
            raise self._wrong("has an exec without a command")
        if entry.get("interactiveMode") == "Always":
            raise self._wrong(f"has an exec plugin, {printable(command)}, that must be run by hand (interactiveMode)")
        arguments, environment = entry.get("args") or [], entry.get("env") or []
        if not isinstance(arguments, list) or not isinstance(environment, list):
            raise self._wrong("has an exec with args or env that are no list")
        variables = {}
        for variable in environment:
            found = self._mapping(variable, "exec.env")
            variables[self._text(found, "name") or ""] = self._text(found, "value") or ""
        return Plugin(
            version=self._text(entry, "apiVersion") or "",
            # As client-go: what has a slash is relative to the kubeconfig, a bare name is looked for in PATH.
            command=self._resolved(command) if "/" in command else command,
            arguments=tuple(str(a) for a in arguments),
            environment={name: value for name, value in variables.items() if name},
            cluster=self._told(cluster) if entry.get("provideClusterInfo") is True else None,
            hint=self._text(entry, "installHint") or "",
        )

    def _told(self, cluster: Mapping[str, object]) -> Mapping[str, object]:
        """A cluster as an exec plugin is told of it."""
        same = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
        told = {key: cluster[key] for key in same if key in cluster}
        authority = self._material(cluster, "certificate-authority")
        if authority:
            told["certificate-authority-data"] = base64.b64encode(authority.encode("latin-1")).decode("ascii")
        extensions = cluster.get("extensions")
        for extension in extensions if isinstance(extensions, list) else []:
            if isinstance(extension, dict) and extension.get("name") == "client.authentication.k8s.io/exec":
                told["config"] = extension.get("extension")
        return told

    def _resolved(self, path: str) -> str:
        return os.path.join(self._folder, path)

    def _read(self, path: str, what: str) -> str:
        if path not in self._files:
            named = what if path == self._path else f"{what} that {self._where} names"
            try:
                # O_NONBLOCK, because opening a pipe waits for a writer.
                with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as f:
                    if stat.S_ISFIFO(os.fstat(f.fileno()).st_mode):
                        raise NodeDenied(
                            f"{named}, {printable(path)}, is a pipe; what is read anew each time must be a file"
                        )
                    content = f.read(_MOST + 1)
            except FileNotFoundError as e:
                raise NodeDenied(
                    f"{named}, {printable(path)}, does not exist; has the kubelet joined the cluster?"
                ) from e
            except PermissionError as e:
                raise NodeDenied(f"{named}, {printable(path)}, may not be read; run this as root") from e
            except (OSError, ValueError) as e:
                reason = os.strerror(e.errno) if isinstance(e, OSError) and e.errno else clip(str(e))
                raise NodeDenied(f"{named}, {printable(path)}, can't be read: {reason}") from e
            if len(content) > _MOST:
                raise NodeDenied(f"{named}, {printable(path)}, is larger than {_MOST} bytes")
            # Comments in PEM files may be in any encoding; what we use of them is ASCII.
            self._files[path] = content.decode("utf-8" if path == self._path else "latin-1", "replace")
        return self._files[path]

    def _mapping(self, value: object, what: str) -> Mapping[str, object]:
        if not isinstance(value, dict):
            raise self._wrong(f"is wrong: {what} is no mapping")
        return value

    def _text(self, entry: Mapping[str, object], key: str) -> str | None:
        value = entry.get(key)
        if value is not None and not isinstance(value, str):
            raise self._wrong(f"is wrong: {printable(key)} is not text")
        return value

    def _wrong(self, what: str) -> NodeDenied:
        return NodeDenied(f"the kubeconfig {self._where} {what}")


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and text.isprintable()
    except ValueError:
        return False
