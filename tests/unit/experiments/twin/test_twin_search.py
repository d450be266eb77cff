"""The search on simulated parts, which finds a limit that is known; who may join the device workers of a run."""

import math
import random
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from support.ports import free_port
from support.run_files import fill
from support.waiting import until

from looplab.experiments.twin import device_workers
from looplab.experiments.twin.database import CommitCost
from looplab.experiments.twin.device_workers import MOST_STRANGERS, DeviceWorkers, FarDevices
from looplab.experiments.twin.instance.orders import Order, WorkerCount, WorkerCounts
from looplab.experiments.twin.parameters import TwinParameters
from looplab.experiments.twin.search import SearchStep, judge_step, limit, search
from looplab.experiments.twin.sending import Sent, usage
from looplab.run.samples import ANSWERED, WAITING, SampleStore

MS = 1_000_000
FAILED = SearchStep(100, 10, 90, 1, 1e6, 10, sustained=False)


def parameters(**more: str) -> TwinParameters:
    return TwinParameters.read({"SCENARIO": "twin-limit", "STEP_S": "4", "MAX_RATE_PER_S": "1000", **more})


def storing(capacity_per_s: float) -> Callable[[float], tuple[SearchStep, dict[str, Any]]]:
    """Return an attempt at a store that takes so many messages a second."""

    def attempt(rate: float) -> tuple[SearchStep, dict[str, Any]]:
        stored, sustained = min(rate, capacity_per_s), rate <= capacity_per_s
        step = replace(FAILED, rate_per_s=round(rate, 3), stored_per_s=stored, sustained=sustained)
        return step, {"limited_by": f"at {rate:.0f}"}

    return attempt


@pytest.mark.parametrize("capacity", [15.0, 120.0, 700.0])
def test_the_search_finds_the_limit_of_a_store(capacity: float) -> None:
    found = search(parameters(SEARCH_STEPS="10"), storing(capacity))
    assert 0.85 * capacity < found["limit_per_s"] <= capacity
    assert found["steps"][-1]["sustained"]
    assert found["steps"][-1]["rate_per_s"] == found["limit_per_s"]
    # The lowest overload explains the limit.
    overloaded = min(step["rate_per_s"] for step in found["steps"] if not step["sustained"])
    assert found["limited_by"] == f"at {overloaded:.0f}"


def test_a_search_that_fails_nowhere_or_everywhere() -> None:
    nothing = search(parameters(), storing(0.2))
    assert (nothing["limit_per_s"], any(step["sustained"] for step in nothing["steps"])) == (0, False)
    found = search(parameters(), storing(10_000))
    assert (found["limit_per_s"], len(found["steps"]), found["limited_by"]) == (1000, 1, "tried")


@pytest.mark.parametrize("cause", ["unknown", "broker"])
def test_chance_near_the_limit_moves_no_limit(cause: str) -> None:
    """A step fails at random, half of them at the limit: the mean of many searches is that of exact ones."""
    p, dice = parameters(SEARCH_STEPS="20"), random.Random(7)

    def missed(spread: float) -> float:
        """Return the log of a limit found over the true one."""
        true = 120 * math.exp(dice.uniform(-0.3, 0.3))

        def attempt(rate: float) -> tuple[SearchStep, dict[str, Any]]:
            sustained = math.log(rate / true) < spread * math.log(1 / dice.random() - 1)
            step = replace(FAILED, rate_per_s=rate, stored_per_s=min(rate, 120), sustained=sustained)
            return step, {"limited_by": cause}

        return math.log((search(p, attempt)["limit_per_s"] or true) / true)

    exact, by_chance = (fmean(missed(spread) for _ in range(1500)) for spread in (1e-9, 0.1))
    # Limits are found by steps of 5 %, from below.
    assert -0.06 < exact < 0
    assert abs(by_chance - exact) < 0.025


