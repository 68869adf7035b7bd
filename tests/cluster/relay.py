"""Forwards 127.0.0.1:PORT from inside an isolated network namespace to the same port outside.

A thread enters the namespace only to create the listening socket, which stays in the namespace. This process forwards
the accepted connections. So addresses, certificates and kubeconfigs are the same on both sides, without interfaces,
routes or another process. (A veth pair would need names, addresses, and still a listener outside.)
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from tests.cluster.netlink import network_of
from tests.cluster.processes import PATIENCE


class Relay:
    """The forwarded ports of one namespace."""

    def __init__(self, namespace: Path) -> None:
        self._namespace = namespace
        self._servers: dict[int, asyncio.Server] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def open(self, port: int) -> None:
        """Forwards this port from now on. Until then, connections are refused."""
        with network_of(self._namespace):
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
        self._do(self._listen(listener, port))

    def shut(self, port: int) -> None:
        """Refuses connections from now on, and breaks the open ones."""
        self._do(self._close(port))

    def end(self) -> None:
        for port in list(self._servers):
            self.shut(port)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    async def _listen(self, listener: socket.socket, port: int) -> None:
        # Not a coroutine, so that the task is registered before anything else can happen.
        def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(_carry(reader, writer, port))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(lambda _: writer.transport.abort())  # even if the task never began

        self._servers[port] = await asyncio.start_server(serve, sock=listener)

    async def _close(self, port: int) -> None:
        self._servers.pop(port).close()
        for task in (tasks := list(self._tasks)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    """Forwards in both directions until both sides have sent everything. If one side is reset, so is the other."""
    writers = [writer]
    try:
        out_reader, out_writer = await asyncio.open_connection("127.0.0.1", port)
        writers.append(out_writer)
        await asyncio.gather(_pump(reader, out_writer), _pump(out_reader, writer))
    except OSError:
        pass
    finally:
        for each in writers:
            each.transport.abort()
        # A connection that is still open when the loop ends is never closed.
        await asyncio.gather(*(each.wait_closed() for each in writers), return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(65536):
        writer.write(piece)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
        await writer.drain()
