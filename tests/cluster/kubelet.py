"""A real kubelet with a fake container runtime, in its own mount namespace, so that several can run at once.

The namespace outlives the kubelet: /var/lib/kubelet and its device-plugins folder survive restarts. Other programs
(device plugins, capacityd) run in the namespace as they would on the node.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.cluster.api import ApiError
from tests.cluster.controlplane import IMAGE, Cluster
from tests.cluster.credentials import node_user
from tests.cluster.processes import PATIENCE, Daemon, free_port

PAUSE = "registry.k8s.io/pause:3.10"
"""The image that the documentation's pods run."""

# The kubelet puts device-plugins here, whatever --root-dir is.
STATE = Path("/var/lib/kubelet")

# These mounts protect the machine itself. $1: an empty folder. If no kubelet is installed, an overlay adds the folder
# STATE. A kubelet would also create /var/log/containers, and set kernel parameters: here it finds its values in files.
_NAMESPACE = f"""
set -eu
mount -t tmpfs tmpfs "$1"
if [ ! -d {STATE} ]; then
    mkdir "$1/upper" "$1/work"
    mount -t overlay -o "lowerdir=/var/lib,upperdir=$1/upper,workdir=$1/work" overlay /var/lib
    mkdir {STATE}
fi
mount -t tmpfs -o mode=0750 tmpfs {STATE}
mount -t tmpfs tmpfs /var/log
for parameter in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \\
        kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
    value="$1/${{parameter##*/}}"
    echo "${{parameter#*=}}" > "$value"
    mount --bind "$value" "/proc/sys/${{parameter%=*}}"
done
echo mounted
exec sleep infinity
"""


