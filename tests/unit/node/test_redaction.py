"""No error contains a credential of any kind, whatever a server, a proxy or a plugin answers.

The fake server knows each credential in all its forms, and quotes them.
"""

from __future__ import annotations

import base64
import gc
import json
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.model.errors import NodeError, NodeRejected
from capacityd.node import open_node
from capacityd.node.kubeconfig import load
from capacityd.node.proxy import proxy_headers
from capacityd.node.redaction import REDACTED, Secrets, secrets_of
from tests.cluster.credentials import Authority
from tests.support.nodes import node
from tests.support.server import Request, answer, failure, read_request, review, serve
from tests.support.tls import serve_tls
from tests.unit.node.test_credentials import V1, config, written

TOKEN = "tOkEn.0123456789-abcdefghijklmnopqrstuvwxyz_MARK"
PASSWORD = "pa/ss wörd-MARK"
PEM_LINES = "".join(
    f"-----{end} {kind}-----\n" for end in ("BEGIN", "END") for kind in ("CERTIFICATE", "EC PRIVATE KEY")
)
LEAK = 12
"""The number of consecutive characters of a secret that must not be visible."""


@dataclass(frozen=True)
class Kind:
    """A kind of credentials, as a kubeconfig contains them. secrets: their secret parts, in all forms."""

    user: Mapping[str, Any]
    secrets: tuple[str, ...]
    proxy_user: str = ""


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Kind]:
    folder = tmp_path_factory.mktemp("kinds")
    authority = Authority.create(folder / "authority")
    pem = authority.client("system:node:n1", ["system:nodes"], folder / "client.pem").read_text()
    certificate, mark, key = pem.partition("-----BEGIN EC")
    key = mark + key
    parts = tuple(form for text in (certificate, key) for form in (text, encoded(text), text.replace("\n", "")))
    quoted = "pa%2Fss%20w%C3%B6rd-MARK"
    return {
        "token": Kind({"token": TOKEN}, (TOKEN,)),
        "certificate": Kind({"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)}, parts),
        "proxy": Kind({}, (PASSWORD, quoted, encoded(f"me:{PASSWORD}")), f"me:{quoted}@"),
    }


KINDS = ("token", "certificate", "proxy")
FORMS: dict[str, Callable[[str], str]] = {
    "base64": encoded,
    "base64 that begins in the middle": lambda text: encoded(f"a{text}"),
    "base64 for URLs": lambda text: base64.urlsafe_b64encode(f">>>???{text}".encode()).decode(),
    "hexadecimal": lambda text: text.encode().hex(),
    "upper case hexadecimal": lambda text: text.encode().hex().upper(),
    "hexadecimal bytes": lambda text: text.encode().hex(" "),
    "divided by blanks": lambda text: " ".join(text[i : i + 8] for i in range(0, len(text), 8)),
    "a character on each line": "\n".join,
}

# Responses of a server that quotes this text.
ANSWERS: dict[str, Callable[[str], bytes]] = {
    "500": lambda text: failure(500, f"boom: {text}"),
    "500 of a proxy": lambda text: answer(500, f"<html>{text}".encode()),
    "401": lambda text: failure(401, text),
    "403": lambda text: failure(403, f'User "{text}" cannot get: {text}'),
    "403 of admission": lambda text: failure(403, f'admission webhook "x" denied the request: {text}'),
    "404": lambda text: failure(404, text, {"kind": "nodes", "name": text}),
    "422": lambda text: failure(422, text, {"causes": [{"field": text, "message": text}]}),
    "400": lambda text: failure(400, text),
    "302": lambda text: answer(302, headers=f"Location: /{encoded(text)}\r\n"),
    "status line": lambda text: f"HTTP/1.1 {text.splitlines()[0]}\r\n\r\n".encode(),
    "garbage": lambda text: f"{text}\r\n\r\n".encode(),
    "no JSON": lambda text: answer(200, text.encode()),
    "no Node": lambda text: answer(200, {"kind": text}),
    "a strange Node": lambda text: answer(200, node() | {"status": {"capacity": {text: []}}}),
    "another Node": lambda text: answer(200, node() | {"status": {"nodeInfo": {"machineID": text}}}),
}


def outputs(error: NodeError) -> str:
    """All parts of an error that may be printed, logged, or written to the Node."""
    reason = error.reason if isinstance(error, NodeRejected) else ""
    shown = traceback.format_exception(error, chain=True)
    return "\n".join([str(error), repr(error), reason, *getattr(error, "files", ()), *shown])


def leaked(secrets: tuple[str, ...], text: str) -> set[str]:
    """The parts of the secrets that occur in the text."""
    parts = {secret[i : i + LEAK] for secret in secrets for i in range(len(secret) - LEAK + 1)}
    return {part for part in parts if part in text and part not in PEM_LINES}


@pytest.mark.parametrize("kind", KINDS)
def test_no_output_contains_credentials_that_a_server_quotes(
    tmp_path: Path, kinds: dict[str, Kind], kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    secrets = kinds[kind].secrets
    fault = ""

    def follow(request: Request) -> bytes:
        if request.method == "POST":
            return review("bob")
        echo = f"{request.headers.get('authorization')} {request.headers.get('proxy-authorization')}"
        return ANSWERS[fault](f"{echo} {secrets[0]} {secrets[-1]}")

    with serve(follow) as server:
        cluster = {"server": server.url}
        if user := kinds[kind].proxy_user:
            cluster = {"server": "http://192.0.2.1", "proxy-url": server.url.replace("//", f"//{user}")}
        api_node = open_node(written(tmp_path, config(cluster, kinds[kind].user)), "n1", "host", "ours")
        for fault in ANSWERS:
            with pytest.raises(NodeError) as raised:
                api_node.read()
            assert not leaked(secrets, outputs(raised.value)), fault
    assert not leaked(secrets, "".join(capfd.readouterr()))


@pytest.mark.parametrize("kind", KINDS)
def test_each_form_and_part_of_a_secret_is_hidden(tmp_path: Path, kinds: dict[str, Kind], kind: str) -> None:
    user = kinds[kind].proxy_user
    cluster = {"proxy-url": f"http://{user}h:1"} if user else {}
    access = load(written(tmp_path, config(cluster, kinds[kind].user)))
    assert "MARK" not in repr(access)
    for secret in kinds[kind].secrets:
        half = len(secret) // 2
        for text in (secret, secret[:half], secret[half:], f"x{secret}x", f'"{secret[2:half]}..."'):
            assert not leaked(kinds[kind].secrets, access.redact(text)), text


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("secret", [TOKEN, TOKEN[:9], "a secret of words"])
def test_an_encoded_secret_is_hidden(secret: str, form: str) -> None:
    text = f"it sent {FORMS[form](secret)}, which is invalid"
    assert secrets_of(secret, (), None).redact(text) == f"it sent {REDACTED}, which is invalid"


def test_words_near_an_encoded_secret_stay() -> None:
    quoted = secrets_of(TOKEN, (), None).redact(f"the webhook at 10.0.0.1 got {' '.join(TOKEN)} and does not like it")
    assert quoted == f"the webhook at 10.0.0.1 got {REDACTED} and does not like it"


# urllib3 1.26 does not close the socket if a proxy refuses a tunnel.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_no_output_contains_the_password_that_a_proxy_quotes(tmp_path: Path, kinds: dict[str, Kind]) -> None:
    kind = kinds["proxy"]

    def refuse(connection: Any) -> None:
        with connection.makefile("rb") as stream:
            request = read_request(stream)
        assert request is not None
        quoted = request.headers["proxy-authorization"]
        assert quoted == f"Basic {encoded(f'me:{PASSWORD}')}"
        connection.sendall(f"HTTP/1.1 407 {quoted}\r\n{quoted}\r\n\r\n{quoted}".encode())

    with serve_tls(refuse) as proxy:
        url = proxy.url.replace("https://", f"http://{kind.proxy_user}")
        path = written(tmp_path, config({"server": "https://192.0.2.1", "proxy-url": url}))
        with pytest.raises(NodeError, match="proxy") as raised:
            open_node(path, None, "host", None).read()
    assert not leaked(kind.secrets, outputs(raised.value))
    del raised
    gc.collect()


def test_no_error_contains_the_arguments_of_a_plugin(tmp_path: Path) -> None:
    """test_credentials.py tests the plugin's output."""
    entry = {"apiVersion": V1, "command": "no-such-plugin", "env": [{"name": "A", "value": TOKEN}]}
    path = written(tmp_path, config(user={"exec": entry | {"args": [TOKEN], "installHint": f"Bearer {TOKEN}"}}))
    with pytest.raises(NodeError, match="the exec plugin") as raised:
        open_node(path, None, "host", None).read()
    assert not leaked((TOKEN,), outputs(raised.value))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("invalid bearer token", "invalid bearer token"),
        ('Authorization: "Bearer abc123def", x', 'Authorization: "Bearer (redacted)", x'),
        ("authorization basic bWU6cGFzcw== failed", "authorization basic (redacted) failed"),
        ("GET https://me:pass@proxy:3128/x", "GET https://(redacted)proxy:3128/x"),
        ("mail me@example.com at https://example.com/@x", "mail me@example.com at https://example.com/@x"),
        ("a -----BEGIN EC PRIVATE KEY-----\nx\n-----END EC PRIVATE KEY----- b", "a (redacted) b"),
        ("a -----BEGIN EC PRIVATE KEY-----\nx", "a (redacted)"),
        ("token eyJhbGciOiJSUzI1NiJ9.e30.c2ln has expired", "token (redacted) has expired"),
        ("https://h/?password=abc&x=1", "https://h/?password=(redacted)&x=1"),
    ],
)
def test_what_looks_like_a_secret_is_hidden(text: str, expected: str) -> None:
    assert Secrets().redact(text) == expected


def test_short_secrets_are_not_searched_for() -> None:
    assert secrets_of(None, (None, ""), None) == secrets_of("", (), "http://proxy:3128") == Secrets()
    assert secrets_of("abc", (), "http://a:b@proxy").values == ("YTpi",), "the header of the proxy"


@pytest.mark.parametrize(
    ("user", "sent"),
    [
        ("me%40x:p%2Fss@", b"me@x:p/ss"),
        ("me:w%C3%B6rd%E2%82%AC@", "me:wörd€".encode()),
        ("me:wörd€@", "me:wörd€".encode()),
        ("me:w%F6rd@", b"me:w\xf6rd"),
        ("token@", b"token:"),
        (":password@", b":password"),
    ],
)
def test_the_user_of_a_proxy_is_sent_as_by_kubectl_and_hidden(user: str, sent: bytes) -> None:
    """The header is what kubectl sends, and hidden wherever a text quotes it."""
    url, credentials = f"http://{user}proxy:3128", base64.b64encode(sent).decode()
    assert proxy_headers(url) == {"proxy-authorization": f"Basic {credentials}"}
    assert secrets_of(None, (), url).redact(f"407: {credentials}") == f"407: {REDACTED}"


@given(st.text(st.characters(codec="utf-8"), min_size=LEAK), st.text(max_size=400), st.text(max_size=20))
def test_a_secret_is_hidden_anywhere_in_a_text(secret: str, before: str, after: str) -> None:
    quoted = secrets_of(secret.strip(), (), None).redact(before + secret.strip() + after)
    assert len(quoted) <= 301
    assert quoted.isprintable()
    assert len(secret.strip()) < LEAK or secret.strip() not in quoted


def test_a_long_text_costs_little() -> None:
    """The text is cut before it is searched. A token that the cut splits is found as well."""
    secrets = secrets_of(TOKEN, (), None)
    assert len(secrets.redact("x" * (4 << 20))) == 301
    for length in range(4096 - len(TOKEN), 4096):
        assert not leaked((TOKEN,), secrets.redact(f"{json.dumps('y z ') * length}"[:length] + TOKEN))
