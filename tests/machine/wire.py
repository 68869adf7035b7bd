"""A client for the protocol of QEMU's monitor and guest agent: lines of JSON over a socket."""

from __future__ import annotations

import itertools
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Message = Mapping[str, Any]


class WireError(Exception):
    """The other end refused, or did not answer in time."""


class Wire:
    """Only one thread may ask at a time. Unrequested messages (events) are kept."""

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

    def ask(self, execute: str, deadline: float = 600, **arguments: Any) -> Any:
        """Runs a command and returns its result. In the names of arguments, "_" stands for "-"."""
        number = next(self._numbers)
        named = {name.replace("_", "-"): value for name, value in arguments.items()}
        position = self.position()
        message = {"execute": execute, "id": number, **({"arguments": named} if named else {})}
        self._socket.sendall(json.dumps(message).encode() + b"\n")
        answer = self.wait(lambda m: m.get("id") == number, position, deadline, f"an answer to {execute}")
        if "error" in answer:
            raise WireError(f"{execute} {named}: {answer['error']}")
        return answer["return"]

    def position(self) -> int:
        """The position after all messages received so far."""
        with self._news:
            return len(self._received)

    def wait(self, fits: Callable[[Message], bool], since: int, deadline: float, what: str) -> Message:
        """Waits for the first message that fits, from a position on, and returns it."""
        end = time.monotonic() + deadline
        with self._news:
            while True:
                while since < len(self._received):
                    if fits(self._received[since]):
                        return self._received[since]
                    since += 1
                if self._ended or not self._news.wait(max(0.0, end - time.monotonic())):
                    raise WireError(f"not within {deadline:g} s: {what}" + " (it has hung up)" * self._ended)

    def event(self, name: str, since: int, deadline: float, **data: object) -> None:
        """Waits for an event of the monitor with this name and these data, from a position on."""

        def fits(message: Message) -> bool:
            return message.get("event") == name and data.items() <= message.get("data", {}).items()

        self.wait(fits, since, deadline, f"{name} {data}")

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
