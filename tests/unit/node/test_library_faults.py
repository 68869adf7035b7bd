"""Whatever exception a library raises in a request, the caller gets a NodeError that does not quote the exception."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

import pytest

from capacityd.model.errors import NodeError
from capacityd.node.api_node import ApiNode
from capacityd.node.identity import Machine
from tests.support.server import serve
from tests.unit.node.test_api_node import respond
from tests.unit.node.test_credentials import config, written


class AlienError(Exception):
    """An exception that no library documents."""


@pytest.mark.parametrize(
    "call",  # the function that raises the exception, in the notation of pkgutil.resolve_name()
    [
        "capacityd.node.client:ApiClient",
        "urllib3:ProxyManager",
        "urllib3:ProxyManager.urlopen",
        "urllib3:HTTPResponse.read",
        "yaml:load_all",
    ],
)
def test_every_exception_becomes_a_node_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    owner, name = re.split(r"[.:](?=\w+$)", call)  # such as "urllib3:HTTPResponse" and "read"

    def fail(*_: object, **__: object) -> None:
        raise AlienError("why\nnot")

    with serve(respond) as server:
        proxy = server.url.replace("//", "//me:pass@")
        path = written(tmp_path, config({"server": "http://192.0.2.1", "proxy-url": proxy}, {"token": "x"}))
        assert ApiNode(path, None, Machine("host", None)).read().name == "n1"
        monkeypatch.setattr(pkgutil.resolve_name(owner), name, fail)
        with pytest.raises(NodeError) as raised:
            ApiNode(path, None, Machine("host", None)).read()
    assert "why" not in str(raised.value)
    assert str(raised.value).isprintable()
