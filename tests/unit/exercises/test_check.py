"""Marking: points with reasons, a wrong run apart from a wrong answer, a class at once."""

import csv
import os
import re
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from exercise_runs import Printed
from support.places import ROOT
from support.run_files import MACHINE, edited, treatment
from support.simulated_runs import simulated_cell, write_run
from support.simulated_twin_runs import single, write_twin_run
from support.spec_runs import make_runs
from support.tables import rows
from support.wire import call

from looplab.errors import LabError, UsageError
from looplab.exercises.exercise import Exercise, exercises, parse_exercise, read_exercise
from looplab.exercises.hand_in import MOST_BYTES, answer_form
from looplab.exercises.handouts import handouts
from looplab.exercises.marking import mark
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.class_archives import without_keys
from looplab.lab.commands.check import check, hand_in
from looplab.lab.commands.new import new
from looplab.report.csv_rows import write_csv
from looplab.report.stored import MOST_RUN_BYTES, read_run

STRESS = [treatment("stress load", "running")]


def put_run(results: Path, scenario: str, median_us: float = 900, start: str = "20260101T000000Z", **rest: Any) -> Path:
    rng = np.random.default_rng(3)
    cells = {(i, 0): simulated_cell(rng, 4, 25, median_us, 4290) for i in (100.0, 50.0, 20.0, 10.0)}
    return write_run(results, scenario, start=start, cells=cells, **rest)


def put_answers(lab: Path, answers: dict[str, Any]) -> None:
    """The form of scenario2 as a student leaves it."""
    form = lab / "answers/scenario2.yaml"
    form.parent.mkdir(exist_ok=True)
    before = yaml.safe_load(form.read_text()) if form.exists() else {}
    form.write_text(yaml.safe_dump({**before, **answers}))


@pytest.mark.usefixtures("second")
def test_a_wrong_answer_costs_its_point_and_no_other(lab: Path, printed: Printed) -> None:
    form = yaml.safe_load((lab / "answers/scenario2.yaml").read_text())
    right, wrong = sorted("ab", key=form["median"].__ne__)
    put_answers(lab, {"o-p99": 0.3, "median": wrong})
    text = printed(1, "scenario2")
    assert "score: 8 of 10" in text
    assert "0/1  o-p99: 0.3 ms; your run has" in text
    assert f"0/1  median: {wrong}; your runs say {right}" in text
    assert "it is the answers that are not yet" in text


@pytest.mark.parametrize("answer", ["a", "b"])
def test_of_two_figures_alike_either_is_the_largest(tmp_path: Path, answer: str) -> None:
    """Both sustain about the highest rate that a quick search tries, which the table prints as 4000."""
    limits = [("row", 3999.8), ("copy", 4000.2)]
    more = {"limited_by": "tried", "evidence": {}}
    truths = [single(0.25, mode, more={"limit_per_s": rate, **more}) for mode, rate in limits]
    run = read_run(write_twin_run(tmp_path, truths, scenario="twin-limit", fidelity="corrected"), EXPERIMENTS)
    marked = mark(read_exercise(ROOT, "twin-limit", EXPERIMENTS), [run], {"fastest": answer})
    (question,) = [one for one in marked.marks if one.name == "fastest"]
    assert (question.got, "your runs say a or b" in question.reason) == (1, True)


@pytest.mark.usefixtures("second")
@pytest.mark.parametrize("answer", ["many", "", None, "c"])
def test_answers_of_any_kind_are_marked_and_never_crash(lab: Path, answer: Any) -> None:
    put_answers(lab, {"median": answer, "o-p99": answer, "prediction": [answer], "unknown": answer})
    assert check(lab, ["scenario2"]) == 1


INVALID = {"valid": False, "invalid_because": ["no stress"]}
WRONG = "A run is missing or wrong"
# What becomes of the stressed run, and what is said. Only answers need the run before, on whatever machine.
SPOILT_RUNS: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "missing": (shutil.rmtree, ["there is no run of scenario2: ./lab run scenario2", WRONG, "not judged"]),
    "too short": (lambda run: change(run, parameters={"repetitions": 2}), ["2 x 100 messages; at least", WRONG]),
    "invalid": (lambda run: change(run, **INVALID), ["INVALID: no stress", WRONG, "not judged"]),
    "another machine": (lambda run: change(run, environment={**MACHINE, "cores": 64}), ["another machine", WRONG]),
    "without effect": (
        lambda run: change(run, treatments=[]),
        ["0/1  stress: ", "records no treatment", "STRESS_TIMEOUT", "The runs are sound, but do not show"],
    ),
}


def change(run: Path, **changes: Any) -> None:
    with edited(run) as document:
        for name, new in changes.items():
            document[name] = {**document[name], **new} if isinstance(new, dict) else new


