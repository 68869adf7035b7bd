"""The tests' own client for the API server: JSON over HTTPS as one user, without the client library under test."""

from __future__ import annotations

import json
import urllib.parse
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Literal

import urllib3

from tests.cluster.processes import PATIENCE

PATCHES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
_THREADS = 8


class ApiError(Exception):
    """The API server's refusal: its HTTP status and its Status object."""

    def __init__(self, status: int, body: Any) -> None:
        self.status = status
        self.body = body
        super().__init__(f"{status}: {body['message'] if isinstance(body, dict) and 'message' in body else body}")


class Api:
    """One user's client, which threads can share. Its connections stay open, because tests poll the API server.

    certificate: a file with the certificate and its key, in place of a token. Calls raise OSError without an answer.
    """

    def __init__(self, url: str, ca_file: Path, token: str | None = None, certificate: str | None = None) -> None:
        self.url = url
        self._headers = {"User-Agent": "tests"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._pool = urllib3.PoolManager(maxsize=_THREADS, ca_certs=str(ca_file), cert_file=certificate)
        weakref.finalize(self, self._pool.clear)

    def get(self, path: str, **query: str) -> Any:
        return self.request("GET", path + (f"?{urllib.parse.urlencode(query)}" if query else ""))

    def create(self, path: str, body: object) -> Any:
        return self.request("POST", path, body)

    def patch(self, path: str, body: object, kind: Literal["json", "merge", "strategic"] = "merge") -> Any:
        return self.request("PATCH", path, body, PATCHES[kind])

    def delete(self, path: str) -> Any:
        return self.request("DELETE", path)

    def watch(self, path: str, **query: str) -> Iterator[Any]:
        """Yields the watch events as they arrive, until the API server ends the watch or stops."""
        query_string = urllib.parse.urlencode({"watch": "true", **query})
        with _os_errors(), closing(self._send("GET", f"{path}?{query_string}", preload_content=False)) as response:
            for line in response:
                yield json.loads(line)

    def request(self, method: str, path: str, body: object = None, kind: str = "application/json") -> Any:
        """The answer, parsed if it is JSON. Raises ApiError if the request is refused. kind: the body's media type."""
        data = None if body is None else json.dumps(body).encode()
        with _os_errors():
            response = self._send(
                method, path, body=data, headers={**self._headers, "Content-Type": kind}, timeout=PATIENCE
            )
        if response.status >= 400:
            raise ApiError(response.status, _decoded(response.data))
        return _decoded(response.data)

    def _send(self, method: str, path: str, **options: Any) -> Any:
        return self._pool.request(method, self.url + path, retries=False, **{"headers": self._headers, **options})


@contextmanager
def _os_errors() -> Iterator[None]:
    try:
        yield
    except urllib3.exceptions.HTTPError as error:
        raise ConnectionError(str(error)) from error


def _decoded(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return content.decode()
