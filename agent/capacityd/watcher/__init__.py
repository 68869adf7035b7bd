"""The service's child process that watches the Node, over one connection to the API server that stays open.

It imports neither the Kubernetes client nor a YAML parser, because it runs as long as the service does.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from capacityd.model.codec import encode_variant

if TYPE_CHECKING:
    from capacityd.model.messages import WatcherMessage

STDOUT = 1  # file descriptor


def send_message(message: WatcherMessage) -> None:
    """Sends a message to the resident process, as a line of JSON. Raises OSError if that process has ended."""
    remaining = f"{json.dumps(encode_variant(message))}\n".encode()
    while remaining:
        written = os.write(STDOUT, remaining)  # may be fewer bytes than the line has
        remaining = remaining[written:]
