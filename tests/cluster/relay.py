"""A way out of a network namespace that has none: its 127.0.0.1:PORT leads to ours.

The listening socket is made by a thread that is in the namespace for that moment, and belongs to it from then on; the
connections that it accepts are carried on from here. So addresses, certificates and kubeconfigs are the same on both
sides, and neither interfaces nor routes nor another process are needed (a veth pair needs names, addresses, and a
listener on the outside all the same).
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
    """The ways out of one namespace."""

    def __init__(self, namespace: Path) -> None:
        self._namespace = namespace
        self._servers: dict[int, asyncio.Server] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def open(self, port: int) -> None:
        """From now on; before that, connections are refused."""
        with network_of(self._namespace):
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
        self._do(self._listen(listener, port))

    def shut(self, port: int) -> None:
        """Connections are refused from now on, and those that are open are broken."""
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
        # No coroutine: the task is known before anything else can happen.
        def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(_carry(reader, writer, port))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(lambda _: writer.transport.abort())  # also of one that never began

        self._servers[port] = await asyncio.start_server(serve, sock=listener)

    async def _close(self, port: int) -> None:
        self._servers.pop(port).close()
        for task in (tasks := list(self._tasks)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    """Both ways, until both ends have sent all; if one is reset, so is the other."""
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