@pytest.mark.parametrize("how", SPOILT_RUNS)
def test_a_wrong_run_is_told_from_a_wrong_answer(lab: Path, how: str, printed: Printed, second: list[str]) -> None:
    spoil, words = SPOILT_RUNS[how]
    spoil(lab / "results" / second[1])
    text = printed(1, "scenario2")
    assert [word for word in words if word not in text] == []


def test_a_valid_run_is_taken_rather_than_a_newer_invalid_one(lab: Path, printed: Printed) -> None:
    older, newer = make_runs(lab / "results", *["./lab run scenario2 --intervals 20 --repetitions 3"] * 2)
    change(newer, **INVALID)
    assert f"1/1  stressed: {older.name}" in printed(1, "scenario2")
    # Named, it is that one and no other.
    assert f"{newer.name} is INVALID" in printed(1, "scenario2", newer.name)


def test_naming_a_run_of_another_scenario_is_refused(lab: Path) -> None:
    put_run(lab / "results", "scenario7")
    with pytest.raises(LabError, match="is a run of scenario7"):
        check(lab, ["scenario2", "20260101T000000Z-scenario7"])
    with pytest.raises(LabError, match="There is no run 'x'"):
        check(lab, ["scenario2", "x"])
    with pytest.raises(UsageError, match="There is no file"):
        check(lab, ["nobody.zip"])


def test_a_class_is_marked_folder_by_folder(lab: Path, tmp_path: Path, printed: Printed, second: list[str]) -> None:
    ada, ben, eve = (tmp_path / "group" / name for name in ("ada", "ben", "eve"))
    shutil.copytree(lab / "results", ada / "results")
    shutil.copytree(lab / "results", ben)
    shutil.copytree(lab / "answers", ada / "answers")
    (ben / "scenario2.yaml").write_text("prediction: a\n- broken")
    shutil.copytree(lab / "results" / second[0], eve / "only")
    table = printed(0, str(tmp_path / "group"))
    scores = {(row["student"], row["exercise"]): row for row in rows(lab / "report/class.csv")}
    assert scores.keys() == {("ada", "scenario2"), ("ben", "scenario2"), ("eve", "scenario1")}
    first, copied = scores["ada", "scenario2"], scores["ben", "scenario2"]
    assert (first["score"], first["of"], first["remarks"]) == ("10", "10", "")
    assert (copied["score"], copied["lost_for_answer"]) == ("4", "6")
    assert f"{second[1]} is the very run that ada handed in" in copied["remarks"]
    assert "cannot be read" in copied["remarks"]
    assert re.search(r"^ben +scenario2 +4 +10 +copied$", table, re.MULTILINE)


def test_a_class_is_pooled_and_its_reasons_and_disputes_are_read(lab: Path, tmp_path: Path, printed: Printed) -> None:
    """One pair of runs shows little; those of a class do. What only a person can mark stands in the table."""
    for name, stressed_us in {"ada": 3000, "ben": 2000, "eve": 800}.items():
        folder = tmp_path / "group" / name / "results"
        folder.mkdir(parents=True)
        put_run(folder, "scenario1", changes={"token": name})
        put_run(folder, "scenario2", stressed_us, changes={"treatments": STRESS, "token": f"{name}2"})
        put_answers(folder.parent, {"believe": "b", "believe-because": f"{name} says so", "dispute": "median: no"})
    text = printed(0, str(tmp_path / "group"))
    assert re.search(
        r"^scenario2, factor: 2 of 3 pairs grew; median 2\.\d+, half 1\.\d+ to 2\.\d+$", text, re.MULTILINE
    )
    marks = rows(lab / "report/class.csv")
    assert [(row["reasons"], row["disputed"]) for row in marks] == [
        (f"believe: {name} says so", "median: no") for name in ("ada", "ben", "eve")
    ]
    assert text.count("disputed") == 3
    assert rows(lab / "report/moodle.csv") == [{"username": name, "scenario2": "50"} for name in ("ada", "ben", "eve")]


def test_a_choice_without_its_key_is_left_to_the_teacher() -> None:
    """A students' archive holds no right options; a treatment's state is judged by the run."""
    asked = "title: x\nruns: {a: {scenario: s}}\nquestions: {q: {asks: y, options: {a: z, b: t}%s}}\n"
    for more, answer, got in ((", right: b", "b", 1), (", right: b", "a", 0), ("", "a", 1)):
        assert mark(parsed(asked % more), [], {"q": answer}).got == got
    texts = [without_keys(path.read_text()) for path in ROOT.glob("*/*/*/expected.yaml")]
    assert not any(re.search(r"^[^#\n]*\bright:", text, re.MULTILINE) for text in texts)


