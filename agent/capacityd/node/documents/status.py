"""The Kubernetes Status object, in which the API server says why it refuses a request. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from capacityd.node.redaction import Secrets

_DENIED = re.compile(r"""admission webhook ".*" denied the request|[Pp]olicy ['"].*['"] denied request""")
"""In the message of a denial, whatever its HTTP status: a webhook chooses any from 400 on, a policy one of three.

Source: ToStatusErr in k8s.io/apiserver, pkg/admission/plugin/webhook/errors/statuserror.go;
pkg/admission/plugin/policy/validating/dispatcher.go and generic/policy_dispatcher.go."""


@dataclass(frozen=True, slots=True)
class StatusDetails:
    """The content of a Status object; all empty if the response was none."""

    message: str = ""
    causes: tuple[str, ...] = ()
    resource: str = ""
    """The plural of what the request is about, e.g. "nodes"."""
    is_status: bool = False
    denied: bool = False
    """Whether an admission webhook or policy has denied the request."""


def status_details(body: bytes, secrets: Secrets) -> StatusDetails:
    """Parses the body of a response, without these secrets.

    The library's ApiException keeps the body as text, and does not interpret it.
    """
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return StatusDetails()
    if not isinstance(document, dict) or document.get("kind") != "Status":
        return StatusDetails()
    details = document.get("details")
    details = details if isinstance(details, dict) else {}
    causes = details.get("causes")
    texts = [secrets.quote(_cause(c)) for c in causes if isinstance(c, dict)] if isinstance(causes, list) else []
    message = str(document.get("message") or "")
    return StatusDetails(
        message=secrets.quote(message),
        causes=tuple(dict.fromkeys(texts)),  # several checks of a Node may each report the same
        resource=str(details.get("kind") or ""),
        is_status=True,
        denied=_DENIED.search(message) is not None,
    )


def _cause(cause: Mapping[str, object]) -> str:
    return ": ".join(str(cause[key]) for key in ("field", "message") if cause.get(key))
