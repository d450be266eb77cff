"""Whether the machine was quiet: strangers, the noise floor, and what a late sender or late answers are put down to."""

import os
import signal
import time
from typing import Any

import pytest
from support.noise_probes import probes

from looplab.run import quiet
from looplab.run.table import verdict
from looplab.treatments.probes import EDGES_NS, PERIOD_NS, bin_of


def busy_scan(at_s: float, own_s: float | None, idle_s: float, interrupts_s: float = 0.0) -> dict[str, Any]:
    times = {"idle_s": idle_s, "steal_s": 0.0, "interrupts_s": interrupts_s}
    found = {"clock_ns": int(at_s * 1e9), "processors": {"0": times, "1": times}}
    return found if own_s is None else {**found, "own_cpu_s": own_s}


def run(strangers_s: float | None, steal_s: float = 0.0, noise_us: float = 50.0, **more: Any) -> dict[str, Any]:
    """Return a run of two cells of 10 s; `more` is of its environment."""
    cells = [{"O_us": {"p50": 600.0}, "noise_floor": floor(us, p99_us=us)} for us in (50.0, noise_us)]
    taken = [
        {"cell": f"QoS {qos}", "seconds": 10.0, "strangers_cpu_s": used_s, "steal_s": stolen_s}
        for qos, used_s, stolen_s in ((0, 0.1, 0.0), (1, strangers_s, steal_s))
    ]
    environment = {"cores": 16, "suspended_s": 0.0, "changed": {}, "governor": "performance"}
    found = {"valid": True, "cells": cells, "interference": taken, "environment": {**environment, **more}}
    why = quiet.reasons(found)
    return {**found, "quiet": not why, "not_quiet_because": why}


def test_strangers_have_what_neither_the_lab_nor_nobody_used() -> None:
    """Two processors for 10 s: 4 s idle and 1 s of interrupts each, 6 s of the lab's."""
    assert quiet.strangers_cpu_s(busy_scan(0, 50, 0), busy_scan(10, 56, 4, 1)) == pytest.approx(4)
    # A process that ended takes its time with it.
    assert quiet.strangers_cpu_s(busy_scan(0, 50, 0), busy_scan(10, 61, 5)) == 0
    assert quiet.strangers_cpu_s(busy_scan(0, None, 0), busy_scan(10, None, 5)) is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"strangers_s": 1.9}, ""),
        ({"strangers_s": None}, "nobody counted what other programs used"),
        # One of sixteen processors.
        ({"strangers_s": 9.0}, "used 90% of a processor in QoS 1"),
        ({"strangers_s": 0.5, "steal_s": 1.5}, ""),
        ({"strangers_s": 0.5, "steal_s": 3.2}, "gave others 2.0% of the processors' time in QoS 1"),
        ({"strangers_s": 0.5, "noise_us": 299.0}, ""),
        ({"strangers_s": 0.5, "noise_us": 301.0}, "noise floor is 50% of the median of O"),
        ({"strangers_s": 0.5, "suspended_s": 12.0}, "the machine was suspended for 12.0 s"),
        ({"strangers_s": 0.5, "changed": {"governor": "powersave"}}, "changed from performance to powersave"),
    ],
)
def test_a_run_that_was_disturbed_is_valid_and_not_quiet(given: dict[str, Any], words: str) -> None:
    found = run(**given)
    text = " ".join(" ".join(verdict(found)).split())
    assert found["quiet"] == (not words) == quiet.counts(found)
    assert text.startswith("VALID: every" if not words else "VALID, not quiet: every")
    assert words in text
    assert ("no verdict rests on it" in text) == bool(words)
    wanted = run(**given, busy_wanted=True)
    assert quiet.counts(wanted)
    assert ("--busy" in " ".join(verdict(wanted))) == bool(words)


def test_of_several_hosts_the_most_disturbed_one_counts() -> None:
    calm, busy = [busy_scan(0, 0.0, 0), busy_scan(10, 4.0, 8)], [busy_scan(5, 0.0, 0), busy_scan(15, 4.0, 3)]
    scans = [{**mine, "hosts": {"A": mine, "B": other}} for mine, other in zip(calm, busy, strict=True)]
    assert quiet.interference(*scans)["strangers_cpu_s"] == 10
    scans[1]["hosts"]["B"] = busy_scan(15, None, 3)
    assert quiet.interference(*scans)["strangers_cpu_s"] is None
    # Scans that nobody answered count nothing.
    answered = [busy_scan(0, 0.0, 0), busy_scan(10, 4.0, 6)]
    answered[1]["processors"] = {name: {**times, "steal_s": 1.0} for name, times in answered[1]["processors"].items()}
    assert quiet.interference(*answered) == {"seconds": 10, "strangers_cpu_s": 2.0, "steal_s": 2.0}
    for one in ([None, answered[1]], [answered[0], None], [answered[0]] * 2, [busy_scan(0, None, 0), answered[1]]):
        assert quiet.interference(*one)["strangers_cpu_s"] is None


