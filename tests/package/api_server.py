"""A fake API server with one Node, on the machine's loopback interface. It answers capacityd's requests only."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.cluster.netlink import network_of
from tests.package.machine import Machine
from tests.support.model.answers import Rejected, apply
from tests.support.server import Request, answer, review
from tests.support.watch_server import Stream, WatchServer, version, watch_server

KUBECONFIG = "/etc/kubernetes/kubelet.conf"


class ApiServer:
    """An API server with the Node n1. The machine has the credentials of this Node's kubelet."""

    def __init__(self, server: WatchServer) -> None:
        self.server = server
        self._node = version()
        self._lock = threading.Lock()
        server.get, server.script = self._respond, self._watch

    @property
    def capacity(self) -> dict[str, str]:
        with self._lock:
            return dict(self._node["status"]["capacity"])

    def set_capacity(self, capacity: dict[str, str]) -> None:
        """Another writer replaces the Node's capacity."""
        with self._lock:
            self._change({**self._node, "status": {**self._node["status"], "capacity": capacity}})

    def _change(self, node: dict[str, Any]) -> None:
        number = int(self._node["metadata"]["resourceVersion"]) + 1
        self._node = {**node, "metadata": {**node["metadata"], "resourceVersion": str(number)}}
        for stream in self.server.streams:
            with suppress(OSError):  # the client has disconnected
                stream.send("MODIFIED", self._node)

    def _watch(self, stream: Stream) -> None:
        with self._lock:
            stream.begin().send("ADDED", self._node)
        stream.wait_ended()

    def _respond(self, request: Request) -> bytes:
        if request.method == "POST":
            is_review = request.path.endswith("selfsubjectreviews")
            return review("system:node:n1") if is_review else answer(201, json.loads(request.body))
        with self._lock:
            if request.method == "PATCH":
                try:
                    self._change(apply(self._node, request.headers["content-type"], json.loads(request.body)))
                except Rejected as e:
                    return answer(e.answer.status, e.answer.body)
            return answer(200, self._node)


@contextmanager
def api_server(machine: Machine) -> Iterator[ApiServer]:
    """Starts the API server, and writes the kubeconfig of the machine's kubelet."""
    with network_of(Path(f"/proc/{machine.init}/ns/net")):  # only while the server's socket is created
        serving = watch_server()
        server = serving.__enter__()
    try:
        kubeconfig = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": server.url}}],
            "users": [{"name": "u", "user": {"token": "x" * 20}}],
        }
        running = ApiServer(server)
        machine.write(KUBECONFIG, json.dumps(kubeconfig), "600")
        yield running
    finally:
        serving.__exit__(None, None, None)
