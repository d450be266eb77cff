"""Answers belong to the runs that their form names; a hand-in holds exactly those, of each exercise."""

import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from exercise_runs import PAIR, Printed, did
from support.spec_runs import make_runs
from support.tables import rows

from looplab.errors import LabError
from looplab.lab.commands.check import hand_in

FOURTH = "./lab run scenario2 scenario4 --intervals 20 --repetitions 3"


def named_in(form: Path) -> list[str]:
    ids = yaml.safe_load(form.read_text())["runs"]
    assert isinstance(ids, list)
    return ids


def test_newer_runs_leave_a_right_answer_right(lab: Path, printed: Printed, second: list[str]) -> None:
    fourth = did(lab, "scenario4", FOURTH)
    text = printed(0, "scenario2")
    assert f"1/1  stressed: {second[1]}" in text
    assert named_in(lab / "answers/scenario2.yaml") == second
    # Its question 3, before and after the first check.
    again = make_runs(lab / "results", "./lab run scenario2 scenario4 --fidelity corrected --intervals 20")
    assert "score: 11 of 11" in printed(0, "scenario4")
    make_runs(lab / "results", "./lab run scenario2 scenario4 --fidelity corrected --intervals 20")
    assert named_in(lab / "answers/scenario4.yaml") == fourth
    for name in ("scenario2", "scenario4"):
        assert hand_in(lab, name, "ada") == 0
    assert not {folder.name for folder in again} & set(printed(0, "scenario4").split())
    printed(0, str(lab / "ada.zip"))
    marks = {row["exercise"]: row for row in rows(lab / "report/class.csv")}
    assert {name: (row["score"], row["runs"].split()) for name, row in marks.items()} == {
        "scenario2": ("10", second), "scenario4": ("11", fourth)
    }  # fmt: skip


@pytest.mark.parametrize("factor", ["", "ROBOT_FRAMING=line "])
def test_the_next_runs_take_no_side_of_a_pair(lab: Path, printed: Printed, factor: str) -> None:
    """Of an unchecked pair, and of a checked one with a factor of its own."""
    pair = did(lab, "scenario2", f"{factor}{PAIR}")
    if factor:
        printed(0, "scenario2")
    make_runs(lab / "results", PAIR if factor else "./lab run scenario1 --intervals 20,10 --repetitions 3")
    text = printed(0, "scenario2")
    assert f"1/1  calm: {pair[0]}" in text
    assert f"1/1  stressed: {pair[1]}" in text


def test_a_run_that_lacks_a_cell_makes_room_for_a_whole_one(lab: Path, printed: Printed) -> None:
    did(lab, "scenario0", "./lab run scenario0 --intervals 20 --repetitions 3")
    assert "has no cell at 100 ms" in printed(1, "scenario0")
    [newer] = make_runs(lab / "results", "./lab run scenario0 --repetitions 3")
    assert f"1/1  emulated: {newer.name}" in printed(1, "scenario0")


def test_without_its_line_a_form_belongs_to_the_newest_runs(lab: Path, printed: Printed, second: list[str]) -> None:
    newer = [path.name for path in make_runs(lab / "results", "./lab run scenario1 scenario2 --repetitions 3")]
    form = lab / "answers/scenario2.yaml"
    form.write_text(re.sub(r"^runs:.*\n", "", form.read_text(), flags=re.MULTILINE))
    text = printed(1, "scenario2")
    assert f"1/1  stressed: {newer[1]}" in text
    assert "o-p99" in text
    assert named_in(form) == newer


def test_a_form_without_answers_belongs_to_no_run(lab: Path, printed: Printed) -> None:
    make_runs(lab / "results", PAIR)
    printed(1, "scenario2")
    newer = make_runs(lab / "results", PAIR)
    assert f"1/1  stressed: {newer[1].name}" in printed(1, "scenario2")


