"""What a terminal shows of a run: every figure of every cell, and the line of each cell that a run ends with."""

import json
from typing import Any

import pytest
from support.places import ROOT

from looplab.experiments.loop import LoopCell
from looplab.experiments.loop.fitted import standing
from looplab.experiments.loop.ledger import NAMES
from looplab.experiments.loop.table import cell_lines, significant, summary, table
from looplab.run.accounting import summarise
from looplab.run.life import NARROW
from looplab.spec.columns import Figure


def figures(*values_ns: int) -> dict[str, Any]:
    return summarise(values_ns)


def cell(**changes: Any) -> dict[str, Any]:
    whole = {
        "interval_ms": 20, "qos": 0, "sent": 1000, "answered": 990, "late": 4, "lost": 5, "robot_errors": 1,
        "duplicates": 0, "out_of_order": 0, "disconnects": 0,
        "T_us": figures(5_000_000, 5_500_000), "R_us": figures(4_280_000), "O_us": figures(720_000),
        "transport_O_us": figures(), "send_lateness_us": figures(1_000),
    }  # fmt: skip
    return {**whole, **changes}


def run(*cells: dict[str, Any]) -> dict[str, Any]:
    return {
        "scenario": "scenario5", "fidelity": "corrected", "run_id": "20240229T235958Z-scenario5",
        "cells": list(cells), "valid": True, "invalid_because": [], "parameters": {"robot": "virtual", "command": "T"},
    }  # fmt: skip


def words(text: str, start: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.strip().startswith(start)]
    return line.split()


class Added(LoopCell):
    ratio = Figure("T over R", unit="×", path="ratio", heading="T over R")


def test_counts_and_latencies_are_shown_in_milliseconds() -> None:
    assert "       T over R 1.23 ×" in list(cell_lines(Added(cell(ratio=1.234)), {}))
    text = table(run(cell(duplicates=3, disconnects=1, service_R_us=figures(4_200_000, 4_300_000), waited=1)))
    assert words(text, "20 ms") == ["20", "ms", "0", "1000", "990", "5", "4", "1"]
    assert "3 dup., 1 disconn." in text
    assert words(text, "T*") == ["T*", "5.000", "5.250", "5.250~", "5.475~", "5.495~", "5.500"]
    assert words(text, "R*")[1] == "4.280"
    assert "* fitted: The virtual robot's USB frames" in text
    assert words(text, "O transport") == ["O", "transport", *["-"] * 6]
    assert words(text, "send lateness")[2] == "0.001"
    assert words(text, "R free  ")[2:4] == ["4.200", "4.250"]
    assert "1 of 3 queued" in text
    assert text.splitlines()[-1] == "VALID: every treatment was found as wanted."
    plenty = table(run(cell(T_us=figures(*range(5_000_000, 5_000_500)), service_R_us=figures(1, 2), waited=0)))
    assert "~" not in " ".join(words(plenty, "T*"))
    assert "R free" not in plenty


def test_parts_transport_and_o_are_of_the_same_messages() -> None:
    """Ten answers of 1 ms, two of 100 ms without all stamps: O is 17.5 ms, and its parts sum to 1 ms."""
    ledger = {name: figures(*[200_000] * 10) for name in NAMES}
    ledger |= {"O": figures(*[1_000_000] * 10), "transport_O": figures(*[800_000] * 10)}
    ledger["others_O"] = figures(*[100_000_000] * 2)
    o_us = figures(*[1_000_000] * 10, *[100_000_000] * 2)
    text = table(run(cell(O_us=o_us, ledger_us=ledger, transport_O_us=figures(77_000_000), negative_remainders=2)))
    assert words(text, "O  ")[2] == "17.500"
    assert words(text, "O of 10")[4] == "1.000"
    assert words(text, "O transport")[3] == "0.800"
    assert "O is made of 0.200 send path + 0.200 wake-up + 0.200 network and broker" in text
    assert "= 1.000, mean O of 10 of 12 answers (83%)" in text
    assert "2 answers have parts longer than O" in text
    assert "made of" not in table(run(cell(ledger_us={name: figures() for name in NAMES})))


