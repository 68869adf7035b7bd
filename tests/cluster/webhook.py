"""Real admission webhooks, which deny writes to the status of a Node, or alter them."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.cluster.admission import try_to_write
from tests.cluster.agent import CONDITION
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import ADMIN
from tests.cluster.processes import PATIENCE, wait_until

_API = "/apis/admissionregistration.k8s.io/v1"
_KINDS = {"validate": "validatingwebhookconfigurations", "mutate": "mutatingwebhookconfigurations"}


class Webhook:
    """Answers the API server. At first it allows all writes. It always allows the tests' own writes."""

    def __init__(self) -> None:
        self.denied = ""
        """The capacity key whose changes the webhook denies, or ""."""
        self.removes_condition = False
        self.asked: set[str] = set()
        """The keys of _KINDS for which the API server has asked so far."""

    def answer(self, path: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """The response to an AdmissionRequest."""
        kind = path.partition("?")[0].strip("/")
        self.asked.add(kind)
        response = {"uid": request["uid"], "allowed": True}
        if request["userInfo"]["username"] == ADMIN:
            return response
        if kind == "mutate":
            conditions = [c for c in request["object"]["status"].get("conditions", []) if c["type"] != CONDITION]
            removal = [{"op": "add", "path": "/status/conditions", "value": conditions}]
            patch = {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(removal).encode()).decode()}
            return response | patch if self.removes_condition else response
        before, after = (request[key]["status"].get("capacity", {}) for key in ("oldObject", "object"))
        if before.get(self.denied) == after.get(self.denied):
            return response
        return response | {"allowed": False, "status": {"code": 409, "message": "not on my Nodes"}}


@contextmanager
def _serving(cluster: Cluster, hook: Webhook) -> Iterator[int]:
    """Lets the hook answer AdmissionReviews. Returns its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            response = hook.answer(self.path, review["request"])
            body = json.dumps({**review, "request": None, "response": response}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(*cluster.authority.server())
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


@contextmanager
def webhook(cluster: Cluster, node: str) -> Iterator[Webhook]:
    """The API server asks the webhook about each write to the status of this Node until the context ends."""
    hook = Webhook()
    with _serving(cluster, hook) as port:
        for kind, resource in _KINDS.items():
            cluster.admin.create(f"{_API}/{resource}", _configuration(cluster, kind, node, port))

        def is_asked() -> bool:
            try_to_write(cluster, node, {"capacity": {"example.com/tried": "1"}})
            return hook.asked == {*_KINDS}

        try:
            wait_until(is_asked, PATIENCE, "the API server asks the webhook")
            yield hook
        finally:
            for kind, resource in _KINDS.items():
                cluster.admin.delete(f"{_API}/{resource}/{kind}-{node}")


def _configuration(cluster: Cluster, kind: str, node: str, port: int) -> dict[str, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes/status"]}
    authority = base64.b64encode(cluster.ca_file.read_bytes()).decode()
    return {
        "metadata": {"name": f"{kind}-{node}"},
        "webhooks": [
            {
                "name": f"{kind}.example.com",
                "rules": [rule],
                "clientConfig": {"url": f"https://127.0.0.1:{port}/{kind}", "caBundle": authority},
                "matchConditions": [{"name": "node", "expression": f"object.metadata.name == '{node}'"}],
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "timeoutSeconds": 5,
            }
        ],
    }
