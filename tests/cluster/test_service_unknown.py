"""When the running service reads again what is unknown: the time decides, not the passes that are made meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.controlplane import Cluster
from tests.cluster.processes import PATIENCE
from tests.cluster.service import PROMPT, Service, service

LICENCES, SEATS = "example.com/licences", "example.com/seats"
FIRST_PAUSE = 60.0  # seconds


@pytest.fixture
def s(cluster: Cluster) -> Iterator[Service]:
    """A machine that boots: a program of the configuration fails until another file is there, which nothing watches."""
    with service(cluster, uptime=5) as s:
        program, seats = s.folder / "count-licences", s.folder / "seats"
        program.write_text(f"#!/bin/sh\ntest -e {s.folder}/driver && echo 4\n")
        program.chmod(0o755)
        seats.write_text("1")
        licences = f'[resources."{LICENCES}"]\nexec = {{ command = ["{program}"] }}\n'
        s.configure(f'{licences}[resources."{SEATS}"]\nfile = {{ path = "{seats}" }}\n')
        yield s


def load_driver(s: Service) -> None:
    """The program works from now on. No event says so."""
    (s.folder / "driver").touch()


def test_changes_of_another_file_do_not_delay_it(s: Service) -> None:
    s.start()
    for _ in range(7):
        passes = s.passes()
        (s.folder / "seats").write_text("1")  # it is written anew; the rate limit holds nothing back
        s.wait_passes(1, passes)
    load_driver(s)
    s.wait_capacity("4", LICENCES, deadline=FIRST_PAUSE + PROMPT)
    assert s.condition()["status"] == "True"


def test_an_api_server_that_cannot_be_reached_does_not_delay_it(s: Service) -> None:
    s.disconnect()
    s.start()
    s.wait_passes(5, deadline=PATIENCE)
    s.connect()
    s.wait_capacity("1", SEATS)
    load_driver(s)
    s.wait_capacity("4", LICENCES, deadline=FIRST_PAUSE + PROMPT)
