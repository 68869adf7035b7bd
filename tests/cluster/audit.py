"""The requests to the API server and the users who made them, read from its audit log."""

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tests.cluster.api import Api, ApiError
from tests.cluster.processes import PATIENCE, wait_until

# Log every request with its body, once it has been answered.
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [{"level": "Request"}],
}


@dataclass(frozen=True, slots=True)
class Request:
    verb: str
    resource: str
    subresource: str
    name: str
    code: int
    user: str
    user_agent: str
    body: Any
    answered: float  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class Audit:
    log: Path
    _admin: Api

    def mark(self) -> int:
        """The position in the log after all requests answered so far: the end of a line."""
        # Make a request that nobody else makes, and wait until the log contains it.
        marker = f"{_MARKER.decode()}{uuid.uuid4()}"
        before = self.log.stat().st_size if self.log.exists() else 0
        with suppress(ApiError):  # a path that does not exist is logged like any other
            self._admin.get(f"/{marker}")

        def written() -> int:
            with open(self.log, "rb") as log:
                log.seek(before)
                # The text after the last line end is still being written.
                lines, end, _ = log.read().rpartition(b"\n")
            return before + len(lines + end) if marker.encode() in lines else 0

        return wait_until(written, PATIENCE, "the audit log is written")

    def since(self, position: int, user: str = "") -> list[Request]:
        """The requests answered since this position, in the order of the answers, without watches that still run.

        user: who made the requests. "": anyone.
        """
        return [request for request in self.between(position, self.mark()) if user in ("", request.user)]

    def between(self, position: int, end: int) -> list[Request]:
        """All requests answered between two positions. Two adjacent ranges have no request in common, and miss none."""
        with open(self.log, "rb") as log:
            log.seek(position)
            lines = log.read(end - position).splitlines()
        return [_request(json.loads(line)) for line in lines if _MARKER not in line]


_MARKER = b"audit-marker-"


def _request(entry: Any) -> Request:
    target = entry.get("objectRef", {})
    return Request(
        verb=entry["verb"],
        resource=target.get("resource", ""),
        subresource=target.get("subresource", ""),
        name=target.get("name", ""),
        code=entry["responseStatus"]["code"],
        user=entry["user"]["username"],
        user_agent=entry.get("userAgent", ""),
        body=entry.get("requestObject"),
        answered=_moment(entry["stageTimestamp"]),
    )


def _moment(stamp: str) -> float:
    return datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc).timestamp()
