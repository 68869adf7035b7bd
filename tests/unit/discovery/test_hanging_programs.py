"""If a program hangs in the kernel so that no signal ends it, later passes do not start it again."""

from __future__ import annotations

import json
import os

import pytest

from tests.support.forked import can_be_alone, run_alone

# Makes two passes with a program that waits for a FUSE file system without a server. Prints for each pass the reason of
# the unknown reading, and the processes that are left.
PASSES = """
import json, os, sys, tempfile, time
from capacityd.discovery.runner import probe
from capacityd.host.live import LiveHost
from capacityd.linux.subreaper import become_subreaper, children, kill_children
from capacityd.schema.config import Config, Resource, Table
from tests.support.fuse import mounted

become_subreaper()
point = tempfile.mkdtemp()

def run_pass(command):
    reader, writer = os.pipe()
    if (worker := os.fork()) == 0:
        os.close(server)  # a worker that held the server's end would keep the file system alive
        table = Table(settings={"command": command, "timeout": 0.5})
        (reading,) = probe(Config((Resource("example.com/x", "exec", (table,)),)), LiveHost(), "n1").values()
        os.write(writer, json.dumps(reading.reason).encode())
        os._exit(0)
    os.close(writer)
    return worker, reader

def end(worker, reader):
    os.waitpid(worker, 0)
    kill_children(time.monotonic() + 1.0)
    return json.loads(os.read(reader, 10_000)), children(os.getpid())

with mounted(point) as server:
    command = (*sys.argv[1:-1], sys.argv[-1].replace("POINT", point))
    started = run_pass(command)
    os.read(server, 1 << 18)  # takes the program's request, after which no signal ends the program
    passes = [end(*started), end(*run_pass(command))]
print(json.dumps(passes))
kill_children(time.monotonic() + 20)
"""


@pytest.mark.slow
@pytest.mark.skipif(not can_be_alone() or not os.access("/dev/fuse", os.R_OK | os.W_OK), reason="needs /dev/fuse")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root's programs are trusted in a namespace")
@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("exec stat POINT/x", "/bin/sh did not end within 0.5 s"),
        ("exec setsid -w env -i stat POINT/x < /dev/null", "/bin/sh did not end within 0.5 s"),
        ("POINT/x", "the detector exec did not end within 0.5 s"),  # hangs when the detector looks at the argument
    ],
)
def test_a_program_that_hangs_is_not_started_again_while_it_lives(command: str, message: str) -> None:
    """A child of the program may hang too, without anything inherited from the program."""
    arguments = [command] if command == "POINT/x" else ["-c", command]
    (first, left), (second, left_later) = json.loads(run_alone("true", PASSES, "/bin/sh", *arguments))
    assert first == message
    assert len(left) == 1
    assert second == f"the detector exec of an earlier pass hangs in the kernel (process {left[0]})"
    assert left_later == left
