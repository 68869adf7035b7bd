"""Forms of a kubeconfig, and whether client-go reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SERVER = "https://192.0.2.1:6443"
_USUAL = f"""\
apiVersion: v1
kind: Config
current-context: c
contexts:
- name: c
  context:
    cluster: k
    user: u
clusters:
- name: k
  cluster:
    server: {SERVER}
users:
- name: u
  user:
    token: t
"""


@dataclass(frozen=True, slots=True)
class Shape:
    """A kubeconfig. read: the server and the token that client-go reads (None: client-go refuses the file).

    differs: why only one of client-go and capacityd reads the file. "": both do, or neither does.
    """

    text: str
    read: tuple[str, str] | None = (SERVER, "t")
    differs: str = ""


def _with(old: str, new: str, *, read: bool = True, differs: str = "") -> Shape:
    """The usual kubeconfig, with all occurrences of this text replaced."""
    assert old in _USUAL
    return Shape(_USUAL.replace(old, new), (SERVER, "t") if read else None, differs)


def _named(name: str, *, read: bool = True, differs: str = "") -> Shape:
    """A kubeconfig whose context, cluster and user have this name, in YAML."""
    text = _USUAL.replace("name: c", f"name: {name}").replace("current-context: c", f"current-context: {name}")
    text = text.replace("name: k", f"name: {name}").replace("cluster: k", f"cluster: {name}")
    text = text.replace("name: u", f"name: {name}").replace("user: u", f"user: {name}")
    return Shape(text, (SERVER, "t") if read else None, differs)


def _token(token: str, read: str | None, *, differs: str = "") -> Shape:
    """A kubeconfig with this YAML as the token. read: the token that client-go reads."""
    return Shape(_USUAL.replace("token: t", f"token: {token}"), None if read is None else (SERVER, read), differs)


def _server(server: str, read: str | None, *, differs: str = "") -> Shape:
    """A kubeconfig with this YAML as the server. read: the server that client-go reads."""
    return Shape(_USUAL.replace(SERVER, server), None if read is None else (read, "t"), differs)


_JSON = (
    '{"apiVersion": "v1", "kind": "Config", "current-context": "c",\n'
    '"contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],\n'
    f'"clusters": [{{"name": "k", "cluster": {{"server": "{SERVER}"}}}}],\n'
    '"users": [{"name": "u", "user": {"token": "t"}}]}\n'
)
_FLOW = (
    "current-context: c\n"
    "contexts: [{name: c, context: {cluster: k, user: u}}]\n"
    f"clusters: [{{name: k, cluster: {{server: '{SERVER}'}}}}]\n"
    "users: [{name: u, user: {token: t}}]\n"
)
# Reasons for differences.
_DATE = "PyYAML reads dates, times and sixties as values, not as text; Go's YAML writes such a text in quotes"
_TEXT = "PyYAML reads it as text"
_ESCAPE = "PyYAML knows an escape that the YAML of client-go does not"
_LAST = "capacityd takes the last one"
_URL = "capacityd wants a URL"
_STRICT = "capacityd does not check it"
SHAPES: Mapping[str, Shape] = {
    "usual": Shape(_USUAL),
    "JSON": Shape(_JSON),
    "JSON with tabs": Shape(_JSON.replace(" ", "\t")),
    "JSON indented with tabs": Shape(_JSON.replace("\n", "\n\t"), None),
    "JSON on one line": Shape(_JSON.replace("\n", "")),
    "JSON with a slash escaped": Shape(_JSON.replace("/", "\\/"), None, differs=_ESCAPE),
    "JSON with an escape": Shape(_JSON.replace('"t"', '"\\u0074"')),
    "JSON without spaces": Shape(_JSON.replace(" ", "")),
    "JSON with a trailing comma": Shape(_JSON.replace('"t"}}]', '"t"}},]')),
    "JSON with duplicate keys": Shape(_JSON.replace('"token": "t"', '"token": "s", "token": "t"')),
    "JSON with CRLF": Shape(_JSON.replace("\n", "\r\n")),
    "JSON, two texts": Shape(_JSON + _JSON),
    "flow style": Shape(_FLOW),
    "flow style with tabs": Shape(_FLOW.replace("{", "{\t").replace(", ", ",\t")),
    "flow style, a tab before": Shape(_FLOW.replace("contexts: [", "contexts:\t[")),
    "flow style over lines with tabs": Shape(_FLOW.replace(", ", ",\n\t ")),
    "a tab behind a value": _with("token: t", "token: t\t"),
    "a tab before a value": _with("token: t", "token:\tt"),
    "a tab before a comment": _with("token: t", "token: t\t# x"),
    "a tab on an empty line": _with("users:\n", "\t\nusers:\n", read=False),
    "indented with tabs": _with("  ", "\t", read=False),
    "a tab in the indentation": _with("    token", "   \ttoken", read=False),
    "CRLF": _with("\n", "\r\n"),
    "byte order mark": Shape("\ufeff" + _USUAL),
    "a document marker": Shape("---\n" + _USUAL),
    "a directive": Shape("%YAML 1.1\n---\n" + _USUAL),
    "comments first": Shape("# x\n\n---\n# y\n" + _USUAL),
    "a second document": Shape(_USUAL + "---\nother: 1\n"),
    "a second document, empty": Shape(_USUAL + "---\n"),
    "a second document, damaged": Shape(_USUAL + "---\n[\n"),
    "an end of the document": Shape(_USUAL + "...\n"),
    "an empty first document": Shape("---\n---\n" + _USUAL, None),
    "empty": Shape("", None),
    "a list": Shape("- a\n", None),
    "a text": Shape("a\n", None),
    "anchors": Shape(_FLOW.replace("current-context: c", "current-context: &n c").replace("name: c,", "name: *n ,")),
    "a merge": Shape(_FLOW.replace("{token: t}", "{<<: {token: t}}")),
    "unknown keys": _with("    token: t", "    token: t\n    other: {x: 1}"),
    "keys in capitals": Shape(_USUAL.replace("token: t", "Token: t"), (SERVER, "")),
    "no kind": Shape(_USUAL.removeprefix("apiVersion: v1\nkind: Config\n")),
    "another kind": _with("kind: Config", "kind: Secret", read=False, differs=_STRICT),
    "another apiVersion": _with("apiVersion: v1", "apiVersion: v2", read=False, differs=_STRICT),
    "preferences": Shape(_USUAL + "preferences: {}\n"),
    "null instead of nothing": _with("    token: t", "    token: t\n    exec: null\n    client-key: ~\n    username:"),
    "null in the cluster": _with("    server:", "    certificate-authority-data: null\n    proxy-url: ''\n    server:"),
    "null among the users": _with("users:\n", "users:\n- null\n", differs="capacityd takes no null in a list"),
    "the same name twice": _with("users:\n", "users:\n- name: u\n  user: {token: s}\n", read=False, differs=_LAST),
    "a date": _named("2026-11-25", differs=_DATE),
    "a time": _named("2026-11-25T10:00:00Z", differs=_DATE),
    "a date that does not exist": _named("2026-99-99", differs=_DATE),
    "an IP address": _named("192.0.2.1"),
    "a version": _named("1.2.3"),
    "sixties": _named("10:20:30", differs=_DATE),
    "a MAC address": _named("52:54:00:12:34:56", differs=_DATE),
    "sixties with a fraction": _named("10:20.5", differs=_DATE),
    "a number": _named("123", read=False),
    "a number in quotes": _named('"123"'),
    "a number with underscores": _named("1_000", read=False),
    "a fraction": _named("1.5", read=False),
    "an exponent": _named("1e3", read=False, differs=_TEXT),
    "a hash": _named("12e4567"),
    "hexadecimal": _named("0x1f", read=False),
    "octal": _named("0755", read=False),
    "octal of YAML 1.2": _named("0o755", read=False, differs=_TEXT),
    "not octal": _named("0899", read=False, differs=_TEXT),
    "binary": _named("0b11", read=False),
    "true": _named("true", read=False),
    "yes": _named("yes", read=False),
    "y": _named("y", read=False, differs=_TEXT),
    "off": _named("off", read=False),
    "null": _named("null", differs="capacityd reads null as a missing name"),
    "tilde": _named("~", differs="capacityd reads null as a missing name"),
    "infinity": _named(".inf", read=False),
    "an equals sign": _named("=", differs="PyYAML knows no value for it"),
    "minus": _named("'-'"),
    "an at sign": _named("admin@cluster"),
    "a name with colons": _named("arn:aws:eks:eu-west-1:123:cluster/x"),
    "a name with a slash": _named("default/api-example-com:6443/admin"),
    "unicode": _named("café"),
    "a tagged text": _named("!!str 123"),
    "a token of digits": _token("123456", None),
    "a token like a date": _token("2026-11-25", "2026-11-25", differs=_DATE),
    "a token in quotes": _token("'t'", "t"),
    "a folded token": _token(">-\n      t", "t"),
    "a token with a newline": _token("|\n      t", "t\n"),
    "a binary token": _token("!!binary dA==", "t", differs="capacityd takes no binary values"),
    "a server in capitals": _server("HTTPS://192.0.2.1:6443", "HTTPS://192.0.2.1:6443"),
    "a server without scheme": Shape(_USUAL.replace("https://", ""), ("192.0.2.1:6443", ""), differs=_URL),
    "a server with a path": _server("https://192.0.2.1/k8s/c", "https://192.0.2.1/k8s/c"),
    "no server": _server("''", None),
    "insecure": _with("    server:", "    insecure-skip-tls-verify: true\n    server:"),
    "insecure: yes": _with("    server:", "    insecure-skip-tls-verify: yes\n    server:"),
    "insecure in quotes": _with(
        "    server:",
        "    insecure-skip-tls-verify: 'true'\n    server:",
        read=False,
        differs="capacityd verifies the server, unless the value is true",
    ),
    "insecure with an authority": _with(
        "    server:",
        "    insecure-skip-tls-verify: true\n    certificate-authority-data: eA==\n    server:",
    ),
    "base64 over lines": _with("    server:", "    certificate-authority-data: |\n      ZXh0\n      cmE=\n    server:"),
    "base64 that is wrong": _with("    server:", "    certificate-authority-data: x!\n    server:", read=False),
}
