"""All verdicts of a page: questions that are asked together are answered together."""

import math
import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from matplotlib.figure import Figure

from looplab.report.overview import overview
from looplab.report.rounds import vetoed
from looplab.report.rules import decided, directed, kept, mostly, stated, together
from looplab.report.samples import Runs
from looplab.report.statistics import Comparison, Interval, compare, compare_blocks, over_runs
from looplab.report.verdicts import REPRODUCED, UNDECIDED, Claim, Line, Printed, Verdict, judge, units

RUNS = 8
# Apart by as much as an SD and a half: p is 2 % by itself.
SHIFT = 0.15


@cache
def shifted(shift: float, runs: int) -> Comparison:
    """Two sides whose runs differ by 10 % among themselves; an exact test of 8 against 8 takes half a second."""
    level = np.linspace(-0.14, 0.14, runs)
    found = compare(np.exp(level), np.exp(level[::-1] + shift))
    assert found is not None
    return found


def claim(name: str, shift: float, runs: int = RUNS) -> Claim:
    """A claim that the second of two sides is higher."""
    found = shifted(shift, runs)

    def answer(_runs: Runs) -> Verdict:
        return decided(found, directed(name, +1, 0.04))

    return Claim(name, name, answer)


def outcomes(*claims: Claim) -> dict[str, Verdict]:
    return {one.name: answers["thesis"] for one, answers in judge(claims, {"thesis": {}})}


@pytest.mark.parametrize(("others", "outcome"), [(0, REPRODUCED), (6, UNDECIDED)])
def test_a_page_of_questions_needs_a_smaller_p(others: int, outcome: str) -> None:
    """Each claim is asked at two fidelities, so twice. Five runs whose mean is just above 1 are sure alone, too."""
    value = over_runs([1.03, 1.06, 1.04, 1.09, 1.02])
    assert value is not None
    bound = Claim("bound", "", lambda _runs: kept([Line("all", value)], 1.0, math.inf, "It is above 1."))
    beside = [claim(f"beside {k}", 0.0) for k in range(others)]
    for one in (claim("asked", SHIFT), bound):
        found = outcomes(one, *beside)[one.name]
        p_value = found.tested.p_value if found.tested else value.p_values(1.0, math.inf)[0]
        assert 0.002 < p_value < 0.025
        assert found.outcome == outcome, found.reason
        assert bool(re.search("14 questions (are )?asked together", found.reason)) == (outcome == UNDECIDED)


def test_a_statement_of_several_parts() -> None:
    """All must be shown, any refutes; of any one each alone may show it."""
    assert together([(0.01, 0.9), (0.04, 0.8)]) == (0.04, pytest.approx(1.0))
    assert together([(0.01, 0.9), (0.8, 0.02)]) == (0.8, 0.04)
    assert together([(0.01, 0.9), (0.8, 0.02)], every_part=False) == (0.02, 0.9)
    assert mostly([True] * 5 + [None]) == (1 / 32, 1.0)
    assert mostly([None]) == (1.0, 1.0)
    # Five runs cannot decide beside others, so they cost these nothing.
    asked = [stated([mostly([True] * 5)], "", runs=5).question, stated([(1.0, 1.0)], "").question]
    assert [one.least_p for one in asked if one] == [1 / 32, 1.0]


def test_a_family_of_remarks_takes_no_power_from_the_findings() -> None:
    remarks = [replace(claim(f"beside {k}", 0.0), family="remarks") for k in range(6)]
    found = outcomes(claim("asked", SHIFT), *remarks, replace(claim("remarked", SHIFT), family="remarks"))
    assert found["asked"].outcome == REPRODUCED
    assert found["remarked"].outcome == UNDECIDED


def test_arms_that_differ_by_chance_take_no_word() -> None:
    """By more than the sides do, but no more surely than chance; surely, if they differ so in each round."""
    asked = claim("asked", SHIFT).judge({}).question
    assert asked is not None
    chance, sure = (compare_blocks([([1.0], [one]) for one in arms]) for arms in ((1.6, 0.8, 1.7, 0.9), (1.5, 1.6) * 4))
    assert chance is not None and sure is not None  # noqa: PT018
    assert chance.share.estimate > SHIFT
    assert vetoed(asked, {"scenario1": chance}).decide(0.01, 1.0, 1)[0] == REPRODUCED
    assert vetoed(asked, {"scenario1": sure}).decide(0.01, 1.0, 1)[0] == UNDECIDED


def test_of_three_runs_each_counts_once() -> None:
    assert units([[1.0, 3.0], [5.0]]) == [1.0, 3.0, 5.0]
    assert units([[1.0, 3.0], [5.0], [6.0, 7.0, 8.0]]) == [2.0, 5.0, 7.0]
    assert units([[1.0, 3.0], [], [5.0]]) == [1.0, 3.0, 5.0]
    assert units([]) == []


def test_a_question_without_an_answer_costs_nothing() -> None:
    found = outcomes(claim("asked", SHIFT), *(claim(f"beside {k}", 3.0, runs=3) for k in range(6)))
    assert found["asked"].outcome == REPRODUCED
    assert found["beside 0"].outcome == UNDECIDED
    assert "cannot go below 0.1" in found["beside 0"].reason


def test_the_axis_of_all_claims_ends_beside_their_marks() -> None:
    claims = [Claim(name, name, lambda _runs: Verdict()) for name in ("one run", "sure", "published")]
    shares = (Interval(7.9), Interval(0.02, -0.01, 0.05), Interval(0.5))
    verdicts = [(one, {"thesis": Verdict(share=share)}) for one, share in zip(claims, shares, strict=True)]
    verdicts[2][1]["thesis"].published = Printed(1.0, 1.57)
    [plot] = overview("loop", verdicts, "")
    axes = Figure().add_axes(plot.place)
    plot.put(axes)
    low, high = axes.get_xlim()
    assert (0.4 < low < 0.5, 8.9 < high < 10) == (True, True)
