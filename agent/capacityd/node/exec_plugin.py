"""Runs the exec plugin of a kubeconfig, which prints credentials (client.authentication.k8s.io).

The kubernetes library's own function would wait forever for the plugin, and for any process that the plugin leaves
behind. If the plugin failed, the library would continue without credentials.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from capacityd.linux.program import OutputTooLargeError, ProgramTimeoutError, run_program
from capacityd.linux.sandbox import sandbox_advice
from capacityd.linux.trust import flaw_of, flaw_of_command, trust_in
from capacityd.model.errors import NodeUnauthorized, NodeUnreachable
from capacityd.model.text import printable
from capacityd.node.credential_files import CredentialFiles, not_trusted_error
from capacityd.node.documents.fields import InvalidDocument, JsonObject, object_at, objects_at, text_at, texts_at

_MAX_OUTPUT_BYTES = 1024 * 1024
_SEE_OUTPUT = "Its output is not shown, because it may contain secrets. To see the output, run the plugin by hand"
_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


class PluginCredentials(NamedTuple):
    """The credentials that an exec plugin prints. None stands for a missing part."""

    token: str | None = None
    certificate: str | None = None
    """The client certificate, as PEM."""
    key: str | None = None
    """The key of the client certificate, as PEM."""


def run_plugin(
    plugin: JsonObject, cluster: JsonObject, files: CredentialFiles, timeout: float | None
) -> PluginCredentials:
    """Runs an exec plugin, and returns its credentials.

    plugin: the entry `exec` of a user in the kubeconfig. cluster: the data for provideClusterInfo. files: the
    kubeconfig, and who may be able to change the plugin. timeout: in seconds. None: the plugin is checked, but not run,
    and the credentials are empty.

    Raises InvalidDocument if the entry is invalid. Raises NodeUnreachable if the plugin fails or takes too long,
    because the network may be the cause. Raises NodeUnauthorized for all other errors.
    """
    subject = f"the exec plugin in {printable(files.kubeconfig)}"
    version = text_at(plugin, "apiVersion")
    if version not in _VERSIONS:
        raise NodeUnauthorized(f"{subject} has an unsupported apiVersion; supported are {' and '.join(_VERSIONS)}")
    mode = text_at(plugin, "interactiveMode")
    has_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    is_for_operator = files.trust is None  # with a kubelet's kubeconfig, there may be nobody to ask
    may_ask = is_for_operator and has_terminal and mode != "Never"
    if mode == "Always" and not may_ask:
        raise NodeUnauthorized(f"{subject} needs a terminal (interactiveMode: Always)")
    spec: dict[str, Any] = {"interactive": may_ask}
    if plugin.get("provideClusterInfo") is True:
        spec["cluster"] = cluster
    request = {"apiVersion": version, "kind": "ExecCredential", "spec": spec}
    environment = _environment(plugin, request)
    command = text_at(plugin, "command") or ""
    if "/" in command:
        command = files.resolve(command)
    arguments = texts_at(plugin, "args")
    program = shutil.which(command, path=environment.get("PATH"))
    _require_trusted(program or command, arguments, files)
    if timeout is None:
        return PluginCredentials()
    if program is None:  # the command is not shown, because it may be a secret
        raise NodeUnauthorized(f"{subject} is not installed or not executable{sandbox_advice([command])}")
    output = _output_of([os.path.abspath(program), *arguments], environment, timeout, on_terminal=may_ask)
    try:
        return _credentials_in(output, version)
    except InvalidDocument as e:
        raise NodeUnauthorized(f"the output of {subject} cannot be used: {e}") from e


def _environment(plugin: JsonObject, request: JsonObject) -> dict[str, str]:
    """The plugin's environment variables. request: the ExecCredential that the plugin receives."""
    environment = dict(os.environ)
    for variable in objects_at(plugin, "env"):
        name = text_at(variable, "name") or ""
        environment[name] = text_at(variable, "value") or ""
    environment["KUBERNETES_EXEC_INFO"] = json.dumps(request, default=str)  # a date, which only YAML has, becomes text
    return environment


def _require_trusted(program: str, arguments: Sequence[str], files: CredentialFiles) -> None:
    """Raises CredentialsNotTrusted if another user could change the plugin.

    For an operator, only the kubeconfig is checked, not the plugin's files.
    """
    flaw = None
    if files.trust is None:
        flaw = flaw_of(files.kubeconfig, trust_in(files.kubeconfig))
    elif "/" in program:
        # The path of a missing program is checked, too, because an untrusted user may be able to create the program.
        flaw = flaw_of_command([os.path.abspath(program), *arguments], files.trust)
    if flaw:
        raise not_trusted_error(f"the exec plugin named in {printable(files.kubeconfig)}", flaw)


def _output_of(command: Sequence[str], environment: Mapping[str, str], timeout: float, *, on_terminal: bool) -> bytes:
    """Runs a plugin, and returns its output. on_terminal: whether it may ask the user. Raises NodeUnreachable."""
    advice = _SEE_OUTPUT
    try:
        status, output, _ = run_program(command, timeout, environment, _MAX_OUTPUT_BYTES, on_terminal=on_terminal)
        if status == 0:
            return output
        # A negative status is the number of the signal that killed the program.
        failure = f"was killed by signal {-status}" if status < 0 else f"failed (exit status {status})"
        advice += sandbox_advice(command, program_failed=True)
    except ProgramTimeoutError:
        failure = f"did not end within {timeout:g} s"
    except OutputTooLargeError:
        failure = f"printed more than {_MAX_OUTPUT_BYTES} bytes"
    except (OSError, ValueError, subprocess.SubprocessError) as e:
        reason = getattr(e, "strerror", None) or type(e).__name__
        failure = f"could not be started ({reason})"
    raise NodeUnreachable(f"the exec plugin {printable(command[0])} {failure}. {advice}")


def _credentials_in(output: bytes, version: str) -> PluginCredentials:
    """The credentials in an ExecCredential of this apiVersion. Raises InvalidDocument."""
    try:
        document = json.loads(output)
    except (ValueError, RecursionError) as e:
        raise InvalidDocument("it is not JSON") from e
    if not isinstance(document, dict) or document.get("kind") != "ExecCredential":
        raise InvalidDocument("it is not an ExecCredential")
    if document.get("apiVersion") != version:
        raise InvalidDocument(f"its apiVersion is not {version}")
    status = object_at(document, "status")
    token = text_at(status, "token")
    certificate = text_at(status, "clientCertificateData")
    key = text_at(status, "clientKeyData")
    has_certificate = certificate and key
    if not token and not has_certificate:
        raise InvalidDocument("it contains neither a token nor a certificate with its key")
    return PluginCredentials(token, certificate, key)
