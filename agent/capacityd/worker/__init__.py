"""The service's short-lived child: it checks the configuration, or makes one reconcile pass."""

from __future__ import annotations

import json


def send_message(message: dict[str, object]) -> None:
    """Reports to the resident process: JSON on standard output, one object a line.

    The resident process merges the messages of a worker. Its last one has "done": true.
    """
    print(json.dumps(message), flush=True)
