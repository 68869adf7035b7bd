"""leftover: tells the package's prerm what stays on the Node after a removal of the package, and how to remove it."""

from __future__ import annotations

from functools import partial

from capacityd.cli.options import Options
from capacityd.cli.output.terminal import print_line
from capacityd.config import load
from capacityd.host.live import LiveHost
from capacityd.linux.forked import text_within
from capacityd.model.errors import CredentialsMissing, NodeError
from capacityd.model.node import CONDITION, Node, NodeState
from capacityd.model.published import published_in
from capacityd.model.text import plural
from capacityd.worker import metrics_file
from capacityd.worker.selection import node_of

_TIMEOUT = 5.0
"""Seconds for which the package's removal waits for the API server."""
_HOW_TO_REMOVE = "install capacityd again and run `capacityd withdraw`"


def leftover(options: Options) -> int:
    """Prints one line if the Node keeps something that capacityd has published, or if the Node could not be read.

    Removes the metrics file that the configuration names. Returns exit status 0.
    """
    config = load(options.selection.config).config  # even if it has errors
    if config.settings.textfile:
        metrics_file.remove(config.settings.textfile)
    node = node_of(options.selection, config, LiveHost())
    line = text_within(_TIMEOUT, partial(_leftover_line, node))
    if line is None:  # the time is over
        line = _unread_line(f"the API server did not answer within {_TIMEOUT:g} s")
    if line:
        print_line(line)
    return 0


def _leftover_line(node: Node) -> str:
    """The line to print; "" if the Node keeps nothing, or if this machine is no Node."""
    try:
        state = node.read()
    except CredentialsMissing:  # this machine is no Node
        return ""
    except NodeError as e:
        return _unread_line(str(e))
    kept = _kept_text(state)
    if not kept:
        return ""
    return f"capacityd: Node {state.name} keeps {kept}; to remove them: {_HOW_TO_REMOVE}"


def _unread_line(why: str) -> str:
    return f"capacityd: the Node may keep what capacityd has published ({why}); to remove it: {_HOW_TO_REMOVE}"


def _kept_text(state: NodeState) -> str:
    """What the Node keeps; "" for nothing."""
    names = {key.name for key in published_in(state.annotation)}
    parts = [plural(len(names), "resource")] if names else []
    if state.conditions:
        parts.append(f"the condition {CONDITION}")
    return " and ".join(parts)
