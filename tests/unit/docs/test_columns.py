"""docs/columns.md is what the tables of the experiments say."""

from support.places import ROOT

from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.columns_page import PAGE, columns_page


def test_the_page_of_columns_is_generated() -> None:
    assert (ROOT / PAGE).read_text() == columns_page(EXPERIMENTS), "run scripts/make-handouts"
