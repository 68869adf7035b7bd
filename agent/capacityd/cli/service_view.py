"""What `config check` says about files that root can use in a shell, but that the service cannot or does not use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from capacityd.config import Problem
from capacityd.config.toml import toml_key
from capacityd.host.program import untrusted
from capacityd.linux.permissions import why_unreadable_to_root
from capacityd.linux.sandbox import Sandbox, service_sandbox
from capacityd.linux.trust import service_trust
from capacityd.model.config import Config, Resource
from capacityd.model.errors import CredentialsNotTrusted, NodeError, NodeUnauthorized
from capacityd.model.matchers import GlobMatcher
from capacityd.node.kubeconfig import load
from capacityd.node.kubelet_kubeconfig import first_path
from capacityd.reconcile import machine_record
from capacityd.worker import runtime_files


def service_problems(config: Config, kubeconfig: str | None) -> Iterator[Problem]:
    """Yields a problem for each program or file in the configuration that the service cannot or does not use.

    kubeconfig: the command line's option; None for the configured one or, by default, the kubelet's.
    """
    kubeconfig = kubeconfig or config.settings.kubeconfig
    textfile = config.settings.textfile
    names_paths = kubeconfig or textfile or any(_paths(resource) for resource in config.resources)
    sandbox = service_sandbox() if names_paths else Sandbox()  # an empty one hides nothing; to read it takes time
    for resource in config.resources:
        for path, key in _paths(resource).items():
            if advice := sandbox.advice(path):
                yield _problem(resource, advice, key=key)
        if resource.detector == "exec":
            yield from _untrusted_programs(resource)
    if textfile and (hidden := sandbox.hiding(textfile)):
        why = f"the service's sandbox hides {hidden}; /var/lib/prometheus/node-exporter is open to the service"
        yield Problem(textfile, why)
    if kubeconfig and (advice := sandbox.advice(kubeconfig)):
        yield Problem(kubeconfig, advice)
    yield from _unusable_kubeconfig(kubeconfig)


def published_names() -> list[str]:
    """The resources that this machine has published to its Node, sorted. Raises CapacitydError.

    If the last pass has seen a Node, only those that were published to that Node.
    """
    record = machine_record.read(machine_record.state_directory())
    last_seen = runtime_files.read_state(runtime_files.runtime_directory()).memory.node
    if record is not None and last_seen is not None:
        record = record.of_node(last_seen.uid)
    return sorted(record.all_names) if record is not None else []


def _paths(resource: Resource) -> dict[str, str]:
    """The absolute paths that the resource names -> the key that names them."""
    paths = {
        matcher.pattern: "when"
        for test in resource.when
        for matcher in test.matchers
        if test.key == "path" and isinstance(matcher, GlobMatcher)
    }
    for table in resource.tables:
        if resource.detector == "file":
            path = str(table.settings["path"])
            paths[path] = resource.detector
        elif resource.detector == "exec":
            command = cast(tuple[str, ...], table.settings["command"])
            paths |= {word: resource.detector for word in command if word.startswith("/")}
    return paths


def _problem(resource: Resource, why: str, key: str) -> Problem:
    return Problem(resource.source, why, table=f"resources.{toml_key(resource.name)}", key=key)


def _untrusted_programs(resource: Resource) -> Iterator[Problem]:
    for table in resource.tables:
        command = cast(tuple[str, ...], table.settings["command"])
        if flaw := untrusted(command, service_trust()):
            why = f"the service does not run {command[0]}, because {flaw}"
            yield _problem(resource, why, key=resource.detector)


def _unusable_kubeconfig(path: str | None) -> Iterator[Problem]:
    try:
        kubeconfig = path or first_path()
    except NodeUnauthorized:
        return
    if why := why_unreadable_to_root(kubeconfig):
        yield Problem(kubeconfig, why)
    try:
        load(kubeconfig, plugin_timeout=None, trust=service_trust())
    except CredentialsNotTrusted as e:
        yield Problem(kubeconfig, str(e))
    except NodeError:
        return  # the cluster may not have created the file yet; `plan` says what is wrong with it
