"""Which proxy `kubectl capacityd` uses if environment variables name one."""

from __future__ import annotations

from pathlib import Path

import pytest

from capacityd.model.errors import NodeUnauthorized
from capacityd.node.kubeconfig import load
from kubectl_capacityd.cluster.environment_proxy import proxy_from_environment
from kubectl_capacityd.cluster.operator_kubeconfig import load_operators
from tests.unit.node.test_credentials import config, written

NAMES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy")
PROXY = "http://proxy.example.com:3128"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("no_proxy", "server", "is_used"),  # whether the proxy is used
    [
        ("", "https://api.example.com:6443", True),
        ("", "https://localhost:6443", False),
        ("", "https://127.0.0.1:6443", False),
        ("", "https://[::1]:6443", False),
        ("*", "https://api.example.com", False),
        ("example.com", "https://api.example.com", False),
        ("example.com", "https://example.com", False),
        ("example.com", "https://notexample.com", True),
        (".example.com", "https://api.example.com", False),
        ("a.example, EXAMPLE.com ,", "https://api.example.com", False),
        ("api.example.com:6443", "https://api.example.com:6443", False),
        ("api.example.com:443", "https://api.example.com:6443", True),
        ("192.0.2.1", "https://192.0.2.1:6443", False),
        ("192.0.2.1:6443", "https://192.0.2.1:6443", False),
        ("192.0.2.0/24", "https://192.0.2.1:6443", False),
        ("10.0.0.0/8,x/y", "https://192.0.2.1:6443", True),
        ("192.0.2.0/24", "https://api.example.com", True),
        ("2001:db8::1", "https://[2001:db8::1]:6443", False),
        ("2001:db8::/32", "https://[2001:db8::1]:6443", False),
    ],
)
def test_no_proxy_excludes_the_servers_that_it_lists(
    monkeypatch: pytest.MonkeyPatch, no_proxy: str, server: str, is_used: bool
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    monkeypatch.setenv("NO_PROXY", no_proxy)
    assert proxy_from_environment(server) == (PROXY if is_used else None)


def test_the_variable_of_the_scheme_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "proxy:3128")
    assert proxy_from_environment("http://192.0.2.1") == "http://proxy:3128"
    assert proxy_from_environment("https://192.0.2.1") is None


def test_only_an_operators_commands_use_the_proxy_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    path = written(tmp_path, config(user={"token": "t"}))
    assert load_operators(path).proxy == PROXY
    assert load(path).proxy is None
    path = written(tmp_path, config({"proxy-url": "http://own:1"}, {"token": "t"}))
    assert load_operators(path).proxy == "http://own:1"


@pytest.mark.parametrize("proxy", ["socks5://192.0.2.1:1080", "https://192.0.2.1:3128", "http://192.0.2.1:x"])
def test_a_proxy_that_cannot_be_used_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    with pytest.raises(NodeUnauthorized, match="HTTPS_PROXY"):
        load_operators(written(tmp_path, config(user={"token": "t"})))
