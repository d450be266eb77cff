"""From measured runs to the page: verdicts, theory, the table of replayed runs, the animation."""

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

from looplab.experiments.balance import EXPERIMENT
from looplab.experiments.balance.laws import GAINS
from looplab.experiments.balance.report import theory
from looplab.experiments.balance.report.claims import claims
from looplab.experiments.balance.report.figures import sketches
from looplab.experiments.balance.report.offline import ReplayRow, films, loop_runs, rows
from looplab.report.analysis import Analysis, analysis
from looplab.report.samples import MeasuredRuns, by_fidelity
from looplab.report.verdicts import judge

INTERVALS_MS = (10, 20, 50, 100)
SCRIPT = Path(__file__).with_name("stick.js")


def analyse(measured: Sequence[MeasuredRuns]) -> Analysis:
    """Return what runs of balance show, and what stored runs of the loop beside them do to the same robot."""
    loop = loop_runs(measured[0].run.path.parent) if measured else []
    every = [*measured, *loop]
    verdicts = judge(claims(), by_fidelity([m for m in every if not m.run.factors]))
    table = rows(every)
    drawn = [plot for runs in by_fidelity(measured).values() for plot in sketches(runs)]
    sections = {"claims": "Findings", "theory": "Theory", "offline": "Stored runs", "stick": "See it", "cells": "Cells"}
    script = SCRIPT.read_text(encoding="utf-8")
    context = {
        "sections": sections.items(),
        "theory": _theory(),
        "offline": table,
        "intervals": INTERVALS_MS,
        "films": _data(list(films(every))),
        "script": Markup(script),
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii"),
    }
    titles = {"Where it falls": sorted({plot.figure for plot in drawn})}
    return analysis(EXPERIMENT.name, measured, verdicts, drawn, titles, {"balance-offline.csv": _csv(table)}, context)


@cache
def _theory() -> Sequence[dict[str, Any]]:
    """Return what the linear loop of each controller does: by the gains that the lab comes with."""
    controllers = []
    for name in GAINS:
        feedback = theory.feedback_of(name)
        one = {
            "controller": name,
            "interval_ms": 1000 * theory.falling_interval(feedback),
            "margin_ms": 1000 * theory.delay_margin(feedback),
            "at": [
                (
                    theory.spectral_radius(feedback, ms / 1000, ms / 1000),
                    1000 * theory.falling_delay(feedback, ms / 1000),
                )
                for ms in INTERVALS_MS
            ],
        }
        controllers.append(one)
    return controllers


def _csv(table: Sequence[ReplayRow]) -> Iterator[dict[str, object]]:
    for row in table:
        extra = row.figures.extra_ms
        yield {
            "scenario": row.scenario,
            "fidelity": row.fidelity,
            "run_id": row.run_id,
            **row.figures._asdict(),
            "extra_ms": "falls" if extra is None else extra,
            "spectral_radius": round(row.radius, 4),
        }


def _data(value: object) -> Markup:
    """Return JSON for a script element: nothing in it can end the element."""
    return Markup(json.dumps(value, separators=(",", ":")).replace("<", "\\u003c"))
