"""The controller as a real process: its counts add up, its files agree, and its faults are said in a sentence."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.loop_lab import LoopLab, event, events
from support.noise_probes import OVER_PROBES, UNDER_PROBES, hog, probes
from support.parts import HOST, Broker, Child, free_port, until
from support.run_checks import check_run, read_samples, treatments
from support.wire import call

from looplab.experiments.loop.protocol import TOPIC_ANSWER, TOPIC_REQUEST
from looplab.run.accounting import summarise


def check(folder: Path) -> dict[str, Any]:
    """Check run.json and samples.csv against each other and the contract; return run.json."""
    run: dict[str, Any] = json.loads((folder / "run.json").read_text())
    check_run(folder, run)
    assert run["run_id"] == folder.name
    assert re.fullmatch(r"\d{8}T\d{6}Z-" + run["scenario"], folder.name)
    samples = read_samples(folder)
    for cell in run["cells"]:
        key = (f"{cell['interval_ms']:g}", str(cell["qos"]))
        own = [row for row in samples if (row["interval_ms"], row["qos"]) == key]
        measured = [row for row in own if row["outcome"] in ("answered", "late")]
        assert cell["T_us"] == summarise([int(row["received_ns"]) - int(row["sent_ns"]) for row in measured])
        assert cell["send_lateness_us"] == summarise([int(row["sent_ns"]) - int(row["due_ns"]) for row in own])
        assert cell["O_us"]["n"] == len(measured)
        for repetition in range(run["parameters"]["repetitions"]):
            # Open loop: due times are the schedule's own, whatever was sent or answered when.
            due = [int(row["due_ns"]) for row in own if row["repetition"] == str(repetition)]
            assert due == [due[0] + k * round(cell["interval_ms"] * 1e6) for k in range(len(due))]
    return run


def ended(lab: LoopLab, child: Child, code: int = 0) -> dict[str, Any]:
    """Wait for the end of the only run; return its document, checked."""
    assert child.wait() == code, child.said()
    assert "Traceback" not in child.said()
    return check(lab.run)


def test_a_good_run_is_valid_and_whole(lab: LoopLab) -> None:
    lab.pids["bridge"] = [lab.bridge().pid]
    child = lab.controller(INTERVALS_MS="10 5", QOS="0 1", ORDER="published")
    run = ended(lab, child)
    assert (run["valid"], run["invalid_because"]) == (True, [])
    assert [(cell["interval_ms"], cell["qos"]) for cell in run["cells"]] == [(10, 0), (5, 0), (10, 1), (5, 1)]
    assert [(cell["sent"], cell["answered"] + cell["late"]) for cell in run["cells"]] == [(40, 40)] * 4
    # Only the last answer has no later one with the bridge's part; at QoS 1 paho may hold back what a stall piles up.
    assert [cell["transport_O_us"]["n"] for cell in run["cells"] if cell["qos"] == 0] == [40, 40]
    assert 0 < run["cells"][-1]["transport_O_us"]["n"] <= 40 - 1
    assert all(cell["transport_O_us"]["min"] <= cell["O_us"]["max"] for cell in run["cells"])
    # Five at each QoS.
    assert run["warmup"] == {"sent": 10, "answered": 10, "lost": 0}
    found = treatments(run)
    assert found["controller TCP_NODELAY"]["found"] == found["broker TCP_NODELAY"]["found"] == "on"
    assert found["broker scheduling policy"]["found"] == "SCHED_OTHER"
    # The wire saw what the run reports: each request once, each at its own quality.
    requests = [message for message in lab.listener.messages if message.topic == TOPIC_REQUEST]
    own = [message for message in requests if run["token"].encode() == message.payload.split(b"-")[1]]
    assert [message.payload for message in own] == [f"E-{run['token']}-{k}".encode() for k in range(160)]
    assert [message.qos for message in own] == [0] * 80 + [1] * 80
    assert event(child, "finished") == {"event": "finished", "run_id": run["run_id"], "valid": True}
    done = [found["messages_done"] for found in events(child) if found["event"] == "repetition"]
    assert done == list(range(20, 161, 20))


@pytest.mark.parametrize(("legs", "answered"), [("request", {0}), ("all", {0, 1, 2})])
def test_the_legs_have_the_qos_as_set(lab: LoopLab, legs: str, answered: set[int]) -> None:
    """As printed, the request alone has the cell's QoS: the broker hands it on at 0, and so the bridge answers."""
    lab.online_bridge(QOS_LEGS=legs)
    found = treatments(ended(lab, lab.controller(QOS="0 1 2", QOS_LEGS=legs, MESSAGES="5")))
    assert {message.qos for message in lab.listener.messages if message.topic == TOPIC_REQUEST} == {0, 1, 2}
    assert {message.qos for message in lab.listener.messages if message.topic == TOPIC_ANSWER} == answered
    for what in ("controller's subscription to answer/", "bridge's subscription to request/"):
        assert found[what]["found"] == f"QoS {max(answered)}"


