"""Runs the exec plugin of a kubeconfig, which prints credentials (client.authentication.k8s.io), as the kubelet does.

The kubernetes library waits forever for the plugin, and for any process that the plugin leaves behind. If the plugin
fails, the library continues without credentials. See tests/cluster/test_library.py.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field

from capacityd.linux.program import OutputTooLargeError, ProgramTimeoutError, run_program
from capacityd.linux.program_start import why_not_started
from capacityd.linux.sandbox import sandbox_advice
from capacityd.linux.trust import Flaw, Trust, flaw_of_command
from capacityd.model.errors import NodeUnauthorized, NodeUnreachable, PluginFailed
from capacityd.model.text import printable
from capacityd.node.documents.exec_credential import Credential, exec_credential
from capacityd.node.documents.fields import InvalidDocument

_MAX_OUTPUT_BYTES = 1 << 20
_SEE_OUTPUT = "Its output is not shown, because it may contain secrets. To see the output, run the plugin by hand"
_VERSIONS = tuple(f"client.authentication.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha1"))


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A program named in a kubeconfig."""

    kubeconfig: str
    """The path, for messages."""
    version: str
    """The apiVersion of the ExecCredentials that the plugin reads and prints."""
    command: str
    """A path, or a name to look up in PATH."""
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    """The variables that the kubeconfig adds to those of this process."""
    cluster: Mapping[str, object] | None
    """The information about the cluster that the plugin receives; None if it asks for none."""
    install_hint: str
    """How to install the plugin, for messages."""
    on_terminal: bool
    """Whether the plugin may talk to the user, for example to ask for a code. Then its standard error is shown."""

    def flaw(self, program: str | None, trust: Trust) -> Flaw | None:
        """What somebody else could change and run() would run; None if there is nothing. program: from find()."""
        return flaw_of_command([program, *self.arguments], trust) if program else None

    def run(self, program: str | None, timeout: float) -> Credential:
        """Runs the plugin for at most timeout seconds. program: from find(), so that it is the one that was checked.

        Raises NodeUnauthorized, in particular PluginFailed if the plugin fails, and NodeUnreachable if the plugin does
        not end in time.
        """
        if self.version not in _VERSIONS:
            raise NodeUnauthorized(f"{self._name} has an unsupported apiVersion; supported are {', '.join(_VERSIONS)}")
        spec: dict[str, object] = {"interactive": self.on_terminal}
        if self.cluster is not None:
            spec["cluster"] = self.cluster
        request = {"apiVersion": self.version, "kind": "ExecCredential", "spec": spec}
        # The YAML of a cluster's extension may contain values that JSON does not have: they are sent as text.
        request_json = json.dumps(request, default=str)
        environment = {**self._variables(), "KUBERNETES_EXEC_INFO": request_json}
        if program is None:
            hint = "; the kubeconfig has an installHint" if self.install_hint else ""
            advice = sandbox_advice([self.command])  # "" outside of the service's sandbox
            raise NodeUnauthorized(f"{self._name} is not installed or not executable{hint}{advice}")
        status, output = self._output([program, *self.arguments], environment, timeout=timeout)
        if status != 0:
            # As in subprocess, the status is negative for a signal.
            failure = f"was killed by signal {-status}" if status < 0 else f"failed (exit status {status})"
            advice = sandbox_advice([program, *self.arguments], program_failed=True)
            raise PluginFailed(f"{self._name} {failure}. {_SEE_OUTPUT}{advice}")
        try:
            return exec_credential(output, self.version)
        except InvalidDocument as e:  # its message is the end of the sentence
            raise NodeUnauthorized(f"{self._name} {e}") from e

    def _variables(self) -> Mapping[str, str]:
        """The plugin's environment."""
        return {**os.environ, **self.environment}

    def find(self) -> str | None:
        """The path of the program; None if it is not installed or not executable."""
        found = shutil.which(self.command, path=self._variables().get("PATH"))
        return os.path.abspath(found) if found else None

    @property
    def _name(self) -> str:
        """The plugin for a message, with its path only if the program exists: any other command may be a secret."""
        program = self.find()
        return f"the exec plugin {printable(program)}" if program else f"the exec plugin in {self.kubeconfig}"

    def _output(self, command: list[str], environment: Mapping[str, str], timeout: float) -> tuple[int, bytes]:
        """Returns the exit status and standard output. Without a terminal, standard error is dropped, because it may
        contain a secret."""
        try:
            status, output, _ = run_program(
                command,
                timeout=timeout,
                environment=environment,
                max_output=_MAX_OUTPUT_BYTES,
                directory="/",  # interpreters look for modules in the current folder, which may be another user's
                on_terminal=self.on_terminal,
            )
            return status, output
        except ProgramTimeoutError:
            raise NodeUnreachable(f"{self._name} did not end within {timeout:g} s") from None
        except OutputTooLargeError:
            raise NodeUnauthorized(f"{self._name} printed more than {_MAX_OUTPUT_BYTES} bytes") from None
        except (OSError, ValueError, subprocess.SubprocessError) as e:
            errno = e.errno if isinstance(e, OSError) else None
            error = os.strerror(errno) if errno else type(e).__name__
            reason = why_not_started(command[0], errno) or error
            raise NodeUnauthorized(f"{self._name} could not be started: {reason}") from e
