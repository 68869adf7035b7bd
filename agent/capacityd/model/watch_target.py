"""What the watcher watches, and with which credentials. The watcher imports this module, so it is no dataclass."""

from __future__ import annotations

import json
from collections.abc import Mapping


class WatchTarget:
    """A Node, its API server and the credentials. Contains secrets, so it may only go through pipes."""

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
        """The API server, as messages call it."""
        self.server = server
        """The URL."""
        self.node = node
        """The Node's name."""
        self.headers = headers or {}
        """The headers that say who sends the request."""
        self.authority = authority
        """The certificates of the server's authorities; None: those of the system. Certificates and keys are PEM."""
        self.verify = verify
        """False accepts any server certificate."""
        self.server_name = server_name
        """The name in the server's certificate; None: the host in the URL."""
        self.certificate = certificate
        """The client certificate."""
        self.key = key
        """The client certificate's key."""
        self.proxy = proxy
        """The URL; None: no proxy."""
        self.proxy_headers = proxy_headers or {}
        """The headers for the proxy."""

    @classmethod
    def from_json(cls, line: bytes | str) -> WatchTarget:
        """Restores the target from as_json()."""
        return cls(**json.loads(line))

    def as_json(self) -> str:
        """The target as one line."""
        return json.dumps(vars(self))
