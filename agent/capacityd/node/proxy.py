"""Checks URLs of servers and proxies, and makes headers from the user and password in a proxy's URL."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from urllib.parse import unquote_to_bytes, urlsplit


def is_http_url(text: str) -> bool:
    """Whether a text is the URL of a server or a proxy."""
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:  # e.g. a port that is no number
        return False
    return url.scheme in ("http", "https") and bool(url.hostname) and port != 0 and text.isprintable()


def proxy_problem(proxy: str) -> str:
    """Why a proxy cannot be used, and what to do; "" if it can be used. proxy: the proxy's URL."""
    if proxy.lower().startswith("http://") and is_http_url(proxy):
        return ""
    return "name an HTTP proxy, such as http://192.0.2.1:3128 (SOCKS and TLS to the proxy are not supported)"


def proxy_headers(proxy: str | None) -> Mapping[str, str] | None:
    """Returns the headers for the user and password in a proxy's URL, which urllib3 does not send; None without a user.

    Like kubectl, this decodes the URL's escapes, and adds a colon even if there is no password (RFC 7617).
    """
    user_info = urlsplit(proxy or "").netloc.rpartition("@")[0]
    user, _, password = user_info.partition(":")
    if not user and not password:
        return None
    credentials = base64.b64encode(unquote_to_bytes(f"{user}:{password}")).decode()
    return {"proxy-authorization": f"Basic {credentials}"}
