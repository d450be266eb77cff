"""The CPU stress image: the options, the processes and the end of progrium/stress."""

import pytest
from support.containers import own_image
from support.image_harness import Starter
from support.waiting import until

pytestmark = pytest.mark.engine
# A bound for what hangs: how long it takes is the machine's matter.
LIMIT_S = 60


def test_published_options_start_every_worker(start: Starter) -> None:
    options = ["--cpu", "3", "--io", "3", "--vm", "5", "--vm-bytes", "128M", "--timeout", "4000s"]
    stress = start(own_image("stress"), *options)

    def all_at_work() -> list[dict[str, str]]:
        processes = stress.processes()
        # A reader that catches a worker between two allocations sees less; five at once do not all hide.
        filled = max(int(process["rss_kib"]) for process in processes) > 32 * 1024
        return processes if filled and len(processes) == 1 + 3 + 3 + 5 else []

    processes = until(all_at_work, "all workers at work", LIMIT_S)
    assert {process["name"] for process in processes} == {"stress"}
    assert {process["uid"] for process in processes} == {"10004"}
    assert stress.stop() < 5


def test_each_cpu_worker_burns(start: Starter) -> None:
    stress = start(own_image("stress"), "--cpu", "2", "--io", "0", "--vm", "0", "--vm-bytes", "1M", "--timeout", "120s")

    def burnt_s() -> list[int]:
        return sorted(int(process["cpu_s"]) for process in stress.processes())

    until(lambda: sum(seconds >= 1 for seconds in burnt_s()) == 2, "CPU time of every worker", LIMIT_S)
    assert len(burnt_s()) == 3
    assert burnt_s()[0] == 0, "the dispatcher only waits"
