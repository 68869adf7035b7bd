"""Detectors that misbehave: the others are published on time, the broken one is unknown and its last value stays."""

from __future__ import annotations

import shutil

from capacityd.model.reasons import PassReason
from tests.cluster.agent import DONGLE
from tests.cluster.controlplane import Cluster
from tests.cluster.service import DONGLES, PROMPT, Service, service
from tests.support.machines import files

BROKEN = {
    "hangs": ("sleep 1000", "did not end within 2 s"),
    "dies": ("kill -SEGV $$", "killed by signal 11"),
    "eats": ("exec /usr/bin/python3 -c 'x = bytearray(1 << 30); print(len(x))'", "MemoryError"),
    "leaves-children": ("setsid sleep 1000 & setsid sleep 1000 & exit 1", "exited with status 1"),
}


def test_broken_ones(s: Service) -> None:
    """Each worked at first, so its last value must stay."""
    last = dict.fromkeys(map(name, BROKEN), 7)
    for how in BROKEN:
        program(s, how, "echo 7")
    s.configure(DONGLES + programs(s))
    s.start()
    s.wait(lambda: s.last_applied() == {DONGLE: 1, **last}, PROMPT, "all are published")
    for how, (script, _) in BROKEN.items():
        program(s, how, script)
    # What ends gets the time that a slow machine takes.
    s.configure(DONGLES + programs(s, "2s"))
    s.reload()
    s.machine.plug("1-2")
    s.wait_capacity("2")
    s.wait(lambda: all(f"unknown: {key}: " in s.condition()["message"] for key in last), PROMPT, "it reports them")
    s.wait(lambda: s.process and s.machine.processes() == [s.process.pid], PROMPT, "nothing of them is left")
    assert s.condition()["status"] == "False"
    rows = {row["name"]: row for row in s.status()["resources"]}
    for how, (_, why) in BROKEN.items():
        row = rows[name(how)]
        assert (row["reading"], row["published"], row["capacity"]) == ("unknown", 7, "7")
        assert why in row["note"]

    s.stop()
    s.start()  # ready before the one that hangs has ended
    s.machine.plug("1-3")
    s.wait_capacity("3")
    assert s.last_applied() == {DONGLE: 3, **last}
    assert {key: s.capacity(key) for key in last} == dict.fromkeys(last, "7")


def name(how: str) -> str:
    return f"example.com/{how}"


def programs(s: Service, patience: str = "1min") -> str:
    """A resource for each, counted by its program. patience: with the one that hangs."""
    timeouts = dict.fromkeys(BROKEN, "1min") | {"hangs": patience}
    return "".join(
        f'[resources."{name(how)}"]\nexec = {{ command = ["{s.folder}/{how}"], timeout = "{timeout}" }}\n'
        for how, timeout in timeouts.items()
    )


def program(s: Service, how: str, script: str) -> None:
    new = s.folder / f"{how}.new"
    new.write_text(f"#!/bin/sh\n{script}\n")
    new.chmod(0o755)
    new.rename(s.folder / how)


def test_a_processor_goes_offline_and_comes_back(cluster: Cluster) -> None:
    """By an event of udev, which a real kernel sends likewise; counted by psutil."""
    core, folder = "example.com/core", "/sys/devices/system/cpu"
    first, second = (
        files({f"{folder}/cpu{n}/topology/{name}": f"{n}\n" for name in ("core_cpus_list", "physical_package_id")})
        for n in range(2)
    )
    online, offline = (files({f"{folder}/online": f"{numbers}\n"}) for numbers in ("0-1", "0"))
    with service(cluster, first, second, online) as s:
        s.configure(f'[resources."{core}"]\ncpu = {{}}\nmeasure = "cores"\n')
        s.start()
        assert s.capacity(core) == "2"
        shutil.rmtree(f"{s.machine.tree}{folder}/cpu1/topology")
        s.machine.add(offline)
        s.machine.event("offline", f"{folder}/cpu1", "cpu")
        s.wait_capacity("1", core)
        s.machine.add(second)
        s.machine.add(online)
        s.machine.event("online", f"{folder}/cpu1", "cpu")
        s.wait_capacity("2", core)


def test_a_part_of_the_memory_goes_offline(cluster: Cluster) -> None:
    """It is read again; the machine's own memory stays as it is."""
    with service(cluster) as s:
        s.configure('[resources."example.com/memory-mib"]\nmemory = {}\nmeasure = "size"\nunit = "MiB"\n')
        s.start()
        assert int(s.capacity("example.com/memory-mib") or 0) > 256
        passes = s.passes()
        s.machine.event("offline", "/sys/devices/system/memory/memory32", "memory")
        s.wait_passes(1, passes)
        assert s.last_pass().reasons == (PassReason.HARDWARE,)
