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
    """A kubeconfig. go_reads: the server and the token that client-go reads (None: client-go refuses the file).

    differs: why only one of client-go and capacityd reads the file. "": both do, or neither does.
    """

    text: str
    go_reads: tuple[str, str] | None = (SERVER, "t")
    differs: str = ""


def _with(old: str, new: str, *, go_reads: bool = True, differs: str = "") -> Shape:
    """The usual kubeconfig, with all occurrences of the old text replaced. go_reads: whether client-go reads it."""
    assert old in _USUAL
    return Shape(_USUAL.replace(old, new), (SERVER, "t") if go_reads else None, differs)


def _in_cluster(entry: str, *, go_reads: bool = True, differs: str = "") -> Shape:
    """The usual kubeconfig, with another entry in its cluster."""
    return _with("    server:", f"    {entry}\n    server:", go_reads=go_reads, differs=differs)


def _named(name: str, *, go_reads: bool = True, differs: str = "") -> Shape:
    """The usual kubeconfig, whose context, cluster and user have this name, in YAML."""
    text = _USUAL.replace("name: c", f"name: {name}").replace("current-context: c", f"current-context: {name}")
    text = text.replace("name: k", f"name: {name}").replace("cluster: k", f"cluster: {name}")
    text = text.replace("name: u", f"name: {name}").replace("user: u", f"user: {name}")
    return Shape(text, (SERVER, "t") if go_reads else None, differs)


def _token(token: str, *, go_reads: str | None, differs: str = "") -> Shape:
    """The usual kubeconfig, with this YAML as the token. go_reads: the token that client-go reads."""
    text = _USUAL.replace("token: t", f"token: {token}")
    return Shape(text, None if go_reads is None else (SERVER, go_reads), differs)


