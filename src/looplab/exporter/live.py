"""The run that is being measured: follows the controller's live files, a few rows each time.

Reads with pread(2) and never maps the file: the next run truncates it under the same name, and a mapped page
behind the new end would kill the reader.
"""

from __future__ import annotations

import contextlib
import json
import os
from array import array
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from looplab.metrics.cells import LiveCell, ShownCell, StatedCell
from looplab.metrics.page import Page
from looplab.run.accounting import OUTCOMES
from looplab.run.folder import STAMP
from looplab.run.samples import ABSENT, HEADER_BYTES, limit_ns, store_columns
from looplab.spec.cell import Cell
from looplab.spec.experiment import Experiment, Experiments
from looplab.spec.reader import as_text

# Rows read at a time; bounds memory when an exporter starts in the middle of a long run.
CHUNK_ROWS = 1024
# A run that sent nothing for this long beyond its interval is dead: its controller could not say so.
SILENCE_NS = 60_000_000_000
# Prometheus keeps what it has: runs and cells are scraped for this long after their last change, not for hours.
SCRAPED_NS = 30_000_000_000


class LiveRun:
    """Rows of one running run, bucketed as they settle in its planned cells."""

    def __init__(self, samples: Path, state: Mapping[str, Any], cells: Sequence[LiveCell]) -> None:
        parameters = state["parameters"]
        self._silence_ns = SILENCE_NS + int(float(state.get("longest_gap_ms", 0)) * 1e6)
        self._samples = samples
        self._cell_rows = int(parameters["messages"]) * int(parameters["repetitions"])
        self._limit_ns = limit_ns(int(parameters["deadline_ms"]))
        self.cells = cells
        self.planned = self._cell_rows * len(self.cells)
        self._sent = 0
        self._pending: list[int] = []
        # Its controller is taken for dead from then on, unless it sends.
        self.alive_until_ns = perf_counter_ns() + self._silence_ns

    def advance(self) -> None:
        """Take in what happened since the last call; a store that is gone or another run's changes nothing."""
        with contextlib.suppress(OSError, ValueError), self._samples.open("rb", buffering=0) as file:
            rows, names = store_columns(file.read(HEADER_BYTES))
            while rows == self.planned and self._take(file.fileno(), names):
                pass

    def _take(self, fd: int, names: Sequence[str]) -> bool:
        """Take pending rows and a chunk of those behind, which are sent in order; return whether more may be there."""
        before = self._sent
        first = self._pending[0] if self._pending else before
        size = min(before + CHUNK_ROWS, self.planned) - first
        # The state is written last: read first, it vouches for the rest of its row.
        columns = {
            name: array("q", os.pread(fd, 8 * size, HEADER_BYTES + 8 * (names.index(name) * self.planned + first)))
            for name in sorted(names, key=lambda one: one != "state")
        }
        if min(map(len, columns.values())) < size:
            return False
        given_up_ns = perf_counter_ns() - self._limit_ns
        rows, self._pending = (*self._pending, *range(before, first + size)), []
        for row in rows:
            at, cell = row - first, self.cells[row // self._cell_rows]
            sent_ns, due_ns = columns["sent_ns"][at], columns["due_ns"][at]
            if ABSENT in (sent_ns, due_ns):
                break
            if row == self._sent:
                cell.add_sent(sent_ns - due_ns)
                self._sent, self.alive_until_ns = row + 1, sent_ns + self._silence_ns
            fate = OUTCOMES.get(columns["state"][at])
            if fate is None or (fate == "lost" and sent_ns > given_up_ns):
                self._pending.append(row)
            else:
                cell.settle_row(fate, columns, at)
        return self._sent - before == CHUNK_ROWS


class StatedRun:
    """A run without live rows: its controller writes the cells measured so far into state.json each second.

    `planned` in the state is the number of messages of the whole run; `latencies(state)` of the experiment's live.py
    returns the distributions of the cell that is measured, by metric.
    """

    def __init__(self, state: Mapping[str, Any], table: type[Cell], live: Any, labels: Mapping[str, str]) -> None:
        self.alive_until_ns = perf_counter_ns() + SILENCE_NS
        self.planned = int(state.get("planned", 0))
        self.cells = [StatedCell(table(document), labels) for document in state.get("cells") or ()]
        if self.cells and live:
            self.cells[-1].latencies = live.latencies(state)


def add_cells(page: Page, cells: Sequence[ShownCell], since_ns: int) -> None:
    """Add those of the cells that have begun and changed since then."""
    begun = [cell for cell in cells if cell.sent]
    for cell in begun:
        if cell.changed_ns >= since_ns:
            cell.add_to(page)
            page.add("lab_cell_current", cell.labels, cell is begun[-1])


class LiveFolder:
    """Follows state.json from run to run: the run that goes on, or went on last."""

    def __init__(self, folder: Path, experiments: Experiments) -> None:
        self._experiments = experiments
        self._state_path = folder / "state.json"
        self._samples = folder / "samples.bin"
        self._seen: tuple[int, int] | None = None
        self._state: dict[str, Any] = {}
        self._labels: dict[str, str] = {}
        self._started_s = 0.0
        self._run: LiveRun | StatedRun | None = None
        self._active_ns = 0

    def add_to(self, page: Page, *, changing: bool) -> None:
        """Bring the run up to date and add it to the page; if `changing`, only what changed lately."""
        self._read_state()
        if self._run is None:
            return
        if isinstance(self._run, LiveRun):
            self._run.advance()
        now_ns = perf_counter_ns()
        if active := now_ns < self._run.alive_until_ns and self._state["state"] == "running":
            self._active_ns = now_ns
        since_ns = now_ns - SCRAPED_NS if changing else 0
        if self._active_ns < since_ns:
            return
        page.add("lab_run_active", self._labels, active)
        known = {name: value for name, value in self._state["parameters"].items() if not isinstance(value, dict | None)}
        page.add("lab_run_info", {**{name: as_text(value) for name, value in known.items()}, **self._labels}, 1)
        page.add("lab_run_messages_planned", self._labels, self._run.planned)
        page.add("lab_run_started_timestamp_seconds", self._labels, self._started_s)
        if "valid" in self._state:
            page.add("lab_run_valid", self._labels, bool(self._state["valid"]))
        for one in self._state.get("treatments") or ():
            words = {name: one[name] for name in ("what", "wanted", "found")}
            labels = {**self._labels, **words, "required": str(one["required"]).lower()}
            page.add("lab_treatment_verified", labels, one["verified"])
        add_cells(page, self._run.cells, since_ns)

    def _read_state(self) -> None:
        # There is none yet, or another version of the lab wrote it.
        with contextlib.suppress(OSError, ValueError, TypeError, LookupError):
            facts = self._state_path.stat()
            if self._seen != (facts.st_mtime_ns, facts.st_ino):
                self._seen = (facts.st_mtime_ns, facts.st_ino)
                self._take(json.loads(self._state_path.read_text()))

    def _take(self, state: dict[str, Any]) -> None:
        run_id, parameters = str(state["run_id"]), state["parameters"]
        if state["state"] == "interrupted":
            self._run = None
        elif self._run is None or self._labels["run_id"] != run_id or "cells" in state:
            experiment, scenario = self._experiments.of(state), str(parameters["scenario"])
            names = {"experiment": experiment.name, "scenario": scenario, "run_id": run_id}
            labels = {**names, "fidelity": str(parameters["fidelity"])}
            self._started_s = datetime.strptime(run_id.partition("-")[0], STAMP).replace(tzinfo=UTC).timestamp()
            self._run, self._labels = self._begun(experiment, state, labels), labels
            self._active_ns = perf_counter_ns()
        self._state = state

    def _begun(self, experiment: Experiment, state: dict[str, Any], labels: dict[str, str]) -> LiveRun | StatedRun:
        table, live = experiment.table(labels["scenario"]), experiment.optional_part("live")
        if "planned_cells" not in state:
            return StatedRun(state, table, live, labels)
        kind: type[LiveCell] = live.Live if live else LiveCell
        return LiveRun(self._samples, state, [kind(table(document), labels) for document in state["planned_cells"]])
