"""The user of a proxy: as the kubeconfig's proxy-url contains it, and as a request sends it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from urllib.parse import unquote_to_bytes, urlsplit


def user_information(proxy: str | None) -> str:
    """Returns the part USER:PASSWORD of a URL, as the URL quotes it; "" if there is none."""
    return urlsplit(proxy or "").netloc.rpartition("@")[0]


def basic_credentials(proxy: str | None) -> str:
    """Returns user and password in base64, as a request sends them; "" if the proxy requires no user.

    Like kubectl, capacityd sends the bytes of the URL, and a colon even if there is no password (RFC 7617).
    """
    user, _, password = user_information(proxy).partition(":")
    return base64.b64encode(unquote_to_bytes(f"{user}:{password}")).decode() if user or password else ""


def proxy_headers(proxy: str | None) -> Mapping[str, str] | None:
    """Returns the headers for a proxy that requires a user. The library does not send them."""
    credentials = basic_credentials(proxy)
    return {"proxy-authorization": f"Basic {credentials}"} if credentials else None
