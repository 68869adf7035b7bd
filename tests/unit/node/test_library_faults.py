"""Whatever exception a library raises in a call from capacityd.node, the callers of capacityd.node get a NodeError."""

from __future__ import annotations

import itertools
import pkgutil
import re
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from capacityd.model.errors import NodeError
from capacityd.model.node import Node
from capacityd.node import Machine, open_node, open_node_file
from tests.support.nodes import node
from tests.support.server import answer, serve
from tests.unit.node.test_api_node import USES, script
from tests.unit.node.test_credentials import V1, config, credential, program, written

CALLS = [
    "kubernetes.client:ApiClient",
    "kubernetes.client.rest:RESTClientObject.request",
    "urllib3:ProxyManager",
    "urllib3:HTTPResponse.read",
    "yaml:load_all",
    "json:loads",
    "json:dumps",
    "subprocess:Popen",
]
"""The functions that raise the exception, in the notation of pkgutil.resolve_name()."""


class AlienError(Exception):
    """An exception that no library documents."""


@pytest.fixture(scope="module")
def opens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Callable[[], Node]]]:
    """Functions that open a Node: by an exec plugin, through a proxy, and in a file."""
    folder = tmp_path_factory.mktemp("injected")
    with serve(script(event=answer(201, {}))) as server:
        by_plugin = {"exec": {"apiVersion": V1, "command": program(folder, f"echo '{credential(token='x')}'")}}
        plugin = written(folder, config({"server": server.url}, by_plugin), "plugin.conf")
        proxy = server.url.replace("//", "//me:pass@")
        proxied = written(folder, config({"server": server.url, "proxy-url": proxy}, {"token": "x"}), "proxied.conf")
        file = written(folder, node(capacity={"cpu": "4"}), "node.json")
        yield [
            *(lambda path=path: open_node(path, None, Machine("host", None)) for path in (plugin, proxied)),
            lambda: open_node_file(file),
        ]


def outcome(use: Callable[[], object]) -> str:
    """The message of the NodeError that is raised, or ""."""
    try:
        use()
    except NodeError as e:
        return str(e)
    return ""


@pytest.mark.parametrize("call", CALLS)
def test_every_exception_becomes_a_node_error(
    call: str, opens: list[Callable[[], Node]], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, name = re.split(r"[.:](?=\w+$)", call)
    owner = pkgutil.resolve_name(place)
    error = RecursionError if place == "json" else AlienError  # json raises only documented exceptions
    raised = 0

    def fail(*_: object, **__: object) -> None:
        nonlocal raised
        raised += 1
        raise error("why\nnot")

    for new, use, known in itertools.product(opens, USES, (False, True)):
        opened, before = new(), raised
        if known:
            opened.read()
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, fail)
            message = outcome(partial(use, opened))
        assert message.isprintable()
        assert bool(message) is (raised > before), "a NodeError if and only if the library has failed"
    assert raised, "the call is made"
