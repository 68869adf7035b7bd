"""Runs the real worker in this process: a job comes in as a line, and its messages go out as lines.

What the worker finds on the machine, and how it sends requests, is replaced where the real modules look for it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from capacityd.linux import stderr
from capacityd.model.codec import decode, decode_variant, encode_variant, parse
from capacityd.model.errors import NodeUnreachable
from capacityd.model.messages import CheckResult, JobRequest, Message, PassResult, ServiceConfig
from capacityd.model.node import NodeState, Patch
from capacityd.model.options import Selection, WorkerOptions
from capacityd.model.reading import Reading
from capacityd.model.reasons import Job, PassReason
from capacityd.node import api_node
from capacityd.node.client import Client
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.documents.node import node_state
from capacityd.node.documents.patch import patch_document, require_version
from capacityd.node.errors import from_http_status
from capacityd.node.refusal import Call, HttpError
from capacityd.worker import journal, main, reconcile_job, selection
from capacityd.worker.runtime_files import CheckedConfig
from tests.support.model.answers import STRATEGIC, Unreachable
from tests.support.model.machine import Killed, Machine
from tests.support.model.server import NODE, ModelServer

ACCESS = ClusterAccess("kubeconfig", "https://server")


def check(machine: Machine, files: Mapping[str, PassReason]) -> list[bytes]:
    """The answer to the job that checks the configuration. files: to be watched."""
    service = ServiceConfig(files=files, resync=machine.config.settings.resync)
    return [json.dumps(encode_variant(CheckResult(service, configuration_errors=machine.config.errors()))).encode()]


def is_check(line: bytes) -> bool:
    """Whether this job is to check the configuration."""
    return decode(JobRequest, parse(line)).job is Job.CHECK


def has_failed(lines: list[bytes]) -> bool:
    """Whether a pass has failed that has written these lines."""
    messages = [decode_variant(Message, parse(line)) for line in lines]
    return any(isinstance(message, PassResult) and message.failure is not None for message in messages)


def run_pass(
    machine: Machine,
    server: ModelServer,
    line: bytes,
    reads: Callable[[dict[str, Reading]], None],
    requests: Callable[[str], None],
) -> tuple[list[bytes], bool]:
    """Runs the job in a line. Returns the lines that the worker has written, and whether it was killed.

    reads: called with the readings that the worker gets. requests: called with the name of each request.
    """

    def on_request(name: str) -> None:
        machine.reach(name)
        requests(name)

    output = io.StringIO()
    killed = False
    machine.points = 0
    server.on_request = on_request
    with contextlib.redirect_stdout(output), _replaced(_doubles(machine, server, reads)):
        try:
            options = WorkerOptions(str(machine.run_folder), Selection(config="none"))
            main.work(options, decode(JobRequest, parse(line)))
        except Killed:
            killed = True
        finally:
            machine.kill_at = None
            server.on_request = lambda _: None
    return output.getvalue().encode().splitlines(), killed


class ModelClient:
    """Replaces node.client.Client: sends its requests to the model of an API server."""

    def __init__(self, server: ModelServer, machine: Machine) -> None:
        self.access = ACCESS
        self.user = ""
        self._server, self._machine = server, machine

    def review_self(self) -> tuple[str, str]:
        review = self._send("create", "selfsubjectreviews", "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews")
        return review["status"]["userInfo"]["username"], ""

    def read_node(self, name: str) -> NodeState:
        return node_state(self._send("get", "nodes", "GET", NODE))

    def patch_node_status(self, name: str, patch: Patch) -> NodeState:
        require_version(patch)
        body = patch_document(patch)
        return node_state(self._send("patch", "nodes/status", "PATCH", f"{NODE}/status", STRATEGIC, body))

    def create_event(self, node: str, event: Mapping[str, object]) -> None:
        self._send("create", "events", "POST", "/api/v1/namespaces/default/events", "application/json", event)

    def _send(
        self, verb: str, resource: str, method: str, path: str, content_type: str = "", body: object = None
    ) -> Any:
        try:
            answer = self._server.request(method, path, content_type, body)
        except Unreachable:
            raise NodeUnreachable("nobody responds") from None
        self._machine.reach(f"after {method}")
        if answer.status >= 300:
            error = HttpError(answer.status, answer.headers, answer.body)
            raise from_http_status(error, Call(ACCESS, verb, resource, "n1", self.user))
        return json.loads(answer.body)


assert all(hasattr(Client, name) for name in vars(ModelClient) if not name.startswith("_"))


def _doubles(
    machine: Machine,
    server: ModelServer,
    reads: Callable[[dict[str, Reading]], None],
) -> list[tuple[Any, str, object]]:
    clock = SimpleNamespace(
        time=lambda: machine.now,
        monotonic=lambda: machine.uptime,
        sleep=lambda _: None,
        strftime=time.strftime,
        gmtime=time.gmtime,
    )
    replace_file = os.replace

    def replaced(*paths: Any) -> None:
        machine.reach("before a file")
        replace_file(*paths)
        machine.reach("after a file")

    def probe(*_: object) -> dict[str, Reading]:
        readings = machine.probe()
        reads(readings)
        return readings

    return [
        (os, "replace", replaced),
        (os, "fsync", lambda _: None),
        (stderr, "use_nonblocking_stderr", lambda: None),
        (reconcile_job, "time", clock),
        (reconcile_job, "uptime", lambda: machine.uptime),
        (reconcile_job, "host_of", lambda _: SimpleNamespace(hostname=lambda: "n1")),
        (reconcile_job, "probe", probe),
        (reconcile_job, "device_plugin_names", lambda _: machine.plugins),
        (reconcile_job, "active_config", lambda _: CheckedConfig(machine.config)),
        (journal, "send", lambda _: None),
        (selection, "machine_id", lambda _: None),
        (api_node, "load", lambda _: ACCESS),
        (api_node, "Client", lambda _: ModelClient(server, machine)),
    ]


@contextmanager
def _replaced(doubles: list[tuple[Any, str, object]]) -> Iterator[None]:
    """Inside the with block, replaces these attributes of modules. (MonkeyPatch takes ten times as long.)"""
    originals = [(module, name, getattr(module, name)) for module, name, _ in doubles]
    try:
        for module, name, double in doubles:
            setattr(module, name, double)
        yield
    finally:
        for module, name, original in originals:
            setattr(module, name, original)
