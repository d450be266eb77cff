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