def test_a_named_run_that_is_gone_or_wrong_counts_no_more(lab: Path, printed: Printed, second: list[str]) -> None:
    newer = [path.name for path in make_runs(lab / "results", "./lab run scenario1 scenario2 --repetitions 3")]
    (lab / f"results/{second[1]}/samples.csv").unlink()
    text = printed(1, "scenario2")
    assert f"1/1  calm: {second[0]}" in text
    assert f"1/1  stressed: {newer[1]}" in text
    assert named_in(lab / "answers/scenario2.yaml") == [second[0], newer[1]]


@pytest.mark.parametrize("at", [0, 1])
def test_a_run_on_the_command_line_counts_with_those_beside_it(
    lab: Path, printed: Printed, second: list[str], at: int
) -> None:
    corrected = [path.name for path in make_runs(lab / "results", f"{PAIR} --fidelity corrected")]
    newest = [path.name for path in make_runs(lab / "results", PAIR)]
    assert f"{corrected[at]} has fidelity corrected, but" in printed(1, "scenario2", corrected[at])
    for ids in (second, newest):
        text = printed(0 if ids is second else 1, "scenario2", ids[at])
        assert f"1/1  calm: {ids[0]}\n" in text
        assert f"1/1  stressed: {ids[1]}\n" in text
        assert ("Your form names other runs" in text) == (ids is not second)
    assert named_in(lab / "answers/scenario2.yaml") == second


def test_a_second_exercise_is_added_and_the_same_one_replaced(
    lab: Path, printed: Printed, second: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    did(lab, "scenario4", FOURTH)
    own = [lab / "answers" / name for name in ("scenario2.own.yaml", "scenario2.py")]
    for path in own:
        path.touch()
    assert hand_in(lab, "scenario2", "ada") == 0
    assert {f"scenario2/{path.name}" for path in own} <= {*zipfile.ZipFile(lab / "ada.zip").namelist()}
    for path in own:
        path.unlink()
    assert hand_in(lab, "scenario4", "ada") == 0
    assert "It also holds scenario2." in capsys.readouterr().out
    first = did(lab, "scenario2", PAIR)
    assert hand_in(lab, "scenario2", "ada") == 0
    out = capsys.readouterr().out
    assert "They replace scenario2 as it was handed in before." in out
    assert "It also holds scenario4." in out
    members = zipfile.ZipFile(lab / "ada.zip").namelist()
    assert {name.split("/")[1] for name in members if name.startswith("scenario2/")} == {"scenario2.yaml", *first}
    # An unfinished one is listed beside them.
    assert hand_in(lab, "scenario3", "ada") == 1
    table = printed(0, str(lab / "ada.zip"))
    scores = re.findall(r"^ada +(\S+) +(\d+)", table, re.MULTILINE)
    assert scores == [("scenario2", "10"), ("scenario3", "0"), ("scenario4", "11")]


def test_a_study_is_made_by_a_study(lab: Path, printed: Printed) -> None:
    """Two runs of one's own choice have no random order and no A/A arms."""
    did(lab, "one-study", PAIR)
    assert printed(1, "one-study").count("was not made by ./lab study") == 2
    did(lab, "one-study", "STRESS_CPU=1 ./lab study scenario1 scenario2 --intervals 20 --repetitions 3 --rounds 5")
    assert "was not made" not in printed(0, "one-study")


def _damaged(file: Path) -> None:
    content = bytearray(file.read_bytes())
    middle = len(content) // 3
    content[middle : middle + 50] = bytes(50)
    file.write_bytes(content)


@pytest.mark.parametrize("spoil", [_damaged, lambda file: file.write_bytes(file.read_bytes()[:-100])])
@pytest.mark.usefixtures("second")
def test_an_archive_that_cannot_be_read_stays(lab: Path, spoil: Callable[[Path], object]) -> None:
    assert hand_in(lab, "scenario2", "ada") == 0
    spoil(lab / "ada.zip")
    before = (lab / "ada.zip").read_bytes()
    with pytest.raises(LabError, match=r"ada.zip is no archive of `./lab hand-in`: .*It stays as it is"):
        hand_in(lab, "scenario2", "ada")
    assert (lab / "ada.zip").read_bytes() == before
    assert [path.name for path in lab.glob("*ada*")] == ["ada.zip"]
