"""Reads a list from the API server in pages. Waits if the API server asks for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from capacityd.model.errors import NodeListExpired, NodeUnreachable
from capacityd.node.documents.lists import list_page

T = TypeVar("T")

_TRIES = 5
"""Attempts to request a page while the API server asks to wait."""
_MAX_WAIT = 10.0
"""Maximum pause in seconds before the next attempt, even if the API server asks for more."""


def pages(send: Callable[[str], object], kind: str, server: str) -> Iterator[Sequence[Mapping[str, Any]]]:
    """Yields the items of each page. Raises NodeError, in particular NodeListExpired if reading takes too long.

    send: takes a token, "" for the first page, and requests the page after it.
    kind: the list's kind.
    server: the server's address, for messages.
    """
    token = ""
    while True:
        page = list_page(_send_retrying(send, token), kind)
        if page is None:
            raise NodeUnreachable(f"{server} sent a response that is not a {kind}. Is it an API server?")
        yield page.items
        if not page.next_token:
            return
        if page.next_token == token:
            raise NodeUnreachable(f"{server} sent the same page of its {kind} twice, so the list would never end")
        token = page.next_token


def retry_if_expired(read: Callable[[], T]) -> T:
    """Returns the result of read(). Calls it a second time if the list has expired.

    The API server keeps the version of the first page for 5 to 10 minutes.
    """
    try:
        return read()
    except NodeListExpired:
        return read()


def _send_retrying(send: Callable[[str], object], token: str) -> object:
    for remaining in reversed(range(_TRIES)):
        try:
            return send(token)
        except NodeUnreachable as e:
            if e.retry_after is None or not remaining:
                raise
            time.sleep(min(e.retry_after, _MAX_WAIT))
    raise AssertionError("unreachable")
