"""A response of the API server with an error status, and when to try again."""

from __future__ import annotations

import re
from collections.abc import Mapping

_MAX_RETRY_AFTER = 3600.0
"""Seconds; a server that asks for more is asked again after this time."""


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
