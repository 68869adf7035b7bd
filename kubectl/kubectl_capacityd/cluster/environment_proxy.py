"""The proxy that environment variables name, for the commands that use an operator's kubeconfig, as in kubectl.

The rules are those of Go's golang.org/x/net/http/httpproxy (FromEnvironment, useProxy). The service ignores these
variables: a kubelet's API server is usually on the node's own network.
"""

from __future__ import annotations

import os
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

from capacityd.model.errors import NodeUnauthorized
from capacityd.node.proxy import proxy_problem

_DEFAULT_PORTS = {"http": 80, "https": 443}


def proxy_from_environment(server: str) -> str | None:
    """Returns the URL of the proxy for a server; None if the server is reached without one. server: its URL.

    Raises NodeUnauthorized if the proxy cannot be used.
    """
    url = urlsplit(server)
    name = f"{url.scheme.upper()}_PROXY"
    proxy = _variable(name)
    if not proxy or _is_excepted(url):
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    if problem := proxy_problem(proxy):
        raise NodeUnauthorized(f"{name} in the environment is invalid; {problem}")
    return proxy


def _variable(name: str) -> str:
    """The value of a variable, whose name may be in lower case; "" if it is not set."""
    return os.environ.get(name) or os.environ.get(name.lower()) or ""


def _is_excepted(url: SplitResult) -> bool:
    """Whether the server is reached without a proxy: it is on this machine, or NO_PROXY lists it."""
    host = (url.hostname or "").rstrip(".")
    port = url.port or _DEFAULT_PORTS[url.scheme]
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    entries = (entry.strip().lower() for entry in _variable("NO_PROXY").split(","))
    return any(_matches(entry, host=host, address=address, port=port) for entry in entries if entry)


def _matches(entry: str, host: str, address: IPv4Address | IPv6Address | None, port: int) -> bool:
    """Whether an entry of NO_PROXY is for a host: an address, a network, or a domain, perhaps with a port.

    address: the host, if it is an address.
    """
    if entry == "*":
        return True
    if "/" in entry:
        try:
            return address is not None and address in ip_network(entry, strict=False)
        except ValueError:
            return False
    before, colon, after = entry.rpartition(":")
    is_ipv6_address = ":" in before and not before.endswith("]")  # one with a port is in brackets
    if colon and after.isdigit() and not is_ipv6_address:
        if int(after) != port:
            return False
        entry = before
    if address is not None:
        return _address(entry.strip("[]")) == address
    domain = entry.removeprefix("*")
    if domain.startswith("."):  # subdomains only
        return host.endswith(domain)
    return host == domain or host.endswith(f".{domain}")


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None
