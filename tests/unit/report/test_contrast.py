"""Pages and figures can be read: contrast after WCAG 2, and never by colour alone."""

import re
from itertools import combinations

import pytest
from support.contrast import contrast
from support.places import ROOT

from looplab.report.drawing import STYLES

CSS = (ROOT / "src/looplab/report/page.css").read_text()
# What WCAG 2.2 wants: 4.5 for text, 3 for the lines of a figure.
TEXT, GRAPHICS = 4.5, 3.0


def variables() -> dict[str, str]:
    """The colours that page.css names."""
    return dict(re.findall(r"--([a-z]+): (#[0-9a-f]{6})", CSS))


@pytest.mark.parametrize("name", ["ink", "soft", "link"])
@pytest.mark.parametrize("ground", ["white", "ground"])
def test_text_stands_out_from_its_ground(name: str, ground: str) -> None:
    assert contrast(variables()[name], variables().get(ground, "#ffffff")) >= TEXT


@pytest.mark.parametrize("style", STYLES, ids=str)
def test_a_curve_stands_out_from_the_paper(style: tuple[str, str, str]) -> None:
    assert contrast(style[0], "#ffffff") >= GRAPHICS


def test_curves_differ_in_more_than_colour() -> None:
    for (_, line, mark), (_, other_line, other_mark) in combinations(STYLES, 2):
        assert mark != other_mark, (line, other_line)
