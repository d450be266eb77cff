"""The controller as a real process: its counts add up, its files agree, and its faults are said in a sentence."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.parts import HOST, Broker, Child, Listener, RobotDouble, free_port, until

from looplab.experiments.loop.document import SAMPLES_HEADER
from looplab.experiments.loop.protocol import TOPIC_ANSWER, TOPIC_REQUEST
from looplab.run.accounting import summarise

CELL_KEYS = {
    "interval_ms", "qos", "sent", "answered", "late", "lost", "robot_errors", "duplicates", "out_of_order",
    "disconnects", "T_us", "R_us", "O_us", "transport_O_us", "send_lateness_us",
}  # fmt: skip
RUN_KEYS = {
    "schema", "run_id", "scenario", "fidelity", "valid", "invalid_because", "parameters", "cells", "treatments",
    "environment",
}  # fmt: skip
FIGURES = {"min", "max", "avg", "p50", "p95", "p99", "p999"}
OUTCOMES = {"answered": "answered", "late": "late", "lost": "lost", "robot_errors": "robot_error"}
StartController = Callable[..., Child]


def events(child: Child) -> list[dict[str, Any]]:
    lines = child.said().rpartition("\n")[0].splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def event(child: Child, kind: str) -> dict[str, Any]:
    return next((found for found in events(child) if found["event"] == kind), {})


def only_run(results: Path) -> Path:
    (folder,) = results.iterdir()
    return folder


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "samples.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def check(folder: Path) -> dict[str, Any]:
    """run.json and samples.csv agree with each other and with the contract; returns run.json."""
    run: dict[str, Any] = json.loads((folder / "run.json").read_text())
    assert set(run) >= RUN_KEYS
    assert (run["schema"], run["run_id"]) == (1, folder.name)
    assert re.fullmatch(r"\d{8}T\d{6}Z-" + run["scenario"], folder.name)
    assert (folder / "samples.csv").read_text().splitlines()[0] == SAMPLES_HEADER
    samples = rows(folder)
    assert [int(row["sequence"]) for row in samples] == list(range(len(samples)))
    for cell in run["cells"]:
        own = [
            row for row in samples if (row["interval_ms"], row["qos"]) == (f"{cell['interval_ms']:g}", str(cell["qos"]))
        ]
        assert set(cell) >= CELL_KEYS
        assert cell["sent"] == cell["answered"] + cell["late"] + cell["lost"] + cell["robot_errors"] == len(own)
        for count, outcome in OUTCOMES.items():
            assert cell[count] == sum(row["outcome"] == outcome for row in own)
        measured = [row for row in own if row["outcome"] in ("answered", "late")]
        totals = [int(row["received_ns"]) - int(row["sent_ns"]) for row in measured]
        assert cell["T_us"] == summarise(totals)
        assert cell["send_lateness_us"] == summarise([int(row["sent_ns"]) - int(row["due_ns"]) for row in own])
        assert cell["O_us"]["n"] == len(measured)
        for key in ("T_us", "R_us", "O_us", "transport_O_us", "send_lateness_us"):
            assert set(cell[key]) >= FIGURES
        for row in own:
            empty = [name for name, value in row.items() if value == ""]
            assert empty == (["received_ns", "total_us", "robot_us", "overhead_us"] if row["outcome"] == "lost" else [])
            if not empty:
                total, robot, overhead = (float(row[name]) for name in ("total_us", "robot_us", "overhead_us"))
                assert overhead == pytest.approx(total - robot, abs=0.0011)
    per_repetition: dict[tuple[str, ...], list[int]] = {}
    for row in samples:
        per_repetition.setdefault((row["interval_ms"], row["qos"], row["repetition"]), []).append(int(row["due_ns"]))
    for (interval_ms, _, _), due in per_repetition.items():
        # Open loop: due times are the schedule's own, whatever was sent or answered when.
        step_ns = round(float(interval_ms) * 1e6)
        assert due == [due[0] + k * step_ns for k in range(len(due))]
    return run


def test_a_good_run_is_valid_and_whole(
    start_bridge: Callable[..., Child], start_controller: StartController, results: Path,
    treatments: dict[str, list[int]], listener: Listener,
) -> None:  # fmt: skip
    bridge = start_bridge()
    treatments["bridge"] = [bridge.pid]
    child = start_controller(INTERVALS_MS="20 5", QOS="0 1")
    assert child.wait() == 0, child.said()
    run = check(only_run(results))
    assert (run["valid"], run["invalid_because"]) == (True, [])
    assert [(cell["interval_ms"], cell["qos"]) for cell in run["cells"]] == [(20, 0), (5, 0), (20, 1), (5, 1)]
    assert [(cell["sent"], cell["answered"] + cell["late"]) for cell in run["cells"]] == [(40, 40)] * 4
    assert all(cell["transport_O_us"]["n"] == 40 - 1 for cell in run["cells"][-1:])
    assert all(cell["transport_O_us"]["min"] <= cell["O_us"]["max"] for cell in run["cells"])
    assert run["warmup"] == {"sent": 5, "answered": 5, "lost": 0}
    found = {entry["what"]: entry for entry in run["treatments"]}
    assert found["controller TCP_NODELAY"]["found"] == found["broker TCP_NODELAY"]["found"] == "on"
    assert found["broker scheduling policy"]["found"] == "SCHED_OTHER"
    # The wire saw what the run says: each request once, each at its own quality.
    requests = [message for message in listener.messages if message.topic == TOPIC_REQUEST]
    own = [message for message in requests if run["token"].encode() == message.payload.split(b"-")[1]]
    assert [message.payload for message in own] == [f"E-{run['token']}-{k}".encode() for k in range(160)]
    assert [message.qos for message in own] == [0] * 80 + [1] * 80
    assert event(child, "finished") == {"event": "finished", "run_id": run["run_id"], "valid": True}
    done = [found["messages_done"] for found in events(child) if found["event"] == "repetition"]
    assert done == list(range(20, 161, 20))


def test_a_treatment_that_did_not_take_makes_the_run_invalid(
    start_bridge: Callable[..., Child], start_controller: StartController, results: Path
) -> None:
    start_bridge(FIDELITY="thesis")
    child = start_controller(LOOPLAB_EVENTS="")
    assert child.wait() == 1
    run = check(only_run(results))
    assert not run["valid"]
    assert [why.partition(":")[0] for why in run["invalid_because"]] == ["bridge TCP_NODELAY", "robot framing"]
    assert "INVALID" in child.said()
    assert run["cells"][0]["answered"] + run["cells"][0]["late"] == 40


def test_a_run_with_the_robot_tells_its_errors_apart(
    start_bridge: Callable[..., Child], start_controller: StartController, results: Path, robot: RobotDouble
) -> None:
    # 5 warm-up requests come first; the robot then garbles every fourth line.
    robot.answer = lambda number: b"garble\r\n" if number >= 5 and number % 4 == 0 else b"25.50\r\n"
    start_bridge()
    child = start_controller(COMMAND="T", INTERVALS_MS="50", REPETITIONS="1")
    child.wait()
    (cell,) = check(only_run(results))["cells"]
    assert cell["sent"] == 20
    assert cell["robot_errors"] >= 5
    assert cell["lost"] == 0


class Oracle:
    """Stands where the bridge stands and answers as a test wants: `reply(sequence)` gives the payloads' tails."""

    def __init__(self, port: int, reply: Callable[[int], list[str]]) -> None:
        self.listener = Listener(port, "request/")
        client = self.listener.client
        info = json.dumps({"tcp_nodelay": True, "framing": "line"})
        self.listener.say("lab/bridge/info", info, retain=True)
        self.listener.say("lab/bridge/status", "online", retain=True)

        def answer(_client: object, _data: object, message: Any) -> None:
            _command, run, sequence = message.payload.decode().split("-")
            tails = ["{run},{k},ok,1000,20.00"] if run.startswith("w") else reply(int(sequence))
            for tail in tails:
                client.publish(TOPIC_ANSWER, tail.format(run=run, k=int(sequence), before=int(sequence) - 1), 0)

        client.on_message = answer

    def close(self) -> None:
        self.listener.close()


