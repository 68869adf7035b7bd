"""How to reach an API server, according to a kubeconfig and the files that it names."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """An API server's address and our credentials for it. Certificates and keys are PEM."""

    kubeconfig: str
    """The kubeconfig's path, for messages."""
    server: str
    """The API server's URL."""
    authority: str | None = None
    """The certificates of the authorities that the server may use; None for the authorities of the system."""
    verify: bool = True
    """Whether to verify the server's certificate."""
    server_name: str | None = None
    """The name in the server's certificate; None for the host in the URL."""
    proxy: str | None = field(default=None, repr=False)
    """The proxy's URL, which may contain a user and a password; None for no proxy."""
    token: str | None = field(default=None, repr=False)
    certificate: str | None = field(default=None, repr=False)
    """The client certificate."""
    key: str | None = field(default=None, repr=False)
    """The client certificate's key."""
    impersonated: str = ""
    """The user that every request impersonates; "" for no impersonation."""
    digest: str = ""
    """A hash of all files that were read. The output of an exec plugin is not included."""
    files: tuple[str, ...] = ()
    """Absolute paths of all files that were read."""

    @property
    def api_server(self) -> str:
        """The API server's name in messages. The address is left out, because a kubeconfig may be secret."""
        return f"the API server in {self.kubeconfig}"

    @property
    def is_without_tls(self) -> bool:
        """Whether requests are sent without TLS."""
        return self.server.lower().startswith("http://")

    @property
    def headers(self) -> dict[str, str]:
        """The headers that authenticate a request."""
        headers = {}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if self.impersonated:
            headers["Impersonate-User"] = self.impersonated
        return headers
