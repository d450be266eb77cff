"""Whether strangers left the machine to a run."""

from typing import Any

import pytest

from looplab.run import quiet
from looplab.run.table import verdict


def scan(at_s: float, own_s: float | None, idle_s: float, interrupts_s: float = 0.0) -> dict[str, Any]:
    times = {"idle_s": idle_s, "steal_s": 0.0, "interrupts_s": interrupts_s}
    found = {"clock_ns": int(at_s * 1e9), "processors": {"0": times, "1": times}}
    return found if own_s is None else {**found, "own_cpu_s": own_s}


def run(strangers_s: float | None, before: float = 0.0, **environment: Any) -> dict[str, Any]:
    cells = [{quiet.KEY: 0.1, "load": {"seconds": 10.0}}, {quiet.KEY: strangers_s, "load": {"seconds": 10.0}}]
    found = {"valid": True, "cells": cells, "environment": {"cores": 2, "busy_before": before, **environment}}
    return {**found, "quiet": not quiet.why_not(found)}


def test_strangers_have_what_neither_the_lab_nor_nobody_used() -> None:
    """Two processors for 10 s: 4 s idle and 1 s of interrupts each, 6 s of the lab's."""
    assert quiet.strangers_cpu_s(scan(0, 50, 0), scan(10, 56, 4, 1)) == pytest.approx(4)
    # A process that ended takes its time with it.
    assert quiet.strangers_cpu_s(scan(0, 50, 0), scan(10, 61, 5)) == 0
    assert quiet.strangers_cpu_s(scan(0, None, 0), scan(10, None, 5)) is None


@pytest.mark.parametrize(
    ("strangers_s", "before", "words"),
    [(0.5, 0.0, ""), (None, 0.0, ""), (9.0, 0.0, "used 45% of the processors in a cell"), (0.5, 0.6, "60% of the")],
)
def test_a_run_beside_strangers_is_valid_and_not_quiet(strangers_s: float | None, before: float, words: str) -> None:
    found = run(strangers_s, before)
    text = " ".join(verdict(found))
    assert found["quiet"] == (not words) == quiet.counts(found)
    assert text.startswith("VALID: every" if not words else "VALID, not quiet: every")
    assert words in " ".join(text.split())
    assert ("no verdict rests on it" in text) == bool(words)


def test_who_asks_for_a_busy_machine_has_its_verdicts() -> None:
    found = run(9.0, busy_wanted=True)
    assert not found["quiet"]
    assert quiet.counts(found)
    assert "--busy" in " ".join(verdict(found))
