"""Asks an exec plugin of a kubeconfig for credentials (client.authentication.k8s.io), as the kubelet does.

The client's own loader waits for such a program for ever, and goes on as nobody when it fails.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field

from capacityd.errors import NodeDenied, NodeUnreachable
from capacityd.node.faults import clip
from capacityd.printable import printable

_VERSIONS = tuple(f"client.authentication.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha1"))


@dataclass(frozen=True, slots=True)
class Credential:
    """What a plugin hands out; what it doesn't is None. The certificate and its key are PEM."""

    token: str | None = field(repr=False)
    certificate: str | None = field(repr=False)
    key: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Plugin:
    """A program as a kubeconfig names it. command: a path, or a name to be found in PATH. cluster: what it is told."""

    version: str
    command: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    cluster: Mapping[str, object] | None = None
    hint: str = ""  # how to install it

    def credential(self, timeout: float) -> Credential:
        """Runs it, at most timeout seconds. Raises NodeDenied, or NodeUnreachable if it does not end in time."""
        if self.version not in _VERSIONS:
            raise NodeDenied(
                f"the exec plugin {self._name} speaks {printable(self.version)}; known are {', '.join(_VERSIONS)}"
            )
        spec: dict[str, object] = {"interactive": False}
        if self.cluster is not None:
            spec["cluster"] = self.cluster
        request = {"apiVersion": self.version, "kind": "ExecCredential", "spec": spec}
        environment = {**os.environ, **self.environment, "KUBERNETES_EXEC_INFO": json.dumps(request)}
        program = shutil.which(self.command, path=environment.get("PATH"))
        if program is None:
            hint = f" ({clip(self.hint)})" if self.hint else ""
            raise NodeDenied(f"the exec plugin {self._name} is not installed, or not executable{hint}")
        status, out, err = self._run([program, *self.arguments], environment, timeout)
        if status != 0:
            how = f"was ended by signal {-status}" if status < 0 else f"failed ({status})"
            raise NodeDenied(f"the exec plugin {self._name} {how}: {clip(err) or 'it does not say why'}")
        return self._parsed(out)

    @property
    def _name(self) -> str:
        return printable(self.command)

    def _run(self, command: list[str], environment: Mapping[str, str], timeout: float) -> tuple[int, bytes, bytes]:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
        except OSError as e:
            raise NodeDenied(f"the exec plugin {self._name} could not be started: {os.strerror(e.errno or 0)}") from e
        try:
            out, err = process.communicate(timeout=timeout)
            return process.returncode, out, err
        except subprocess.TimeoutExpired as e:
            raise NodeUnreachable(f"the exec plugin {self._name} did not end within {timeout:g} s") from e
        finally:
            # Not reaped yet, so its process group is still its own; what it has started goes with it.
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()

    def _parsed(self, out: bytes) -> Credential:
        # What it says is never repeated: there is a secret in it.
        try:
            answer = json.loads(out)
        except (ValueError, RecursionError) as e:
            raise NodeDenied(f"the exec plugin {self._name} printed no JSON") from e
        status = answer.get("status") if isinstance(answer, dict) else None
        if not isinstance(status, dict) or answer.get("kind") != "ExecCredential":
            raise NodeDenied(f"the exec plugin {self._name} printed no ExecCredential with a status")
        if answer.get("apiVersion") != self.version:
            raise NodeDenied(f"the exec plugin {self._name} answers in another version than {self.version}")
        token, certificate, key = (status.get(k) for k in ("token", "clientCertificateData", "clientKeyData"))
        if not all(isinstance(part, str | None) for part in (token, certificate, key)):
            raise NodeDenied(f"the exec plugin {self._name} printed an ExecCredential of a wrong type")
        if not token and not (certificate and key):
            raise NodeDenied(f"the exec plugin {self._name} printed neither a token nor a certificate with its key")
        return Credential(token or None, certificate or None, key or None)
