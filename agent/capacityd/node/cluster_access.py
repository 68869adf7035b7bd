"""What a kubeconfig and its files come down to."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone

from capacityd.node.credentials import not_after


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """How to reach an API server, and as whom. Certificates and keys are PEM."""

    kubeconfig: str
    server: str
    authority: str | None = None
    verify: bool = True
    """False accepts any server certificate."""
    server_name: str | None = None
    proxy: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    certificate: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    user: str = field(default="", repr=False)
    """Distinguishes the users of a kubeconfig; it stays the same when a token or certificate is renewed."""
    files: tuple[str, ...] = ()
    """Absolute paths of all files that were read."""
    of_kubelet: bool = True
    """False for the kubeconfig of a person; messages depend on it."""

    def expired(self) -> str:
        """Returns when the client certificate expired, by this machine's clock; "" if it has not, or there is none."""
        end = not_after(self.certificate or "")
        return f"{end:%Y-%m-%d %H:%M} UTC" if end is not None and end < datetime.now(timezone.utc) else ""
