"""How to reach an API server. ClusterAccess is no dataclass, because the watcher must import little."""

from __future__ import annotations

import base64
import json
from urllib.parse import unquote_to_bytes, urlsplit


class ClusterAccess:
    """An API server's address and our credentials for it. Contains secrets, so it may only be sent through pipes."""

    def __init__(  # noqa: PLR0913  # one for each field
        self,
        kubeconfig: str,
        server: str,
        *,
        node: str = "",
        authority: str | None = None,
        verify: bool = True,
        server_name: str | None = None,
        proxy: str | None = None,
        token: str | None = None,
        impersonated: str | None = None,
        certificate: str | None = None,
        key: str | None = None,
    ) -> None:
        self.kubeconfig = kubeconfig
        """The kubeconfig's path, for messages."""
        self.server = server
        """The API server's URL."""
        self.node = node
        """The name of this machine's Node; "" while it is unknown."""
        self.authority = authority
        """The certificates of the authorities that the server may use, as PEM; None for the system's authorities."""
        self.verify = verify
        """Whether the server's certificate is verified."""
        self.server_name = (server_name or urlsplit(server).hostname or "").rstrip(".")
        """The name or address that the server's certificate must contain; by default, the host in the URL."""
        self.proxy = proxy
        """The proxy's URL, which may contain a user and a password; None for no proxy."""
        self.token = token
        self.impersonated = impersonated
        """The user that every request impersonates; None for no impersonation."""
        self.certificate = certificate
        """The client certificate, as PEM; None for no certificate."""
        self.key = key
        """The key of the client certificate, as PEM."""

    @classmethod
    def from_json(cls, line: bytes | str) -> ClusterAccess:
        """Restores the access from the result of as_json()."""
        return cls(**json.loads(line))

    def as_json(self) -> str:
        """The access as one line."""
        return json.dumps(vars(self))

    @property
    def api_server(self) -> str:
        """The API server's name in messages. The address is not shown, because a kubeconfig's content may be secret."""
        return f"the API server in {self.kubeconfig}"

    @property
    def headers(self) -> dict[str, str]:
        """The headers that authenticate a request."""
        headers = {}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if self.impersonated:
            headers["Impersonate-User"] = self.impersonated
        return headers

    @property
    def proxy_headers(self) -> dict[str, str]:
        """The header with the user and password of the proxy's URL; {} if the URL contains neither.

        As in kubectl, escapes in the URL are decoded, and a colon follows the user even without a password (RFC 7617).
        """
        address = urlsplit(self.proxy or "").netloc
        user_info, _, _ = address.rpartition("@")
        user, _, password = user_info.partition(":")
        if not user and not password:
            return {}
        credentials = base64.b64encode(unquote_to_bytes(f"{user}:{password}")).decode()
        return {"proxy-authorization": f"Basic {credentials}"}
