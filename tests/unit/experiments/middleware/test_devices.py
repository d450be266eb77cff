"""When a device's requests are due, and what becomes of them."""

import time
from collections.abc import Mapping
from typing import Any

from looplab.experiments.middleware.devices.requests import Plan, RequestCounts
from looplab.experiments.middleware.histogram import Histogram
from looplab.experiments.middleware.load import Load, slices

S = 1_000_000_000


def plan(**changes: object) -> Plan:
    given = {
        "name": "run-0",
        "first": 0,
        "devices": 20,
        "routes": {},
        "certificate": "",
        "period_ns": S // 2,
        "warm_up_ns": 2 * S,
        "load_ns": 3 * S,
        "deadline_ns": 5 * S,
        "payload_bytes": 36,
        "drop_probability": 0.0,
        "seed": 1,
    }
    return Plan(**{**given, **changes})


def test_a_device_is_due_every_period_whatever_came_back() -> None:
    p = plan()
    assert {p.due_ns(3, k + 1) - p.due_ns(3, k) for k in range(9)} == {S // 2}
    assert 0 <= p.offset_ns(3) < p.period_ns


def test_devices_do_not_all_send_at_once() -> None:
    assert len({plan().offset_ns(device) for device in range(20)}) == 20


def test_the_load_is_what_is_due_after_the_warm_up() -> None:
    p = plan()
    for device in range(20):
        dues = [p.due_ns(device, number) for number in p.loading(device)]
        assert len(dues) == 6
        assert all(2 * S <= due < 5 * S for due in dues)
        assert p.due_ns(device, p.loading(device).stop) >= 5 * S


def test_a_slow_device_has_its_share_of_the_load() -> None:
    p = plan(period_ns=10 * S, warm_up_ns=S, load_ns=10 * S)
    assert all(len(p.loading(device)) == 1 for device in range(20))


def test_a_plan_of_the_published_length_begins_at_once() -> None:
    # A controller waits 10 s for it.
    begun_s = time.process_time()
    rows = RequestCounts(plan(devices=2320, period_ns=S, warm_up_ns=60 * S, load_ns=600 * S)).seconds()
    assert time.process_time() - begun_s < 5
    assert {row["due"] for row in rows} == {2320}


def test_every_request_due_has_one_fate() -> None:
    p = plan(devices=2)
    counts = RequestCounts(p)
    numbers = list(p.loading(0))
    succeeded, failed, waiting = numbers[0], numbers[1], numbers[2]
    for number in (succeeded, failed, waiting):
        counts.sent(p.due_ns(0, number), p.due_ns(0, number) + 1000, idle=True)
    due = p.due_ns(0, succeeded)
    counts.ended(0, succeeded, (due, due + 1000, due + 5000), "")
    due = p.due_ns(0, failed)
    counts.ended(0, failed, (due, due + 1000, due + 5000), "timeout")
    rows = counts.seconds(10 * S)[2:]
    total = {name: sum(row[name] for row in rows) for name in ("due", "sent", "succeeded", "failed", "unfinished")}
    assert total == {"due": 12, "sent": 3, "succeeded": 1, "failed": 1, "unfinished": 10}
    assert counts.failures == [(0, failed)]
    assert counts.failed_by == {"timeout": 1}
    assert counts.times["response"].max_ns == 5000
    assert counts.times["sent_response"].max_ns == 4000


def test_an_answer_after_the_load_is_a_success_but_not_in_time() -> None:
    p = plan(devices=1)
    counts = RequestCounts(p)
    for number, took in ((p.loading(0)[0], 1000), (p.loading(0)[-1], 2 * S)):
        due = p.due_ns(0, number)
        counts.ended(0, number, (due, due, due + took), "")
    assert counts.in_time == 1
    assert counts.times["response"].count == 2


def test_lateness_counts_only_for_idle_devices() -> None:
    p = plan(devices=1)
    counts = RequestCounts(p)
    due = p.due_ns(0, p.loading(0)[0])
    counts.sent(due, due + S, idle=False)
    assert counts.times["send_lateness"].count == 0
    counts.sent(due, due + 7, idle=True)
    assert counts.times["send_lateness"].max_ns == 7


def test_the_warm_up_counts_for_no_figure() -> None:
    p = plan(devices=1)
    counts = RequestCounts(p)
    due = p.due_ns(0, 0)
    counts.sent(due, due, idle=True)
    counts.ended(0, 0, (due, due, due + 9), "http_500")
    assert counts.failed_by == {}
    assert counts.failures == []
    assert counts.seconds()[0]["failed"] == 1


def test_what_a_process_has_reported_it_forgets() -> None:
    p = plan(devices=1)
    counts = RequestCounts(p)
    due = p.due_ns(0, p.loading(0)[0])
    counts.ended(0, p.loading(0)[0], (due, due, due + 5000), "")
    counts.ended(0, p.loading(0)[1], (due, due, due + 5000), "timeout")
    first, then = counts.drain(), counts.drain()
    assert Histogram.from_json(first["responses"][str(due // S)]).max_ns == 5000
    assert first["failures"] == [(0, p.loading(0)[1])]
    assert then == {"responses": {}, "failures": []}
    assert counts.times["response"].count == 1


def test_the_devices_are_divided_among_the_processes() -> None:
    parts = slices(plan(devices=8), 3)
    assert [range(part.first, part.first + part.devices) for part in parts] == [range(3), range(3, 6), range(6, 8)]
    assert len(slices(plan(devices=2), 3)) == 2


class Process:
    """A real counts behind the orders that a process of devices carries out."""

    def __init__(self) -> None:
        self.entries: dict[int, Any] = {}

    def ask(self, what: str, body: Mapping[str, Any] | None = None, timeout_s: float = 10.0) -> Any:
        if what == "provision":
            assert body is not None
            return {"entries": [f"device {number}" for number in range(body["devices"])]}
        if what == "entries":
            assert body is not None
            self.entries.update(enumerate(body["entries"], body["first"]))
            return {}
        if what == "begin":
            assert body is not None
            self.plan = Plan(**body["plan"])
            self.counts = RequestCounts(self.plan)
            for device in self.counts.devices():
                for number in self.plan.loading(device):
                    due = self.plan.due_ns(device, number)
                    self.counts.sent(due, due, idle=True)
                    self.counts.ended(device, number, (due, due, due + 1000 * (device + 1)), "")
            return {}
        rows = {"seconds": self.counts.seconds(10 * S), **self.counts.drain()}
        if what == "progress":
            return {**rows, "now_ns": 9 * S, "left": 1, "response": self.counts.times["response"].as_json()}
        return {
            **rows,
            "histograms": {name: held.as_json() for name, held in self.counts.times.items()},
            "failed_by": {"closed": 1},
            "next_number": {str(device): self.plan.loading(device).stop for device in self.counts.devices()},
            "in_time": self.counts.in_time,
            "drops": 2,
            "refreshes": 0,
            "processor_share": self.plan.devices / 10,
            "memory_bytes": 100,
        }


def test_devices_on_other_hosts_get_the_entries_made_here() -> None:
    here, far = Process(), [Process(), Process()]
    load = Load([here], far)
    load.provision({"devices": 45})
    assert [one.entries for one in far] == [{number: f"device {number}" for number in range(45)}] * 2
    load.begin("magistrala", plan(devices=7))
    assert [one.plan.devices for one in far] == [4, 3]
    assert load.progress()["left"] == 2
    assert not here.entries


def test_two_processes_count_what_one_would() -> None:
    ended = []
    for processes in ([Process()], [Process(), Process(), Process()]):
        load = Load(processes)
        load.begin("magistrala", plan(devices=7))
        assert load.progress()["left"] == len(processes)
        ended.append(load.end())
    one, several = ended
    for name in ("seconds", "next_number", "in_time"):
        assert several[name] == one[name], name
    for name, histogram in one["histograms"].items():
        assert several["histograms"][name].as_json() == histogram.as_json()
    assert several["seconds"][2]["response_p99_us"] == 7
    assert (several["processor_share"], several["failed_by"], several["memory_bytes"]) == (0.3, {"closed": 3}, 300)
