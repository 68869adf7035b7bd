"""A short-lived child process of the service. It checks the configuration, or runs one reconcile pass."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from capacityd.model.codec import encode_variant

if TYPE_CHECKING:
    from capacityd.model.messages import Message


def send_message(message: Message) -> None:
    """Sends a message to the service, as a line of JSON on standard output."""
    print(json.dumps(encode_variant(message)), flush=True)