OK = "{run},{k},ok,1000,20.00"


def test_every_kind_of_answer_is_counted_apart(
    broker: Broker, start_controller: StartController, results: Path
) -> None:
    def reply(sequence: int) -> list[str]:
        kinds: dict[int, list[str]] = {
            2: [],
            5: [OK, OK, OK],
            8: [],
            9: [OK, "{run},{before},ok,1000,20.00"],
            11: ["nonsense", "{run},999999,ok,1,20.00", OK],
            14: ["{run},{k},timeout,250000000,"],
            17: ["another,{k},ok,1,20.00", OK],
        }
        return kinds.get(sequence, [OK])

    oracle = Oracle(broker.port, reply)
    try:
        child = start_controller(REPETITIONS="1", WARMUP_MESSAGES="3")
        assert child.wait() == 0, child.said()
    finally:
        oracle.close()
    run = check(only_run(results))
    (cell,) = run["cells"]
    assert (cell["sent"], cell["lost"], cell["robot_errors"]) == (20, 1, 1)
    assert (cell["duplicates"], cell["out_of_order"]) == (2, 1)
    assert (run["malformed"], run["foreign"]) == (2, 1)
    outcomes = {int(row["sequence"]): row["outcome"] for row in rows(only_run(results))}
    assert (outcomes[2], outcomes[14]) == ("lost", "robot_error")


