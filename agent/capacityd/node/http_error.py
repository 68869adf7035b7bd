"""A response of the API server with an error status: its Kubernetes Status object, and when to try again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from capacityd.node.redaction import Secrets

_MAX_RETRY_AFTER = 3600.0
"""Seconds; a server that asks for more is asked again after this time."""
_DENIED = re.compile(r"""admission webhook ".*" denied the request|[Pp]olicy ['"].*['"] denied request""")
"""In the message of a denial, whatever its HTTP status: a webhook chooses any from 400 on, a policy one of three.

Source: ToStatusErr in k8s.io/apiserver, pkg/admission/plugin/webhook/errors/statuserror.go;
pkg/admission/plugin/policy/validating/dispatcher.go and generic/policy_dispatcher.go."""


@dataclass(frozen=True, slots=True)
class StatusDetails:
    """The content of a Kubernetes Status object; all empty if the response was none."""

    message: str = ""
    causes: tuple[str, ...] = ()
    details: Mapping[str, object] = field(default_factory=dict)
    is_status: bool = False
    denied: bool = False
    """Whether an admission webhook or policy has denied the request."""


class HttpError(Exception):
    """A response with a status other than 2xx, before errors.from_http_status() has explained it."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def retry_after(self) -> float | None:
        """Seconds after which the server asks to try again. It always sends seconds, never a date."""
        text = next((value for name, value in self.headers.items() if name.lower() == "retry-after"), "")
        return min(float(text), _MAX_RETRY_AFTER) if re.fullmatch(r"[0-9]{1,9}", text.strip(), re.ASCII) else None

    def details(self, secrets: Secrets) -> StatusDetails:
        """The body without these secrets. The library's ApiException keeps it as text, and does not interpret it."""
        try:
            document = json.loads(self.body)
        except (ValueError, RecursionError):
            return StatusDetails()
        if not isinstance(document, dict) or document.get("kind") != "Status":
            return StatusDetails()
        details = document.get("details")
        details = details if isinstance(details, dict) else {}
        causes = details.get("causes")
        texts = [secrets.quote(_cause(c)) for c in causes if isinstance(c, dict)] if isinstance(causes, list) else []
        message = str(document.get("message") or "")
        denied = _DENIED.search(message) is not None
        return StatusDetails(secrets.quote(message), tuple(texts), details, is_status=True, denied=denied)


def _cause(cause: Mapping[str, object]) -> str:
    return ": ".join(str(cause[key]) for key in ("field", "message") if cause.get(key))
