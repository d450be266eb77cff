"""Cards, forms, keys and claims: one source, expected.yaml, and everything that repeats it agrees with it."""

import math
import re
from pathlib import Path

import pytest
import yaml
from support.handouts import HANDOUTS, commands, exercise_of, name_of, paper_questions, runs_of
from support.places import ROOT

from looplab.exercises.exercise import Exercise, exercises, experiment_of
from looplab.exercises.hand_in import answer_form
from looplab.exercises.handout import lines_read
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.handouts import SAMPLES, around, claim_titles, folder_of, handouts, sample_run, sample_table, words
from looplab.lab.printed import LINES_TO_WRITE, printed

# Starting and stopping the containers of a run.
AROUND_A_RUN_S = 20
MINUTE_ROW = re.compile(r"^\| (\d+) \| (.+?) \|$", re.MULTILINE)


def experiment(exercise: Exercise) -> str:
    return experiment_of(ROOT, EXPERIMENTS, exercise.runs[-1].scenario)


def section(handout: Path, name: str) -> str:
    return handout.read_text().split(f"\n## {name}\n")[1].split("\n## ")[0]


def answers() -> dict[str, list[str]]:
    """The bullets of docs/answers.md by the title of their exercise."""
    parts = re.split(r"^## (.+)$", (ROOT / "docs/answers.md").read_text(), flags=re.MULTILINE)[1:]
    return {
        head: re.split(r"^- ", body, flags=re.MULTILINE)[1:] for head, body in zip(parts[::2], parts[1::2], strict=True)
    }


def key_of(exercise: Exercise) -> list[str]:
    found = [bullets for head, bullets in answers().items() if exercise.title in head.split(": ")[-1]]
    exact = [bullets for head, bullets in answers().items() if head.split(": ")[-1].split(" (")[0] == exercise.title]
    [bullets] = exact or found
    return bullets


def test_every_handout_holds_what_expected_yaml_says() -> None:
    wrong = [str(path.relative_to(ROOT)) for path, text in handouts(ROOT).items() if path.read_text() != text]
    assert wrong == [], "run scripts/make-handouts"
    assert set(handouts(ROOT)) == set(HANDOUTS)


@pytest.mark.parametrize("handout", HANDOUTS, ids=name_of)
def test_card_form_and_key_ask_the_same_question(handout: Path) -> None:
    exercise = exercise_of(handout)
    [question] = [q for q in exercise.questions if q.predicts]
    predict = section(handout, "Predict")
    assert f"**{question.asks}**" in predict
    assert all(f"- {option}: {text}" in predict for option, text in question.options.items())
    # No second question beside it.
    assert predict.count("?") - "".join(question.options.values()).count("?") <= 3
    assert f"# Before you run: {question.asks}\n" in answer_form(exercise)
    assert yaml.safe_load(answer_form(exercise)).keys() == {q.name for q in exercise.questions}
    assert key_of(exercise)[0].startswith("Prediction: ")


@pytest.mark.parametrize("handout", HANDOUTS, ids=name_of)
def test_a_prediction_is_about_something_that_the_runs_show(handout: Path) -> None:
    exercise = exercise_of(handout)
    [question] = [q for q in exercise.questions if q.predicts]
    shown = {point.name for point in exercise.points} | {q.name for q in exercise.questions if not q.predicts}
    assert question.shown_by in shown


@pytest.mark.parametrize("handout", HANDOUTS, ids=name_of)
def test_the_claims_of_a_card_are_those_of_the_report(handout: Path) -> None:
    exercise = exercise_of(handout)
    titles = claim_titles(experiment(exercise))
    assert set(exercise.card.claims) <= titles.keys()
    assert all(f"“{titles[claim]}”" in " ".join(section(handout, "Predict").split()) for claim in exercise.card.claims)


def test_each_claim_of_the_thesis_has_an_exercise() -> None:
    asked = {claim for handout in HANDOUTS for claim in exercise_of(handout).card.claims}
    assert claim_titles("loop").keys() <= asked


@pytest.mark.parametrize("handout", HANDOUTS, ids=name_of)
def test_each_question_on_paper_has_a_key_and_a_rubric(handout: Path) -> None:
    _, *key = key_of(exercise_of(handout))
    assert len(key) == len(paper_questions(handout))
    for bullet in key:
        assert re.search(r"\n  1: .+ 2: ", bullet, re.DOTALL), bullet


