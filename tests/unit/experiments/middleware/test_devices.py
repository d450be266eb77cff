"""When a device's requests are due, and what becomes of them."""

import json
import time
from collections.abc import Mapping
from typing import Any

import pytest

from looplab.experiments.middleware.devices import DevicePlan
from looplab.experiments.middleware.load import DeviceLoad, Requests

S = 1_000_000_000


def plan(**changes: object) -> DevicePlan:
    given = {
        "name": "run-0", "first": 0, "devices": 20, "routes": {}, "certificate": "", "period_ns": S // 2,
        "end_ns": 3 * S, "deadline_ns": 5 * S, "payload_bytes": 36, "drop_probability": 0.0, "seed": 1,
        "together": False,
    }  # fmt: skip
    return DevicePlan(**{**given, **changes})


def test_a_device_is_due_every_period_whatever_came_back() -> None:
    dues_ns = plan().due_ns(3)
    assert 0 <= dues_ns[0] < S // 2
    assert dues_ns.step == S // 2
    assert 3 * S - S // 2 <= dues_ns[-1] < 3 * S


def test_how_far_apart_devices_began_is_counted() -> None:
    requests = Requests(plan(devices=3))
    for device, sent_ns in enumerate((S // 10, S // 4, S // 5)):
        requests.ended(device, 0, sent_ns, sent_ns + 1, "")
        requests.ended(device, 1, S, S + 1, "")
    assert requests.start_share == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("changes", "starts"), [({}, 20), ({"together": True}, 1), ({"period_ns": 10 * S, "end_ns": 10 * S}, 20)]
)
def test_every_device_has_its_share_of_the_load(changes: dict[str, int], starts: int) -> None:
    p = plan(**changes)
    dues_ns = [p.due_ns(device) for device in p.numbers]
    assert {len(one) for one in dues_ns} == {p.end_ns // p.period_ns}
    assert len({one[0] for one in dues_ns}) == starts


def test_a_plan_of_the_published_length_begins_at_once() -> None:
    begun_s = time.process_time()
    rows = Requests(plan(devices=2320, period_ns=S, end_ns=600 * S)).seconds({})
    assert time.process_time() - begun_s < 5
    assert {row.due for row in rows} == {2320}


def test_every_request_due_has_one_fate() -> None:
    p = plan(devices=2)
    requests = Requests(p)
    success, failure, waiting = p.due_ns(0)[:3]
    requests.ended(0, 0, success + 1000, success + 5000, "")
    requests.ended(0, 1, failure + 1000, failure + 5000, "timeout")
    requests.sent(0, 2, waiting)
    rows = requests.seconds({0: 1.0, 1: 1.5})
    names = ("due", "sent", "succeeded", "failed", "unfinished")
    assert [sum(getattr(row, name) for row in rows) for name in names] == [12, 3, 1, 1, 10]
    assert (requests.acknowledged, requests.failed_by) == ({(0, 0)}, {"timeout": 1})
    assert [requests.times[name].max_ns for name in ("response", "sent_response")] == [5000, 4000]
    assert [row.cpu_us for row in rows] == [500_000, None, None]
    assert {row.response_p99_us for row in rows if row.succeeded} == {5.0}
    # While it goes on, what waits has no fate.
    assert sum(row.due for row in requests.ended_of(range(3))) == 2


def test_an_answer_after_the_load_is_a_success_but_not_in_time() -> None:
    p = plan(devices=1)
    requests = Requests(p)
    for number, took in ((0, 1000), (5, 2 * S)):
        due_ns = p.due_ns(0)[number]
        requests.ended(0, number, due_ns, due_ns + took, "")
    assert (requests.in_time, requests.times["response"].count) == (1, 2)


def test_lateness_counts_only_for_idle_devices() -> None:
    p = plan(devices=1)
    requests = Requests(p)
    dues_ns = p.due_ns(0)
    requests.ended(0, 0, dues_ns[0] + 7, dues_ns[1] + 1, "")
    # Its last answer came after this one was due.
    requests.ended(0, 1, dues_ns[1] + 1, dues_ns[1] + 2, "")
    assert (requests.times["send_lateness"].count, requests.times["send_lateness"].max_ns) == (1, 7)


def test_the_devices_are_divided_among_the_processes() -> None:
    assert [part.numbers for part in plan(devices=8).slices(3)] == [range(3), range(3, 6), range(6, 8)]
    assert len(plan(devices=2).slices(3)) == 2


class Process:
    """A process of devices whose every request succeeds; the last one reports nothing before the end."""

    def __init__(self) -> None:
        self.entries: dict[int, Any] = {}

    def ask(self, what: str, body: Mapping[str, Any] | None = None, timeout_s: float = 10.0) -> Any:
        if body and what == "entries":
            self.entries.update(enumerate(body["entries"], body["first"]))
        if body and what == "begin":
            self.plan = DevicePlan(**json.loads(json.dumps(body["plan"])))
            self.ended = [
                [device, number, due_ns, due_ns + 1000 * (device + 1), ""]
                for device in self.plan.numbers
                for number, due_ns in enumerate(self.plan.due_ns(device))
            ]
            self.count = len(self.ended)
        if what == "progress":
            ended, self.ended = self.ended[:10], self.ended[10:]
            return {"now_ns": 9 * S, "left": 1, "ended": ended}
        if what == "end":
            used = {"drops": 2, "processor_share": self.plan.devices / 10, "memory_bytes": 100}
            return {"ended": self.ended, "waiting": [], "count": self.count, **used}
        return {}


def test_every_process_gets_the_entries_of_all_devices() -> None:
    processes = [Process(), Process()]
    load = DeviceLoad(processes)
    load.hand_out([{"key": number} for number in range(45)])
    assert [one.entries for one in processes] == [{number: {"key": number} for number in range(45)}] * 2
    load.begin("magistrala", plan(devices=7))
    assert [one.plan.devices for one in processes] == [4, 3]
    assert load.progress() == (9.0, 2)


def test_two_processes_count_what_one_would() -> None:
    counted = []
    for processes in ([Process()], [Process(), Process(), Process()]):
        load = DeviceLoad(processes)
        requests = load.begin("magistrala", plan(devices=7))
        load.progress()
        wrong, used = load.end()
        assert wrong == []
        counted.append((requests.seconds({}), requests.acknowledged, {n: t.counts for n, t in requests.times.items()}))
    assert counted[0] == counted[1]
    assert used == {"drops": 6, "processor_share": 0.3, "load_memory_bytes": 300}


def test_a_request_that_is_never_reported_is_a_fault() -> None:
    one = Process()
    load = DeviceLoad([one])
    load.begin("magistrala", plan(devices=1))
    one.ended.pop()
    assert load.end()[0] == ["process 1 of the devices ended 6 requests, and 5 were reported"]
