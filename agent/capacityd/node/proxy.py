"""Checks URLs of servers and proxies, and makes headers from the user and password in a proxy's URL."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from urllib.parse import unquote_to_bytes, urlsplit


def is_http_url(text: str) -> bool:
    """Whether a text is an http or https URL with a host."""
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:  # e.g. a port that is no number
        return False
    return url.scheme in ("http", "https") and bool(url.hostname) and port != 0 and text.isprintable()


def proxy_problem(proxy: str) -> str:
    """How to fix a proxy's URL; "" if the URL can be used."""
    if proxy.lower().startswith("http://") and is_http_url(proxy):
        return ""
    return "name an HTTP proxy, such as http://192.0.2.1:3128 (SOCKS and TLS to the proxy are not supported)"


def proxy_headers(proxy: str | None) -> Mapping[str, str] | None:
    """Returns the header with the user and password of a proxy's URL; None if the URL contains neither.

    urllib3 does not send the user and password by itself. As in kubectl, escapes in the URL are decoded, and a colon
    follows the user even without a password (RFC 7617).
    """
    user_info = urlsplit(proxy or "").netloc.rpartition("@")[0]
    user, _, password = user_info.partition(":")
    if not user and not password:
        return None
    credentials = base64.b64encode(unquote_to_bytes(f"{user}:{password}")).decode()
    return {"proxy-authorization": f"Basic {credentials}"}
