"""The API server of the control plane. A test can stop and restart it. It keeps its address and its data."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cluster.api import Api, ApiError
from tests.cluster.audit import POLICY
from tests.cluster.credentials import Authority, token_file
from tests.cluster.processes import PATIENCE, Daemon


class ApiServer:
    """The API server, not started yet."""

    def __init__(self, program: Path, folder: Path, authority: Authority, etcd_port: int, admin: Api) -> None:
        """folder: for the log and the audit log. admin: to ask whether the server is ready."""
        self.etcd_port = etcd_port
        (folder / "tokens.csv").write_text(token_file())
        (folder / "policy.json").write_text(json.dumps(POLICY))
        certificate, key = authority.server()
        service_accounts = authority.key("service-accounts")
        self._admin = admin
        self._log = folder / "kube-apiserver.log"
        self._daemon: Daemon | None = None
        self._command: list[str | Path] = [
            program,
            f"--etcd-servers=http://127.0.0.1:{etcd_port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={admin.url.rpartition(':')[2]}",
            # No pod needs to reach the API server.
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.96.0.0/24",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            f"--client-ca-file={authority.ca_file}",
            f"--token-auth-file={folder}/tokens.csv",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged",
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            "--service-account-issuer=https://tests.example",
            f"--service-account-key-file={service_accounts}",
            f"--service-account-signing-key-file={service_accounts}",
            f"--audit-policy-file={folder}/policy.json",
            f"--audit-log-path={folder}/audit.log",
            # Never rotate the log: positions in it must stay valid.
            "--audit-log-maxsize=100000",
        ]

    @property
    def pid(self) -> int:
        assert self._daemon is not None, "it does not run"
        return self._daemon.pid

    def start(self) -> None:
        """Starts the API server, without waiting until it is ready."""
        assert self._daemon is None, "it runs already"
        self._daemon = Daemon(self._command, self._log)

    def wait_ready(self) -> None:
        """Waits until the API server answers and one of its controllers has created the namespaces."""
        assert self._daemon is not None, "it does not run"
        self._daemon.wait_for(self._ready, PATIENCE, "the API server is ready")

    def kill(self) -> None:
        if self._daemon is not None:
            self._daemon.stop()
            self._daemon = None

    def _ready(self) -> bool:
        try:
            return bool(self._admin.get("/readyz") == "ok" and self._admin.get("/api/v1/namespaces/default"))
        except (ApiError, OSError):
            return False
