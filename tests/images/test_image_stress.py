"""The CPU stress image: the options, the processes and the end of progrium/stress."""

from __future__ import annotations

import time

import pytest
from image_harness import Starter

pytestmark = pytest.mark.engine


def test_published_options_start_every_worker(stress_image: str, start: Starter) -> None:
    options = ["--cpu", "3", "--io", "3", "--vm", "5", "--vm-bytes", "128M", "--timeout", "4000s"]
    stress = start(stress_image, *options)
    time.sleep(3)
    processes = stress.processes()
    assert len(processes) == 1 + 3 + 3 + 5
    assert {process["name"] for process in processes} == {"stress"}
    assert {process["uid"] for process in processes} == {"10004"}
    # Whoever catches a worker between two allocations sees less; five at once do not all hide.
    assert max(int(process["rss_kib"]) for process in processes) > 32 * 1024
    assert stress.stop() < 5


@pytest.mark.parametrize("workers", [1, 2])
def test_each_cpu_worker_burns(stress_image: str, start: Starter, workers: int) -> None:
    stress = start(stress_image, "--cpu", str(workers), "--timeout", "60s")
    time.sleep(6)
    burnt_s = sorted(int(process["cpu_s"]) for process in stress.processes())
    assert len(burnt_s) == workers + 1
    assert burnt_s[0] == 0, "the dispatcher only waits"
    # Six seconds on a machine that others may use too.
    assert all(seconds >= 1 for seconds in burnt_s[1:]), burnt_s


def test_ends_by_itself_and_says_so(stress_image: str, start: Starter) -> None:
    stress = start(stress_image, "--cpu", "1", "--timeout", "1s")
    assert stress.wait_for_end(20) == 0
    assert "1 cpu, 0 io, 0 vm" in stress.logs()
    assert "successful run completed" in stress.logs()


def test_wrong_option_fails(stress_image: str, start: Starter) -> None:
    stress = start(stress_image, "--no-such-option")
    assert stress.wait_for_end(20) != 0
    assert "no-such-option" in stress.logs()