def scan(bins: dict[int, int], *stalls_ns: int) -> dict[str, Any]:
    """Return a scan with one probe's wake-ups by their lateness in ns, of which these are stalls."""
    entry = {
        "processor": 0,
        "policy": "SCHED_FIFO 98",
        "wakeups": sum(bins.values()),
        "stalls": len(stalls_ns),
        "stalled_ns": sum(stalls_ns),
        "bins": {str(EDGES_NS[bin_of(late_ns)]): count for late_ns, count in bins.items()},
    }
    return {"noise": [entry]}


def test_the_noise_floor_is_of_what_lies_between_two_scans() -> None:
    before = scan({5_000: 100, 7_000_000: 1}, 7_000_000)
    after = scan({5_000: 298, 7_000_000: 1, 3_000_000: 2}, 7_000_000, 3_000_000)
    (entry,) = quiet.noise_floor(before, after)
    assert (entry["wakeups"], entry["count"], entry["sum_us"]) == (200, 1, 3000)
    assert 3000 <= entry["max_us"] <= 1.1 * 3000
    assert 5 <= entry["p99_us"] <= 5.5
    assert quiet.noise_floor({}, after) == []


def test_a_probe_is_pinned_counts_and_notices_a_stop() -> None:
    with probes() as found:
        pid = found.pids[0]
        assert len(os.sched_getaffinity(pid)) == 1
        before = {"noise": found.read()}
        os.kill(pid, signal.SIGSTOP)
        time.sleep(30 * PERIOD_NS / 1e9)
        os.kill(pid, signal.SIGCONT)
        late: list[dict[str, Any]] = []
        # The probe writes how late it was before it counts the stall.
        while not (late and late[0]["count"]):
            late = [e for e in quiet.noise_floor(before, {"noise": found.read()}) if e["max_us"] >= 100_000]
            time.sleep(0.01)
    assert late[0]["policy"].startswith("SCHED_")


def floor(
    max_us: float, sum_us: float = 0.0, policy: str = "SCHED_FIFO 98", p99_us: float = 50.0
) -> list[dict[str, Any]]:
    return [{"processor": 1, "policy": policy, "max_us": max_us, "sum_us": sum_us or max_us, "p99_us": p99_us}]


def cell(late_us: float, slow_us: float, wait_us: float, noise: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a cell by p99 of its lateness and of T, and by the run-queue waits of controller and broker."""
    lateness, times = {"n": 100, "p99": late_us}, {"n": 100, "p50": 1000.0, "p99": slow_us}
    waits = {"controller": wait_us, "broker": 1.25 * wait_us}
    return {"send_lateness_us": lateness, "T_us": times, "cpu_wait_us": waits, "noise_floor": noise}


@pytest.mark.parametrize(
    ("p99_us", "held_us", "wait_us", "noise", "cause"),
    [
        (19_000, 80_000, 900_000, floor(900), None),
        (60_000, 60_000, 10_000, floor(45_000), "machine"),
        (60_000, 100_000, 80_000, floor(900), "scheduler"),
        (60_000, 60_000, 5_000, floor(900), "unknown"),
        # Waits of every message in a long cell, and ten stalls of another cause.
        (60_000, 600_000, 200_000, floor(900), "unknown"),
        (60_000, 600_000, 5_000, floor(45_000, 400_000), "machine"),
        # An ordinary probe is late because tasks are in its way.
        (60_000, 600_000, 5_000, floor(45_000, 400_000, policy="SCHED_OTHER"), "unknown"),
        # One stall of 45 ms does not explain that the sender was held back for 600 ms.
        (60_000, 600_000, 5_000, floor(45_000), "unknown"),
    ],
)
def test_a_late_sender_has_a_cause(
    p99_us: float, held_us: float, wait_us: float, noise: list[dict[str, Any]], cause: str | None
) -> None:
    late = cell(p99_us, 1000, wait_us, noise)
    found = quiet.causes(late, held_us, 0)
    assert found == ({} if cause is None else {"late_because": cause})
    assert [why.startswith("The sender was late: ") for why in quiet.why_slow({**late, **found})] == [True] * len(found)


@pytest.mark.parametrize(
    ("p99_us", "held_us", "wait_us", "noise", "words"),
    [
        # As it was seen: the sender in time, controller and broker 0.9 s on the run queue, noise floor 0.5 ms.
        (527_000, 1_000_000, 720_000, floor(500), ["One answer in a hundred was slow: the kernel's scheduler"]),
        (527_000, 600_000, 1_000, floor(500_000), ["One answer in a hundred was slow: the machine itself stalled"]),
        (527_000, 5_000_000, 720_000, floor(500), []),
        (15_000, 1_000_000, 720_000, floor(500), []),
    ],
)
def test_a_stall_that_hits_answers_is_named(
    p99_us: float, held_us: float, wait_us: float, noise: list[dict[str, Any]], words: list[str]
) -> None:
    slow = cell(100, p99_us, wait_us, noise)
    found = list(quiet.why_slow({**slow, **quiet.causes(slow, 0, held_us)}))
    assert [why.startswith(one) for why, one in zip(found, words, strict=True)] == [True] * len(words)
