"""Looks at a run that goes on, as docs/commands.md has them, and its end from elsewhere."""

import json
from pathlib import Path
from typing import Any

from support.e2e_lab import Lab, finished
from support.run_checks import read_samples
from support.waiting import until

from looplab.capture.segments import read
from looplab.experiments.loop.protocol import TOPIC_REQUEST

# It goes on for as long as anybody looks.
LONG = ("--intervals", "20", "--messages", "50", "--repetitions", "1000")


def test_every_look_at_a_run_shows_it_and_down_ends_it(lab: Lab, tmp_path: Path) -> None:
    lab.forget_runs()
    run = lab.start("run", "scenario1", *LONG)
    until(lambda: list((lab.root / "results").glob(".*.partial/samples.csv")), "the run", 60)
    run.wait_for("scenario1")

    def looked() -> dict[str, Any]:
        inside: dict[str, Any] = json.loads(lab.run("inspect", "--json", code=0).stdout)
        return inside if inside["treatments"] else {}

    inside = until(looked, "the treatments, which the run judges once it measures", 30)
    parts = {part["name"]: part for part in inside["parts"]}
    assert {"broker scheduling policy", "controller TCP_NODELAY"} <= {one["what"] for one in inside["treatments"]}
    assert any("processes" in limit for limit in parts["broker"]["limits"])
    assert {"scenario1", "broker", "bridge", "robot", "treatments"} <= parts.keys()
    assert parts["broker"]["scheduling"] == "TS"
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

    assert "This ends a run that goes on: scenario1 of " in lab.run("down", code=0).stderr
    code, _, said = run.finish()
    assert code == 1, said
    assert "scenario1 was stopped from elsewhere" in said
    (kept,) = lab.interrupted()
    assert kept.name in said
    assert len(read_samples(kept)) >= 50
    assert lab.run("inspect", code=0).stdout.startswith("no scenario runs")
    assert "scenario5 does not run" in lab.run("inspect", "scenario5", code=0).stdout
