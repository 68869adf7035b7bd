"""Each library that node/ calls raises each exception that it declares, at each call: a NodeError comes of all of them.

What is declared is found in the library's own modules, so it is that of the version that is installed.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import ssl
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from unittest.mock import MagicMock

import jsonpatch
import jsonpointer
import pytest

from capacityd.model.errors import NodeError, NodeGuardFailed, NodeGuardUnexplained
from capacityd.model.node import Node
from capacityd.node import open_node
from capacityd.node.parse import node_state
from tests.cluster.credentials import Authority, exec_plugin, kubeconfig
from tests.support.nodes import node
from tests.support.server import failure, serve
from tests.unit.node.test_api_node import EVENT, script

PATCH: list[dict[str, object]] = [
    {"op": "test", "path": "/status/capacity/other", "value": None},
    {"op": "test", "path": "/status/capacity/cpu", "value": "4"},
]
HARMLESS = ("ssl:PEM_cert_to_DER_cert",)
"""Calls for a part of a message that may be missing."""


def declared(library: ModuleType, *modules: str) -> list[BaseException]:
    """One of each exception class that is defined in these modules of a library, or in its top."""
    found: dict[str, BaseException] = {}
    for module in (library, *(importlib.import_module(f"{library.__name__}.{name}") for name in modules)):
        for kind in vars(module).values():
            ours = isinstance(kind, type) and issubclass(kind, Exception)
            if ours and kind.__module__.partition(".")[0].lstrip("_") == library.__name__.partition(".")[0]:
                found.setdefault(f"{kind.__module__}.{kind.__name__}", made(kind))
    return [found[name] for name in sorted(found)]


def made(kind: type[Exception]) -> Exception:
    """One of its kind, with as many arguments as it wants."""
    for arguments in (
        (),
        ("why\nnot",),
        ("why", "not"),
        ("why", "n", 0),
        (3, 5),
        (MagicMock(), b"x"),
        (None, "u", "why"),
        (3, ["x"]),
        ("j", "d", 1),
    ):
        with suppress(Exception):
            error = kind(*arguments)
            str(error)
            return error
    error = kind.__new__(kind)
    error.args = ("why\nnot",)
    return error


CALLS = [
    "kubernetes.client:Configuration",
    "kubernetes.client:ApiClient",
    "kubernetes.client:CoreV1Api",
    "kubernetes.client:CustomObjectsApi",
    "kubernetes.client:CustomObjectsApi.create_cluster_custom_object",
    "kubernetes.client:CoreV1Api.read_node",
    "kubernetes.client:CoreV1Api.patch_node_status",
    "kubernetes.client:CoreV1Api.create_namespaced_event",
    "urllib3:PoolManager",
    "urllib3:ProxyManager",
    "urllib3:make_headers",
    "urllib3:Timeout",
    "urllib3:PoolManager.request",
    "urllib3:HTTPResponse.read",
    "urllib3:HTTPResponse.release_conn",
    "urllib3:HTTPResponse.close",
    "ssl:create_default_context",
    "ssl:SSLContext.load_cert_chain",
    "ssl:PEM_cert_to_DER_cert",
    "yaml:safe_load",
    "json:loads",
    "json:dumps",
    "subprocess:Popen",
    "jsonpatch:JsonPatch",
    "jsonpatch:JsonPatch.apply",
    "jsonpointer:JsonPointer",
    "jsonpointer:JsonPointer.to_last",
]
"""As pkgutil.resolve_name() takes them."""


@cache
def libraries() -> dict[str, list[BaseException]]:
    """What each declares. Imported here, as that takes a second: not by each worker that collects the tests."""
    import kubernetes
    import urllib3
    import yaml

    return {
        "kubernetes": declared(kubernetes, "client.exceptions", "config.config_exception"),
        "urllib3": declared(urllib3, "exceptions"),
        "ssl": declared(ssl),
        "yaml": declared(yaml, *(name for _, name, _ in pkgutil.iter_modules(yaml.__path__) if name[0] != "_")),
        "json": declared(json, "decoder"),
        "subprocess": declared(subprocess),
        "jsonpatch": declared(jsonpatch),
        "jsonpointer": declared(jsonpointer),
    }


ANY = [
    OSError(5, "Input/output error"),
    TypeError("x"),
    KeyError("x"),
    AttributeError(),
    RecursionError(),
    MemoryError(),
]
"""What a library declares not, and raises."""


def test_what_is_declared_is_found() -> None:
    counts = {name: len(found) for name, found in libraries().items()}
    least = {"kubernetes": 6, "urllib3": 30, "ssl": 7, "yaml": 8, "json": 1, "subprocess": 3, "jsonpatch": 4}
    assert all(counts[name] >= number for name, number in least.items()), counts
    assert {"ApiException", "SSLError", "CertificateError", "ScannerError", "TimeoutExpired"} <= {
        *(type(e).__name__ for errors in libraries().values() for e in errors),
        *(["CertificateError"] if ssl.CertificateError is ssl.SSLCertVerificationError else []),
    }


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """Kubeconfigs of a server that answers: with a client certificate, with a proxy, with an exec plugin."""
    folder = tmp_path_factory.mktemp("injected")
    authority = Authority.create(folder / "authority")
    pem = str(authority.client("system:node:n1", ["system:nodes"], folder / "client.pem"))
    found = {name: folder / f"{name}.conf" for name in ("certificate", "proxy", "exec")}
    with serve(script(patch=failure(422, "the server rejected our request"))) as server:
        text = kubeconfig(server.url, authority.ca_file, {"client-certificate": pem, "client-key": pem})
        found["certificate"].write_text(text)
        document = json.loads(text)
        document["clusters"][0]["cluster"]["proxy-url"] = server.url.replace("//", "//me:pass@")
        found["proxy"].write_text(json.dumps(document))
        user = exec_plugin(folder / "plugin", "secret")
        found["exec"].write_text(kubeconfig(server.url, authority.ca_file, user))
        found["file"] = folder / "node.json"
        found["file"].write_text(json.dumps(node(capacity={"cpu": "4"})))
        yield found


Use = tuple[Callable[[], Node], Callable[[Node], object]]
"""Gives a Node, and does something with it."""


def uses(paths: Mapping[str, Path], library: str) -> Iterator[Use]:
    """What can be done with a Node, so that each call of this library is made."""
    names = {"jsonpatch": ["file"], "jsonpointer": ["file"], "subprocess": ["exec"]}
    for name in names.get(library, ["certificate", "proxy", "file"]):
        kubeconfig, file = (None, str(paths[name])) if name == "file" else (str(paths[name]), None)
        new = partial(open_node, kubeconfig, None, file, "host", None)
        known = partial(identified, new())
        yield new, lambda found: found.read()
        if name != "file":
            yield known, lambda found: found.read()
            yield known, lambda found: found.report(EVENT, node_state(node()))
        yield known, lambda found: found.write(PATCH)


def identified(found: Node) -> Node:
    """The same. Whatever failed before, its identity is known, and so is the way."""
    with suppress(NodeGuardUnexplained):  # of the write before, which the server has refused
        found.read()
    return found


def outcome(use: Callable[[], object]) -> str:
    """What the NodeError of it says, "" if there is none."""
    try:
        use()
    except NodeError as e:
        return str(e) or "\n"
    return ""


@pytest.mark.parametrize("call", CALLS)
def test_whatever_is_raised_is_an_error_of_ours(
    call: str, paths: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, name = re.split(r"[.:](?=\w+$)", call)
    owner = pkgutil.resolve_name(place)
    library = re.split("[.:]", call)[0]
    raised, came = 0, 0
    errors = [*libraries()[library], *(ANY if library != "json" else [RecursionError()])]
    making = list(uses(paths, library))
    for error in errors:

        def fail(*_: object, _error: BaseException = error, **__: object) -> None:
            nonlocal raised
            raised += 1
            raise _error

        for given, use in making[:]:
            found, before = given(), raised
            with monkeypatch.context() as patch:
                patch.setattr(owner, name, fail)
                said = outcome(partial(use, found))
            came += bool(said)
            assert said.isprintable(), repr(said)
            if raised == before:
                making.remove((given, use))  # nor would it make the call that the next error is raised at
    assert raised >= len(errors), "each was raised"
    assert came >= len(libraries()[library]) or call in HARMLESS, "and something came of it"


def test_a_conflict_that_can_not_be_explained_for_want_of_a_library_is_a_conflict(
    paths: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Node is read after it, whatever the library that compares does."""
    for error in (*libraries()["jsonpatch"], *libraries()["jsonpointer"], *ANY):
        found = open_node(str(paths["certificate"]), None, None, "host", None)
        with pytest.raises(NodeGuardFailed):
            found.write(PATCH)

        def fail(*_: object, _error: BaseException = error, **__: object) -> None:
            raise _error

        with monkeypatch.context() as patch:
            patch.setattr(jsonpatch, "JsonPatch", fail)
            assert found.read().capacity == {"cpu": "4"}