def test_losses_are_shown_by_cause_and_response_as_endless() -> None:
    causes = {"merged": 3, "disconnected": 0, "expired": 2, "unknown": 0}
    response = summarise([5_000_000, 5_500_000, float("inf")])
    lost = run(cell(lost_by=causes, response_us=response, beyond_interval=0.25))
    text = table(lost)
    assert "lost by: 3 merged, 2 expired" in text
    assert words(text, "response*") == ["response*", "5.000", "inf", "5.500~", "inf~", "inf~", "inf"]
    assert "beyond interval 25.0% of 1000 messages" in text
    assert "lost by" not in table(run(cell(lost_by=dict.fromkeys(causes, 0))))
    assert "! 20 ms, QoS 0: 5 lost: 3 merged, 2 expired." in summary([lost])


@pytest.fixture
def stored() -> dict[str, Any]:
    """The stored run of the handouts: scenario 1, one cell."""
    document: dict[str, Any] = json.loads((ROOT / "tests/support/sample_runs/loop.json").read_text())
    return document


def test_a_run_ends_with_a_line_for_each_cell(stored: dict[str, Any]) -> None:
    other = {**stored, "scenario": "scenario2", "run_id": "other", "valid": False, "invalid_because": ["no stress"]}
    lines = summary([stored, other]).splitlines()
    assert max(map(len, lines)) <= 80
    first, second = (line.split() for line in lines[3:5])
    assert (first[0], first[-1], second[0], second[-1]) == ("scenario1", "8.74", "scenario2", "13.7")
    assert first[6:8] == [significant(stored["cells"][0][name]["p50"]) for name in ("T_us", "O_us")]
    assert "  scenario2: INVALID:" in lines
    # T depends on fitted constants, and O does not.
    assert "T* half O half" in lines[2]
    assert [line for line in lines if "Kept in" in line][1] == "  Kept in results/other"
    # Compose puts the name of the service before each line.
    alone = summary([{**stored, "cells": stored["cells"] * 4}], NARROW).splitlines()
    assert max(map(len, alone)) + len("scenario1-1  | ") <= 80


def test_a_summary_names_what_makes_figures_doubtful(stored: dict[str, Any]) -> None:
    assert "!" not in summary([stored])
    (one,) = stored["cells"]
    one["O_us"] |= {"p95": None, "max": None}
    one["late_because"] = "machine"
    text = " ".join(summary([stored]).split())
    assert "0.438 lost lost" in text
    assert "! The sender was late: the machine" in text


ROBOT = {"scenario": "scenario1", "robot": "virtual", "command": "T", "link": "none"}
EMULATED = {"scenario": "scenario0", "robot": "virtual", "command": "E", "link": "none"}


@pytest.mark.parametrize(
    ("parameters", "cell", "found"),
    [
        (EMULATED, (20, 0), ["", "", ""]),
        (ROBOT, (20, 0), ["fitted", "fitted", ""]),
        ({**ROBOT, "robot": "usb"}, (20, 0), ["", "", ""]),
        ({**EMULATED, "link": "wifi"}, (20, 0), ["fitted", "", "fitted"]),
        ({**EMULATED, "link": "wifi"}, (50, 0), ["prediction", "", "prediction"]),
        # The deviation was chosen so that no repetition locks here.
        ({**EMULATED, "link": "wifi"}, (10, 0), ["fitted", "", "fitted"]),
        ({**ROBOT, "link": "wifi"}, (20, 0), ["fitted", "fitted", "prediction"]),
        ({}, (20, 0), ["", "", ""]),
    ],
)
def test_the_cells_to_which_a_constant_was_fitted(
    parameters: dict[str, str], cell: tuple[float, int], found: list[str]
) -> None:
    assert [standing(parameters, figure, *cell) for figure in ("T", "R", "O")] == found
