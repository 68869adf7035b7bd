"""What the watcher watches: the line of JSON on its standard input, and why it cannot be watched."""

from __future__ import annotations

from collections.abc import Mapping


class Target:
    """A Node, its API server, and the credentials. The fields are those of WatchTarget in model/messages.py."""

    def __init__(  # noqa: PLR0913  # one for each field
        self,
        *,
        api_server: str,
        server: str,
        node: str,
        headers: Mapping[str, str],
        authority: str | None,
        verify: bool,
        server_name: str | None,
        certificate: str | None,
        key: str | None,
        proxy: str | None,
        proxy_headers: Mapping[str, str],
    ) -> None:
        self.api_server = api_server
        self.server = server
        self.node = node
        self.headers = headers
        self.authority = authority
        self.verify = verify
        self.server_name = server_name
        self.certificate = certificate
        self.key = key
        self.proxy = proxy
        self.proxy_headers = proxy_headers


class WatchFailure(Exception):
    """Why the Node is not watched now. No text of the server is part of it.

    reason: the end of a sentence that begins with the API server. look_now: whether a pass should look at the Node at
    once, because a change may have been missed, or the credentials must be read again. retry_after: the server's
    Retry-After in seconds.
    """

    def __init__(self, reason: str, *, look_now: bool = False, retry_after: float = 0.0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.look_now = look_now
        self.retry_after = retry_after
