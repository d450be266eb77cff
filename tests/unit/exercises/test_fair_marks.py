"""Fair marks: predictions before their run, no figure for students, nothing lost to the machine or to the thesis."""

import json
import os
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from looplab.exercises.predictions import record_predictions, stamp_form
from support.places import ROOT
from support.run_files import edited
from support.simulated_runs import nine_scenarios

from looplab.exercises.exercise import Exercise, read_exercise
from looplab.exercises.hand_in import answer_form, read_form
from looplab.exercises.marking import RESULT, Marked, mark
from looplab.exercises.score import score_line, score_sheet
from looplab.experiments.registry import EXPERIMENTS
from looplab.report.stored import StoredRun, read_run

RUN_START = datetime(2026, 1, 1, tzinfo=UTC)
LATER = RUN_START + timedelta(hours=1)


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


def found(what: str, wanted: str, seen: str, verified: bool = True, note: str = "") -> dict[str, Any]:
    return {"what": what, "wanted": wanted, "found": seen, "verified": verified, "required": True, "note": note}


def stored(folders: list[Path]) -> list[StoredRun]:
    read = [read_run(folder, EXPERIMENTS) for folder in folders]
    assert all(isinstance(run, StoredRun) for run in read)
    return read  # type: ignore[return-value]


def fill(root: Path, exercise: Exercise, answers: dict[str, str], at: datetime) -> Path:
    """The form that ./lab check writes, filled in and saved at that time."""
    form = root / f"answers/{exercise.name}.yaml"
    form.parent.mkdir(exist_ok=True)
    text = form.read_text() if form.exists() else answer_form(exercise)
    lines = [f"{key}: {answers[key]}" if (key := line.split(":")[0]) in answers else line for line in text.splitlines()]
    form.write_text("\n".join(lines) + "\n")
    os.utime(form, (at.timestamp(), at.timestamp()))
    return form


def prediction(form: Path, exercise: Exercise, folders: list[Path]) -> tuple[int, str]:
    read = read_form(form)
    marked = mark(exercise, stored(folders), read.answers, read.seen)
    return next((m.got, m.reason) for m in marked.marks if m.name == "prediction")


def test_a_prediction_counts_if_the_form_held_it_when_the_run_started(tmp_path: Path, runs: list[Path]) -> None:
    exercise = exercise_of("scenario2")
    form = fill(tmp_path, exercise, {"prediction": "a"}, RUN_START - timedelta(minutes=1))
    # ./lab run records it; the student then answers the rest, which changes the form's time.
    record_predictions(tmp_path)
    fill(tmp_path, exercise, {"median": "a", "o-p99": "12.5"}, LATER)
    assert prediction(form, exercise, runs) == (1, "predicted; compare it with what you found")


def test_the_form_of_a_plain_docker_compose_run_is_dated_by_its_last_change(tmp_path: Path, runs: list[Path]) -> None:
    exercise = exercise_of("scenario2")
    form = fill(tmp_path, exercise, {"prediction": "b"}, RUN_START - timedelta(minutes=1))
    assert prediction(form, exercise, runs)[0] == 1


def test_a_prediction_after_its_run_scores_nothing_and_says_why(tmp_path: Path, runs: list[Path]) -> None:
    exercise = exercise_of("scenario2")
    form = fill(tmp_path, exercise, {"prediction": "b"}, LATER)
    record_predictions(tmp_path)
    got, why = prediction(form, exercise, runs)
    assert got == 0
    assert "written at 2026-01-01 01:00 UTC, after the run 20260101T000000Z-scenario2 started" in why


def test_a_prediction_changed_after_the_run_names_the_first(tmp_path: Path, runs: list[Path]) -> None:
    exercise = exercise_of("scenario2")
    form = fill(tmp_path, exercise, {"prediction": "a"}, RUN_START - timedelta(minutes=1))
    record_predictions(tmp_path)
    fill(tmp_path, exercise, {"prediction": "b"}, LATER)
    got, why = prediction(form, exercise, runs)
    assert (got, "you predicted a at 23:59 UTC" in why) == (0, True)
    fill(tmp_path, exercise, {"prediction": "a"}, LATER)
    assert prediction(form, exercise, runs)[0] == 1


