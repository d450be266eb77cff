"""./lab answers: each question of a handout has its answer, which students do not get."""

from pathlib import Path

import pytest
from support.handouts import HANDOUTS, name_of, paper_questions
from support.places import ROOT

from looplab.errors import UsageError
from looplab.lab.class_archives import ANSWERS
from looplab.lab.commands.answers import answers, questions


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
