"""What `config check` says about files that a shell of root can use, and the service cannot or does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from capacityd.config import Problem
from capacityd.config.toml import toml_key
from capacityd.host.program import untrusted
from capacityd.linux.permissions import why_unreadable_to_root
from capacityd.linux.trust import service_trust
from capacityd.model.config import Config, Resource
from capacityd.model.errors import CredentialsNotTrusted, NodeDenied, NodeError
from capacityd.node.kubeconfig import load
from capacityd.node.kubelet_kubeconfig import first_path


def service_problems(config: Config, kubeconfig: str | None) -> Iterator[Problem]:
    """Yields a problem for each program and each file of credentials that the service does not use.

    kubeconfig: the command line's option; None for the configured one or, by default, the kubelet's.
    """
    for resource in config.resources:
        if resource.detector == "exec":
            yield from _untrusted_programs(resource)
    yield from _unusable_kubeconfig(kubeconfig or config.settings.kubeconfig)


def _untrusted_programs(resource: Resource) -> Iterator[Problem]:
    for table in resource.tables:
        command = cast(tuple[str, ...], table.settings["command"])
        if flaw := untrusted(command, service_trust()):
            why = f"the service does not run {command[0]}, because {flaw}"
            yield Problem(resource.source, why, table=f"resources.{toml_key(resource.name)}", key="exec")


def _unusable_kubeconfig(path: str | None) -> Iterator[Problem]:
    try:
        kubeconfig = path or first_path()
    except NodeDenied:
        return
    if why := why_unreadable_to_root(kubeconfig):
        yield Problem(kubeconfig, why)
    try:
        load(kubeconfig, plugin_timeout=None, trust=service_trust())
    except CredentialsNotTrusted as e:
        yield Problem(kubeconfig, str(e))
    except NodeError:
        return  # the cluster may not have created the file yet; `plan` says what is wrong with it