def test_late_answers_are_late_in_their_own_repetition(
    broker: Broker, start_controller: StartController, results: Path
) -> None:
    held: list[str] = []

    def reply(sequence: int) -> list[str]:
        # The last answers of each repetition come with the first of the next; the very last never.
        if sequence % 10 >= 8:
            held.append(f"{{run}},{sequence},ok,1000,20.00")
            return []
        due, held[:] = list(held), []
        return [OK, *due]

    oracle = Oracle(broker.port, reply)
    try:
        child = start_controller(MESSAGES="10", REPETITIONS="3", DEADLINE_MS="100", INTERVALS_MS="20")
        child.wait()
    finally:
        oracle.close()
    (cell,) = check(only_run(results))["cells"]
    outcomes = {int(row["sequence"]): row["outcome"] for row in rows(only_run(results))}
    assert [outcomes[k] for k in (8, 18)] == ["late", "late"]
    assert [outcomes[k] for k in (28, 29)] == ["lost", "lost"]
    assert (cell["lost"], cell["disconnects"], cell["duplicates"]) == (2, 0, 0)
    assert cell["late"] >= 4
    assert cell["out_of_order"] >= 2


def test_a_deadline_shorter_than_the_interval(broker: Broker, start_controller: StartController, results: Path) -> None:
    oracle = Oracle(broker.port, lambda sequence: [] if sequence == 3 else [OK])
    try:
        child = start_controller(MESSAGES="5", REPETITIONS="2", DEADLINE_MS="10", INTERVALS_MS="60")
        child.wait()
    finally:
        oracle.close()
    (cell,) = check(only_run(results))["cells"]
    assert (cell["sent"], cell["lost"]) == (10, 1)


def test_a_broker_that_dies_in_the_middle(
    broker: Broker, start_bridge: Callable[..., Child], start_controller: StartController, results: Path
) -> None:
    start_bridge()
    child = start_controller(MESSAGES="300", REPETITIONS="1")
    until(lambda: event(child, "waiting"), "the start")
    until(lambda: _sending(broker), "requests under way")
    broker.kill()
    broker.start()
    child.wait()
    run = check(only_run(results))
    (cell,) = run["cells"]
    assert cell["sent"] == 300
    assert cell["disconnects"] == 1
    assert cell["lost"] > 0
    assert rows(only_run(results))[-1]["outcome"] in ("answered", "late")
    assert {change["topic"] for change in run["events"]} >= {"lab/bridge/status"}


def _sending(broker: Broker) -> bool:
    """Whether the measurement's own requests are seen on the broker."""
    listener = Listener(broker.port, "request/")
    try:
        time.sleep(0.1)
        return any(not payload.startswith(b"E-w") for payload in listener.payloads(TOPIC_REQUEST))
    finally:
        listener.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_keeps_what_it_has(
    start_bridge: Callable[..., Child], start_controller: StartController, results: Path, number: int
) -> None:
    start_bridge()
    child = start_controller(MESSAGES="20", REPETITIONS="1000")
    until(lambda: event(child, "repetition"), "a finished repetition")
    child.signal(number)
    # An impatient person: the second one must not cut short the keeping.
    child.signal(number)
    assert child.wait() == 1
    folder = only_run(results)
    assert not folder.name.startswith(".")
    assert not (folder / "run.json").exists()
    assert json.loads((folder / "interrupted.json").read_text())["interrupted_because"] == "interrupted"
    assert len(rows(folder)) >= 20
    assert rows(folder)[0]["outcome"] == "answered"
    assert event(child, "interrupted")["path"] == folder.name
    assert "Traceback" not in child.said()


