"""./lab collect: a class of students whose runs, scores and copies are known."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.places import ROOT
from support.reports import Page, rows
from support.run_files import edited
from support.simulated_runs import MACHINE, nine_scenarios

from looplab.errors import LabError
from looplab.exercises.class_figure import class_figure
from looplab.exercises.collection import collect
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.commands.collect import command

EARLY = 1_700_000_000


def hand_in(folder: Path, runs: list[Path], numbers: tuple[int, ...], answers: str = "", **changes: Any) -> None:
    """One student's folder: copies of the runs of those scenarios, each changed in that way, and a form."""
    for run in runs:
        if run.name.endswith(tuple(f"scenario{number}" for number in numbers)):
            place = folder / "results" / run.name
            shutil.copytree(run, place)
            with edited(place) as run:
                run |= changes
    if answers:
        form = folder / "answers/scenario2.yaml"
        form.parent.mkdir(parents=True)
        form.write_text(answers)
        os.utime(form, (EARLY, EARLY))


@pytest.fixture(scope="module")
def by_seed(tmp_path_factory: pytest.TempPathFactory) -> list[list[Path]]:
    """Runs to be handed in, made once."""
    return [nine_scenarios(tmp_path_factory.mktemp("results"), repetitions=3, seed=seed) for seed in range(3)]


@pytest.fixture
def group(tmp_path: Path, by_seed: list[list[Path]]) -> Path:
    """ada and ben measured, eve copied ada's run, mia has another machine and an INVALID run, zoe handed in nothing."""
    group = tmp_path / "group"
    hand_in(group / "ada", by_seed[0], (1, 2), "prediction: b\n")
    hand_in(group / "ben", by_seed[1], (1, 2), "prediction: a\nmedian: b\n", token="0000ben0")
    hand_in(group / "eve", by_seed[0], (2,))
    other = {"environment": {**MACHINE, "cores": 8}, "token": "0000mia0"}
    hand_in(group / "mia", by_seed[2], (2,), **other)
    hand_in(group / "mia", by_seed[2], (1,), valid=False, invalid_because=["no broker"], **other)
    (group / "zoe").mkdir()
    return group


def test_a_class_becomes_tables_and_a_figure_a_scenario(
    group: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(ROOT, [group], tmp_path / "out") == 0
    out = tmp_path / "out"
    said = capsys.readouterr().out
    assert "5 students, 7 runs, 2 machines" in said
    assert "zoe                  nothing to mark" in said

    scores = {(row["student"], row["exercise"]): row for row in rows(out / "scores.csv")}
    assert {key for key in scores if key[0] != "mia"} == {
        ("ada", "scenario2"), ("ben", "scenario2"), ("eve", "scenario2")
    }  # fmt: skip
    assert int(scores["ben", "scenario2"]["score"]) == int(scores["ada", "scenario2"]["score"]) + 1
    runs = rows(out / "runs.csv")
    assert [(row["student"], row["same_run_as"]) for row in runs if row["same_run_as"]] == [("eve", "ada")]
    assert [(row["student"], row["remark"]) for row in runs if row["state"] == "INVALID"] == [("mia", "no broker")]
    assert {row["machine"] for row in runs if row["student"] == "mia"} == {"B"}
    figures = rows(out / "class_scenario2_thesis.csv")
    assert [row["student"] for row in figures] == ["ada", "ben", "mia"]


def test_the_page_says_in_words_what_its_figures_show(group: Path, tmp_path: Path) -> None:
    command(ROOT, [group], tmp_path / "out")
    page = Page(tmp_path / "out/index.html")
    assert len(page.alternatives) == 2
    assert "for 3 students" in page.alternatives[1]
    assert "machine A, 2 student(s): median" in page.alternatives[1]
    assert "machine B, 1 student(s): median" in page.alternatives[1]
    assert "http" not in page.text.replace("http-equiv", "").replace("http://www.w3.org", "")


def test_the_same_run_is_found_by_its_token_under_another_name(group: Path) -> None:
    renamed = group / "eve/results/20260101T000000Z-scenario2"
    with edited(renamed) as run:
        run["run_id"] = "20260909T090909Z-scenario2"
    renamed.rename(renamed.with_name("20260909T090909Z-scenario2"))
    found = collect(ROOT, [group], EXPERIMENTS)
    assert [(handed.student, handed.copy_of) for handed in found.copies] == [("eve", "ada")]


def test_an_edited_token_does_not_hide_a_copy(group: Path) -> None:
    with edited(group / "eve/results/20260101T000000Z-scenario2") as run:
        run["token"] = "ffffffff"
    assert [(h.student, h.copy_of) for h in collect(ROOT, [group], EXPERIMENTS).copies] == [("eve", "ada")]


def test_one_machine_makes_one_run_at_a_time(group: Path) -> None:
    for student in ("ada", "ben"):
        with edited(group / f"{student}/results/20260101T000000Z-scenario2") as run:
            run["environment"]["machine"] = "0123456789ab"
    copies = collect(ROOT, [group], EXPERIMENTS).copies
    assert [(h.student, h.run.scenario) for h in copies] == [("ben", "scenario2"), ("eve", "scenario2")]


def test_the_table_below_a_figure_holds_the_figures_of_the_runs(group: Path) -> None:
    found = collect(ROOT, [group], EXPERIMENTS)
    held = found.newest()["scenario2", "thesis"]
    figure = class_figure("scenario2", "thesis", held)
    assert figure is not None
    for row, handed in zip(figure.rows, held, strict=True):
        cell = handed.run.cells[20.0, 0.0]
        assert abs(float(str(row["p50_ms"])) - cell["O_us"]["p50"] / 1000) < 0.02 * cell["O_us"]["p50"] / 1000
        assert row["lost"] == 0
    assert len(figure.drawing.svg) > 1000


def test_equal_names_in_two_folders_are_two_students(group: Path, tmp_path: Path) -> None:
    second = tmp_path / "second"
    (second / "ada").mkdir(parents=True)
    assert collect(ROOT, [group, second], EXPERIMENTS).students[-1] == "second/ada"


def test_a_folder_without_students_is_named(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="holds no student's folder"):
        command(ROOT, [tmp_path])
    with pytest.raises(LabError, match="There is no folder"):
        command(ROOT, [tmp_path / "x"])
