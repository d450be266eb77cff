"""A study on the engine: A/A arms, an interruption, the same command goes on, the report knows the arms."""

import json
import os
import signal

from support.e2e_lab import Lab

from looplab.experiments.registry import EXPERIMENTS
from looplab.report.study_file import digest_of_rules, read_studies

WORDS = ("study", "scenario0", "--rounds", "2", "--intervals", "20", "--messages", "25", "--repetitions", "3")


def test_an_interrupted_study_goes_on_with_the_same_command(lab: Lab) -> None:
    lab.forget_runs()
    results = lab.root / "results"
    running = lab.start(*WORDS, "--seed", "5")
    assert "2 rounds of 2 runs in random order, seed 5" in running.wait_for("rounds of")
    running.wait_for("Compared: scenario0 twice.")
    # What it can find, before the first run, by the verdict engine in its image.
    running.wait_for("loop: each run counts once, in 2 rounds")
    running.wait_for("round 1 of 2")
    running.wait_for("round 1 of 2")
    os.killpg(running.process.pid, signal.SIGINT)
    code, _, said = running.finish()
    assert code == 1, said
    assert "the same command goes on with it" in said
    (plan,) = read_studies(results)
    assert len(plan.runs) == 2
    done = lab.run(*WORDS, "--json", "--allow-invalid", code=0)
    assert "2 of 4 runs are done" in done.stderr
    (plan,) = read_studies(results)
    assert plan.left == []
    assert plan.rules == digest_of_rules(EXPERIMENTS["loop"].folder)
    assert plan.messages == {"scenario0": 75}
    assert [run["run_id"] for run in plan.runs[2:]] == [run["run_id"] for run in json.loads(done.stdout)["runs"]]
    # The machine is looked at before the first run of the command; a later one counts for itself.
    environments = [run["environment"] for run in json.loads(done.stdout)["runs"]]
    assert ["busy_before" in one for one in environments] == [True, False]
    # The order is that of the plan, and no run knows its arm.
    assert [run["arm"] for run in plan.runs] == [arm for block in plan.blocks for arm in block]
    assert sorted(run_id for study in read_studies(results) for run_id in study.places) == sorted(
        path.name for path in lab.runs()
    )
    for path in lab.runs():
        run = json.loads((path / "run.json").read_text())
        assert run["environment"]["machine"] == plan.where["machine"]
        assert plan.study not in json.dumps(run)
