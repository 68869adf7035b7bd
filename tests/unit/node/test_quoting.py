"""No error quotes a credential or a body that is no Status, whatever a server, a proxy or a plugin answers.

The fake server knows each credential, and quotes it.
"""

from __future__ import annotations

import base64
import gc
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from capacityd.model.errors import NodeError, NodeRejected
from capacityd.node import Machine, open_node
from capacityd.node.errors import quotable
from capacityd.node.proxy import proxy_headers
from tests.cluster.credentials import Authority
from tests.support.nodes import node
from tests.support.server import Request, answer, failure, read_request, review, serve
from tests.support.tls import serve_tls
from tests.unit.node.test_credentials import config, written

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
# Responses of a server that quotes this text in a Status.
STATUS: dict[str, Callable[[str], bytes]] = {
    "500": lambda text: failure(500, f"boom: {text}"),
    "401": lambda text: failure(401, text),
    "403": lambda text: failure(403, f'User "{text}" cannot get: {text}'),
    "403 of admission": lambda text: failure(403, f'admission webhook "x" denied the request: {text}'),
    "404": lambda text: failure(404, text, {"kind": "nodes", "name": text}),
    "422": lambda text: failure(422, text, {"causes": [{"field": text, "message": text}]}),
    "400": lambda text: failure(400, text),
}
# Responses that are no Status.
OTHERS: dict[str, Callable[[str], bytes]] = {
    "500 of a proxy": lambda text: answer(500, f"<html>{text}".encode()),
    "302": lambda text: answer(302, headers=f"Location: /{encoded(text)}\r\n"),
    "status line": lambda text: f"HTTP/1.1 {text.splitlines()[0]}\r\n\r\n".encode(),
    "garbage": lambda text: f"{text}\r\n\r\n".encode(),
    "no JSON": lambda text: answer(200, text.encode()),
    "no Node": lambda text: answer(200, {"kind": text}),
    "a strange Node": lambda text: answer(200, node() | {"status": {"capacity": {text: []}}}),
    "another Node": lambda text: answer(200, node() | {"status": {"nodeInfo": {"machineID": text}}}),
}


ANSWERS = {**STATUS, **OTHERS}


def outputs(error: NodeError) -> str:
    """All parts of an error that may be printed, logged, or written to the Node."""
    reason = error.reason if isinstance(error, NodeRejected) else ""
    shown = traceback.format_exception(error, chain=True)
    return "\n".join([str(error), repr(error), reason, *shown])


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
        api_node = open_node(written(tmp_path, config(cluster, kinds[kind].user)), "n1", Machine("host", "ours"))
        for fault in ANSWERS if kind == "token" else OTHERS:
            with pytest.raises(NodeError) as raised:
                api_node.read()
            assert not leaked(secrets, outputs(raised.value)), fault
    assert not leaked(secrets, "".join(capfd.readouterr()))


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("invalid bearer token", "invalid bearer token"),
        (f"invalid {TOKEN}!", f"(a text with the token, {len(TOKEN) + 9} characters)"),
        (" a\nb\x1b[1m ", "a\\nb\\x1b[1m"),
        ("x" * 400, "x" * 300 + "…"),
        ("x" * 5000 + TOKEN, f"(a text with the token, {5000 + len(TOKEN)} characters)"),
    ],
)
def test_a_text_of_the_api_server_is_quoted_without_the_token(text: str, quoted: str) -> None:
    assert quotable(text, TOKEN) == quoted
    assert quotable(text, None)


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
            open_node(path, None, Machine("host", None)).read()
    assert not leaked(kind.secrets, outputs(raised.value))
    del raised
    gc.collect()


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
def test_the_user_of_a_proxy_is_sent_as_by_kubectl(user: str, sent: bytes) -> None:
    credentials = base64.b64encode(sent).decode()
    assert proxy_headers(f"http://{user}proxy:3128") == {"proxy-authorization": f"Basic {credentials}"}
