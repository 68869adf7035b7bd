"""What a worker reports to the resident process: JSON objects on standard output, one a line."""

from __future__ import annotations

import json


def send_message(message: dict[str, object]) -> None:
    """Reports this; the resident process merges the messages of a worker. Its last one has "done": true."""
    print(json.dumps(message), flush=True)
