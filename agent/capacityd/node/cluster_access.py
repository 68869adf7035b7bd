"""The content of a kubeconfig and its files."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """How to reach an API server, and with which credentials. Certificates and keys are PEM."""

    kubeconfig: str
    """The path, for messages."""
    server: str
    """The URL."""
    authority: str | None = None
    """The certificates of the server's authorities; None: those of the system."""
    verify: bool = True
    """False accepts any server certificate."""
    server_name: str | None = None
    """The name in the server's certificate; None: the host in the URL."""
    proxy: str | None = field(default=None, repr=False)
    """The URL, perhaps with user and password; None: no proxy."""
    token: str | None = field(default=None, repr=False)
    certificate: str | None = field(default=None, repr=False)
    """The client certificate."""
    key: str | None = field(default=None, repr=False)
    """The client certificate's key."""
    impersonated: str = ""
    """The user as whom every request acts; "" for the user of the credentials."""
    user_key: str = field(default="", repr=False)
    """Differs between the users of kubeconfigs. Changes with the user's entry in the kubeconfig, with the content of a
    certificate file, and when a token file gets another user's token. What an exec plugin returns does not change
    it."""
    files: tuple[str, ...] = ()
    """Absolute paths of all files that were read."""

    @property
    def api_server(self) -> str:
        """The API server, for messages: without its address, because a kubeconfig may be secret."""
        return f"the API server in {self.kubeconfig}"

    @property
    def is_without_tls(self) -> bool:
        """Whether requests are sent without TLS."""
        return self.server.lower().startswith("http://")

    @property
    def headers(self) -> dict[str, str]:
        """The headers that say who sends the request."""
        headers = {}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if self.impersonated:
            headers["Impersonate-User"] = self.impersonated
        return headers
