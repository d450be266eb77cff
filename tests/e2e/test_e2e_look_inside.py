"""./lab inspect, listen, pcap and shell beside a run that goes on: they show it, leave it VALID, and it notes them."""

import json
from pathlib import Path

from support.e2e_lab import Lab
from support.run_checks import check_run
from support.waiting import until

from looplab.capture.segments import read
from looplab.experiments.loop.protocol import TOPIC_ANSWER, TOPIC_REQUEST

LONG = ("--intervals", "20", "--messages", "300", "--repetitions", "4")


def test_every_look_at_a_run_shows_it_and_is_noted(lab: Lab, tmp_path: Path) -> None:
    lab.run("setup", "qos-delay", code=0, timeout_s=500)
    run = lab.start("run", "scenario1", *LONG)
    until(lambda: list((lab.root / "results").glob(".*.partial/samples.csv")), "the run", 60)
    run.wait_for("scenario1")

    parts = {part["name"]: part for part in json.loads(lab.run("inspect", "--json", code=0).stdout)["parts"]}
    assert {"scenario1", "broker", "bridge", "robot", "treatments"} <= parts.keys()
    assert parts["broker"]["scheduling"] == "TS"
    assert parts["broker"]["ports"] == [f"127.0.0.1:{lab.environment['LAB_BROKER_PORT']}"]
    table = lab.run("inspect", code=0).stdout
    assert max(map(len, table.splitlines())) <= 80

    heard = lab.run("listen", "--seconds", "3", code=0).stdout.splitlines()
    for topic in (TOPIC_REQUEST, TOPIC_ANSWER):
        assert 10 <= sum(topic in line for line in heard) <= 35, heard
    assert any(" ok " in line and line.endswith(" ms") for line in heard)

    file = tmp_path / "run.pcap"
    assert "0 packets dropped by kernel" in lab.run("pcap", str(file), "--seconds", "3", code=0).stderr
    segments = list(read(file))
    assert sum(TOPIC_REQUEST.encode() in segment.data for segment in segments) > 100

    assert "has no shell" in lab.run("shell", "robot", code=1).stderr
    assert lab.run("shell", "broker", code=0).returncode == 0

    code, _out, said = run.finish()
    assert code in (0, 1), said
    folder, document = lab.newest()
    check_run(folder, document)
    noted = [entry["command"] for entry in document["inspections"] if entry["event"] == "begins"]
    assert noted == ["./lab inspect", "./lab inspect", "./lab listen", "./lab pcap", "./lab shell"]
    assert lab.run("inspect", code=0).stdout.startswith("no scenario runs")


def test_nothing_to_look_at_says_what_to_start(lab: Lab) -> None:
    for command in (("listen",), ("pcap", "x.pcap")):
        done = lab.run(*command, code=3)
        assert "./lab run scenario1" in done.stderr or "./lab setup qos-delay" in done.stderr
    assert "scenario5 does not run" in lab.run("inspect", "scenario5", code=0).stdout
