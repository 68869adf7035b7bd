"""Warnings of `config check` about programs and files that the service cannot or does not use, although root can."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import cast

from capacityd.config import Problem
from capacityd.linux.forked import text_within
from capacityd.linux.sandbox import Sandbox, hidden_path_message, service_sandbox
from capacityd.linux.trust import SERVICE_TRUST, flaw_of_command
from capacityd.model.errors import CredentialsNotTrusted, NodeError, NodeUnauthorized
from capacityd.model.text import printable
from capacityd.node.kubeconfig import load
from capacityd.node.kubelet_kubeconfig import find_kubelet_kubeconfig
from capacityd.node.own_node import node_in_credentials
from capacityd.schema.config import Config, Resource
from capacityd.schema.toml_values import toml_key

_TIMEOUT = 5.0
"""Seconds for the check of a path."""
_INTERPRETER = re.compile(r".*sh|python[0-9.]*")
"""Names of programs that run the source code after the option -c."""
_CODE_OPTION = re.compile("-[a-z]*c")
"""-c, alone or after other options, such as -ec."""
_CODE_IS_NOT_CHECKED = (
    "the text after -c is not checked, and it runs in the service's sandbox, where paths may be hidden: compare with "
    "`capacityd probe --as-service`"
)


def service_problems(config: Config, kubeconfig: str | None) -> Iterator[Problem]:
    """Yields a problem for each program or file in the configuration that the service cannot or does not use.

    kubeconfig: the option --kubeconfig. None: the configured kubeconfig or, by default, the kubelet's.
    """
    for place, check in _checks(config, kubeconfig or config.settings.kubeconfig):
        message = text_within(_TIMEOUT, check)
        if message is None:
            message = f"a look at its path did not end within {_TIMEOUT:g} s; does the file system's server respond?"
        if message:
            yield replace(place, message=message)


def node_name_error(config: Config, kubeconfig: str | None) -> str:
    """The error if node_name is not the Node of the credentials; "" for the same Node, or for unreadable credentials.

    kubeconfig: the option --kubeconfig. None: the configured kubeconfig or, by default, the kubelet's.
    """
    name = config.settings.node_name
    if not name:
        return ""
    check = partial(_node_name_error, name, kubeconfig or config.settings.kubeconfig)
    return text_within(_TIMEOUT, check) or ""  # None: the kubeconfig could not be read in time


def _node_name_error(name: str, kubeconfig: str | None) -> str:
    try:
        access = load(kubeconfig, plugin_timeout=None, trust=SERVICE_TRUST)  # None: runs no exec plugin
    except NodeError:
        return ""
    node = node_in_credentials(access)
    if not node or node == name:  # "": the credentials name no Node
        return ""
    return f'"{name}", but the credentials in {access.kubeconfig} are those of Node "{node}": remove node_name'


def _checks(config: Config, kubeconfig: str | None) -> Iterator[tuple[Problem, Callable[[], str]]]:
    """Yields pairs for paths in the configuration: the path's place, and a function that returns what is wrong with it.

    The place is a Problem without a message.
    """
    sandbox = service_sandbox()
    for resource in config.resources:
        for path in resource.when_paths:  # the parser accepts only absolute paths without wildcards
            yield _place(resource, "when"), partial(_why_hidden, path, sandbox)
        for table in resource.tables:
            if resource.detector == "file":
                path = str(table.settings["path"])
                yield _place(resource, "file"), partial(_why_hidden, path, sandbox)
            if resource.detector == "exec":
                command = cast(tuple[str, ...], table.settings["command"])
                yield _place(resource, "exec"), partial(_why_unusable_command, command, sandbox)
    textfile = config.settings.textfile
    if textfile:
        yield Problem(textfile, message=""), partial(_why_hidden, textfile, sandbox)
    try:
        kubeconfig = kubeconfig or find_kubelet_kubeconfig()
    except NodeUnauthorized:
        return  # the kubelet may not have created its kubeconfig yet, or only root may look for it
    yield Problem(kubeconfig, message=""), partial(_why_unusable_kubeconfig, kubeconfig, sandbox)


def _place(resource: Resource, key: str) -> Problem:
    """The place of a resource's key, as a Problem without a message."""
    return Problem(resource.source, message="", table=f"resources.{toml_key(resource.name)}", key=key)


def _why_hidden(path: str, sandbox: Sandbox) -> str:
    """Why the service does not see a path; "" if it does."""
    return hidden_path_message(path) if sandbox.hides(path) else ""


def _why_unusable_command(command: tuple[str, ...], sandbox: Sandbox) -> str:
    """Why the service does not run a command, or may get another result than root; otherwise ""."""
    if flaw := flaw_of_command(command, SERVICE_TRUST):
        return f"the service does not run {command[0]}, because {flaw}"
    for word in command:
        if word.startswith("/") and sandbox.hides(word):
            return hidden_path_message(word)
    if _contains_code(command):
        return _CODE_IS_NOT_CHECKED
    globs = [word for word in command if re.match(r"/.*[*?]", word)]  # such as /dev/nvme*
    return f'no shell expands "{printable(globs[0])}": use a script' if globs else ""


def _contains_code(command: tuple[str, ...]) -> bool:
    """Whether a command contains source code: ["/bin/sh", "-c", "ls | wc -l"], for example."""
    for index, word in enumerate(command):
        program = os.path.basename(word)
        if _INTERPRETER.fullmatch(program):  # the first word, or the shell after ["/usr/bin/timeout", "5"]
            arguments = command[index + 1 :]
            return any(_CODE_OPTION.fullmatch(argument) for argument in arguments)
    return False


def _why_unusable_kubeconfig(path: str, sandbox: Sandbox) -> str:
    """Why the service cannot or does not use the kubeconfig; "" if nothing prevents it."""
    try:
        # Only the errors are of interest. plugin_timeout=None: an exec plugin is checked, but not run.
        load(path, plugin_timeout=None, trust=SERVICE_TRUST)
    except CredentialsNotTrusted as e:
        return str(e)
    except NodeError:
        pass  # the cluster may not have created the file yet; `plan` says what is wrong with it
    return _why_hidden(path, sandbox)
