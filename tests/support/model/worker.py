"""Runs the real worker in this process.

The model gives it the readings, and answers its requests. Its files are real.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from capacityd.model.cluster_access import ClusterAccess
from capacityd.model.errors import NodeUnreachable
from capacityd.model.messages import CheckResult, JobRequest, Message, ServiceConfig
from capacityd.model.options import Selection
from capacityd.model.reading import Reading
from capacityd.node import identity
from capacityd.node.api_node import ApiNode
from capacityd.node.client import Client
from capacityd.node.errors import Call, from_http_status
from capacityd.schema.config import Config
from capacityd.worker.journal import JournalEntry
from capacityd.worker.reconcile_job import PassJob
from capacityd.worker.runtime_files import CheckedConfig
from tests.support.model.answers import STRATEGIC, Unreachable
from tests.support.model.machine import Killed, Machine
from tests.support.model.server import ModelServer

T = TypeVar("T")

ACCESS = ClusterAccess("kubeconfig", "https://server")


def check(machine: Machine) -> CheckResult:
    """The message of a worker that checks the configuration."""
    service = ServiceConfig(resync=machine.config.settings.resync)
    return CheckResult(service, configuration_errors=_errors(machine.config))


def _errors(config: Config) -> tuple[str, ...]:
    """The errors that a check finds in a configuration."""
    if config.broken:
        return tuple(f"{name}: {error}" for name, error in config.broken.items())
    return () if config.complete else ("a file could not be parsed",)


def run_pass(
    machine: Machine,
    server: ModelServer,
    request: JobRequest,
    on_read: Callable[[dict[str, Reading]], None],
    on_request: Callable[[str], None],
) -> tuple[list[Message], bool]:
    """Runs a worker with a job. Returns the messages that the worker has written, and whether it was killed.

    on_read: called with the readings that the worker gets. on_request: called with the name of each request.
    """

    def begin_request(name: str) -> None:
        machine.pass_kill_point()
        on_request(name)

    machine.points = 0
    server.on_request = begin_request
    job = ModelJob(machine, server, request, on_read)
    killed = False
    try:
        with _kill_points_at_files(machine):
            job.run()
    except Killed:
        killed = True
    finally:
        machine.kill_at = None
        server.on_request = lambda _: None
    return job.messages, killed


class ModelJob(PassJob):
    """A pass on a model of a machine. It has no journal."""

    def __init__(
        self, machine: Machine, server: ModelServer, request: JobRequest, on_read: Callable[[dict[str, Reading]], None]
    ) -> None:
        self.messages: list[Message] = []
        self._machine, self._server, self._on_read = machine, server, on_read
        super().__init__(str(machine.run_folder), Selection(config="none"), request)

    def now(self) -> float:
        return self._machine.now

    def uptime(self) -> float:
        return self._machine.uptime

    def active_config(self) -> CheckedConfig:
        return CheckedConfig(self._machine.config, _errors(self._machine.config))

    def probe(self, node_name: str | None) -> dict[str, Reading]:
        readings = self._machine.probe()
        self._on_read(readings)
        return readings

    def device_plugins(self) -> frozenset[str] | None:
        return self._machine.plugins

    def open_node(self, cache: identity.CredentialsCache) -> ApiNode:
        return ModelNode(self._server, self._machine, cache)

    def send(self, message: Message) -> None:
        self.messages.append(message)

    def log(self, entries: Iterable[JournalEntry]) -> None:
        """Logs nothing, but builds each entry, so that an error in doing so fails the test."""
        assert all(entry.message for entry in entries)


class ModelNode(ApiNode):
    """The Node on the model of an API server. It does not check to which machine the Node belongs."""

    def __init__(self, server: ModelServer, machine: Machine, cache: identity.CredentialsCache) -> None:
        super().__init__(kubeconfig=None, node_name=None, machine=identity.Machine("n1", machine_id=None), cache=cache)
        self._server, self._model = server, machine

    def _open_client(self) -> Client:
        return ModelClient(self._server, self._model)


class ModelClient(Client):
    """Sends its requests to the model of an API server."""

    def __init__(self, server: ModelServer, machine: Machine) -> None:
        self.access = ACCESS
        self._server, self._machine = server, machine

    def request(
        self,
        call: Call,
        path: str,
        parse: Callable[[Any], T],
        body: Mapping[str, object] | None = None,
        absent_on: Collection[int] = (),
    ) -> T:
        method = {"get": "GET", "create": "POST", "patch": "PATCH"}[call.verb]
        content_type = STRATEGIC if method == "PATCH" else "application/json"
        try:
            answer = self._server.request(method, path.partition("?")[0], content_type, body)
        except Unreachable:
            raise NodeUnreachable("nobody responds") from None
        self._machine.pass_kill_point()
        if answer.status >= 300:
            raise from_http_status(answer.status, answer.body, call, ACCESS, answer.headers.get("Retry-After", ""))
        return parse(json.loads(answer.body))


@contextmanager
def _kill_points_at_files(machine: Machine) -> Iterator[None]:
    """Makes kill points before and after each replacement of a file. fsync does nothing, because it is slow."""
    replace_file, fsync = os.replace, os.fsync

    def replace(*paths: Any) -> None:
        machine.pass_kill_point()
        replace_file(*paths)
        machine.pass_kill_point()

    os.replace, os.fsync = replace, lambda _: None  # type: ignore[assignment]
    try:
        yield
    finally:
        os.replace, os.fsync = replace_file, fsync
