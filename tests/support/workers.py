"""Runs a worker of the service by hand: its command, and the job on its standard input."""

from __future__ import annotations

import json
from pathlib import Path

import capacityd
from capacityd.model.codec import decode_variant, encode, parse
from capacityd.model.messages import JobRequest, Message
from capacityd.model.options import Selection
from capacityd.model.reasons import Job, PassReason

AGENT = str(Path(capacityd.__file__).parents[1])
"""The folder with the package capacityd."""
RUN = "import sys; sys.path.insert(0, sys.argv[1]); from capacityd.worker.main import main; main(sys.argv[2:])"
"""The Python program of a worker."""


def worker_arguments(folder: Path | str, selection: Selection) -> list[str]:
    """The arguments of RUN. folder: the runtime directory."""
    return [AGENT, str(folder), json.dumps(encode(selection))]


def job_line(job: Job, *reasons: str) -> str:
    """The job for a worker's standard input."""
    request = JobRequest(job, frozenset(map(PassReason, reasons)))
    return json.dumps(encode(request)) + "\n"


def messages_of(output: str) -> list[Message]:
    """The messages in a worker's output."""
    return [decode_variant(Message, parse(line.encode())) for line in output.splitlines()]
