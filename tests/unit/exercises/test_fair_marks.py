"""Fair marks: no figure for students, nothing lost to machine or thesis; the runs of plans can give every point."""

import json
import re
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from exercise_runs import Printed, fill_form, readings, wrong_answers
from support.handouts import HANDOUTS, commands, name_of
from support.places import ROOT
from support.run_files import edited
from support.simulated_runs import nine_scenarios
from support.spec_runs import make_runs

from looplab.exercises.exercise import Exercise, read_exercise
from looplab.exercises.marking import ANSWER, RESULT, mark
from looplab.exercises.score import score_line, score_sheet
from looplab.experiments.registry import EXPERIMENTS
from looplab.report.stored import StoredRun, read_run
from looplab.run.life import run_table


@cache
def exercise_of(name: str) -> Exercise:
    return read_exercise(ROOT, name, EXPERIMENTS)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Runs to be copied, made once."""
    return nine_scenarios(tmp_path_factory.mktemp("written"), repetitions=3, messages=100)


@pytest.fixture
def runs(tmp_path: Path, written: list[Path]) -> list[Path]:
    return [Path(shutil.copytree(run, tmp_path / "results" / run.name)) for run in written]


def treated(folder: Path, *treatments: dict[str, Any], **changes: Any) -> None:
    named = {entry["what"] for entry in treatments}
    with edited(folder) as run:
        kept = [entry for entry in run["treatments"] if entry["what"] not in named]
        run |= {"treatments": [*kept, *treatments], **changes}


def treatment_of(what: str, wanted: str, seen: str, verified: bool = True, note: str = "") -> dict[str, Any]:
    return {"what": what, "wanted": wanted, "found": seen, "verified": verified, "required": True, "note": note}


TREATED = {
    "stress load": treatment_of("stress load", "running", "running"),
    "flood load": treatment_of("flood load", "running", "running"),
    **{what: treatment_of(what, "permitted", "rtprio limit 90; SYS_NICE given")
       for what in ("broker may use real-time priority", "controller may use real-time priority")},
}  # fmt: skip


def stored(folders: list[Path]) -> list[StoredRun]:
    read = [read_run(folder, EXPERIMENTS) for folder in folders]
    assert all(isinstance(run, StoredRun) for run in read)
    return read  # type: ignore[return-value]


@pytest.mark.usefixtures("second")
def test_a_student_never_reads_a_figure_or_the_right_answer(lab: Path) -> None:
    exercise, runs = exercise_of("scenario2"), stored([*(lab / "results").iterdir()])
    marked = mark(exercise, runs, {"prediction": "a", "median": "a", "o-p99": "3", "lateness": "x"})
    teacher, student = score_sheet(exercise, marked), score_sheet(exercise, marked, student=True)
    reasons = [word.strip(",;()") for one in marked.marks if one.kind != "run" for word in one.reason.split()]
    measured = {word for word in reasons if re.fullmatch(r"\d+\.\d+", word)}
    assert measured
    assert all(figure in teacher and figure not in student for figure in measured), student
    assert "your run" in teacher
    assert "your run" not in student
    assert "0/1  o-p99: not right" in student
    assert student.splitlines()[-2:] == teacher.splitlines()[-2:]


def refused(role: str) -> dict[str, Any]:
    return treatment_of(f"{role} may use real-time priority", "permitted", "refused: rtprio limit 0", False)


def test_points_that_the_machine_cannot_give_are_not_counted(lab: Path) -> None:
    exercise = exercise_of("scenario5")
    command = "./lab run scenario4 scenario5 --intervals 20 --repetitions 3"
    before, folder = make_runs(lab / "results", command, exercises=[exercise])
    treated(folder, refused("broker"), refused("controller"), valid=False, invalid_because=["broker", "controller"])
    marked = mark(exercise, stored([before, folder]), {"prediction": "b"})
    assert {m.name for m in marked.marks if m.exempt} == {"prioritised", "permitted", "client-permitted"}
    assert marked.worth + marked.exempt == exercise.total
    assert f"; {marked.exempt} more need real-time priority" in score_line(marked)
    # Another fault with the refusal is the student's again.
    treated(folder, treatment_of("stress load", "running", "ended", False), invalid_because=["a", "b", "c"])
    marked = mark(exercise, stored([before, folder]), {})
    assert "INVALID" in next(m.reason for m in marked.marks if m.name == "prioritised")
    # A machine that grants it exempts nobody.
    treated(folder, *TREATED.values(), valid=True, invalid_because=[])
    assert mark(exercise, stored([before, folder]), {}).exempt == 0


@pytest.mark.parametrize("number", range(9))
def test_the_published_result_loses_no_point(number: int, runs: list[Path]) -> None:
    for folder in runs:
        treated(folder, *TREATED.values())
    marked = mark(exercise_of(f"scenario{number}"), stored(runs), {})
    assert [m for m in marked.marks if m.kind == RESULT] != []
    assert [m for m in marked.marks if m.kind != "answer" and m.got < m.worth] == []


def lose_everything(folder: Path) -> None:
    """The connection is lost: no message has an answer."""
    with edited(folder) as run:
        for cell in run["cells"]:
            nothing = {name: dict.fromkeys(cell[name]) | {"n": 0} for name in ("T_us", "R_us", "O_us")}
            cell.update(answered=0, lost=cell["sent"], disconnects=1, **nothing)
    head, *lines = (folder / "samples.csv").read_text().splitlines()
    gone = [",".join([*line.split(",")[:6], "", "", "", "", "lost"]) for line in lines]
    (folder / "samples.csv").write_text("\n".join([head, *gone]) + "\n")


def test_losing_the_connection_as_published_costs_nothing(runs: list[Path]) -> None:
    seven = next(path for path in runs if path.name.endswith("scenario7"))
    treated(seven, *TREATED.values())
    lose_everything(seven)
    exercise = exercise_of("scenario7")
    sent = json.loads((seven / "run.json").read_text())["cells"][0]["sent"]
    right = next(question.right for question in exercise.questions if question.name == "notice")
    marked = mark(exercise, stored(runs), {"prediction": "a", "rate": "b", "lost": sent, "tail": "b", "notice": right})
    assert [m for m in marked.marks if m.got < m.worth] == []
    # The same loss in an exercise that did not ask for it is one.
    strict = replace(exercise, points=[replace(point, or_lost=False) for point in exercise.points])
    assert mark(strict, stored(runs), {}).lost(RESULT) > 0


BY_NAME = {name_of(handout): handout for handout in HANDOUTS}
SCENARIOS = [name for name in BY_NAME if re.fullmatch(r"scenario\d", name)]
PLANS = re.findall(r"^\| (?:\d+|a day) \|(.*)\|$", (ROOT / "docs/teaching.md").read_text(), re.MULTILINE)
# The steps of plans whose runs are those of several exercises.
SHARED = [step for plan in PLANS for step in re.split("[;|]", plan) if "./lab run " in step]


def do(lab: Path, printed: Printed, ordered: list[str], names: list[str]) -> list[Path]:
    """Make the runs, then fill and check each form."""
    exercises = [exercise_of(name) for name in names]
    made = make_runs(lab / "results", *ordered, exercises=exercises)
    for exercise in exercises:
        fill_form(lab, exercise, made)
        assert f"score: {exercise.total} of {exercise.total}\n" in printed(0, exercise.name)
    return made


@pytest.mark.parametrize("step", SHARED, ids=range(len(SHARED)))
def test_runs_of_a_plan_give_all_points_of_each_exercise(lab: Path, printed: Printed, step: str) -> None:
    ordered = re.findall(r"`([^`]*\./lab run [^`]+)`", step)
    do(lab, printed, ordered, re.findall(r"/([\w-]+)/README\.md", step) or SCENARIOS)


@pytest.mark.parametrize("name", BY_NAME)
def test_a_handout_gives_all_points_to_right_answers_and_none_to_wrong_ones(
    lab: Path, printed: Printed, name: str
) -> None:
    """What runs show needs no answer, any prediction has its point, and `./lab show` prints each figure asked."""
    exercise = exercise_of(name)
    ordered = [command for command in commands(BY_NAME[name]) if re.search(r"\./lab (run|study)\b", command)]
    made = do(lab, printed, ordered, [name])
    runs = [read_run(folder, EXPERIMENTS) for folder in made]
    right = yaml.safe_load((lab / f"answers/{name}.yaml").read_text())
    wrong = {one.name: wrong_answers(one, right[one.name]) for one in exercise.questions if not one.predicts}
    for at in range(max(map(len, wrong.values()))):
        marked = mark(exercise, runs, {**right, **{question: all_[at % len(all_)] for question, all_ in wrong.items()}})
        scored = [one for one in marked.marks if one.name in wrong and one.kind == ANSWER and one.got]
        assert scored == []
    documents = [json.loads((folder / "run.json").read_text()) for folder in made]
    shown = "".join(run_table(EXPERIMENTS.of(document), document) for document in documents)
    read = readings(exercise, made)
    assert [figure for figure, texts in read.items() if not any(text in shown for text in texts)] == []
