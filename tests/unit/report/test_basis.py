"""How many runs the verdicts of a page rest on: said once, with the command that makes them three."""

import re
from pathlib import Path

import pytest
from support.every_experiment import SMALL
from support.handouts import runs_of
from support.reports import shown
from support.simulated_twin_runs import single, write_twin_run

from looplab.report.verdicts import units

WRITERS = {name: write for name, write in SMALL.items() if name in ("asip", "middleware", "qos-delay", "twin")}


def page_of(results: Path, experiment: str, runs: int) -> list[str]:
    """Return what the page says of its runs, a paragraph each, after so many runs."""
    for day in range(1, runs + 1):
        WRITERS[experiment](results, start=f"2026050{day}T000000Z")
    found = re.findall(r'<p class="basis">(.*?)</p>', shown(results, experiment).text, re.DOTALL)
    return [" ".join(paragraph.split()) for paragraph in found]


@pytest.mark.parametrize("experiment", WRITERS)
@pytest.mark.parametrize(("runs", "words"), [(1, "one run"), (2, "two runs")])
def test_a_page_of_few_runs_names_the_command_for_more(tmp_path: Path, experiment: str, runs: int, words: str) -> None:
    (said,) = page_of(tmp_path, experiment, runs)
    assert f"rest on {words}: {experiment} (thesis)." in said
    assert "no interval from fewer than three runs holds that difference" in said
    (command,) = re.findall("<code>(.*?)</code>", said)
    assert f"./lab run {experiment} --rounds 3 " in command
    # `./lab` takes the command as it is.
    assert runs_of(command)


@pytest.mark.parametrize("experiment", WRITERS)
def test_of_three_runs_the_figures_are_over_runs(tmp_path: Path, experiment: str) -> None:
    assert page_of(tmp_path, experiment, 3) == [
        f"Verdicts and figures are those over runs: 3 of {experiment} (thesis)."
    ]


def test_scenarios_of_unlike_numbers_of_runs_are_named_apart(tmp_path: Path) -> None:
    write_twin_run(tmp_path, [single(10)], scenario="twin-brokers", start="20260601T000000Z")
    write_twin_run(tmp_path, [single(10)], fidelity="corrected", start="20260602T000000Z")
    few, enough = page_of(tmp_path, "twin", 3)
    # A claim without its cells rests on nothing.
    assert "rest on one run: twin (corrected)." in few
    assert "twin-brokers" not in few
    assert enough.endswith("3 of twin (thesis).")


def test_of_three_runs_each_counts_once() -> None:
    assert units([[1.0, 3.0], [5.0]]) == [1.0, 3.0, 5.0]
    assert units([[1.0, 3.0], [5.0], [6.0, 7.0, 8.0]]) == [2.0, 5.0, 7.0]
    assert units([[1.0, 3.0], [], [5.0]]) == [1.0, 3.0, 5.0]
    assert units([]) == []
