"""The noise floor: what a probe on each processor saw between two scans."""

import os
import signal
import time
from typing import Any

from support.noise_probes import children, comm, probes

from looplab.treatments import noise
from looplab.treatments.probes import PERIOD_NS


def scan(clock_ns: int, bins: dict[str, int], *stalls: tuple[int, int]) -> dict[str, object]:
    entry = {
        "processor": 0,
        "policy": "SCHED_FIFO 98",
        "wakeups": sum(bins.values()),
        "stalls": len(stalls),
        "stalled_ns": sum(late for _, late in stalls),
        "bins": bins,
        "latest": [list(stall) for stall in stalls],
    }
    return {"clock_ns": clock_ns, "noise": [entry]}


def test_only_what_lies_between_the_looks_counts() -> None:
    before = scan(1000, {"5": 100, "90": 1}, (900, 7_000_000))
    longest = str(noise.bin_of(3_000_000))
    after = scan(2000, {"5": 298, "90": 1, longest: 2}, (900, 7_000_000), (1500, 3_000_000))
    (entry,) = noise.floor(before, after)
    assert (entry["wakeups"], entry["count"], entry["max_us"], entry["sum_us"]) == (200, 1, 3000, 3000)
    assert entry["p99_us"] < 10


def test_the_longest_stall_stays_however_many_follow() -> None:
    """One of 400 ms, then 600 of 1.5 ms: a probe remembers each of the last 512 alone."""
    bins = {"5": 10, str(noise.bin_of(1_500_000)): 600, str(noise.bin_of(400_000_000)): 1}
    after = scan(9, bins, *[(8, 1_500_000)] * 512)
    (entry,) = noise.floor(scan(0, {"5": 10}), after)
    assert 400_000 <= entry["max_us"] <= 1.1 * 400_000


def test_a_quiet_processor_shows_the_edge_of_its_last_bin() -> None:
    (entry,) = noise.floor(scan(0, {"5": 10}), scan(1, {"5": 20, "7": 1}))
    assert (entry["count"], entry["max_us"]) == (0, 8.192)


def test_a_look_without_probes_has_no_floor() -> None:
    assert noise.floor({"clock_ns": 0}, scan(1, {"5": 20})) == []
    assert noise.worst([]) == {}


def test_every_lateness_falls_into_the_bin_that_holds_it() -> None:
    for late_ns in [0, 900, 8_191, 8_192, 99_999, 1_000_000, 25_000_000, 3_000_000_000]:
        number = noise.bin_of(late_ns)
        assert noise._edge_us(number) * 1000 > late_ns
        assert number == 0 or noise._edge_us(number - 1) * 1000 <= late_ns


def test_a_probe_is_pinned_counts_and_notices_a_stop() -> None:
    with probes() as found:
        (pid, *_others) = [child for child in children() if comm(child) == "lab-noise"]
        assert len(os.sched_getaffinity(pid)) == 1
        before = {"clock_ns": time.monotonic_ns(), "noise": found.read()}
        os.kill(pid, signal.SIGSTOP)
        time.sleep(30 * PERIOD_NS / 1e9)
        os.kill(pid, signal.SIGCONT)
        late: list[dict[str, Any]] = []
        # The probe writes how late it was before it counts the stall.
        while not (late and late[0]["count"]):
            late = [e for e in noise.floor(before, {"noise": found.read()}) if e["max_us"] >= 100_000]
            time.sleep(0.01)
    assert late[0]["policy"].startswith("SCHED_")
