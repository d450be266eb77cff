"""./lab answers and predict: each question has its answer, which students do not get; a prediction has its time."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from support.handouts import HANDOUTS, name_of, paper_questions
from support.places import ROOT
from support.spec_runs import make_runs

from looplab.errors import UsageError
from looplab.lab.class_archives import ANSWERS
from looplab.lab.commands.answers import answers, questions
from looplab.lab.commands.predict import predict


@pytest.mark.parametrize("handout", HANDOUTS, ids=name_of)
def test_each_question_is_printed_with_its_answer(handout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = questions(handout.read_text())
    assert len(asked) == len(paper_questions(handout)) + 2
    given = handout.with_name(ANSWERS).read_text().strip().split("\n\n")
    answers(ROOT, name_of(handout))
    printed = capsys.readouterr().out.splitlines()
    assert max(map(len, printed)) <= 80
    words = " ".join(printed).split()
    assert all(word in words for text in (*asked, *given) for word in text.split())


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no exercise"):
        answers(ROOT, "scenario12")
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


def test_a_prediction_after_the_run_is_called_one(lab: Path, printed: Callable[..., str]) -> None:
    make_runs(lab / "results", "./lab run scenario1 scenario2 --intervals 20 --repetitions 3")
    predict(lab, "scenario2", "b")
    assert "1/1  prediction: predicted after " in printed(1, "scenario2")
    form = lab / "answers/scenario2.yaml"
    form.write_text(form.read_text().replace("predicted: 2", "predicted: 1"))
    assert "1/1  prediction: predicted; compare" in printed(1, "scenario2")