def _large(folder: Path) -> None:
    folder.unlink()
    archive = zipfile.ZipFile(folder, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
    with archive, archive.open("run.json", "w") as member:
        for _ in range(1 + MOST_BYTES // (1 << 24)):
            member.write(bytes(1 << 24))


def _unlike(changes: dict[str, Any]) -> Callable[[Path], object]:
    """A run whose run.json is changed so."""
    return lambda folder: put_run(folder, "scenario1", changes=changes)


def _hidden_link(folder: Path) -> None:
    """A link that has the name of a file further down."""
    (folder / "samples.csv").symlink_to("/etc/passwd")
    (folder / "z").mkdir()
    (folder / "z/samples.csv").touch()


def _heavy(folder: Path) -> None:
    """A run.json that would take a gigabyte to read."""
    run = put_run(folder, "scenario1")
    (run / "run.json").write_text("[" + "[]," * (MOST_RUN_BYTES // 3) + "[]]")


# What one student may hand in, by accident or not, and the remark in that student's row.
BAD = {
    "torn.zip": (lambda path: path.write_bytes(b"PK"), "cannot be read: File is not a zip file"),
    "huge.zip": (_large, "holds more than"),
    "pipe": (lambda path: os.mkfifo(path / "samples.csv"), "samples.csv is neither a file nor a folder"),
    "link": (lambda path: (path / "run.json").symlink_to("/etc/passwd"), "run.json is neither a file nor a folder"),
    "two": (_hidden_link, "samples.csv is neither"),
    "device": (lambda path: (path / "samples.csv").symlink_to("/dev/zero"), "samples.csv is neither"),
    "nested": (lambda path: (path / "scenario1.yaml").write_text("prediction: [[a], [b]]"), "one word or number"),
    "heavy": (_heavy, "8 MiB are the most"),
    "scenario": (_unlike({"scenario": "../../etc"}), ""),
    "fidelity": (_unlike({"fidelity": "thesis\n"}), ""),
    "treatments": (_unlike({"treatments": "none"}), ""),
    "environment": (_unlike({"environment": {"cores": 1, "machine": [1]}}), ""),
}


@pytest.mark.parametrize("name", BAD)
def test_one_bad_hand_in_is_a_row(lab: Path, tmp_path: Path, name: str, printed: Printed) -> None:
    put_run(tmp_path / "group/zoe", "scenario1")
    bad = tmp_path / "group" / name
    bad.mkdir() if bad.suffix != ".zip" else bad.touch()
    spoil, remark = BAD[name]
    spoil(bad)
    places = [str(tmp_path / "group"), *([str(bad)] if bad.suffix == ".zip" else [])]
    assert printed(0, *places)
    marked = {row["student"]: row for row in rows(lab / "report/class.csv")}
    assert int(marked["zoe"]["score"]) > 0
    if remark:
        assert remark in marked[bad.stem]["remarks"]
        assert marked[bad.stem]["score"] == "0"


@pytest.mark.usefixtures("second")
def test_a_hand_in_that_nobody_would_mark_is_not_made(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("looplab.exercises.hand_in.MOST_BYTES", 1 << 10)
    with pytest.raises(LabError, match="is not marked"):
        hand_in(lab, "scenario2", "ada")
    assert not [*lab.glob("*.zip*"), *lab.glob(".*.zip*")]


def test_a_hand_in_that_takes_too_much_memory_is_a_row(lab: Path, tmp_path: Path) -> None:
    """The limit is that of a process: it is set in one of its own."""
    for name in ("ada", "eve"):
        run = put_run(tmp_path / "group" / name, "scenario1")
    with edited(run) as document:
        document["junk"] = [{"": 0}] * (MOST_RUN_BYTES // 10)
    program = (
        "import sys; from pathlib import Path; from looplab.lab.commands import check\n"
        "check.MOST_MARKING_BYTES = 100 << 20\n"
        "check.check(Path(sys.argv[1]), sys.argv[2:])"
    )
    call(sys.executable, "-c", program, str(lab), str(tmp_path / "group"))
    marked = {row["student"]: row for row in rows(lab / "report/class.csv")}
    assert int(marked["ada"]["score"]) > 0
    assert "MemoryError" in marked["eve"]["remarks"]


def test_no_name_of_a_student_is_a_formula_or_moves_the_cursor(lab: Path, tmp_path: Path, printed: Printed) -> None:
    names = ["=HYPERLINK(1)", "+1+cmd", "-2-x", "@SUM(1)", "\t=1", "\x1b[2Jeve"]
    for name in names:
        put_run(tmp_path / "group" / name, "scenario1")
    assert "\x1b" not in printed(0, str(tmp_path / "group"))
    students = {row["student"] for row in rows(lab / "report/class.csv")}
    assert students == {"'=HYPERLINK(1)", "'+1+cmd", "'-2-x", "'@SUM(1)", "'\t'=1", "\x1b[2Jeve"}


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_no_cell_is_a_formula_whatever_separates_cells(tmp_path: Path, separator: str) -> None:
    texts = ["=1", "x;=1", "x\t@f", "x\r\n+1", "x|-1", 'q";=1;"', "; =1", "a,=1", "5;-0.5x"]
    write_csv(tmp_path / "x.csv", [{"a": text, "b": f"b{text}"} for text in texts])
    with (tmp_path / "x.csv").open(newline="") as file:
        cells = [cell for row in csv.reader(file, delimiter=separator) for cell in row]
    assert [cell for cell in cells if cell.strip()[:1] in {*"=+-@"} - {""}] == []
    # A number stays one.
    write_csv(tmp_path / "x.csv", [{"a": "-0.5", "b": -1, "c": "+3", "d": "-", "e": "=1", "f": ""}])
    assert (tmp_path / "x.csv").read_text() == "a,b,c,d,e,f\n-0.5,-1,+3,'-,'=1,\n"


def test_a_new_scenario_has_an_exercise_at_once(lab: Path, printed: Printed) -> None:
    (lab / "compose").unlink()
    shutil.copytree(ROOT / "compose", lab / "compose")
    shutil.copy(ROOT / "compose.yaml", lab)
    new(lab, "scenario91")
    assert "scenario91" in exercises(lab)
    handout = (lab / "compose/scenarios/scenario91/README.md").read_text()
    assert "@" not in handout
    exercise = read_exercise(lab, "scenario91", EXPERIMENTS)
    assert handouts(lab, EXPERIMENTS)[lab / "compose/scenarios/scenario91/README.md"] == handout
    assert (lab / "compose/scenarios/scenario91/form.yaml").read_text() == answer_form(exercise)
    put_run(lab / "results", "scenario91")
    text = printed(1, "scenario91")
    assert "1/1  mine: 20260101T000000Z-scenario91" in text
    assert "1/1  answered" in text


def parsed(text: str, experiment: str = "loop") -> Exercise:
    return parse_exercise("x", text, "x/expected.yaml", lambda _scenario: EXPERIMENTS[experiment].cell)


HEAD = "title: x\nruns: {a: {scenario: s}}\n"


def point(entry: str) -> str:
    return f"{HEAD}points: {{p: {{says: s, {entry}}}}}\n"


MISTAKES = {
    "no YAML": ("a: [", "is no YAML"),
    "unknown run": (point("figure: {run: b, name: lost}, at_most: 0"), "there is no run 'b'"),
    "unknown figure": (point("figure: {run: a, name: O.p42}, at_most: 0"), "no figure of a run"),
    "a time of one machine": (point("figure: {run: a, name: O.p95}, at_most: 900"), "bounds a time"),
    "a cell of another experiment": (
        point("figure: {run: a, name: lost, delay_pb_ms: 1, delay_bs_ms: 1}, at_most: 0"),
        "names no cell",
    ),
    "asks nothing": (f"{HEAD}questions: {{q: {{asks: s}}}}\n", "questions.q`: 'figure' is a required property"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_teachers_mistake_is_named_with_its_place(mistake: str) -> None:
    text, word = MISTAKES[mistake]
    with pytest.raises(UsageError, match=word) as error:
        parsed(text)
    assert "x/expected.yaml" in error.value.message


@pytest.mark.parametrize(
    ("asked", "answer", "got"),
    [
        # The table prints 0.849 s as 0.8, and a cost of 0.12 as 0.120.
        ("figure: {run: a, name: upright_s}, unit: s", "0.8", 1),
        ("figure: {run: a, name: upright_s}, unit: s", "0.7", 0),
        ("figure: {run: a, name: lost_share}", "0.1", 0),
        ("figure: {run: a, name: beyond_interval}", "0.01", 0),
        ("figure: {run: a, name: cost}", "0.12", 1),
        ("figure: {run: a, name: cost}", "0", 0),
        ("figure: {run: a, name: cost}, over: {run: a, name: upright_s}", "0.14", 1),
        ("figure: {run: a, name: cost}, over: {run: a, name: upright_s}", "0.5", 0),
    ],
)
def test_a_figure_is_right_as_the_table_prints_it(tmp_path: Path, asked: str, answer: str, got: int) -> None:
    (folder,) = make_runs(tmp_path, "./lab run balance --intervals 20 --messages 100")
    with edited(folder) as run:
        run["cells"][0] |= {"upright_s": 0.849, "cost": 0.12, "beyond_interval": 0.013}
    exercise = parsed(
        f"title: x\nruns: {{a: {{scenario: balance}}}}\nquestions: {{q: {{asks: s, {asked}}}}}", "balance"
    )
    marked = mark(exercise, [read_run(folder, EXPERIMENTS)], {"q": answer})
    assert [one.got for one in marked.marks] == [1, got]
