"""leftover: tells the package's prerm what stays on the Node after a removal of the package, and how to remove it."""

from __future__ import annotations

from capacityd.cli.options import Options
from capacityd.cli.output.terminal import print_line
from capacityd.cli.published import last_seen_node, published_names
from capacityd.config import load
from capacityd.host.live import LiveHost
from capacityd.model.node import CONDITION
from capacityd.model.text import plural
from capacityd.worker.selection import node_name_of


def leftover(options: Options) -> int:
    """Prints one line if this machine has published a resource to its Node, otherwise nothing. Returns exit status 0.

    Sends no request: the package's removal must not wait for an API server. Raises CapacitydError if a file can't be
    read.
    """
    last_seen = last_seen_node()
    names = published_names(last_seen)
    if not names:
        return 0
    if last_seen is not None:
        node_name = last_seen.name
    else:
        config = load(options.selection.config).config  # even if it has errors: only its node_name counts
        node_name = node_name_of(options.selection, config, LiveHost())
    print_line(
        f"capacityd: Node {node_name} keeps {plural(len(names), 'resource')} and the condition {CONDITION}; "
        "to remove them, install capacityd again and run `capacityd withdraw`"
    )
    return 0
