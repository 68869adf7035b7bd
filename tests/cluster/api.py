"""The API server as the tests see it: JSON over HTTPS as one user, without the client library that is under test."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from tests.cluster.processes import PATIENCE

PATCHES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}


class ApiError(Exception):
    """The API server's refusal: its HTTP status and its Status object."""

    def __init__(self, status: int, body: Any) -> None:
        self.status = status
        self.body = body
        super().__init__(f"{status}: {body['message'] if isinstance(body, dict) and 'message' in body else body}")


class Api:
    """One user's way to the API server."""

    def __init__(self, url: str, ca_file: Path, token: str) -> None:
        self.url = url
        self._token = token
        tls = ssl.create_default_context(cafile=ca_file)
        # No proxy from the environment: the cluster is on this machine.
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls)
        )

    def get(self, path: str, **query: str) -> Any:
        return self.request("GET", path + (f"?{urllib.parse.urlencode(query)}" if query else ""))

    def create(self, path: str, body: object) -> Any:
        return self.request("POST", path, body)

    def patch(self, path: str, body: object, kind: Literal["json", "merge", "strategic"] = "merge") -> Any:
        return self.request("PATCH", path, body, {"Content-Type": PATCHES[kind]})

    def replace(self, path: str, body: object) -> Any:
        return self.request("PUT", path, body)

    def delete(self, path: str) -> Any:
        return self.request("DELETE", path)

    def watch(self, path: str, **query: str) -> Iterator[Any]:
        """The watch events, as they come, until the API server ends it or ends itself."""
        headers = {"Authorization": f"Bearer {self._token}", "User-Agent": "tests"}
        url = f"{self.url}{path}?{urllib.parse.urlencode({'watch': 'true', **query})}"
        with self._opener.open(urllib.request.Request(url, headers=headers)) as response:
            for line in response:
                yield json.loads(line)

    def request(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Any:
        """The answer's JSON, or text where it is none; ApiError when it is refused."""
        request = urllib.request.Request(
            self.url + path,
            None if body is None else json.dumps(body).encode(),
            {
                "Authorization": f"Bearer {self._token}",
                "Content-Type": "application/json",
                "User-Agent": "tests",
                **(headers or {}),
            },
            method=method,
        )
        try:
            with self._opener.open(request, timeout=PATIENCE) as response:
                return _decoded(response.read())
        except urllib.error.HTTPError as error:
            with error:
                raise ApiError(error.code, _decoded(error.read())) from None


def _decoded(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return content.decode()
