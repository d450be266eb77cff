"""bench/stalls.py: a stall that is surely made is found, and a bench that does not see it fails."""

import importlib.util
import os
import subprocess
from types import ModuleType

import pytest
from support.places import ROOT


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_stalls", ROOT / "bench/stalls.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(os.geteuid() != 0, reason="control groups are made by root")
def test_real_time_tasks_that_take_every_processor_are_seen(bench: ModuleType) -> None:
    if subprocess.run(["chrt", "-f", "5", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine grants no real-time priority")
    found = bench.sample(bench.MADE, 2.5)
    assert found.max_ms >= bench.SEEN_MS
    # Two or three stalls among 125 wake-ups: they are in the tail, not everywhere.
    assert found.p95_ms < found.max_ms


def test_a_control_that_was_not_seen_is_a_fault(bench: ModuleType) -> None:
    def samples(*longest_ms: float) -> dict[str, object]:
        return {"arms": {bench.MADE: [{"max_ms": longest} for longest in longest_ms]}}

    assert bench.missed(samples(199.0, 182.0)) == ""
    assert "saw 3 ms of a stall of 200 ms" in bench.missed(samples(199.0, 3.0))
