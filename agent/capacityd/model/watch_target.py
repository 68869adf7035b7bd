"""A Node and the credentials for the watcher. The watcher imports little, so WatchTarget is no dataclass."""

from __future__ import annotations

import json
from collections.abc import Mapping


class WatchTarget:
    """A Node, its API server and the credentials. A target contains secrets, so it may only be sent through pipes."""

    def __init__(  # noqa: PLR0913  # one for each field
        self,
        api_server: str,
        server: str,
        node: str,
        *,
        headers: Mapping[str, str] | None = None,
        authority: str | None = None,
        verify: bool = True,
        server_name: str | None = None,
        certificate: str | None = None,
        key: str | None = None,
        proxy: str | None = None,
        proxy_headers: Mapping[str, str] | None = None,
    ) -> None:
        self.api_server = api_server
        """The API server's name in messages."""
        self.server = server
        """The API server's URL."""
        self.node = node
        """The Node's name."""
        self.headers = headers or {}
        """The headers that authenticate the request."""
        self.authority = authority
        """The certificates of the authorities that the server may use, as PEM; None for the system's authorities."""
        self.verify = verify
        """Whether the server's certificate is verified."""
        self.server_name = server_name
        """The name in the server's certificate; None for the host in the URL."""
        self.certificate = certificate
        """The client certificate, as PEM."""
        self.key = key
        """The key of the client certificate, as PEM."""
        self.proxy = proxy
        """The proxy's URL; None for no proxy."""
        self.proxy_headers = proxy_headers or {}
        """The headers for the proxy."""

    @classmethod
    def from_json(cls, line: bytes | str) -> WatchTarget:
        """Restores the target from as_json()."""
        return cls(**json.loads(line))

    def as_json(self) -> str:
        """The target as one line."""
        return json.dumps(vars(self))