def test_a_form_that_is_handed_in_carries_its_times(tmp_path: Path, runs: list[Path]) -> None:
    exercise = exercise_of("scenario2")
    form = fill(tmp_path, exercise, {"prediction": "a"}, RUN_START - timedelta(minutes=1))
    record_predictions(tmp_path)
    fill(tmp_path, exercise, {"median": "b"}, LATER)
    # ./lab run did it already: a form may be handed in before ./lab check.
    stamped = form.read_text()
    assert stamped.count("# recorded: prediction = a at 20251231T235900Z") == 1
    stamp_form(form, exercise.predictions)
    assert form.read_text() == stamped
    alone = tmp_path / "ada" / form.name
    alone.parent.mkdir()
    alone.write_text(stamped)
    assert prediction(alone, exercise, runs)[0] == 1
    assert yaml.safe_load(stamped)["median"] == "b"


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"scenario2": 1}', '{"scenario2": [{"at": "x"}]}'])
def test_a_damaged_record_never_stops_a_run(tmp_path: Path, damage: str) -> None:
    fill(tmp_path, exercise_of("scenario2"), {"prediction": "a"}, RUN_START)
    record = tmp_path / "answers/.predictions.json"
    record.write_text(damage)
    record_predictions(tmp_path)
    assert json.loads(record.read_text())["scenario2"][0]["answer"] == "a"


def test_without_any_form_nothing_is_written(tmp_path: Path) -> None:
    record_predictions(tmp_path)
    assert list(tmp_path.iterdir()) == []


def figures_of(marked: Marked) -> set[str]:
    """The measured figures in the teacher's reasons for results and answers."""
    return {
        word.strip(",;()") for m in marked.marks if m.kind != "run" for word in m.reason.split() if "." in word[1:-1]
    }


def test_a_student_never_reads_a_figure_or_the_right_answer(runs: list[Path]) -> None:
    exercise = exercise_of("scenario2")
    marked = mark(exercise, stored(runs), {"prediction": "a", "median": "a", "o-p99": "3", "lateness": "x"})
    teacher, student = score_sheet(exercise, marked), score_sheet(exercise, marked, student=True)
    measured = {word for word in figures_of(marked) if word.replace(".", "").isdigit()}
    assert measured
    assert all(figure in teacher and figure not in student for figure in measured), student
    assert "your run" in teacher
    assert "your run" not in student
    assert "0/1  o-p99: not right" in student
    assert student.splitlines()[-2:] == teacher.splitlines()[-2:]


REFUSED = "fifo: Operation not permitted (see `./lab doctor`: real-time budget and SYS_NICE)"


def refused(role: str, priority: int) -> dict[str, Any]:
    return found(f"{role} scheduling policy", f"SCHED_FIFO {priority}", "SCHED_OTHER", False, REFUSED)


def test_points_that_the_machine_cannot_give_are_not_counted(runs: list[Path]) -> None:
    exercise = exercise_of("permitted-is-not-applied")
    folder = next(path for path in runs if path.name.endswith("scenario5"))
    applied = folder.with_name("20260102T000000Z-scenario5")
    shutil.copytree(folder, applied)
    with edited(applied) as run:
        run["run_id"] = applied.name
        run["parameters"]["apply_priority"] = True
    wrong = [refused("broker", 90), refused("controller", 99)]
    treated(applied, *wrong, valid=False, invalid_because=["broker …", "controller …"])
    marked = mark(exercise, stored([folder, applied]), {"prediction": "b"})
    by_name = {m.name: m for m in marked.marks}
    assert {name for name, m in by_name.items() if m.exempt} == {
        "applied", "applied-broker", "applied-controller", "tail", "late"
    }  # fmt: skip
    assert marked.worth + marked.exempt == exercise.total
    assert f"; {marked.exempt} more need real-time priority" in score_line(marked)
    # Another fault beside the refusal is the student's again.
    treated(applied, found("stress load", "running", "ended", False), invalid_because=["a", "b", "c"])
    marked = mark(exercise, stored([folder, applied]), {})
    assert "INVALID" in next(m.reason for m in marked.marks if m.name == "applied")
    # Who forgot to ask for it is not exempt.
    treated(applied, *(found(w["what"], "SCHED_OTHER", "SCHED_OTHER") for w in wrong), valid=True, invalid_because=[])
    with edited(applied) as run:
        run["treatments"] = [entry for entry in run["treatments"] if entry["what"] != "stress load"]
    assert mark(exercise, stored([folder, applied]), {}).exempt == 0


TREATED = {
    "stress load": found("stress load", "running", "running"),
    "flood load": found("flood load", "running", "running"),
    **{what: found(what, "permitted", "rtprio limit 90; SYS_NICE given")
       for what in ("broker may use real-time priority", "controller may use real-time priority")},
}  # fmt: skip


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
    marked = mark(exercise, stored(runs), {"prediction": "a", "lost": sent, "tail": "b"})
    assert [m for m in marked.marks if m.got < m.worth] == []
    # The same loss in an exercise that did not ask for it is one.
    strict = replace(exercise, points=[replace(point, or_lost=False) for point in exercise.points])
    assert mark(strict, stored(runs), {}).lost(RESULT) > 0
