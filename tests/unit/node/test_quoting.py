"""No error message contains a credential, although the fake server or proxy quotes the credentials that it gets.

tests/unit/worker/test_private_text.py tests the other private texts that capacityd reads.
"""

from __future__ import annotations

import base64
import gc
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from capacityd.model.cluster_access import ClusterAccess
from capacityd.model.errors import NodeError
from capacityd.node.api_node import ApiNode
from capacityd.node.errors import quotable
from capacityd.node.identity import Machine
from tests.support.nodes import node
from tests.support.server import Request, answer, failure, read_request, review, serve
from tests.support.tls import serve_tls
from tests.unit.node.test_credentials import config, written

TOKEN = "tOkEn.0123456789-abcdefghijklmnopqrstuvwxyz_MARK"
PASSWORD = "pa/ss wörd-MARK"
URL_USER = "me:pa%2Fss%20w%C3%B6rd-MARK"
BASIC = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
SECRETS = (TOKEN, PASSWORD, URL_USER, BASIC)

RESPONSES: dict[str, Callable[[str], bytes]] = {  # each response quotes the text that it is given
    "500": lambda text: failure(500, f"boom: {text}"),
    "401": lambda text: failure(401, text),
    "403": lambda text: failure(403, f'User "{text}" cannot get: {text}'),
    "403 of admission": lambda text: failure(403, f'admission webhook "x" denied the request: {text}'),
    "404": lambda text: failure(404, text, {"kind": "nodes", "name": text}),
    "422": lambda text: failure(422, text, {"causes": [{"field": text, "message": text}]}),
    "500 of a proxy": lambda text: answer(500, f"<html>{text}".encode()),
    "302": lambda text: answer(302, headers=f"Location: /{text}\r\n"),
    "status line": lambda text: f"HTTP/1.1 {text}\r\n\r\n".encode(),
    "garbage": lambda text: f"{text}\r\n\r\n".encode(),
    "no JSON": lambda text: answer(200, text.encode()),
    "no Node": lambda text: answer(200, {"kind": text}),
    "a strange Node": lambda text: answer(200, node() | {"status": {"capacity": {text: []}}}),
    "another Node": lambda text: answer(200, node() | {"status": {"nodeInfo": {"machineID": text}}}),
}


def leaked(error: NodeError) -> list[str]:
    """The secrets that an error contains in any text that may be printed, logged, or written to the Node."""
    shown = "\n".join([repr(error), str(getattr(error, "reason", "")), *traceback.format_exception(error)])
    return [secret for secret in SECRETS if secret in shown]


@pytest.mark.parametrize("respond", RESPONSES.values(), ids=RESPONSES)
def test_no_error_contains_credentials_that_a_server_or_proxy_quotes(
    tmp_path: Path, respond: Callable[[str], bytes], capfd: pytest.CaptureFixture[str]
) -> None:
    def follow(request: Request) -> bytes:
        if request.method == "POST":
            return review("bob")
        headers = f"{request.headers['authorization']} {request.headers['proxy-authorization']}"
        return respond(f"{headers} {PASSWORD} {URL_USER}")

    with serve(follow) as server:
        cluster = {"server": "http://192.0.2.1", "proxy-url": server.url.replace("//", f"//{URL_USER}@")}
        path = written(tmp_path, config(cluster, {"token": TOKEN}))
        with pytest.raises(NodeError) as raised:
            ApiNode(path, "n1", Machine("host", "ours")).read()
    assert not leaked(raised.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("invalid bearer token", "invalid bearer token"),
        (f"invalid {TOKEN}!", f"(a text with the token, {len(TOKEN) + 9} characters)"),  # "invalid " and "!" have 9
        (" a\nb\x1b[1m ", "a\\nb\\x1b[1m"),
        ("x" * 400, "x" * 300 + "…"),
        ("x" * 5000 + TOKEN, f"(a text with the token, {5000 + len(TOKEN)} characters)"),
    ],
)
def test_a_text_of_the_api_server_is_quoted_without_the_token(text: str, quoted: str) -> None:
    assert quotable(text, TOKEN) == quoted
    assert quotable(text, None)


# urllib3 1.26 does not close the socket if a proxy refuses a tunnel, so the garbage collector warns.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_no_error_contains_the_password_that_a_proxy_quotes(tmp_path: Path) -> None:
    def refuse(connection: Any) -> None:
        with connection.makefile("rb") as stream:
            request = read_request(stream)
        assert request is not None
        quoted = request.headers["proxy-authorization"]
        assert quoted == f"Basic {BASIC}"
        connection.sendall(f"HTTP/1.1 407 {quoted}\r\n{quoted}\r\n\r\n{quoted}".encode())

    with serve_tls(refuse) as proxy:
        url = proxy.url.replace("https://", f"http://{URL_USER}@")
        path = written(tmp_path, config({"server": "https://192.0.2.1", "proxy-url": url}))
        with pytest.raises(NodeError, match="proxy") as raised:
            ApiNode(path, None, Machine("host", None)).read()
    assert not leaked(raised.value)
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
def test_the_user_of_a_proxy_is_encoded_like_kubectls(user: str, sent: bytes) -> None:
    credentials = base64.b64encode(sent).decode()
    access = ClusterAccess("k", "https://192.0.2.1", proxy=f"http://{user}proxy:3128")
    assert access.proxy_headers == {"proxy-authorization": f"Basic {credentials}"}
