"""Warnings of `config check` about files that root can use in a shell, but that the service cannot or does not use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from capacityd.config import Problem
from capacityd.config.toml import toml_key
from capacityd.host.program import untrusted
from capacityd.linux.permissions import why_unreadable_to_root
from capacityd.linux.sandbox import Sandbox, service_sandbox
from capacityd.linux.trust import service_trust
from capacityd.model.errors import CredentialsNotTrusted, NodeError, NodeUnauthorized
from capacityd.node.kubeconfig import load
from capacityd.node.kubelet_kubeconfig import find_kubelet_kubeconfig
from capacityd.schema.config import Config, Resource, Table
from capacityd.schema.matchers import GlobMatcher


def service_problems(config: Config, kubeconfig: str | None) -> Iterator[Problem]:
    """Yields a problem for each program or file in the configuration that the service cannot or does not use.

    kubeconfig: the command line's option; None for the configured one or, by default, the kubelet's.
    """
    kubeconfig = kubeconfig or config.settings.kubeconfig
    textfile = config.settings.textfile
    has_paths = kubeconfig or textfile or any(_key_by_path(resource) for resource in config.resources)
    # Asking systemd for the sandbox takes time. Without a path, nothing uses it.
    sandbox = service_sandbox() if has_paths else Sandbox()
    for resource in config.resources:
        for path, key in _key_by_path(resource).items():
            is_in_command = key == "exec"
            advice = sandbox.advice(path, runs=is_in_command)  # "" if the sandbox does not hide the path
            if not advice and key == "file":  # only this detector reads the file; others run it or look for it
                advice = why_unreadable_to_root(path)
            if advice:
                yield _problem(resource, advice, key=key)
        if resource.detector == "exec":
            yield from _untrusted_programs(resource)
    # sandbox.advice() is for files that the service reads. The service writes this one, and has a folder for it.
    if textfile and (hidden_folder := sandbox.hiding(textfile)):
        why = f"the service's sandbox hides {hidden_folder}; /var/lib/prometheus/node-exporter is open to the service"
        yield Problem(textfile, why)
    if kubeconfig and (advice := sandbox.advice(kubeconfig)):
        yield Problem(kubeconfig, advice)
    yield from _unusable_kubeconfig(kubeconfig)


def _key_by_path(resource: Resource) -> dict[str, str]:
    """Each absolute path in the resource -> the resource's key that contains the path. A path in `when` is absolute and
    has no wildcard (config/keys.py)."""
    keys: dict[str, str] = {}
    for test in resource.when:
        if test.key == "path":
            keys |= {matcher.pattern: "when" for matcher in test.matchers if isinstance(matcher, GlobMatcher)}
    for table in resource.tables:
        if resource.detector == "file":
            path = str(table.settings["path"])
            keys[path] = "file"
        elif resource.detector == "exec":
            keys |= {word: "exec" for word in _command(table) if word.startswith("/")}
    return keys


def _command(table: Table) -> tuple[str, ...]:
    """The command of the detector exec."""
    return cast(tuple[str, ...], table.settings["command"])


def _problem(resource: Resource, why: str, key: str) -> Problem:
    return Problem(resource.source, why, table=f"resources.{toml_key(resource.name)}", key=key)


def _untrusted_programs(resource: Resource) -> Iterator[Problem]:
    """Yields a problem for each command of the detector exec if another user than root could change what it runs."""
    for table in resource.tables:
        command = _command(table)
        if changeable_file := untrusted(command, service_trust()):  # its text says who could change which file
            why = f"the service does not run {command[0]}, because {changeable_file}"
            yield _problem(resource, why, key=resource.detector)


def _unusable_kubeconfig(path: str | None) -> Iterator[Problem]:
    """Yields why the service cannot or does not use the kubeconfig. path: None for the kubelet's."""
    try:
        kubeconfig = path or find_kubelet_kubeconfig()
    except NodeUnauthorized:
        return  # the kubelet may not have created its kubeconfig yet, or only root may look for it
    if why := why_unreadable_to_root(kubeconfig):
        yield Problem(kubeconfig, why)
    try:
        # Only for its errors. plugin_timeout=None: an exec plugin is checked, but not run.
        load(kubeconfig, plugin_timeout=None, trust=service_trust())
    except CredentialsNotTrusted as e:
        yield Problem(kubeconfig, str(e))
    except NodeError:
        return  # the cluster may not have created the file yet; `plan` says what is wrong with it