@pytest.mark.parametrize(("version", "alias"), [("3.1.1", "off"), ("5", "off"), ("5", "on")])
def test_the_version_of_mqtt_is_the_brokers_word(lab: LoopLab, version: str, alias: str) -> None:
    """The size of a message shows it, too: request and answer pass the controller's sockets once each at QoS 0."""
    lab.pids["bridge"] = [lab.online_bridge(MQTT_VERSION=version, TOPIC_ALIAS=alias).pid]
    # The bridge tells its counts 0.3 s after a warm-up, on a busy machine within the first cell.
    settings = {"ORDER": "published", "COMMAND": "T", "WARMUP_MESSAGES": "0"}
    run = ended(lab, lab.controller(QOS="0 1 2", MQTT_VERSION=version, TOPIC_ALIAS=alias, **settings))
    assert [(cell["sent"], cell["answered"] + cell["late"]) for cell in run["cells"]] == [(40, 40)] * 3
    found = treatments(run)
    assert found["controller MQTT version"]["found"] == found["bridge MQTT version"]["found"] == version
    assert found.get("bridge topic alias", {"found": "off"})["found"] == alias
    own = [one for one in lab.listener.messages if one.payload.startswith(run["token"].encode())]
    payload = sum(len(one.payload) for one in own if one.qos == 0) / 40 + len(f"T-{run['token']}-17")
    # Beside the payloads header and topic of both; MQTT 5: response topic, correlation data and their lengths.
    more = 0 if version == "3.1.1" else 1 + 10 + 5 + 1 + 5 - (5 if alias == "on" else 0)
    assert run["cells"][0]["wire_bytes"] == pytest.approx(payload + 12 + 11 + more, abs=1)
    assert all(cell["wire_bytes"] > run["cells"][0]["wire_bytes"] for cell in run["cells"][1:])


def test_a_broker_without_topic_aliases_is_named(start_broker: Callable[..., Broker], lab: LoopLab) -> None:
    broker = start_broker(more="allow_anonymous true\nmax_topic_alias 0\n")
    child = lab.controller(MQTT_VERSION="5", TOPIC_ALIAS="on", BROKER_PORT=str(broker.port))
    assert child.wait() == 2
    assert "Topic Alias Maximum is 0" in child.said()


def test_a_broker_that_dies_in_the_middle(lab: LoopLab) -> None:
    lab.bridge()
    child = lab.controller(MESSAGES="200", REPETITIONS="1", DEADLINE_MS="100")
    # The name of a warm-up's run begins with w.
    until(lambda: re.match(rb"E-[^w]", lab.listener.last(TOPIC_REQUEST)), "requests under way")
    lab.broker.kill()
    lab.broker.start()
    child.wait()
    run = check(lab.run)
    (cell,) = run["cells"]
    assert cell["sent"] == 200
    assert cell["disconnects"] == 1
    assert cell["lost"] > 0
    assert why(run, "broker process") == "wanted the same in every scan, found restarted 1 x, first seen at scan 3 of 3"
    for part in ("controller", "bridge"):
        assert why(run, f"connection of the {part}") == "wanted kept, found lost 1 x: the broker was restarted"
    assert {absence["cause"] for absence in run["absences"]} <= {"the broker was restarted"}
    assert "network" not in " ".join(run["invalid_because"])
    assert read_samples(lab.run)[-1]["outcome"] in ("answered", "late")
    assert {change["topic"] for change in run["events"]} >= {"lab/bridge/status"}