def test_an_interruption_within_a_finalizer_is_not_lost(
    start_bridge: Callable[..., Child], start_controller: StartController
) -> None:
    """The exception that the signal raises there is."""
    program = """
import os, signal, sys
from looplab.experiments.loop import controller
from looplab.experiments.loop.__main__ import main
class Dying:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
look = controller.Controller._look
controller.Controller._look = lambda self: Dying() and look(self)
sys.exit(main())
"""
    start_bridge()
    child = start_controller(program, MESSAGES="20", REPETITIONS="1000")
    assert child.wait() == 1
    assert "Exception ignored in" in child.said()
    assert event(child, "interrupted")


def test_interrupted_before_the_first_message_leaves_nothing(start_controller: StartController, results: Path) -> None:
    child = start_controller()
    until(lambda: any(found.get("what") == "bridge" for found in events(child)), "waiting for the bridge")
    child.signal(signal.SIGINT)
    assert child.wait() == 1
    assert list(results.iterdir()) == []


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"MESSAGES": "many"}, "MESSAGES"), ({"SCENARIO": ""}, "SCENARIO"), ({"QOS": "4"}, "QOS"),
        ({"FIDELITY": "best"}, "FIDELITY"), ({"INTERVALS_MS": "0"}, "INTERVALS_MS"),
    ],
)  # fmt: skip
def test_wrong_parameters_exit_with_2(
    start_controller: StartController, results: Path, variables: dict[str, str], named: str
) -> None:
    child = start_controller(**variables)
    assert child.wait() == 2
    error = event(child, "error")
    assert (error["exit_code"], error["message"].startswith(named)) == (2, True)
    assert "params.env" in error["remedy"]
    assert "Traceback" not in child.said()
    assert list(results.iterdir()) == []


def test_no_broker_exits_with_3_and_the_remedy(start_controller: StartController, results: Path) -> None:
    child = start_controller(BROKER_PORT=str(free_port()), PARTS_TIMEOUT_S="1", LOOPLAB_EVENTS="")
    assert child.wait() == 3
    said = child.said()
    assert "No broker" in said
    assert "refused" in said
    assert "docker compose logs" in said
    assert "Traceback" not in said
    assert list(results.iterdir()) == []


def test_no_bridge_exits_with_3(start_controller: StartController) -> None:
    child = start_controller(PARTS_TIMEOUT_S="1")
    assert child.wait() == 3
    assert "bridge did not come online" in event(child, "error")["message"]


def test_no_robot_exits_with_3_and_says_what_the_bridge_found(
    start_controller: StartController, start_bridge: Callable[..., Child]
) -> None:
    url = f"socket://{HOST}:{free_port()}"
    start_bridge(SERIAL_URL=url)
    child = start_controller(COMMAND="T", PARTS_TIMEOUT_S="3")
    assert child.wait() == 3
    error = event(child, "error")
    assert "robot did not come online" in error["message"]
    assert url in error["message"]
    assert "docker compose logs bridge robot" in error["remedy"]


