"""The queueing model: known answers of its formulas, and what breaks first."""

import runpy

import pytest
from support.places import ROOT

MODEL = runpy.run_path(str(ROOT / "bench/many_hosts.py"))
Demands, Resource = MODEL["Demands"], MODEL["Resource"]
# One processor stores 1000 a second; half of it is the database's.
EVEN = Demands(broker=0.0001, instance=0.0003, database=0.0005, device=0.0001, disk=0.0, sleep=0.0)


def test_the_wait_by_the_formula_of_a_textbook() -> None:
    assert Resource("", 0.001, 1, 0.001).wait_s(500) == pytest.approx(0.001)
    # Two servers, load 1: C = 1/3.
    assert Resource("", 0.001, 2, 0.001).wait_s(1000) == pytest.approx(0.001 / 3)
    assert Resource("", 0.001, 2, 0.001).wait_s(2000) == float("inf")
    # Half a processor is one of half the speed.
    assert Resource("", 0.001, 0.5, 0.001).wait_s(250) == pytest.approx(0.002)


@pytest.mark.parametrize(
    ("hosts", "cores", "apart", "limit", "first"),
    [
        (1, 1, False, 1000, "the processors of the only host"),
        (2, 1, False, 1250, "a worker of the instance, one thread"),
        (3, 1, True, 1250, "a worker of the instance, one thread"),
        (100, 2, False, 2500, "the processors of the instance's host"),
        (100, 1, True, 2000, "the processors of the database's host"),
    ],
)
def test_what_breaks_first(hosts: int, cores: float, apart: bool, limit: float, first: str) -> None:
    most, name = MODEL["limit"](MODEL["resources"](EVEN, hosts, cores, apart=apart))
    assert (round(most), name) == (limit, first)
