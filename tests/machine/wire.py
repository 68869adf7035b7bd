"""A client for the protocol of QEMU's monitor and guest agent: lines of JSON over a socket."""

from __future__ import annotations

import itertools
import json
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Message = Mapping[str, Any]

_DEADLINE = 600.0
"""Seconds to wait for an answer or an event: emulation is slow on a busy machine."""


class WireError(Exception):
    """The other end refused, or did not answer in time."""


class Wire:
    """A connection. Only one thread may ask at a time. Messages that are no answers (events) are kept."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._numbers = itertools.count(1)
        self._received: list[Message] = []
        self._news = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def ask(self, execute: str, **arguments: Any) -> Any:
        """Runs a command and returns its result. In the names of arguments, "_" stands for "-"."""
        number = next(self._numbers)
        dashed = {name.replace("_", "-"): value for name, value in arguments.items()}
        position = self.position()
        message = {"execute": execute, "id": number, **({"arguments": dashed} if dashed else {})}
        self._socket.sendall(json.dumps(message).encode() + b"\n")
        answer = self._wait(lambda message: message.get("id") == number, position, f"an answer to {execute}")
        if "error" in answer:
            raise WireError(f"{execute} {dashed}: {answer['error']}")
        return answer["return"]

    def position(self) -> int:
        """The position after all messages received so far."""
        with self._news:
            return len(self._received)

    def wait_event(self, name: str, since: int, **data: object) -> None:
        """Waits for an event of the monitor with this name and these data, from a position on."""

        def fits(message: Message) -> bool:
            return message.get("event") == name and data.items() <= message.get("data", {}).items()

        self._wait(fits, since, f"{name} {data}")

    def _wait(self, fits: Callable[[Message], bool], since: int, what: str) -> Message:
        """Waits for the first message that fits, from a position on, and returns it."""

        def first() -> Message | None:
            return next(filter(fits, self._received[since:]), None)

        with self._news:
            self._news.wait_for(lambda: first() or self._ended, _DEADLINE)
            if message := first():
                return message
        raise WireError(f"not within {_DEADLINE:g} s: {what}" + (" (it has hung up)" if self._ended else ""))

    def _listen(self) -> None:
        try:
            for line in self._socket.makefile("rb"):
                try:
                    message = json.loads(line)
                except ValueError:
                    continue  # the rest of a message that a reset cut off
                with self._news:
                    self._received.append(message)
                    self._news.notify_all()
        except OSError:
            pass  # the other end is gone
        finally:
            with self._news:
                self._ended = True
                self._news.notify_all()
