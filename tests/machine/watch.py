"""The states of a Node, by a watch of the API server, each with the moment at which it came."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable
from typing import Any

from tests.cluster.controlplane import Cluster


class NodeWatch:
    """From now on, until the API server ends."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._name = name
        self._states: list[tuple[float, Any]] = []
        self._news = threading.Condition()
        self._ended = False
        threading.Thread(target=self._listen, daemon=True).start()

    def wait(self, fits: Callable[[Any], bool], deadline: float, what: str, since: float = 0.0) -> float:
        """The moment (time.monotonic) at which the first state that fits came, of those that came since."""
        end = time.monotonic() + deadline
        position = 0
        with self._news:
            while True:
                for moment, node in self._states[position:]:
                    if moment >= since and fits(node):
                        return moment
                position = len(self._states)
                if self._ended or not self._news.wait(max(0.0, end - time.monotonic())):
                    last = self._states[-1][1].get("status") if self._states else None
                    raise TimeoutError(f"not within {deadline:g} s: {what}; the Node's status is {last}")

    def since(self, moment: float) -> list[Any]:
        """All states that came since."""
        with self._news:
            return [node for at, node in self._states if at >= moment]

    def _listen(self) -> None:
        try:
            while True:  # the API server ends each watch after half an hour or more
                for event in self._cluster.admin.watch("/api/v1/nodes", fieldSelector=f"metadata.name={self._name}"):
                    with self._news:
                        self._states.append((time.monotonic(), event["object"]))
                        self._news.notify_all()
        except (OSError, http.client.HTTPException, ValueError):
            pass  # the API server has ended
        finally:
            with self._news:
                self._ended = True
                self._news.notify_all()