class Kubelet:
    """The kubelet, the container runtime and the namespace of one node. kubelet() creates and ends them."""

    def __init__(self, cluster: Cluster, name: str, folder: Path, stack: ExitStack) -> None:
        self.cluster = cluster
        self.name = name
        self.kubeconfig = cluster.kubeconfig(node_user(name), folder / "kubelet.conf")
        self._folder = folder
        self._stack = stack
        self._kubelet: Daemon | None = None
        (folder / "config.json").write_text(json.dumps(_configuration(folder)))
        # The kubelet's working folder. The fake runtime has no log paths, so the kubelet removes every file in this
        # folder when it removes a pod.
        (folder / "empty").mkdir()
        (folder / "mounts").mkdir()
        mounts: list[str | Path] = ["unshare", "--mount", "--propagation", "private", "sh", "-c"]
        mounts += [_NAMESPACE, "sh", folder / "mounts"]
        self._namespace = stack.enter_context(Daemon(mounts, folder / "namespace.log"))
        self._namespace.wait_for_line("mounted", PATIENCE)
        options = [f"-socket={folder}/runtime.sock", f"-images={IMAGE},{PAUSE}"]
        runtime = Daemon([cluster.binaries["fakeruntime"], *options], folder / "fakeruntime.log")
        self._runtime = stack.enter_context(runtime)
        self._runtime.wait_for_line("listening", PATIENCE)

    def start(self, *, zeroing: bool = False, wait: bool = True) -> None:
        """Starts the kubelet. wait: whether to wait until its Node is Ready.

        zeroing: the node has lost its device-plugins folder, and its runtime starts after the kubelet. Then the kubelet
        sets all extended resources of an existing Node to 0, and they stay 0.
        """
        assert self._kubelet is None, "it runs already"
        if zeroing:
            if self.device_plugins.exists():
                for file in self.device_plugins.iterdir():
                    file.unlink(missing_ok=True)  # a device plugin that ends removes its socket
            self._set_runtime_ready(False)
        if wait or zeroing:
            self._make_ready_unknown()
        extended = self._nonzero_extended() if zeroing else []
        mark = self.cluster.audit.mark() if zeroing else 0
        options = [f"--config={self._folder}/config.json", f"--root-dir={STATE}", f"--cert-dir={STATE}/pki"]
        options += [f"--kubeconfig={self.kubeconfig}", f"--hostname-override={self.name}"]
        command = self.inside([self.cluster.binaries["kubelet"], *options], self._folder / "empty")
        self._kubelet = Daemon(command, self._folder / "kubelet.log")
        self._stack.callback(self._kubelet.stop)
        if zeroing:
            # The kubelet zeroes while it registers, and reports that it is not ready only after that.
            self._wait_ready_is("False")
            # Check the audit log: in the Node's capacity, another writer may have restored the resources by now.
            assert self.has_zeroed(mark, extended), f"not all of {extended} were zeroed"
            self._set_runtime_ready(True)
        if wait:
            self._wait_ready_is("True")

    def stop_runtime(self) -> None:
        """Makes the runtime not ready."""
        self._set_runtime_ready(False)

    def start_runtime(self) -> None:
        """Starts the runtime after stop_runtime(), and waits until the Node is Ready."""
        self._set_runtime_ready(True)
        self._wait_ready_is("True")

    @property
    def runs(self) -> bool:
        """Whether the kubelet has been started, and not been stopped since."""
        return self._kubelet is not None

    def stop(self) -> None:
        assert self._kubelet is not None, "it does not run"
        self._kubelet.stop(signal.SIGTERM)
        self._kubelet = None

    def restart(self, *, zeroing: bool = False) -> None:
        """Restarts the kubelet. Pods and the device-plugins folder stay (zeroing empties the folder)."""
        self.stop()
        self.start(zeroing=zeroing)

    def has_zeroed(self, mark: int, names: Collection[str]) -> bool:
        """Whether the kubelet has set these resources to 0 since this position in the audit log."""
        written: set[str] = set()
        for r in self.cluster.audit.since(mark, node_user(self.name)):
            is_kubelets = r.user_agent.startswith("kubelet/")  # capacityd may have the same user
            if is_kubelets and (r.verb, r.subresource, r.code) == ("patch", "status", 200):
                capacity = r.body["status"].get("capacity", {})
                written |= {name for name, quantity in capacity.items() if quantity == "0"}
        return written.issuperset(names)

    def _set_runtime_ready(self, ready: bool) -> None:
        line = f"ready {str(ready).lower()}"
        before = self._runtime.output().splitlines().count(line)
        self._runtime.send(signal.SIGUSR2 if ready else signal.SIGUSR1)
        self._runtime.wait_for_line(line, PATIENCE, times=before + 1)

    @property
    def device_plugins(self) -> Path:
        """The path to /var/lib/kubelet/device-plugins from outside the namespace."""
        return Path(f"/proc/{self._namespace.pid}/root{STATE}/device-plugins")

    @property
    def checkpoint(self) -> Path:
        return self.device_plugins / "kubelet_internal_checkpoint"

    @contextmanager
    def device_plugin(self, resource: str, count: int) -> Iterator[Daemon]:
        """Runs a device plugin, which registers whenever the kubelet starts. Waits until the checkpoint has it."""
        command = self.inside([self.cluster.binaries["deviceplugin"], f"-resource={resource}", f"-count={count}"])
        plugin = Daemon(command, self._folder / f"deviceplugin-{resource.replace('/', '_')}.log")
        try:
            plugin.wait_for_line("registered", PATIENCE)
            # The kubelet asks the plugin for its devices only after it has answered the registration.
            plugin.wait_for(lambda: self._checkpointed(resource), PATIENCE, f"{resource} is in the checkpoint")
            yield plugin
        finally:
            plugin.stop(signal.SIGTERM)

    def inside(self, command: Sequence[str | Path], folder: Path | None = None) -> list[str | Path]:
        """Wraps a command to run in the node's mount namespace, and in this folder (default: the current one)."""
        # nsenter starts a command in the root folder of the namespace; env -C changes the folder.
        return ["nsenter", f"--mount=/proc/{self._namespace.pid}/ns/mnt", "env", "-C", folder or Path.cwd(), *command]

    def _checkpointed(self, resource: str) -> bool:
        return self.checkpoint.exists() and f'"{resource}"' in self.checkpoint.read_text()

    def _wait_ready_is(self, status: str) -> None:
        def reported() -> bool:
            return self._ready_condition().get("status") == status

        assert self._kubelet is not None, "it does not run"
        self._kubelet.wait_for(reported, PATIENCE, f"Ready of Node {self.name} is {status}")

    def _make_ready_unknown(self) -> None:
        """Sets Ready to Unknown, as the controller manager does without a kubelet, so that the next report is visible.

        A kubelet of 1.32.0 to 1.32.2 reports nothing after its start until something has changed.
        """
        if self._ready_condition():
            status = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
            self.cluster.admin.patch(f"/api/v1/nodes/{self.name}/status", {"status": status}, "strategic")

    def _ready_condition(self) -> dict[str, str]:
        try:
            conditions = self.cluster.node(self.name)["status"].get("conditions", [])
        except ApiError as error:
            if error.status != 404:
                raise
            return {}
        return next((condition for condition in conditions if condition["type"] == "Ready"), {})

    def _nonzero_extended(self) -> list[str]:
        """The extended resources of the Node that are not 0."""
        return [name for name, value in self.cluster.capacity(self.name).items() if "/" in name and value != "0"]


@contextmanager
def kubelet(cluster: Cluster, name: str | None = None) -> Iterator[Kubelet]:
    """A kubelet that is not started yet."""
    name = name or cluster.node_name()
    folder = cluster.folder / name
    folder.mkdir()
    with ExitStack() as stack:
        yield Kubelet(cluster, name, folder, stack)


def _configuration(folder: Path) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{folder}/runtime.sock",
        "address": "127.0.0.1",
        "port": free_port(),
        "healthzPort": 0,
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "nodeStatusUpdateFrequency": "1s",  # 10 s by default
        "nodeStatusReportFrequency": "1s",
        # The kubelet manages nothing on the machine, and does not refuse pods because of the machine's state.
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "localStorageCapacityIsolation": False,
        "makeIPTablesUtilChains": False,
        "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%"},
        "imageGCHighThresholdPercent": 100,
        # The kubelet would otherwise create these folders on the machine.
        "podLogsDir": f"{folder}/logs",
        "volumePluginDir": f"{folder}/volume-plugins",
    }
