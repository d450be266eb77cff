"""The run that is being measured: follows the controller's live files, a few rows each time.

Reads with pread(2) and never maps the file: the next run truncates it under the same name, and a mapped page
behind the new end would kill the reader.
"""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from looplab.metrics.cells import LiveCell, add_document
from looplab.metrics.distributions import Distribution
from looplab.metrics.page import Page, plain, plain_labels
from looplab.run.accounting import OUTCOMES
from looplab.run.samples import ABSENT, HEADER_BYTES, limit_ns, store_columns
from looplab.spec.experiment import Experiment, Experiments

# Rows read at a time; bounds memory when an exporter starts in the middle of a long run.
CHUNK_ROWS = 8192
# A run that sent nothing for this long beyond its interval is dead: its controller could not say so.
SILENCE_NS = 60_000_000_000
# Prometheus keeps what it has: runs and cells are scraped for this long after their last change, not for hours.
SCRAPED_NS = 30_000_000_000


class LiveRun:
    """Rows of one running run, bucketed as they settle in its planned cells."""

    def __init__(self, samples: Path, state: Mapping[str, Any], cells: Sequence[LiveCell]) -> None:
        parameters = state["parameters"]
        self.active = True
        self._interval_ns = int(float(state.get("longest_gap_ms", 0)) * 1e6)
        self._samples = samples
        self._cell_rows = int(parameters["messages"]) * int(parameters["repetitions"])
        self._limit_ns = limit_ns(int(parameters["deadline_ms"]))
        self._cells = cells
        self._columns: tuple[str, ...] = ()
        self._rows = self.planned = self._cell_rows * len(self._cells)
        self._sent = 0
        self._pending: list[int] = []
        self._last_sent_ns = perf_counter_ns()

    def advance(self) -> None:
        """Take in what happened since the last call; a store that is gone or another run's changes nothing."""
        try:
            with self._samples.open("rb", buffering=0) as file:
                rows, self._columns = store_columns(file.read(HEADER_BYTES))
                if rows == self._rows:
                    while self._take_sent(file.fileno()):
                        self._settle(file.fileno())
                    self._settle(file.fileno())
        except (OSError, ValueError):
            return
        finally:
            self.active = perf_counter_ns() - self._last_sent_ns < SILENCE_NS + self._interval_ns

    def add_to(self, page: Page, since_ns: int) -> None:
        """Add the cells that changed since then."""
        begun = [cell for cell in self._cells if cell.sent]
        for cell in begun:
            if cell.changed_ns >= since_ns:
                cell.add_to(page)
                page.add("lab_cell_current", cell.labels, cell is begun[-1])

    def _take_sent(self, fd: int) -> bool:
        """Take the rows that were sent, up to a chunk, for they are sent in order; return whether more may be there."""
        first = self._sent
        sent = self._column(fd, "sent_ns", first, min(first + CHUNK_ROWS, self._rows))
        due = self._column(fd, "due_ns", first, first + len(sent))
        for sent_ns, due_ns in zip(sent, due, strict=False):
            if sent_ns == ABSENT or due_ns == ABSENT:
                break
            self._cells[self._sent // self._cell_rows].add_sent(sent_ns - due_ns)
            self._pending.append(self._sent)
            self._last_sent_ns = sent_ns
            self._sent += 1
        return self._sent - first == CHUNK_ROWS

    def _settle(self, fd: int) -> None:
        if not self._pending:
            return
        first, end = self._pending[0], self._pending[-1] + 1
        # The state is written last: read first, it vouches for the rest of its row.
        names = ("state", *(name for name in self._columns if name != "state"))
        columns = {name: self._column(fd, name, first, end) for name in names}
        complete = min(map(len, columns.values()))
        given_up_ns = perf_counter_ns() - self._limit_ns
        waiting = []
        for row in self._pending:
            at = row - first
            fate = OUTCOMES.get(columns["state"][at]) if at < complete else None
            if fate is None or (fate == "lost" and columns["sent_ns"][at] > given_up_ns):
                waiting.append(row)
            else:
                self._cells[row // self._cell_rows].settle_row(fate, columns, at)
        self._pending = waiting

    def _column(self, fd: int, name: str, first: int, end: int) -> array[int]:
        offset = HEADER_BYTES + 8 * (self._columns.index(name) * self._rows + first)
        chunk = os.pread(fd, 8 * (end - first), offset)
        return array("q", chunk[: len(chunk) // 8 * 8])


class StatedRun:
    """A run without live rows: its controller writes the cells measured so far into state.json each second.

    `planned` in the state is the number of messages of the whole run; `latencies(state)` of the experiment's live.py
    returns the distributions of the cell that is measured, by metric.
    """

    def __init__(self, state: Mapping[str, Any], experiment: Experiment, labels: Mapping[str, str]) -> None:
        self.active = True
        self._cell = experiment.table(labels["scenario"])
        self._labels = labels
        live = experiment.optional_part("live")
        self._latencies: Callable[[Mapping[str, Any]], Mapping[str, Distribution]] = (
            live.latencies if live else lambda _state: {}
        )
        self.take(state)

    def take(self, state: Mapping[str, Any]) -> None:
        self._state, self._taken_ns = state, perf_counter_ns()
        self.planned = int(state.get("planned", 0))

    def advance(self) -> None:
        """See whether the controller still writes."""
        self.active = perf_counter_ns() - self._taken_ns < SILENCE_NS

    def add_to(self, page: Page, since_ns: int) -> None:
        """Add the cells measured so far, unless nothing has changed since then."""
        cells = [self._cell(document) for document in self._state.get("cells") or ()]
        if not cells or self._taken_ns < since_ns:
            return
        for cell in cells:
            labels = {**self._labels, "cell": cell.text}
            add_document(page, labels, cell)
            page.add("lab_cell_current", labels, cell is cells[-1])
        for metric, latency in self._latencies(self._state).items():
            page.add_latency({**labels, "metric": metric}, latency)


class LiveFolder:
    """Follows state.json from run to run: the run that goes on, or went on last."""

    def __init__(self, folder: Path, experiments: Experiments) -> None:
        self._experiments = experiments
        self._state_path = folder / "state.json"
        self._samples = folder / "samples.bin"
        self._seen: tuple[int, int] | None = None
        self._state: dict[str, Any] = {}
        self._labels: dict[str, str] = {}
        self._run: LiveRun | StatedRun | None = None
        self._active_ns = 0

    def add_to(self, page: Page, *, changing: bool) -> None:
        """Bring the run up to date and add it to the page; if `changing`, only what changed lately."""
        self._read_state()
        if self._run is None:
            return
        self._run.advance()
        now_ns = perf_counter_ns()
        if active := self._run.active and self._state["state"] == "running":
            self._active_ns = now_ns
        since_ns = now_ns - SCRAPED_NS if changing else 0
        if self._active_ns < since_ns:
            return
        page.add("lab_run_active", self._labels, active)
        page.add("lab_run_info", {**plain_labels(self._state["parameters"]), **self._labels}, 1)
        page.add("lab_run_messages_planned", self._labels, self._run.planned)
        if (start := started(self._labels["run_id"])) is not None:
            page.add("lab_run_started_timestamp_seconds", self._labels, start)
        if "valid" in self._state:
            page.add("lab_run_valid", self._labels, bool(self._state["valid"]))
        for one in self._state.get("treatments") or ():
            words = {name: plain(one.get(name, True)) for name in ("what", "wanted", "found", "required")}
            page.add("lab_treatment_verified", {**self._labels, **words}, bool(one["verified"]))
        self._run.add_to(page, since_ns)

    def _read_state(self) -> None:
        try:
            facts = self._state_path.stat()
            if self._seen == (facts.st_mtime_ns, facts.st_ino):
                return
            state = json.loads(self._state_path.read_text())
            self._seen = (facts.st_mtime_ns, facts.st_ino)
            self._take(state)
        except (OSError, ValueError, KeyError, TypeError, IndexError, ZeroDivisionError):
            return

    def _take(self, state: dict[str, Any]) -> None:
        run_id, parameters = str(state["run_id"]), state["parameters"]
        if state["state"] == "interrupted":
            self._run = None
        elif self._run is None or self._labels["run_id"] != run_id:
            experiment = self._experiments.of(state)
            labels = {
                "experiment": experiment.name,
                "scenario": str(parameters["scenario"]),
                "run_id": run_id,
                "fidelity": str(parameters["fidelity"]),
            }
            self._run, self._labels = self._begun(experiment, state, labels), labels
            self._active_ns = perf_counter_ns()
        elif isinstance(self._run, StatedRun) and "cells" in state:
            self._run.take(state)
        self._state = state

    def _begun(self, experiment: Experiment, state: dict[str, Any], labels: dict[str, str]) -> LiveRun | StatedRun:
        planned = state.get("planned_cells")
        if planned is None:
            return StatedRun(state, experiment, labels)
        live = experiment.optional_part("live")
        kind: type[LiveCell] = live.Live if live else LiveCell
        cells = map(experiment.table(labels["scenario"]), planned)
        return LiveRun(self._samples, state, [kind(cell, labels) for cell in cells])


def started(run_id: str) -> float | None:
    """Return when a run began, in Unix time, from its id; None where that says nothing."""
    try:
        return datetime.strptime(run_id.partition("-")[0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
