"""The machine, the configuration and the Node that the common options select."""

from __future__ import annotations

from capacityd.host.live import LiveHost
from capacityd.model.host import Host, machine_id, system_uuid
from capacityd.model.node import Node
from capacityd.model.options import Selection
from capacityd.node.file_node import FileNode
from capacityd.node.identity import CredentialsCache, Machine
from capacityd.schema.config import Config


def host_of(selection: Selection) -> Host:
    """This machine or a recording. Raises UsageError if the file is not a recording."""
    if selection.machine is not None:
        from capacityd.host.recording.replay import load as load_recording  # the import takes 10 ms

        return load_recording(selection.machine)
    return LiveHost()


def node_name_of(selection: Selection, config: Config) -> str | None:
    """The Node's name from the option or the configuration; None if only the credentials determine it."""
    return selection.node_name or config.settings.node_name


def node_of(selection: Selection, config: Config, host: Host, cache: CredentialsCache | None = None) -> Node:
    """The interface to the Node, in a file or on the API server. Raises NodeError.

    cache: what an earlier pass learned about the credentials; None if there was no earlier pass.
    """
    node_name = node_name_of(selection, config)
    if selection.node_file is not None:
        return FileNode(selection.node_file, node_name)
    from capacityd.node.api_node import ApiNode  # a command that sends no request does not need the library

    is_recording = selection.machine is not None
    required_id = None if is_recording else machine_id(host)  # None and "" accept any machine's Node
    required_uuid = system_uuid(host) if required_id else ""
    machine = Machine(host.hostname(), required_id, required_uuid)
    kubeconfig = selection.kubeconfig or config.settings.kubeconfig
    return ApiNode(kubeconfig, node_name, machine, cache)
