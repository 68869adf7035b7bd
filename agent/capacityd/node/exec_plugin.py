"""Runs the exec plugin of a kubeconfig, which prints credentials (client.authentication.k8s.io).

The kubernetes library's own function would wait forever for the plugin, and for any process that the plugin leaves
behind. If the plugin failed, the library would continue without credentials.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from capacityd.linux.program import OutputTooLargeError, ProgramTimeoutError, run_program
from capacityd.linux.program_start import why_not_started
from capacityd.linux.sandbox import sandbox_advice
from capacityd.linux.trust import Trust, flaw_of, flaw_of_command, trust_in
from capacityd.model.errors import NodeUnauthorized, NodeUnreachable
from capacityd.model.text import printable
from capacityd.node.credential_files import not_trusted
from capacityd.node.documents.exec_credential import Credential, exec_credential
from capacityd.node.documents.fields import InvalidDocument

_MAX_OUTPUT_BYTES = 1 << 20
_SEE_OUTPUT = "Its output is not shown, because it may contain secrets. To see the output, run the plugin by hand"
_VERSIONS = tuple(f"client.authentication.k8s.io/{version}" for version in ("v1", "v1beta1"))


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """An exec plugin of a kubeconfig."""

    kubeconfig: str
    version: str
    """The apiVersion of the ExecCredentials that the plugin reads and prints."""
    command: str
    """A path, or a name to look up in PATH."""
    arguments: tuple[str, ...]
    variables: Mapping[str, str] = field(repr=False)
    """The environment variables that the kubeconfig adds for the plugin."""
    cluster: Mapping[str, object] | None
    """The information about the cluster for the plugin; None without provideClusterInfo in the kubeconfig."""
    on_terminal: bool
    """Whether the plugin may ask the user, for example for a code. If so, the plugin's standard error is shown."""


def credential_of(plugin: ExecPlugin, trust: Trust | None, timeout: float | None) -> Credential:
    """Runs the plugin, and returns the credentials that the plugin prints.

    trust: who may be able to change the plugin. None is for an operator's plugin, which is run unless other users can
    change the kubeconfig. timeout: in seconds. None only checks the plugin, and returns empty credentials.

    Raises NodeUnreachable if the plugin fails or takes too long, because the network may be the cause. Raises
    NodeUnauthorized for all other errors.
    """
    if plugin.version not in _VERSIONS:
        raise NodeUnauthorized(
            f"the exec plugin in {printable(plugin.kubeconfig)} has an unsupported apiVersion; supported are "
            f"{' and '.join(_VERSIONS)}"
        )
    environment = {**os.environ, **plugin.variables, "KUBERNETES_EXEC_INFO": _request(plugin)}
    program = _trusted_program(plugin, environment.get("PATH"), trust)
    if timeout is None:
        return Credential(token=None, certificate=None, key=None)
    if program is None:  # the command is not shown, because it may be a secret
        why = f"the exec plugin in {printable(plugin.kubeconfig)} is not installed or not executable"
        raise NodeUnauthorized(f"{why}{sandbox_advice([plugin.command])}")
    name = f"the exec plugin {printable(program)}"
    output = _output(name, [program, *plugin.arguments], environment, timeout=timeout, on_terminal=plugin.on_terminal)
    try:
        return exec_credential(output, plugin.version)
    except InvalidDocument as e:
        raise NodeUnauthorized(f"{name} {e}") from e


def _trusted_program(plugin: ExecPlugin, search_path: str | None, trust: Trust | None) -> str | None:
    """The path of the program; None if it is not installed or not executable. Raises CredentialsNotTrusted."""
    found = shutil.which(plugin.command, path=search_path)
    if trust is None:
        flaw = flaw_of(plugin.kubeconfig, trust_in(plugin.kubeconfig))
    elif found or "/" in plugin.command:
        # The path of a missing program is checked, too, because an untrusted user may be able to create the program.
        flaw = flaw_of_command([os.path.abspath(found or plugin.command), *plugin.arguments], trust)
    else:
        flaw = None
    if flaw:
        raise not_trusted(f"the exec plugin named in {printable(plugin.kubeconfig)}", flaw)
    return os.path.abspath(found) if found else None


def _output(
    name: str, command: Sequence[str], environment: Mapping[str, str], *, timeout: float, on_terminal: bool
) -> bytes:
    """Runs the program, and returns its output. name: for messages. Raises NodeUnauthorized and NodeUnreachable."""
    try:
        status, output, _ = run_program(
            command,
            timeout=timeout,
            environment=environment,
            max_output=_MAX_OUTPUT_BYTES,
            on_terminal=on_terminal,
        )
    except ProgramTimeoutError:
        raise NodeUnreachable(f"{name} did not end within {timeout:g} s") from None
    except OutputTooLargeError:
        raise NodeUnauthorized(f"{name} printed more than {_MAX_OUTPUT_BYTES} bytes") from None
    except (OSError, ValueError, subprocess.SubprocessError) as e:
        code = e.errno if isinstance(e, OSError) else None
        reason = why_not_started(command[0], code) or (os.strerror(code) if code else type(e).__name__)
        raise NodeUnauthorized(f"{name} could not be started: {reason}") from e
    if status != 0:
        # A negative status is the number of the signal that killed the program.
        failure = f"was killed by signal {-status}" if status < 0 else f"failed (exit status {status})"
        advice = sandbox_advice(command, program_failed=True)
        raise NodeUnreachable(f"{name} {failure}. {_SEE_OUTPUT}{advice}")
    return output


def _request(plugin: ExecPlugin) -> str:
    """The ExecCredential that the plugin receives, as JSON."""
    spec: dict[str, object] = {"interactive": plugin.on_terminal}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    request = {"apiVersion": plugin.version, "kind": "ExecCredential", "spec": spec}
    return json.dumps(request, default=str)  # values that only YAML has are sent as text
