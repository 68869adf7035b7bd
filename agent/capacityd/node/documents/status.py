"""The Kubernetes Status object: the API server's reason for refusing a request. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from capacityd.model.quoting import length_text
from capacityd.model.text import printable

_DENIED_BY_ADMISSION = re.compile(r"""admission webhook ".*" denied the request|[Pp]olicy ['"].*['"] denied request""")
"""The message of an admission webhook or policy. The HTTP status does not tell: webhooks use any from 400 on, policies
one of three.

Source: ToStatusErr in k8s.io/apiserver, pkg/admission/plugin/webhook/errors/statuserror.go;
pkg/admission/plugin/policy/validating/dispatcher.go and generic/policy_dispatcher.go."""

_MAX_QUOTED = 300
"""Maximum length of a quoted text, in characters."""


@dataclass(frozen=True, slots=True)
class StatusDetails:
    """The content of a Status object; all fields are empty if the response contains none."""

    message: str = ""
    causes: tuple[str, ...] = ()
    resource: str = ""
    """The plural name of the requested resource, e.g. "nodes"."""
    is_status: bool = False
    denied_by_admission: bool = False
    """Whether an admission webhook or policy has denied the request."""


def status_details(body: bytes, token: str | None) -> StatusDetails:
    """Parses the body of a response. token: the bearer token of the request, which no text of the result contains."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return StatusDetails()
    if not isinstance(document, dict) or document.get("kind") != "Status":
        return StatusDetails()
    details = document.get("details")
    if not isinstance(details, dict):
        details = {}
    causes = details.get("causes")
    if not isinstance(causes, list):
        causes = []
    texts = [quotable(_cause(cause), token) for cause in causes if isinstance(cause, dict)]
    message = str(document.get("message") or "")
    return StatusDetails(
        message=quotable(message, token),
        causes=tuple(dict.fromkeys(texts)),  # several checks of a Node may report the same cause
        resource=str(details.get("kind") or ""),  # despite its name, the plural name of the resource
        is_status=True,
        denied_by_admission=_DENIED_BY_ADMISSION.search(message) is not None,
    )


def _cause(cause: Mapping[str, object]) -> str:
    """The field and what is wrong with it."""
    return ": ".join(str(cause[key]) for key in ("field", "message") if cause.get(key))


def quotable(text: str, token: str | None) -> str:
    """A text of the API server in the form in which messages quote it: printable, and of limited length.

    If it contains the token, only its length.
    """
    if token and token in text:
        return f"(a text with the token, {length_text(text)})"
    text = printable(text.strip())
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}…"
