"""The table of a run: every figure of every cell, within 80 columns."""

from typing import Any

import pytest

from looplab.experiments.loop import LoopCell
from looplab.experiments.loop.ledger import NAMES
from looplab.experiments.loop.table import cell_lines, table
from looplab.run.accounting import summarise
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


def run(*cells: dict[str, Any], because: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "scenario": "scenario5", "fidelity": "corrected", "run_id": "20240229T235958Z-scenario5",
        "cells": list(cells), "valid": not because, "invalid_because": list(because),
    }  # fmt: skip


def words(text: str, start: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.strip().startswith(start)]
    return line.split()


class Added(LoopCell):
    ratio = Figure("T over R", unit="×", over=("T", "R"), heading="T over R")


def test_counts_and_latencies_are_shown_in_milliseconds() -> None:
    assert "       T over R 1.23 ×" in list(cell_lines(Added(cell()), {}))
    text = table(run(cell()))
    assert words(text, "20 ms") == ["20", "ms", "0", "1000", "990", "5", "4", "1"]
    assert words(text, "T ") == ["T", "5.000", "5.250", "5.250~", "5.475~", "5.495~", "5.500"]
    assert words(text, "R ")[1] == "4.280"
    assert words(text, "O transport") == ["O", "transport", *["-"] * 6]
    assert words(text, "send lateness")[2] == "0.001"
    assert text.splitlines()[-1] == "VALID: every treatment was found as wanted."


def test_a_quantile_of_too_few_messages_is_marked() -> None:
    hundred, plenty = (table(run(cell(T_us=figures(*range(5_000_000, 5_000_000 + n))))) for n in (100, 500))
    assert [text.endswith("~") for text in words(hundred, "T ")[1:]] == [False, False, False, False, True, False]
    assert "~" not in " ".join(words(plenty, "T "))
    assert "~ fewer than 5 messages lie beyond this quantile." in hundred


def test_r_free_is_shown_where_requests_queued() -> None:
    service = figures(4_200_000, 4_300_000)
    assert "R free" not in table(run(cell(service_R_us=service, waited=0)))
    text = table(run(cell(service_R_us=service, waited=1)))
    assert words(text, "R free  ")[2:4] == ["4.200", "4.250"]
    assert "1 of 3 queued" in text


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
    assert "= 1.000, mean O of 10 of 12 answers (83%)" in text
    assert "100.000 is the mean O of the others" in text
    assert "2 answers have parts longer than O" in text


def test_what_o_is_made_of_is_shown_within_the_width() -> None:
    parts = {name: figures(1_000_000, 999_000_000) for name in NAMES}
    gaps = ["1 of 3 answered messages left without a stamp."]
    text = table({**run(cell(O_us=figures(1, 2), ledger_us=parts)), "ledger_gaps": gaps})
    assert "O is made of 500.000 send path + 500.000 wake-up + 500.000 network and broker" in text
    assert "+ 500.000 send path + 500.000 wake-up of the bridge" in text
    assert "= 2500.000, mean O of 2 of 2 answers (100%)" in text
    assert "What O is made of: 1 of 3 answered messages left without a stamp." in text
    assert max(map(len, text.splitlines())) <= 80
    assert "made of" not in table(run(cell(ledger_us={name: figures() for name in NAMES})))


def test_rare_counts_are_named_only_where_there_are_any() -> None:
    assert "dup." not in table(run(cell()))
    text = table(run(cell(duplicates=3, disconnects=1)))
    assert "3 dup., 1 disconn." in text
    assert "out of order" not in text


def test_what_is_not_required_and_not_so_is_said() -> None:
    limit = {
        "what": "controller rtprio limit", "wanted": "99", "found": "0", "verified": False, "required": False,
        "note": "not applied: the engine refuses it or LAB_RTPRIO lowers it",
    }  # fmt: skip
    good = {**limit, "what": "robot untouched by the load", "verified": True}
    text = table({**run(cell()), "treatments": [good, limit]})
    *_, verdict, heading, first, rest = text.splitlines()
    assert verdict == "VALID: every treatment that is required was found as wanted."
    assert heading.startswith("Not required")
    assert first.startswith("  - controller rtprio limit: wanted 99, found 0 (not applied")
    assert rest.startswith("    ")
    assert "untouched" not in text
    assert table({**run(cell()), "treatments": [good]}) == table(run(cell()))


def test_nothing_is_wider_than_80_columns() -> None:
    worst = cell(
        interval_ms=60000, sent=1_000_000, answered=100_000, lost=99_999, late=9_999, robot_errors=9_999,
        duplicates=100_000, out_of_order=100_000, disconnects=100, T_us=figures(99_999_000_000),
    )  # fmt: skip
    text = table(run(worst, because=("bridge TCP_NODELAY: wanted on, found " + "off, " * 40,)))
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "100000 out of order" in text


def test_losses_are_shown_by_cause_and_response_as_endless() -> None:
    causes = {"merged": 3, "disconnected": 0, "expired": 2, "unknown": 0}
    response = summarise([5_000_000, 5_500_000, float("inf")])
    text = table(run(cell(lost_by=causes, response_us=response, beyond_interval=0.25)))
    assert "lost by: 3 merged, 2 expired" in text
    assert words(text, "response ") == ["response", "5.000", "inf", "5.500~", "inf~", "inf~", "inf"]
    assert "beyond interval 25.0% of 1000 messages" in text
    assert "lost by" not in table(run(cell(lost_by=dict.fromkeys(causes, 0))))


@pytest.mark.parametrize(
    ("parameters", "starred", "named"),
    [
        ({"robot": "virtual", "command": "T"}, ["T*", "R*"], ["USB frames"]),
        ({"robot": "virtual", "command": "E"}, [], []),
        ({"robot": "usb", "command": "T"}, [], []),
        ({"robot": "virtual", "command": "E", "link": "wifi"}, ["T*", "O*", "O transport*"], ["LINK=wifi"]),
    ],
)
def test_figures_of_fitted_constants_say_so(parameters: dict[str, str], starred: list[str], named: list[str]) -> None:
    text = table({**run(cell()), "parameters": parameters})
    assert [line.strip().partition("*")[0] + "*" for line in text.splitlines() if "*  " in line] == starred
    assert ("* fitted:" in text) == bool(named)
    assert all(name in text for name in named)
    assert max(map(len, text.splitlines())) <= 80
