"""Draw how long the robot stood beside theory; show what theory says, and what stored runs do to the same robot."""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

from looplab.experiments.balance.plant import GAINS
from looplab.experiments.balance.report import balance_cells, theory
from looplab.experiments.balance.report.offline import ReplayRow, rows
from looplab.report.analysis import Files
from looplab.report.drawing import LinePlot, Plot, PlotPoint
from looplab.report.samples import MeasuredRuns, Runs

TITLES = {"Where it falls": ("stands",)}
INTERVALS_MS = (10, 20, 50, 100)
SCRIPT = Path(__file__).with_name("stick.js")
_SECTIONS = {"claims": "Findings", "theory": "Theory", "offline": "Stored runs", "stick": "See it", "cells": "Cells"}
_CAPTION = "Share of the cell that the robot stood, and spectral radius of the linear loop: it falls from 1 on."


def sketches(runs: Runs) -> list[Plot]:
    """Return the figure of each scenario of balance."""
    return [plot for run in runs.values() for plot in _stands(run)]


def files(measured: Sequence[MeasuredRuns]) -> Files:
    """Return the table of replayed runs."""
    return {"balance-offline.csv": (row.line for row in _replayed(measured))}


def context(measured: Sequence[MeasuredRuns]) -> dict[str, Any]:
    """Return what theory says, the table of replayed runs, and the animation with the digest of its script."""
    table = _replayed(measured)
    script = SCRIPT.read_text(encoding="utf-8")
    return {
        "sections": _SECTIONS.items(),
        "theory": _theory(),
        "offline": table,
        "intervals": INTERVALS_MS,
        "films": [row.film for row in table],
        "script": Markup(script),
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii"),
    }


def _replayed(measured: Sequence[MeasuredRuns]) -> list[ReplayRow]:
    return rows(tuple(m.run for m in measured))


@cache
def _theory() -> dict[str, Any]:
    """Return what the linear loop does by the gains that the lab comes with."""
    radii = [theory.spectral_radius(GAINS, ms / 1000, ms / 1000) for ms in INTERVALS_MS]
    return {
        "interval_ms": 1000 * theory.falling_interval(GAINS),
        "margin_ms": 1000 * theory.delay_margin(GAINS),
        "at": list(zip(radii, (1000 * theory.falling_delay(GAINS, ms / 1000) for ms in INTERVALS_MS), strict=True)),
    }


def _stands(run: MeasuredRuns) -> list[Plot]:
    series: dict[str, list[PlotPoint]] = {}
    for cell in sorted(balance_cells(run), key=lambda one: one.key):
        upright_s = cell.figure("upright_s")
        if upright_s is not None:
            share = min(1.0, upright_s / cell.length_s(run.run.repetitions))
            series.setdefault(f"stood, QoS {cell.qos}", []).append(PlotPoint(cell.interval_ms, share))
    if not series:
        return []
    gains = theory.gains_of_run(run.run.parameters)
    longest = max(point.x for points in series.values() for point in points)
    steps = [longest * at / 10 for at in range(1, 11)]
    series["spectral radius"] = [PlotPoint(ms, theory.spectral_radius(gains, ms / 1000, ms / 1000)) for ms in steps]
    lines = LinePlot(series, "interval in ms", "share of the cell; spectral radius", levels=(1.0,))
    [plot] = lines.plot(run, f"stands_{run.run.scenario}", f"{run.run.scenario}. {_CAPTION}")
    return [replace(plot, figure="stands")]
