"""Cards and samples: expected.yaml agrees with the claims of the report and with the runs that a handout orders."""

import math
import re
from pathlib import Path

import pytest
from support.handouts import HANDOUTS, commands, exercise_of, name_of, paper_questions, runs_of
from support.places import ROOT

from looplab.exercises.exercise import exercises
from looplab.exercises.handouts import handouts, pages, tracks
from looplab.exercises.printed import LINES_TO_WRITE, printed
from looplab.experiments.registry import EXPERIMENTS
from looplab.report.analysis import claims

# Starting and stopping the containers of a run.
AROUND_A_RUN_S = 20


def test_the_generator_leaves_no_difference() -> None:
    of_exercises = handouts(ROOT, EXPERIMENTS)
    written = {**of_exercises, **pages(ROOT, EXPERIMENTS)}
    wrong = [str(path.relative_to(ROOT)) for path, text in written.items() if path.read_text() != text]
    assert wrong == [], "run scripts/make-handouts"
    assert {path for path in of_exercises if path.name == "README.md"} == set(HANDOUTS)


@pytest.mark.parametrize("handout", HANDOUTS, ids=name_of)
def test_a_prediction_is_about_something_that_the_runs_show(handout: Path) -> None:
    exercise = exercise_of(handout)
    [question] = [q for q in exercise.questions if q.predicts]
    shown = {point.name for point in exercise.points} | {q.name for q in exercise.questions if not q.predicts}
    assert question.shown_by in shown


def test_each_exercise_is_on_one_track_behind_what_it_needs() -> None:
    cards = {name_of(handout): exercise_of(handout).card for handout in HANDOUTS}
    on_tracks = [name for names in tracks(ROOT).values() for name in names]
    assert sorted(on_tracks) == sorted(cards)
    for names in tracks(ROOT).values():
        for at, name in enumerate(names):
            assert not set(cards[name].before) & set(names[at:]), name


def test_each_claim_of_the_thesis_has_an_exercise() -> None:
    asked = {claim for handout in HANDOUTS for claim in exercise_of(handout).card.claims}
    assert {claim.name for claim in claims(EXPERIMENTS["loop"])} <= asked


@pytest.mark.parametrize("handout", HANDOUTS, ids=name_of)
def test_what_comes_before_is_an_exercise(handout: Path) -> None:
    card = exercise_of(handout).card
    assert card.goals
    assert set(card.before) <= set(exercises(ROOT))


def test_a_lesson_obeys_the_order_of_the_exercises() -> None:
    """docs/teaching.md: what an exercise needs comes before it, in homework or lesson, and the minutes add up."""
    plans = re.findall(r"^\| (\d+) \|(.*)\|(.*)\|$", (ROOT / "docs/teaching.md").read_text(), re.MULTILINE)
    assert [minutes for minutes, *_ in plans] == ["45", "90", "180"]
    cards = {name_of(handout): exercise_of(handout).card for handout in HANDOUTS}
    for length, before, lesson in plans:
        done: set[str] = set()
        for name, minutes in re.findall(r"/([\w-]+)/README\.md\)(?: (\d+))?", before + lesson):
            assert set(cards[name].before) <= done, name
            assert minutes in ("", str(cards[name].minutes)), name
            done.add(name)
        own_words = re.sub(r"\[[^]]*\]\([^)]*\)", "", lesson)
        assert sum(map(int, re.findall(r"\d+", own_words))) == int(length)


@pytest.mark.parametrize("handout", HANDOUTS, ids=name_of)
def test_the_time_for_the_runs_is_that_of_all_that_are_ordered(handout: Path) -> None:
    exercise = exercise_of(handout)
    ordered = [*commands(handout), *exercise.card.reruns]
    needed_s = sum(made.total_s + AROUND_A_RUN_S for command in ordered for made in runs_of(command))
    assert exercise.card.running == math.ceil(needed_s / 60)


def explained(handout: Path) -> set[tuple[str, str]]:
    """Return the lines of the table that a handout explains, with their meanings."""
    block = handout.read_text().partition("<!--table")[2].partition("<!--/table")[0]
    return set(re.findall(r"^- `([^`]+)`: (.+)$", block, re.MULTILINE))


@pytest.mark.parametrize("handout", HANDOUTS, ids=name_of)
def test_a_line_to_read_is_explained_once_before_or_here(handout: Path) -> None:
    by_name = {name_of(one): one for one in HANDOUTS}
    ahead, before = [*exercise_of(handout).card.before], set[tuple[str, str]]()
    while ahead:
        earlier = by_name[ahead.pop()]
        before |= explained(earlier)
        ahead += exercise_of(earlier).card.before
    assert not explained(handout) & before
    named = re.search(r"^- ((?:`[^`]+`(?:, )?)+)$", handout.read_text().partition("<!--table")[2], re.MULTILINE)
    assert {*re.findall(r"`([^`]+)`", named[1] if named else "")} <= {line for line, _ in before}


@pytest.mark.parametrize("handout", HANDOUTS, ids=name_of)
def test_the_printed_form_has_room_for_every_answer(handout: Path) -> None:
    exercise = exercise_of(handout)
    page = printed(ROOT, exercise.name, EXPERIMENTS)
    assert page.count('class="box"') == sum(len(q.options) for q in exercise.questions)
    assert page.count("write short") == 2 + sum(q.figure is not None for q in exercise.questions)
    assert page.count('<div class="write">') == LINES_TO_WRITE * len(paper_questions(handout))
    # Each page that the handout links is named. Nothing to click, nothing to fetch.
    body = re.sub(r"<!--.*?-->", "", handout.read_text(), flags=re.DOTALL)
    assert all(f"({name})" in page for name in re.findall(r"/([\w-]+\.md)(?:#[^)]*)?\)", body) if name != "README.md")
    assert "href=" not in page
    assert "src=" not in page
    assert "<!--" not in page