def test_no_load_exits_with_3(start_controller: StartController, start_bridge: Callable[..., Child]) -> None:
    start_bridge()
    child = start_controller(LOAD="stress", PARTS_TIMEOUT_S="1")
    assert child.wait() == 3
    assert "stress load was not seen" in event(child, "error")["message"]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """A small file system of its own, with these options."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small file system")
    mounted: list[Path] = []

    def make(options: str) -> Path:
        folder = tmp_path / f"mount{len(mounted)}"
        folder.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.skip(f"cannot mount here: {done.stderr.strip()}")
        mounted.append(folder)
        return folder

    yield make
    for folder in mounted:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_results_that_cannot_be_written(start_controller: StartController, mount: Callable[..., Path]) -> None:
    child = start_controller(RESULTS_DIR=str(mount("size=8m,ro")))
    assert child.wait() == 3
    error = event(child, "error")
    assert "Cannot store the run" in error["message"]
    assert "LAB_UID" in error["remedy"]
    assert "Traceback" not in child.said()


def test_too_little_disk_space_is_said_before_the_run(
    start_controller: StartController, mount: Callable[..., Path]
) -> None:
    folder = mount("size=512k")
    child = start_controller(RESULTS_DIR=str(folder))
    assert child.wait() == 3
    assert "disk space" in event(child, "error")["remedy"]
    assert list(folder.iterdir()) == []


def test_a_disk_that_fills_up_keeps_the_finished_repetitions(
    start_bridge: Callable[..., Child], start_controller: StartController, mount: Callable[..., Path]
) -> None:
    start_bridge()
    folder = mount("size=2m")
    child = start_controller(RESULTS_DIR=str(folder), MESSAGES="20", REPETITIONS="200")
    until(lambda: event(child, "repetition"), "a finished repetition")
    room = os.statvfs(folder)
    (folder / "somebody else").write_bytes(bytes(room.f_bavail * room.f_frsize))
    assert child.wait() == 3
    assert "disk space" in event(child, "error")["remedy"]
    kept = [path for path in folder.iterdir() if path.is_dir()]
    assert [path.name.startswith(".") for path in kept] == [False]
    assert event(child, "interrupted")["path"] == kept[0].name
    assert f"results/.{kept[0].name}" in event(child, "error")["message"]
    found = rows(kept[0])
    assert len(found) >= 20
    assert found[0]["outcome"] == "answered"
    assert "Traceback" not in child.said()


def test_live_samples_that_do_not_fit_are_said(start_controller: StartController, mount: Callable[..., Path]) -> None:
    child = start_controller(LIVE_DIR=str(mount("size=64k")), REPETITIONS="1000")
    assert child.wait() == 3
    assert "live samples" in event(child, "error")["message"]
    assert "MESSAGES" in event(child, "error")["remedy"]


def test_foreign_words_on_the_labs_topics_change_nothing(
    start_bridge: Callable[..., Child], start_controller: StartController, results: Path, listener: Listener
) -> None:
    start_bridge()
    child = start_controller(MESSAGES="20", REPETITIONS="5")
    until(lambda: event(child, "repetition"), "a finished repetition")
    for payload in (b"", b"\xff" * 50, b"x" * 100_000):
        listener.say(TOPIC_ANSWER, payload)
        listener.say("lab/bridge/status", payload[:60] + b"?")
    listener.say(TOPIC_ANSWER, b"elsewhere,1,ok,5,20.00")
    listener.say("lab/nobody/knows", b"x")
    assert child.wait() == 0, child.said()
    run = check(only_run(results))
    assert (run["malformed"], run["foreign"]) == (6, 2)
    assert run["cells"][0]["answered"] + run["cells"][0]["late"] == 100
    # The robot may have been opened only now; the bridge's status, which was forged, never changed.
    changes = [change["status"] for change in run["events"] if change["topic"] == "lab/bridge/status"]
    assert changes == ["online"]


def test_two_bridges_at_once_make_the_run_invalid_and_are_named(
    start_bridge: Callable[..., Child], start_controller: StartController, results: Path, listener: Listener
) -> None:
    """On one host, as in two Pis of one cloned card: neither puts the other out, both answer."""
    bridges = [start_bridge(), start_bridge()]
    until(lambda: len({info(word) for word in listener.payloads("lab/bridge/info")}) == 2, "both bridges")
    assert start_controller().wait() == 1
    run = check(only_run(results))
    assert run["cells"][0]["answered"] == 40
    assert run["cells"][0]["duplicates"] > 20
    assert any("bridges that answer: wanted one, found 2: stop the second Pi" in why for why in run["invalid_because"])
    assert [bridge.said().count("bridge: broker: ") for bridge in bridges] == [0, 0], "no duel"


def info(word: bytes) -> str:
    return str(json.loads(word)["instance"])


def test_who_has_a_bridges_password_can_spoil_a_run_but_not_break_it(
    start_bridge: Callable[..., Child], start_controller: StartController, results: Path, listener: Listener
) -> None:
    start_bridge()
    child = start_controller(MESSAGES="20", REPETITIONS="5")
    until(lambda: event(child, "repetition"), "a finished repetition")
    for payload in (b"[" * 9000, b'{"instance": {"a": 1}, "counts": NaN, "tls": "\\ud800"}', b"x" * 2_000_000):
        listener.say("lab/bridge/info", payload, retain=True)
    for number in range(1500):
        listener.client.publish("lab/bridge/status", (b"online", b"offline")[number % 2], 0, retain=True)
    assert child.wait() in (0, 1), child.said()
    assert "Traceback" not in child.said()
    run = check(only_run(results))
    assert len(run["events"]) <= 1000
    assert len(run["absences"]) > 100
