"""Parses the Status that the API server sends instead of the requested object (meta.k8s.io)."""

from __future__ import annotations

import json
from typing import NamedTuple

from capacityd.node.documents.fields import object_at, objects_at, text_at


class Status(NamedTuple):
    """Why the API server has not carried out a request, in its own words."""

    message: str = ""
    causes: tuple[str, ...] = ()
    """The invalid fields, each with its problem."""
    resource: str = ""
    """The plural name of the resource, e.g. "nodes"; "" if the failure is not about an object."""


def status_of(body: bytes) -> Status | None:
    """Parses a response; None if the response is not a Status, and so not from an API server."""
    try:
        document = json.loads(body)
        if not isinstance(document, dict) or document.get("kind") != "Status":
            return None
        details = object_at(document, "details")
        causes = []
        for cause in objects_at(details, "causes"):
            parts = [text_at(cause, "field"), text_at(cause, "message")]
            causes.append(": ".join(part for part in parts if part))
        return Status(
            text_at(document, "message") or "",
            causes=tuple(dict.fromkeys(causes)),  # several checks of a Node may report the same cause
            resource=text_at(details, "kind") or "",  # `kind` contains the resource's plural name
        )
    except (ValueError, RecursionError):
        return None
