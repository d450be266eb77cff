"""Looks at a run that goes on, as docs/commands.md has them: they show it; the run notes ./lab inspect."""

import json
from pathlib import Path

from support.e2e_lab import Lab, finished
from support.run_checks import check_run
from support.waiting import until

from looplab.capture.segments import read
from looplab.experiments.loop.protocol import TOPIC_REQUEST

LONG = ("--intervals", "20", "--messages", "200", "--repetitions", "3")


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

    listen = ["exec", "-T", "broker", "mosquitto_sub", "-v", "-t", "request/", "-t", "answer/", "-C", "20"]
    heard = lab.compose(*listen, code=0).stdout.split()
    assert heard.count(TOPIC_REQUEST) in (9, 10, 11), heard
    file = tmp_path / "run.pcap"
    capture = f"docker compose --profile scenario1 run --rm --no-deps capture -c 500 >{file}"
    finished(["sh", "-c", capture], lab.root, lab.environment, 60, 0)
    segments = list(read(file))
    assert sum(TOPIC_REQUEST.encode() in segment.data for segment in segments) > 50

    code, _out, said = run.finish()
    assert code in (0, 1), said
    folder, document = lab.newest()
    check_run(folder, document)
    noted = [entry["command"] for entry in document["inspections"] if entry["event"] == "begins"]
    assert noted == ["./lab inspect", "./lab inspect"]
    assert lab.run("inspect", code=0).stdout.startswith("no scenario runs")
    assert "scenario5 does not run" in lab.run("inspect", "scenario5", code=0).stdout