def test_a_step_that_queues_loses_or_is_late_is_not_sustained() -> None:
    p, sent_ns = parameters(), 10 * MS * np.arange(100)

    def judged(received_ns: Any, **changes: Any) -> SearchStep:
        store = SampleStore(len(p.rows(0)), None, ("copies",))
        whole = {"due_ns": sent_ns, "sent_ns": sent_ns, "received_ns": received_ns, "state": ANSWERED, **changes}
        fill(store, range(100), **whole)
        return judge_step(p, store, range(100), 100)

    assert judged(sent_ns + MS).sustained
    # 95 a second are stored, the last one after 63 ms.
    queueing = judged(1000 * MS * np.arange(1, 101) // 95)
    assert (queueing.sustained, queueing.stored_per_s) == (False, pytest.approx(95, rel=0.02))
    assert not judged(sent_ns + 150 * MS).sustained
    assert not judged(sent_ns + MS, state=np.where(np.arange(100) == 50, WAITING, ANSWERED)).sustained
    late_ns = np.where(np.arange(100) < 90, 0, 150 * MS)
    assert not judged(sent_ns + MS, due_ns=sent_ns - late_ns).sustained


def scan(at_s: float, idle: float = 0.5, **cpu_s: float) -> dict[str, Any]:
    """Return a scan that found each part after so much processor time."""
    roles = {}
    for role in ("broker", "workers", "database", "controller"):
        process = {"pid": 1, "started_ticks": 1, "cpu_ns": int(cpu_s.get(role, 0) * 1e9), "children_cpu_ns": 0}
        roles[role] = {"processes": [{**process, "container": {"hostname": "broker-1"}}]}
    # Two processors, one of them idle.
    processors = {number: {"idle_s": at_s * idle} for number in ("0", "1")}
    return {"clock_ns": int(at_s * 1e9), "roles": roles, "processors": processors}


@pytest.mark.parametrize(
    ("cpu_s", "worker", "sync_ms", "named", "idle"),
    [
        ({"broker": 9.5, "workers": 3}, {}, 0, "broker", 0.5),
        ({"broker": 2, "workers": 9.9}, {}, 0, "instance", 0.5),
        ({"broker": 1, "workers": 2, "database": 9}, {"STORE_NS": 9 * 10**9}, 0, "database", 0.5),
        ({"broker": 1, "workers": 1, "database": 2}, {"STORE_NS": 9 * 10**9}, 6000, "fsync", 0.5),
        ({"broker": 1, "workers": 1, "database": 3}, {"STORE_NS": 9 * 10**9}, 1000, "database", 0.5),
        ({"broker": 1, "workers": 1, "database": 1}, {"SLEEP_NS": 8 * 10**9}, 500, "sleep", 0.5),
        ({"broker": 1, "workers": 1, "database": 1}, {"SESSION_NS": 8 * 10**9}, 500, "session", 0.5),
        ({"broker": 1, "workers": 1, "database": 1, "controller": 9.9}, {}, 0, "device", 0.5),
        ({"broker": 1, "workers": 1, "database": 1}, {}, 0, "unknown", 0.5),
        # A machine without room is named first.
        ({"broker": 7}, {}, 0, "machine", 0),
        ({"broker": 9.5}, {}, 0, "broker", 0),
        # A full window is the limit only if nothing behind it is.
        ({}, {"UNACKNOWLEDGED_MAX": 20}, 0, "inflight", 0.5),
        ({}, {"UNACKNOWLEDGED_MAX": 20, "SLEEP_NS": 9 * 10**9}, 0, "sleep", 0.5),
    ],
)
def test_the_part_that_is_used_up_is_the_limit(
    tmp_path: Path, cpu_s: dict[str, float], worker: dict[str, int], sync_ms: float, named: str, idle: float
) -> None:
    """In a sending of 10 s with one worker."""
    counts, order = WorkerCounts(tmp_path), Order("01234567", 0, [("broker-1", 1883)], 1, "row", tcp_nodelay=True)
    for name, count in worker.items():
        counts.row(0)[WorkerCount[name]] = count
    scans, costs = (scan(0, idle), scan(10, idle, **cpu_s)), (CommitCost(0, 0.0), CommitCost(5, sync_ms))
    sent = Sent(order, usage(order, counts, scans, costs), [], 10)
    found = limit(parameters(MAX_INFLIGHT="20"), sent, FAILED)
    assert found["limited_by"] == named, found["evidence"]
    assert all(0 <= share <= 1 for share in found["evidence"].values())
    assert sent.figures["cpu_share"]["broker"] == [cpu_s.get("broker", 0) / 10]


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DeviceWorkers]:
    (tmp_path / "device-workers").write_text("token")
    monkeypatch.setenv("TOKENS", str(tmp_path))
    monkeypatch.setenv("DEVICE_PORT", str(free_port()))
    monkeypatch.setattr(device_workers, "FIRST_S", 2.0)
    workers = DeviceWorkers(1)
    yield workers
    workers.close()


def join(line: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", device_workers.port()), timeout=20)
    connection.sendall(line)
    return connection


def test_silent_strangers_are_few_and_keep_nobody_out(workers: DeviceWorkers) -> None:
    before = threading.active_count()
    strangers = [join() for _ in range(2 * MOST_STRANGERS)]
    # Those beyond the limit are closed at once, the others after a time.
    assert strangers[-1].recv(1) == b""
    assert threading.active_count() <= before + MOST_STRANGERS
    assert all(one.recv(1) == b"" for one in strangers)
    worker = join(b"token b\n")
    until(lambda: [one.host for one in workers.present()] == ["b"], "the worker joins")
    for one in (*strangers, worker):
        one.close()


def test_a_worker_that_hangs_is_given_up(workers: DeviceWorkers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection stays, and it never reports: what it has sent is unknown."""
    with join(b"token b\n"):
        until(workers.present, "the worker joins")
        monkeypatch.setattr(device_workers, "LOST_S", 0.1)
        devices = FarDevices(workers, Order("01234567", 0, [("broker", 1883)], 1, "row", tcp_nodelay=True))
        assert not devices.connect(0.1)
        assert devices.last_error == "device worker on b: lost"
        store = SampleStore(10)
        devices.send(store, range(10), 1_000_000)
        devices.close()
        assert devices.settle(store)[0] == ["device worker 1 on b was lost: 0 of 10 messages sent, 0 stored"]
