"""A study on the engine: A/A arms, an interruption that keeps its run, and the same command goes on."""

import json
import os
import signal
import time

from support.e2e_lab import Lab
from support.run_checks import read_samples

from looplab.report.study_file import read_studies

WORDS = ("study", "scenario0", "--rounds", "1", "--intervals", "20", "--messages", "80", "--repetitions", "4")


def test_an_interrupted_study_goes_on_with_the_same_command(lab: Lab) -> None:
    lab.forget_runs()
    results = lab.root / "results"
    running = lab.start(*WORDS, "--seed", "5")
    assert "1 round of 2 runs in random order, seed 5" in running.wait_for("round of")
    running.wait_for("Compared: scenario0 twice.")
    # What it can find, before the first run, by the verdict engine in its image.
    running.wait_for("loop: each run counts once, in 1 round")
    running.wait_for("round 1 of 1")
    running.wait_for("20 ms, QoS 0")
    # A terminal that is closed, then Ctrl-C of somebody in a hurry; both reach everything that ./lab started.
    os.killpg(running.process.pid, signal.SIGHUP)
    running.wait_for("interrupted")
    time.sleep(0.3)
    os.killpg(running.process.pid, signal.SIGINT)
    code, _, said = running.finish()
    assert code == 1, said
    assert "the same command goes on with it" in said
    # What the interrupted run measured is in its folder, and nothing of it runs.
    assert "Traceback" not in said
    (folder,) = lab.interrupted()
    assert f"results/{folder.name}" in said
    assert not (folder / "run.json").exists()
    assert json.loads((folder / "interrupted.json").read_text())["interrupted_because"] == "interrupted"
    samples = read_samples(folder)
    assert 80 <= len(samples) < 320
    assert {row["outcome"] for row in samples[:80]} <= {"answered", "late"}
    assert lab.containers(running=False) == {}
    assert lab.networks() == []
    assert list(results.glob(".*.partial")) == []
    (plan,) = read_studies(results)
    assert len(plan.runs) == 1
    done = lab.run(*WORDS, "--json", "--allow-invalid", code=0)
    assert "1 of 2 runs are done" in done.stderr
    (plan,) = read_studies(results)
    assert plan.left == []
    assert [run["run_id"] for run in plan.runs[1:]] == [run["run_id"] for run in json.loads(done.stdout)["runs"]]
    # The order is that of the plan, and no run knows its arm.
    assert [run["arm"] for run in plan.runs] == [arm for block in plan.blocks for arm in block]
    assert sorted(plan.places) == sorted(path.name for path in lab.runs())
    for path in lab.runs():
        run = json.loads((path / "run.json").read_text())
        assert run["environment"]["machine"] == plan.where["machine"]
        assert plan.study not in json.dumps(run)
