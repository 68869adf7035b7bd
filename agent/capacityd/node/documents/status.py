"""Parses the Status that the API server sends instead of the requested object (meta.k8s.io)."""

from __future__ import annotations

import json
from typing import NamedTuple


class Status(NamedTuple):
    """Why the API server has not carried out a request, in its own words."""

    message: str
    causes: tuple[str, ...]
    """The invalid fields, each with its problem."""
    resource: str
    """The plural name of the resource, e.g. "nodes"; "" if the failure is not about an object."""


def status_of(body: bytes) -> Status | None:
    """Parses a response; None if the response is not a Status, and so not from an API server."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or document.get("kind") != "Status":
        return None
    details = document.get("details")
    if not isinstance(details, dict):
        details = {}
    causes = details.get("causes")
    if not isinstance(causes, list):
        causes = []
    texts = [
        ": ".join(str(cause[key]) for key in ("field", "message") if cause.get(key))
        for cause in causes
        if isinstance(cause, dict)
    ]
    return Status(
        str(document.get("message") or ""),
        causes=tuple(dict.fromkeys(texts)),  # several checks of a Node may report the same cause
        resource=str(details.get("kind") or ""),  # despite its name, the plural name of the resource
    )
