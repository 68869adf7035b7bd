"""A proxy in front of the API server; faults.py has the faults that it can simulate.

It terminates TLS with a certificate of the cluster's authority: it forwards bearer tokens, but no client
certificates. It forwards each request on a new connection, while the client's connection stays open. It streams the
answers, so that a kubelet can use it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import urlsplit

from tests.cluster.controlplane import Cluster
from tests.cluster.faults import Action, Fault, Request
from tests.cluster.processes import PATIENCE

T = TypeVar("T")


class Proxy:
    """Created by fault_proxy(). It forwards a request unchanged if no fault matches."""

    def __init__(self, cluster: Cluster) -> None:
        self.faults: list[Fault] = []
        self.errors: list[BaseException] = []
        self._upstream = urlsplit(cluster.url)
        self._upstream_tls = ssl.create_default_context(cafile=cluster.ca_file)
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._tls.load_cert_chain(*cluster.authority.server())
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._serve, "127.0.0.1", ssl=self._tls, limit=1 << 20))
        self.url = f"https://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def fault(self, action: Action, method: str = "*", path: str = "*", times: int | None = 1) -> Fault:
        """Adds a fault. If several faults match a request, the first one acts."""
        self.faults.append(fault := Fault(action, method, path, times))
        return fault

    def end(self) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    async def _close(self) -> None:
        self._server.close()
        tasks, writers = list(self._tasks), list(self._writers)
        for task in tasks:
            task.cancel()
        for writer in writers:
            # asyncio's TLS transport raises this if its connection has just closed: then there is nothing to abort.
            with contextlib.suppress(AttributeError):
                writer.transport.abort()
        # A connection that is still open when the loop ends is never closed.
        await asyncio.gather(*tasks, *(writer.wait_closed() for writer in writers), return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        # A task is cancelled only when the proxy ends. asyncio.streams can't handle a server's cancelled task.
        with suppress(asyncio.CancelledError):
            async with self._closing(writer):
                await self._exchanges(reader, writer)
        self._tasks.discard(task)

    async def _exchanges(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while not writer.is_closing():
                exchange = Exchange(await _request(reader), reader, writer, self)
                fault = next((fault for fault in self.faults if fault.takes(exchange.request)), None)
                if fault is None:
                    await exchange.relay()
                else:
                    fault.matched.append(exchange.request)
                    await fault.action(exchange)
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            # One of the two sides has left.
            pass
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001
            # fault_proxy() raises it in the test: it may be a failed assertion in a callback.
            self.errors.append(error)

    @asynccontextmanager
    async def upstream(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A connection to the API server."""
        reader, writer = await asyncio.open_connection(
            self._upstream.hostname, self._upstream.port, ssl=self._upstream_tls
        )
        async with self._closing(writer):
            yield reader, writer

    @asynccontextmanager
    async def _closing(self, writer: asyncio.StreamWriter) -> AsyncIterator[None]:
        self._writers.add(writer)
        try:
            yield
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            self._writers.discard(writer)


class Exchange:
    """A request, and what the action of a fault can do with it and its answer."""

    def __init__(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, proxy: Proxy
    ) -> None:
        self.request = request
        self._reader = reader
        self._writer = writer
        self._proxy = proxy

    async def relay(self) -> None:
        """Forward the request, and stream the answer."""
        async with self._proxy.upstream() as (reader, writer):
            head = await self._forward(reader, writer)
            await self.send(head)
            while part := await reader.read(1 << 16):
                await self.send(part)
        framed = any(sign in head.lower() for sign in (b"\r\ncontent-length:", b"\r\ntransfer-encoding:", b" 204 "))
        if not framed:
            self.close()

    async def fetch(self) -> tuple[bytes, bytes]:
        """Forward the request. Return the head and body of the answer instead of sending them."""
        async with self._proxy.upstream() as (reader, writer):
            return await self._forward(reader, writer), await reader.read()

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def client_left(self) -> None:
        while await self._reader.read(1 << 16):
            pass

    def close(self) -> None:
        self._writer.close()

    def reset(self) -> None:
        if not self._writer.is_closing():
            # With a linger time of 0, the kernel resets the connection instead of closing it in order.
            no_time = struct.pack("ii", 1, 0)
            self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_time)
            self._writer.transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        """Send the request. Return the head of the answer, for the client."""
        # The server closes the connection after the answer, so the proxy need not parse the answer's framing.
        headers = {**self.request.headers, "connection": "close"}
        lines = [f"{self.request.method} {self.request.path} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + self.request.body)
        await writer.drain()
        answer = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        return b"\r\n".join(line for line in answer if not line.lower().startswith(b"connection:"))


@contextmanager
def fault_proxy(cluster: Cluster) -> Iterator[Proxy]:
    proxy = Proxy(cluster)
    try:
        yield proxy
    finally:
        proxy.end()
    for error in proxy.errors:
        raise error


async def _request(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    assert "transfer-encoding" not in headers, "the proxy takes no chunked requests"
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, path, headers, body)
