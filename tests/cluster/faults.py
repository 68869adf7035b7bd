"""Faults between a node and its API server, which the proxy simulates."""

from __future__ import annotations

import asyncio
import fnmatch
import json
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cluster.proxy import Exchange


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str]  # names in lower case
    body: bytes


Action = Callable[["Exchange"], Awaitable[None]]


@dataclass(slots=True)
class Fault:
    """An action for matching requests. path: a glob, without the query. times: how often it acts (None: always)."""

    action: Action
    method: str = "*"
    path: str = "*"
    times: int | None = 1
    matched: list[Request] = field(default_factory=list)

    def takes(self, request: Request) -> bool:
        path = request.path.partition("?")[0]
        fits = fnmatch.fnmatchcase(request.method, self.method) and fnmatch.fnmatchcase(path, self.path)
        return fits and (self.times is None or len(self.matched) < self.times)


def reset() -> Action:
    """The server carries out the request, but the connection breaks before the answer."""

    async def action(exchange: Exchange) -> None:
        await exchange.fetch()
        exchange.reset()

    return action


def stall() -> Action:
    """The proxy does not answer; it waits until the client gives up or the proxy ends."""

    async def action(exchange: Exchange) -> None:
        await exchange.client_left()

    return action


def status(code: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Action:
    """The proxy answers instead of the server."""

    async def action(exchange: Exchange) -> None:
        fields = {"Content-Type": "text/plain", "Content-Length": str(len(body)), **(headers or {})}
        lines = [f"HTTP/1.1 {code} {HTTPStatus(code).phrase}", *(f"{name}: {value}" for name, value in fields.items())]
        await exchange.send("\r\n".join([*lines, "", ""]).encode() + body)

    return action


def echo(code: int, message: str) -> Action:
    """The proxy refuses the request and quotes its headers, including the credentials."""

    async def action(exchange: Exchange) -> None:
        text = f"{message}: {json.dumps(dict(exchange.request.headers))}"
        body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": text, "code": code}
        await status(code, json.dumps(body).encode(), {"Content-Type": "application/json"})(exchange)

    return action


def hold(until: threading.Event) -> Action:
    """The proxy forwards the request once the event is set."""

    async def action(exchange: Exchange) -> None:
        while not until.is_set():
            await asyncio.sleep(0.02)
        await exchange.relay()

    return action


def before(change: Callable[[Request], object]) -> Action:
    """Another writer is faster: the proxy runs change(request) in a thread, then forwards the request."""

    async def action(exchange: Exchange) -> None:
        await asyncio.to_thread(change, exchange.request)
        await exchange.relay()

    return action