@pytest.mark.parametrize("handout", HANDOUTS, ids=name_of)
def test_what_comes_before_is_an_exercise(handout: Path) -> None:
    card = exercise_of(handout).card
    assert card.goals
    assert set(card.before) <= set(exercises(ROOT))


@pytest.mark.parametrize("handout", HANDOUTS, ids=name_of)
def test_the_time_for_the_runs_is_that_of_all_runs_that_the_card_orders(handout: Path) -> None:
    exercise = exercise_of(handout)
    ordered = [*commands(handout), *exercise.card.reruns]
    needed_s = sum(made.whole_s + AROUND_A_RUN_S for command in ordered for made in runs_of(command))
    assert exercise.card.running == math.ceil(needed_s / 60)


def plans() -> dict[int, list[tuple[int, str]]]:
    """The lesson plans of docs/teaching.md: rows of minutes and what they are for, by the minutes of their heading."""
    text = (ROOT / "docs/teaching.md").read_text()
    parts = re.split(r"^### (\d+) minutes.*$", text, flags=re.MULTILINE)[1:]
    found: dict[int, list[tuple[int, str]]] = {}
    for minutes, body in zip(parts[::2], parts[1::2], strict=True):
        rows = [(int(m), what) for m, what in MINUTE_ROW.findall(body.split("\n## ")[0])]
        assert sum(m for m, _ in rows) == int(minutes), f"the plan for {minutes} minutes"
        found.setdefault(int(minutes), []).extend(rows)
    return found


def test_the_lesson_plans_add_up_and_give_each_exercise_its_time() -> None:
    known = {exercise.title: exercise for handout in HANDOUTS if (exercise := exercise_of(handout))}
    assert plans().keys() == {45, 90, 180}
    planned = 0
    for minutes, what in (row for rows in plans().values() for row in rows):
        for title in re.findall(r"\[([^\]]+)\]", what):
            assert minutes == known[title].card.minutes, title
            planned += 1
    assert planned >= 6


def test_the_table_of_exercises_gives_the_minutes_of_their_cards() -> None:
    by_name = {name_of(handout): exercise_of(handout) for handout in HANDOUTS}
    by_title = {exercise.title: exercise for exercise in by_name.values()}
    told = {}
    rows = re.findall(r"^\| (.+?) \| ([\d, ]+) \| .+ \|$", (ROOT / "docs/teaching.md").read_text(), re.MULTILINE)
    for names, minutes in rows:
        named = [re.sub(r"\[(.+)\]\(.+\)", r"\1", name) for name in re.split(r", (?![^\[]*\])", names)]
        told |= dict(zip(named, map(int, minutes.split(", ")), strict=True))
    assert {by_name.get(name, by_title.get(name)).name: told[name] for name in told} == {  # type: ignore[union-attr]
        name: exercise.card.minutes for name, exercise in by_name.items()
    }


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_the_sample_is_a_valid_run_and_its_table_has_what_is_explained(name: str) -> None:
    scenarios = [path.stem for path in (ROOT / SAMPLES).glob("*.json")]
    own = [scenario for scenario in scenarios if experiment_of(ROOT, EXPERIMENTS, scenario) == name]
    assert all(sample_run(ROOT, name, scenario)["valid"] for scenario in own)
    rare = {"lost by", "run queue", "load"}
    for scenario in own:
        meanings, lines = words(EXPERIMENTS[name], scenario)
        assert {line for line in meanings if line not in sample_table(ROOT, name, scenario)} <= rare
        assert set(lines.values()) <= meanings.keys()


@pytest.mark.parametrize("handout", HANDOUTS, ids=name_of)
def test_the_lines_that_an_exercise_asks_about_are_explained(handout: Path) -> None:
    exercise = exercise_of(handout)
    places = {name: (name, folder_of(ROOT, name)) for name in exercises(ROOT)}
    assert len(lines_read(exercise, around(ROOT, exercise, places))) > 1


@pytest.mark.parametrize("handout", HANDOUTS, ids=name_of)
def test_the_printed_form_has_room_for_every_answer(handout: Path) -> None:
    exercise = exercise_of(handout)
    page = printed(ROOT, exercise.name)
    assert page.count('class="box"') == sum(len(q.options) for q in exercise.questions)
    assert page.count("write short") == 2 + sum(q.value is not None for q in exercise.questions)
    assert page.count('<div class="write">') == LINES_TO_WRITE * len(paper_questions(handout))
    # Nothing to click, nothing to fetch.
    assert "href=" not in page
    assert "src=" not in page
    assert "<!--" not in page
