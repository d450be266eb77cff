"""The queueing model of many hosts: what breaks first."""

import runpy

import pytest
from support.places import ROOT

MODEL = runpy.run_path(str(ROOT / "bench/many_hosts.py"))
Demands = MODEL["Demands"]
# One processor stores 1000 a second; half of it is the database's.
EVEN = Demands(broker=0.0001, instance=0.0003, database=0.0005, device=0.0001, disk=0.0, sleep=0.0)


@pytest.mark.parametrize(
    ("hosts", "cores", "apart", "limit", "first"),
    [
        (1, 1, False, 1000, "the processors of the only host"),
        (2, 1, False, 1250, "a worker of the instance, one thread"),
        (100, 2, False, 2500, "the processors of the instance's host"),
        (100, 1, True, 2000, "the processors of the database's host"),
    ],
)
def test_what_breaks_first(hosts: int, cores: float, apart: bool, limit: float, first: str) -> None:
    most, name = MODEL["limit"](MODEL["resources"](EVEN, hosts, cores, apart=apart))
    assert (round(most), name) == (limit, first)
