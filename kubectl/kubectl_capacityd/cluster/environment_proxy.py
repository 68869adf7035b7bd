"""Finds the proxy that environment variables name. Commands with an operator's kubeconfig use the proxy, like kubectl.

Python's library reads the variables, but does not support networks in NO_PROXY. The service ignores the variables,
because a kubelet's API server is usually on the node's own network.
"""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from capacityd.model.errors import NodeUnauthorized
from capacityd.node.kubeconfig import proxy_problem


def proxy_from_environment(server: str) -> str | None:
    """Returns the URL of the proxy for a server; None if the server needs no proxy. server: the server's URL.

    Raises NodeUnauthorized if the proxy cannot be used.
    """
    url = urlsplit(server)
    variables = getproxies_environment()  # "https" -> the value of HTTPS_PROXY or https_proxy
    proxy = variables.get(url.scheme, "")
    if not proxy or _is_excepted(url, variables):
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    problem = proxy_problem(proxy)
    if problem:
        raise NodeUnauthorized(f"{url.scheme.upper()}_PROXY in the environment is invalid; {problem}")
    return proxy


def _is_excepted(url: SplitResult, variables: dict[str, str]) -> bool:
    """Whether the server needs no proxy, because it is on this machine or in NO_PROXY."""
    host = url.hostname or ""
    if host == "localhost" or proxy_bypass(url.netloc):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    if address.is_loopback:
        return True
    no_proxy = variables.get("no", "")
    return any(_contains(entry.strip(), address) for entry in no_proxy.split(","))


def _contains(entry: str, address: object) -> bool:
    """Whether an entry of NO_PROXY is a network with the address, or the address itself."""
    try:
        return address in ip_network(entry, strict=False)
    except ValueError:  # a host name
        return False
