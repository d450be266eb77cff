"""When a device's requests are due, and what becomes of them."""

import sys
from pathlib import Path

import pytest
from support.places import ROOT

from looplab.errors import LabError
from looplab.experiments.middleware import load
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


@pytest.mark.parametrize(
    ("changes", "starts"), [({}, 20), ({"together": True}, 1), ({"period_ns": 10 * S, "end_ns": 10 * S}, 20)]
)
def test_every_device_has_its_share_of_the_load(changes: dict[str, int], starts: int) -> None:
    p = plan(**changes)
    dues_ns = [p.due_ns(device) for device in p.numbers]
    assert {len(one) for one in dues_ns} == {p.end_ns // p.period_ns}
    assert len({one[0] for one in dues_ns}) == starts


def test_every_request_due_has_one_fate() -> None:
    p = plan(devices=2)
    requests = Requests(p)
    success, failure = p.due_ns(0)[:2]
    requests.ended(0, 0, success + 1000, success + 5000, "")
    requests.ended(0, 1, failure + 1000, failure + 5000, "timeout")
    names = ("due", "succeeded", "failed", "unfinished")
    assert [sum(getattr(second, name) for second in requests.seconds) for name in names] == [12, 1, 1, 10]
    assert (requests.acknowledged, requests.failed_by) == ({"run-0-0-0"}, {"timeout": 1})
    assert [requests.times[name].max_ns for name in ("response", "sent_response")] == [5000, 4000]
    assert [second.row()[-2] for second in requests.seconds if second.succeeded] == [5.0]


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


ENTRIES = [{"late_ns": 1000 * number} for number in range(1, 9)]
# A process of devices whose every request succeeds.
PROCESS = """
import json, sys
from looplab.experiments.middleware.devices import DevicePlan
order = json.loads(sys.stdin.readline())
plan = DevicePlan(**order["plan"])
print(flush=True)
sys.stdin.read()
ended = [
    [device, number, due_ns, due_ns + entry["late_ns"], ""]
    for device, entry in zip(plan.numbers, order["entries"], strict=True)
    for number, due_ns in enumerate(plan.due_ns(device))
]
print(json.dumps({"now_ns": 1, "ended": ended[:10]}))
print(json.dumps({"now_ns": 9 * 10**9, "ended": ended[10:], "processor_share": plan.devices / 10}))
"""


def test_several_processes_count_what_one_would_and_one_that_failed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "process.py"
    monkeypatch.setattr(load, "COMMAND", (sys.executable, str(program)))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))

    def begun(processes: int) -> tuple[DeviceLoad, Requests]:
        devices = DeviceLoad(processes)
        devices.entries = ENTRIES
        requests = devices.prepare("magistrala", plan(devices=7))
        devices.begin()
        return devices, requests

    program.write_text(PROCESS)
    counted = []
    # A process without a device is not started.
    for processes in (1, 3, 9):
        devices, requests = begun(processes)
        share = devices.end()
        assert devices.progress() == 9.0
        rows = [second.row() for second in requests.seconds]
        counted.append((rows, requests.acknowledged, {n: t.counts for n, t in requests.times.items()}))
        devices.stop()
    assert counted[0] == counted[1] == counted[2]
    assert len(counted[0][1]) == sum(second.due for second in requests.seconds)
    assert share == 0.1
    program.write_text(f"{PROCESS}raise SystemExit(7)")
    devices, _ = begun(2)
    with pytest.raises(LabError, match="process of devices has failed"):
        devices.end()
    devices.stop()
