"""The machine's processors: which measures have a value, and which are unknown."""

from __future__ import annotations

import pytest

from capacityd.model.reading import Unknown
from tests.support.machines import machine, processors
from tests.support.readings import counted, quantity, read, values

MHZ = "MHz"
SERVER = machine(processors(cores=64, threads=128, sockets=2, max_frequency=3_400_000_000))
MEASURES = {"cores": 64, "threads": 128, "sockets": 2, "max_frequency": 3_400_000_000}


def test_one_device_has_all_measures() -> None:
    assert counted(SERVER, "cpu") == ["cpu"]
    for measure, number in MEASURES.items():
        assert values(SERVER, "cpu", measure) == {"cpu": number}
        assert quantity(SERVER, "cpu", measure=measure) == number
    assert quantity(SERVER, "cpu", measure="max_frequency", unit=MHZ) == 3400
    assert counted(SERVER, "cpu", {"cores": ">=64", "sockets": "2", "max_frequency": ">=3.4GHz"}) == ["cpu"]


@pytest.mark.parametrize("missing", MEASURES)
def test_a_measure_that_the_machine_does_not_report_is_unknown(missing: str) -> None:
    """The measure is not absent, because the machine has processors."""
    host = machine(processors(**{**MEASURES, missing: None}))
    unknown = {measure for measure in MEASURES if isinstance(read(host, "cpu", measure=measure), Unknown)}
    assert unknown == {missing}
    reading = read(host, "cpu", measure=missing)
    assert isinstance(reading, Unknown)
    assert f"cpu: this machine does not report its {missing}; fallback" in reading.reason
    some = ">=1Hz" if missing == "max_frequency" else ">=1"
    assert isinstance(read(host, "cpu", {missing: some}), Unknown)
    assert quantity(host, "cpu", measure=missing, fallback=7) == 7
    assert counted(host, "cpu") == ["cpu"]