def need_real_time() -> None:
    if subprocess.run(["chrt", "-f", "5", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine grants no real-time priority")


def why(run: dict[str, Any], what: str) -> str:
    """Return why a run is INVALID by one of its treatments, "" if it is not."""
    return next((text.partition(": ")[2] for text in run["invalid_because"] if text.startswith(f"{what}: ")), "")


def test_a_priority_lost_between_two_scans_is_invalid(lab: LoopLab) -> None:
    need_real_time()
    lab.fifo["broker"] = 5
    lab.bridge()
    child = lab.controller(MESSAGES="40", REPETITIONS="3", INTERVALS_MS="20", PRIORITY_BROKER="5")
    until(lambda: event(child, "repetition"), "the first repetition")
    os.sched_setscheduler(lab.broker.pid, os.SCHED_OTHER, os.sched_param(0))
    run = ended(lab, child, 1)
    assert why(run, "broker scheduling policy") == "wanted SCHED_FIFO 5, found SCHED_FIFO 5, SCHED_OTHER"
    # The scan at the end had restored it: only what it found before shows the loss.
    assert os.sched_getscheduler(lab.broker.pid) == os.SCHED_FIFO


@pytest.mark.parametrize(("priority", "cause"), [(UNDER_PROBES, "scheduler"), (OVER_PROBES, "machine")])
def test_what_stalls_the_controller_is_found(lab: LoopLab, priority: int, cause: str) -> None:
    """A neighbour takes its processor for 150 of every 200 ms, as a scheduler does that favours another group.

    One that takes it from the probe as well is what a hypervisor is.
    """
    need_real_time()
    processor = min(os.sched_getaffinity(0))
    with probes() as found:
        lab.treatments.noise = found.read
        lab.bridge()
        child = lab.controller(MESSAGES="100", REPETITIONS="1", INTERVALS_MS="20")
        os.sched_setaffinity(child.pid, {processor})
        until(lambda: re.match(rb"E-[^w]", lab.listener.last(TOPIC_REQUEST)), "requests under way")
        neighbour = lab.start(hog(processor, priority))
        child.wait()
        neighbour.kill()
    (cell,) = check(lab.run)["cells"]
    assert cell["send_lateness_us"]["p99"] > 50_000
    assert cell["cpu_wait_us"]["controller"] > 300_000
    assert cell["late_because"] == cause
    stalled = [entry["max_us"] > 100_000 for entry in cell["noise_floor"] if entry["processor"] == processor]
    assert stalled == [cause == "machine"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_keeps_what_it_has(kept: LoopLab, number: int) -> None:
    child = kept.controller(MESSAGES="20", REPETITIONS="1000")
    until(lambda: event(child, "repetition"), "a finished repetition")
    child.signal(number)
    # An impatient person: the second one must not cut short the keeping.
    child.signal(number)
    assert child.wait() == 1
    folder = kept.run
    assert not folder.name.startswith(".")
    assert not (folder / "run.json").exists()
    assert json.loads((folder / "interrupted.json").read_text())["interrupted_because"] == "interrupted"
    assert len(read_samples(folder)) >= 20
    assert read_samples(folder)[0]["outcome"] == "answered"
    assert event(child, "interrupted")["path"] == folder.name
    assert "Traceback" not in child.said()


def test_an_interruption_within_a_finalizer_is_not_lost(kept: LoopLab) -> None:
    """The exception that the signal raises there is."""
    program = """
import os, runpy, signal, sys
class Dying:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
class Output:
    flush = sys.__stdout__.flush
    def write(self, text):
        '"repetition"' in text and Dying()
        return sys.__stdout__.write(text)
sys.stdout = Output()
runpy.run_module("looplab.experiments", run_name="__main__")
"""
    child = kept.controller([sys.executable, "-c", program, "loop"], MESSAGES="20", REPETITIONS="1000")
    assert child.wait() == 1
    assert "Exception ignored in" in child.said()
    assert event(child, "interrupted")


def test_interrupted_before_the_first_message_leaves_nothing(lab: LoopLab) -> None:
    child = lab.controller()
    until(lambda: any(found.get("what") == "bridge" for found in events(child)), "waiting for the bridge")
    child.signal(signal.SIGINT)
    assert child.wait() == 1
    assert list(lab.results.iterdir()) == []


NOWHERE = str(free_port())
ROBOT_NOWHERE = f"socket://{HOST}:{NOWHERE}"


@pytest.mark.parametrize(
    ("bridge", "variables", "words"),
    [
        (None, {"BROKER_PORT": NOWHERE}, ("No broker", "refused", "docker compose logs")),
        (None, {}, ("bridge did not come online",)),
        ({}, {"LOAD": "stress"}, ("stress load was not seen",)),
        (
            {"SERIAL_URL": ROBOT_NOWHERE}, {"COMMAND": "T", "PARTS_TIMEOUT_S": "3"},
            ("robot did not come online", ROBOT_NOWHERE, "docker compose logs bridge robot"),
        ),
    ],
    ids=["broker", "bridge", "load", "robot"],
)  # fmt: skip
def test_a_missing_part_exits_with_3_and_its_remedy(
    lab: LoopLab, bridge: dict[str, str] | None, variables: dict[str, str], words: tuple[str, ...]
) -> None:
    if bridge is not None:
        lab.bridge(**bridge)
    child = lab.controller(**{"PARTS_TIMEOUT_S": "1", **variables})
    assert child.wait() == 3
    error = event(child, "error")
    assert [word for word in words if word not in f"{error['message']} {error['remedy']}"] == [], error
    assert "Traceback" not in child.said()
    assert list(lab.results.iterdir()) == []


@pytest.fixture
def mount(tmp_path: Path, at_end: contextlib.ExitStack) -> Callable[[str], Path]:
    """Return a function that mounts a small file system of its own, with these options."""

    def make(options: str) -> Path:
        folder = tmp_path / "mount"
        folder.mkdir()
        words = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"needs root that may mount here: {done.stderr.strip()}")
        at_end.callback(call, "umount", "--lazy", str(folder))
        return folder

    return make


@pytest.mark.parametrize(
    ("variable", "options", "repetitions", "message", "remedy"),
    [
        ("RESULTS_DIR", "size=8m,ro", "2", "Cannot store the run", "read-only"),
        ("RESULTS_DIR", "size=512k", "2", "", "disk space"),
        ("LIVE_DIR", "size=64k", "1000", "live samples", "MESSAGES"),
    ],
)
def test_a_folder_that_cannot_hold_the_run_is_said_before_it(
    lab: LoopLab, mount: Callable[..., Path], variable: str, options: str, repetitions: str, message: str, remedy: str
) -> None:
    folder = mount(options)
    child = lab.controller(REPETITIONS=repetitions, **{variable: str(folder)})
    assert child.wait() == 3
    error = event(child, "error")
    assert message in error["message"]
    assert remedy in error["remedy"]
    assert "Traceback" not in child.said()
    if variable == "RESULTS_DIR":
        assert list(folder.iterdir()) == []


def test_a_disk_that_fills_up_keeps_the_finished_repetitions(kept: LoopLab, mount: Callable[..., Path]) -> None:
    folder = mount("size=3m")
    child = kept.controller(RESULTS_DIR=str(folder), MESSAGES="20", REPETITIONS="200")
    until(lambda: event(child, "repetition"), "a finished repetition")
    room = os.statvfs(folder)
    (folder / "somebody else").write_bytes(bytes(room.f_bavail * room.f_frsize))
    assert child.wait() == 3
    assert "disk space" in event(child, "error")["remedy"]
    kept = [path for path in folder.iterdir() if path.is_dir()]
    assert [path.name.startswith(".") for path in kept] == [False]
    assert event(child, "interrupted")["path"] == kept[0].name
    assert f"results/.{kept[0].name}" in event(child, "error")["message"]
    found = read_samples(kept[0])
    assert len(found) >= 20
    assert found[0]["outcome"] == "answered"
    assert "Traceback" not in child.said()


def test_two_bridges_at_once_make_the_run_invalid_and_are_named(lab: LoopLab) -> None:
    """On one host, as in two Pis of one cloned card: neither puts the other out, both answer."""
    bridges = [lab.bridge(), lab.bridge()]
    told = lab.listener.payloads
    until(lambda: len({json.loads(word)["instance"] for word in told("lab/bridge/info")}) == 2, "both bridges")
    run = ended(lab, lab.controller(), 1)
    assert run["cells"][0]["answered"] == 40
    assert run["cells"][0]["duplicates"] > 20
    assert any("bridges that answer: wanted one, found 2: stop the second Pi" in why for why in run["invalid_because"])
    assert [bridge.said().count("bridge: broker: ") for bridge in bridges] == [1, 1], "no duel"


def test_foreign_words_and_a_bridges_password_cannot_break_a_run(lab: LoopLab) -> None:
    """What is not an answer or a status is counted; of a thousand changes of a status no more are stored."""
    lab.bridge()
    child = lab.controller(MESSAGES="20", REPETITIONS="5")
    until(lambda: event(child, "repetition"), "a finished repetition")
    for payload in (b"", b"\xff" * 50, b"x" * 100_000):
        lab.listener.say(TOPIC_ANSWER, payload)
        lab.listener.say("lab/bridge/status", payload[:60] + b"?")
    lab.listener.say(TOPIC_ANSWER, b"elsewhere,1,ok,5,20.00")
    _command, token, _sequence = lab.listener.last(TOPIC_REQUEST).split(b"-")
    lab.listener.say(TOPIC_ANSWER, token + b",999999,ok,1,20.00")
    lab.listener.say("lab/bridge/info", b"x" * 2_000_000, retain=True)
    for number in range(1500):
        lab.listener.client.publish("lab/bridge/status", (b"online", b"offline")[number % 2], 0, retain=True)
    assert child.wait() in (0, 1), child.said()
    assert "Traceback" not in child.said()
    run = check(lab.run)
    assert (run["malformed"], run["foreign"]) == (8, 1)
    assert len(run["events"]) <= 1000
    assert len(run["absences"]) > 100