def _server(server: str, *, go_reads: str | None) -> Shape:
    """The usual kubeconfig, with this YAML as the server. go_reads: the server that client-go reads."""
    return Shape(_USUAL.replace(SERVER, server), None if go_reads is None else (go_reads, "t"))


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
# Why only one of client-go and capacityd reads a file. Base 60: YAML 1.1 reads 10:20:30 as the number 37230.
_NO_TEXT = "PyYAML reads dates, times and numbers in base 60 as values; Go's YAML writes such a text in quotes"
_IS_TEXT = "PyYAML reads it as text"
_ESCAPE_IS_KNOWN = "PyYAML knows an escape that the YAML of client-go does not"
_LAST_IS_TAKEN = "capacityd takes the last one"
_NEEDS_URL = "capacityd wants a URL"
_IS_UNCHECKED = "capacityd does not check it"
_NULL_IS_MISSING = "capacityd reads null as a missing name"
# go_reads: whether client-go reads the file, or what it reads. differs: why capacityd does not do the same.
SHAPES: Mapping[str, Shape] = {
    "usual": Shape(_USUAL),
    "JSON": Shape(_JSON),
    "JSON with tabs": Shape(_JSON.replace(" ", "\t")),
    "JSON indented with tabs": Shape(_JSON.replace("\n", "\n\t"), go_reads=None),
    "JSON on one line": Shape(_JSON.replace("\n", "")),
    "JSON with a slash escaped": Shape(_JSON.replace("/", "\\/"), go_reads=None, differs=_ESCAPE_IS_KNOWN),
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
    "a tab on an empty line": _with("users:\n", "\t\nusers:\n", go_reads=False),
    "indented with tabs": _with("  ", "\t", go_reads=False),
    "a tab in the indentation": _with("    token", "   \ttoken", go_reads=False),
    "CRLF": _with("\n", "\r\n"),
    # go_reads=False: client-go refuses the file.
    "byte order mark": Shape("\ufeff" + _USUAL),
    "a document marker": Shape("---\n" + _USUAL),
    "a directive": Shape("%YAML 1.1\n---\n" + _USUAL),
    "comments first": Shape("# x\n\n---\n# y\n" + _USUAL),
    "a second document": Shape(_USUAL + "---\nother: 1\n"),
    "a second document, empty": Shape(_USUAL + "---\n"),
    "a second document, damaged": Shape(_USUAL + "---\n[\n"),
    "an end of the document": Shape(_USUAL + "...\n"),
    "an empty first document": Shape("---\n---\n" + _USUAL, go_reads=None),
    "empty": Shape("", go_reads=None),
    "a list": Shape("- a\n", go_reads=None),
    "a text": Shape("a\n", go_reads=None),
    "anchors": Shape(_FLOW.replace("current-context: c", "current-context: &n c").replace("name: c,", "name: *n ,")),
    "a merge": Shape(_FLOW.replace("{token: t}", "{<<: {token: t}}")),
    "unknown keys": _with("    token: t", "    token: t\n    other: {x: 1}"),
    "keys in capitals": Shape(_USUAL.replace("token: t", "Token: t"), go_reads=(SERVER, "")),
    "no kind": Shape(_USUAL.removeprefix("apiVersion: v1\nkind: Config\n")),
    "another kind": _with("kind: Config", "kind: Secret", go_reads=False, differs=_IS_UNCHECKED),
    "another apiVersion": _with("apiVersion: v1", "apiVersion: v2", go_reads=False, differs=_IS_UNCHECKED),
    "preferences": Shape(_USUAL + "preferences: {}\n"),
    "null instead of nothing": _with("    token: t", "    token: t\n    exec: null\n    client-key: ~\n    username:"),
    "null in the cluster": _in_cluster("certificate-authority-data: null\n    proxy-url: ''"),
    "null among the users": _with("users:\n", "users:\n- null\n", differs="capacityd takes no null in a list"),
    "the same name twice": _with(
        "users:\n", "users:\n- name: u\n  user: {token: s}\n", go_reads=False, differs=_LAST_IS_TAKEN
    ),
    "a date": _named("2026-11-25", differs=_NO_TEXT),
    "a time": _named("2026-11-25T10:00:00Z", differs=_NO_TEXT),
    "a date that does not exist": _named("2026-99-99", differs=_NO_TEXT),
    "an IP address": _named("192.0.2.1"),
    "a version": _named("1.2.3"),
    "base 60": _named("10:20:30", differs=_NO_TEXT),
    "a MAC address": _named("52:54:00:12:34:56", differs=_NO_TEXT),
    "base 60 with a fraction": _named("10:20.5", differs=_NO_TEXT),
    # The names of the context, the cluster and the user.
    "a number": _named("123", go_reads=False),
    "a number in quotes": _named('"123"'),
    "a number with underscores": _named("1_000", go_reads=False),
    "a fraction": _named("1.5", go_reads=False),
    "an exponent": _named("1e3", go_reads=False, differs=_IS_TEXT),
    "a hash": _named("12e4567"),
    "hexadecimal": _named("0x1f", go_reads=False),
    "octal": _named("0755", go_reads=False),
    "octal of YAML 1.2": _named("0o755", go_reads=False, differs=_IS_TEXT),
    "not octal": _named("0899", go_reads=False, differs=_IS_TEXT),
    "binary": _named("0b11", go_reads=False),
    "true": _named("true", go_reads=False),
    "yes": _named("yes", go_reads=False),
    "y": _named("y", go_reads=False, differs=_IS_TEXT),
    "off": _named("off", go_reads=False),
    "null": _named("null", differs=_NULL_IS_MISSING),
    "tilde": _named("~", differs=_NULL_IS_MISSING),
    "infinity": _named(".inf", go_reads=False),
    "an equals sign": _named("=", differs="PyYAML knows no value for it"),
    "minus": _named("'-'"),
    "an at sign": _named("admin@cluster"),
    "a name with colons": _named("arn:aws:eks:eu-west-1:123:cluster/x"),
    "a name with a slash": _named("default/api-example-com:6443/admin"),
    "unicode": _named("café"),
    "a tagged text": _named("!!str 123"),
    # go_reads: the token or the server that client-go reads (None: it refuses the file).
    "a token of digits": _token("123456", go_reads=None),
    "a token like a date": _token("2026-11-25", go_reads="2026-11-25", differs=_NO_TEXT),
    "a token in quotes": _token("'t'", go_reads="t"),
    "a folded token": _token(">-\n      t", go_reads="t"),
    "a token with a newline": _token("|\n      t", go_reads="t\n"),
    "a binary token": _token("!!binary dA==", go_reads="t", differs="capacityd takes no binary values"),
    "a server in capitals": _server("HTTPS://192.0.2.1:6443", go_reads="HTTPS://192.0.2.1:6443"),
    "a server without scheme": Shape(
        _USUAL.replace("https://", ""), go_reads=("192.0.2.1:6443", ""), differs=_NEEDS_URL
    ),
    "a server with a path": _server("https://192.0.2.1/k8s/c", go_reads="https://192.0.2.1/k8s/c"),
    "no server": _server("''", go_reads=None),
    "insecure": _in_cluster("insecure-skip-tls-verify: true"),
    "insecure: yes": _in_cluster("insecure-skip-tls-verify: yes"),
    "insecure in quotes": _in_cluster(
        "insecure-skip-tls-verify: 'true'", go_reads=False, differs="capacityd takes a text for false"
    ),
    "insecure with an authority": _in_cluster("insecure-skip-tls-verify: true\n    certificate-authority-data: eA=="),
    "base64 over lines": _in_cluster("certificate-authority-data: |\n      ZXh0\n      cmE="),
    "base64 that is wrong": _in_cluster("certificate-authority-data: x!", go_reads=False),
}
