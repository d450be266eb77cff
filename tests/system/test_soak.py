"""A soak: scenario5 for an hour, while others report, check, restart what watches, and ask for a run of their own."""

import os
import re
import time
from collections import defaultdict
from itertools import cycle
from pathlib import Path
from statistics import median

import pytest
from support.containers import docker
from support.e2e_lab import Lab

# LAB_SOAK=1 takes an hour, another number so many seconds.
GIVEN_S = int(os.environ.get("LAB_SOAK") or 0)
LENGTH_S = GIVEN_S if GIVEN_S > 1 else 3600
pytestmark = [pytest.mark.flag("LAB_SOAK"), pytest.mark.timeout(LENGTH_S + 1200)]
MESSAGES, INTERVAL_MS = 3000, 20
REPETITIONS = max(1, LENGTH_S * 1000 // (MESSAGES * INTERVAL_MS))
BETWEEN_ACTS_S, BETWEEN_SAMPLES_S = 60, 15
# What is restarted has no memory to compare; the stress takes and frees memory on purpose.
RESTARTED = ("prometheus", "grafana")
UNCOMPARED = (*RESTARTED, "stress")
# Memory is compared between the second and the last quarter: the first one fills caches.
MOST_GROWTH, LEAST_KIB = 0.05, 512


def private_kib(container: str) -> int:
    """Return the anonymous memory of a container's processes: no page cache, no mapped file."""
    pids = docker("top", container, "-eo", "pid").split()[1:]
    texts = [path.read_text() for pid in pids if (path := Path(f"/proc/{pid}/status")).exists()]
    return sum(int(found[1]) for text in texts if (found := re.search(r"RssAnon:\s+(\d+)", text)))


def act(lab: Lab, what: str) -> None:
    if what in RESTARTED:
        if container := lab.containers().get(what):
            docker("restart", "--time", "5", container, timeout_s=60)
    elif what == "run":
        assert "scenario5" in lab.run("run", "scenario0", "--quick", code=3).stderr
    else:
        lab.run(*what.split(), timeout_s=300, code=0)


def test_an_hour_loses_nothing_and_leaks_nothing(lab: Lab) -> None:
    first = lab.stored(lab.run("run", "scenario1", "--quick", "--busy", "--json", code=0).stdout)
    acts = cycle(("run", f"report {first['run_id']}", "prometheus", f"show {first['run_id']}", "grafana", "list"))
    sizes = ("--intervals", str(INTERVAL_MS), "--messages", str(MESSAGES), "--repetitions", str(REPETITIONS))
    # As published, an answer may be lost in a burst; corrected, none may.
    running = lab.start("run", "scenario5", "--fidelity", "corrected", "--busy", "--json", *sizes)
    running.wait_for(f"{INTERVAL_MS} ms, QoS 0")
    kib: dict[str, list[int]] = defaultdict(list)
    next_act_s = time.monotonic() + BETWEEN_ACTS_S
    # The last minute belongs to the end of the run.
    end_s = time.monotonic() + REPETITIONS * MESSAGES * INTERVAL_MS / 1000 - BETWEEN_ACTS_S
    while time.monotonic() < end_s:
        for service, container in lab.containers().items():
            if service not in UNCOMPARED:
                kib[service].append(private_kib(container))
        if time.monotonic() > next_act_s:
            act(lab, next(acts))
            next_act_s += BETWEEN_ACTS_S
        time.sleep(BETWEEN_SAMPLES_S)
    run = running.ended(0, 600)
    (cell,) = run["cells"]
    assert (cell["sent"], cell["lost"]) == (MESSAGES * REPETITIONS, 0)
    quarters = {
        service: (median(values[len(values) // 4 : len(values) // 2]), median(values[-(len(values) // 4) :]))
        for service, values in kib.items()
        if len(values) >= 8
    }
    print("private memory in KiB, second and last quarter:", quarters)
    assert {"broker-prioritised", "bridge", "robot", "treatments", "exporter"} <= quarters.keys()
    grown = {
        service: (before, after)
        for service, (before, after) in quarters.items()
        if after > max(before * (1 + MOST_GROWTH), before + LEAST_KIB)
    }
    assert grown == {}
