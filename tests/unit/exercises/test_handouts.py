"""Handouts, cards, factors and answers: what they name is there, what they order can be typed and fits the runs."""

import json
import math
import re
from functools import cache
from pathlib import Path

import pytest
import yaml
from exercise_runs import Printed
from support.handouts import HANDOUTS, commands, exercise_of, name_of, observed, paper_questions, runs_of, words_of
from support.places import ROOT
from support.spec_runs import make_runs

from looplab.errors import UsageError
from looplab.exercises.handouts import handouts, pages, sources, tracks
from looplab.exercises.printed import LINES_TO_WRITE, printed
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.class_archives import ANSWERS
from looplab.lab.cli import parser
from looplab.lab.commands.answers import answers, questions
from looplab.lab.commands.predict import predict

# Starting and stopping the containers of a run.
AROUND_A_RUN_S = 20
each_handout = pytest.mark.parametrize("handout", HANDOUTS, ids=name_of)


@cache
def dashboards() -> dict[str, list[str]]:
    """Patterns of the titles of the panels of each dashboard: a variable may be any word."""
    read = [json.loads(path.read_text()) for path in (ROOT / "grafana/dashboards").glob("*.json")]
    titles = {one["title"]: [panel.get("title", "") for panel in one["panels"]] for one in read}
    return {name: [re.sub(r"\\\$\w+", r"\\w+", re.escape(one)) for one in each] for name, each in titles.items()}


@each_handout
def test_the_commands_are_ones_of_the_lab(handout: Path) -> None:
    """Their runs have each point: tests/unit/exercises/test_fair_marks.py."""
    exercise = exercise_of(handout)
    typed = [parser().parse_args(words_of(command)[1]) for command in commands(handout)]
    assert {*map(tuple, (one.names for one in typed if one.command == "check"))} == {(exercise.name,)}
    # A prediction is about something that the runs show.
    [question] = [q for q in exercise.questions if q.predicts]
    assert question.shown_by in {one.name for one in (*exercise.points, *exercise.questions) if one is not question}
    assert [one.command for one in typed][-4:] == ["check", "report", "hand-in", "down"]


@each_handout
def test_the_panels_to_observe_are_on_their_dashboard(handout: Path) -> None:
    first, *names = observed(handout)
    panels = dashboards()[first]
    assert names
    for name in names:
        if name in dashboards():
            panels = dashboards()[name]
        else:
            assert any(re.fullmatch(title, name) or title.startswith(f"{re.escape(name)}:") for title in panels), name


def test_the_generator_leaves_no_difference() -> None:
    of_exercises = handouts(ROOT, EXPERIMENTS)
    written = {**of_exercises, **pages(ROOT, EXPERIMENTS)}
    wrong = [str(path.relative_to(ROOT)) for path, text in written.items() if path.read_text() != text]
    assert wrong == [], "run scripts/make-handouts"
    assert {path for path in of_exercises if path.name == "README.md"} == set(HANDOUTS)


def test_tracks_and_lessons_obey_the_order_of_the_exercises() -> None:
    """What an exercise needs comes before it, in homework or lesson of docs/teaching.md; the minutes add up."""
    cards = {name_of(handout): exercise_of(handout).card for handout in HANDOUTS}
    on_tracks = [name for names in tracks(ROOT).values() for name in names]
    assert sorted(on_tracks) == sorted(cards)
    for names in tracks(ROOT).values():
        for at, name in enumerate(names):
            assert not set(cards[name].before) & set(names[at:]), name
    plans = re.findall(r"^\| (\d+) \|(.*)\|(.*)\|$", (ROOT / "docs/teaching.md").read_text(), re.MULTILINE)
    assert [minutes for minutes, *_ in plans] == ["45", "90", "180"]
    for length, before, lesson in plans:
        done: set[str] = set()
        for name, minutes in re.findall(r"/([\w-]+)/README\.md\)(?: (\d+))?", before + lesson):
            assert set(cards[name].before) <= done, name
            assert minutes in ("", str(cards[name].minutes)), name
            done.add(name)
        own_words = re.sub(r"\[[^]]*\]\([^)]*\)", "", lesson)
        assert sum(map(int, re.findall(r"\d+", own_words))) == int(length)


@each_handout
def test_the_time_for_the_runs_is_that_of_all_that_are_ordered(handout: Path) -> None:
    exercise = exercise_of(handout)
    ordered = [*commands(handout), *exercise.card.reruns]
    needed_s = sum(made.total_s + AROUND_A_RUN_S for command in ordered for made in runs_of(command))
    assert exercise.card.running == math.ceil(needed_s / 60)


@each_handout
def test_the_printed_form_has_room_for_every_answer(handout: Path) -> None:
    exercise = exercise_of(handout)
    page = printed(ROOT, exercise.name, EXPERIMENTS)
    assert page.count('class="box"') == sum(len(question.options) for question in exercise.questions)
    assert page.count('<div class="write">') == LINES_TO_WRITE * len(paper_questions(handout))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_each_factor_has_a_line(name: str) -> None:
    factors, lines = EXPERIMENTS[name].parameters.factors(), sources(EXPERIMENTS[name])
    assert set(lines) == set(factors), f"a line of {EXPERIMENTS[name].folder}/factors.csv for each factor"
    without = {variable for variable, one in factors.items() if one.default is None}
    assert {variable for variable, line in lines.items() if line["value"]} == without
    # What no source states says what is assumed.
    assert [variable for variable, line in lines.items() if not line["printed"] + line["note"]] == []


@each_handout
def test_each_question_is_printed_with_its_answer(handout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = questions(handout.read_text())
    assert len(asked) == len(paper_questions(handout)) + 2
    given = handout.with_name(ANSWERS).read_text().strip().split("\n\n")
    answers(ROOT, name_of(handout))
    printed = capsys.readouterr().out.splitlines()
    assert max(map(len, printed)) <= 80
    words = " ".join(printed).split()
    assert all(word in words for text in (*asked, *given) for word in text.split())


def test_answers_that_are_not_there_are_in_the_teachers_archive(tmp_path: Path) -> None:
    place = tmp_path / "compose/scenarios/scenario1"
    place.mkdir(parents=True)
    (place / "README.md").write_text("# Scenario: x\n")
    with pytest.raises(UsageError) as caught:
        answers(tmp_path, "scenario1")
    assert "teachers' archive" in str(caught.value.remedy)


def test_a_prediction_is_chosen_before_the_run(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.input", lambda _prompt: "b")
    assert predict(lab, "scenario2") == 0
    form = lab / "answers/scenario2.yaml"
    assert yaml.safe_load(form.read_text())["prediction"] == "b"
    assert predict(lab, "scenario2", "a") == 0
    assert yaml.safe_load(form.read_text())["prediction"] == "a"
    assert form.read_text().count("predicted:") == 1
    for name, answer, word in (("scenario2", "z", "none of a, b"), ("scenario12", "a", "no exercise")):
        with pytest.raises(UsageError, match=word):
            predict(lab, name, answer)


def test_a_prediction_after_the_run_is_called_one(lab: Path, printed: Printed) -> None:
    make_runs(lab / "results", "./lab run scenario1 scenario2 --intervals 20 --repetitions 3")
    predict(lab, "scenario2", "b")
    assert "1/1  prediction: predicted after " in printed(1, "scenario2")
    form = lab / "answers/scenario2.yaml"
    form.write_text(form.read_text().replace("predicted: 2", "predicted: 1"))
    assert "1/1  prediction: predicted; compare" in printed(1, "scenario2")
