"""The run that is being measured: follows the controller's live files, a few rows each time.

Reads with pread(2) and never maps the file: the next run truncates it under the same name, and a mapped page
behind the new end would kill the reader.
"""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from looplab.metrics.cells import LiveCell, document_texts, labels_of, running_texts
from looplab.metrics.runs import run_texts, treatment_text
from looplab.metrics.text_format import Texts
from looplab.run.accounting import OUTCOMES
from looplab.run.samples import ABSENT, HEADER_BYTES, limit_ns, store_columns
from looplab.spec.experiment import Experiment, Experiments

# Rows read at a time; bounds memory when an exporter starts in the middle of a long run.
CHUNK_ROWS = 8192
# A run that sent nothing for this long beyond its interval is dead: its controller could not say so.
SILENCE_NS = 60_000_000_000


class LiveRun:
    """Rows of one running run, bucketed as they settle in its planned cells."""

    def __init__(self, samples: Path, state: dict[str, Any], cells: Sequence[LiveCell]) -> None:
        self.run_id = str(state["run_id"])
        parameters: dict[str, Any] = state["parameters"]
        self.parameters = parameters
        self._interval_ns = int(float(state.get("longest_gap_ms", 0)) * 1e6)
        self.key = (str(parameters["scenario"]), str(parameters["fidelity"]))
        self.active = True
        self._samples = samples
        self._cell_rows = int(parameters["messages"]) * int(parameters["repetitions"])
        self._limit_ns = limit_ns(int(parameters["deadline_ms"]))
        self._cells = cells
        self._columns: tuple[str, ...] = ()
        self._rows = self._cell_rows * len(self._cells)
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

    def texts(self) -> dict[str, str]:
        """Return sample lines by family."""
        run = run_texts(self.run_id, self.parameters, len(self._cells), active=self.active)
        return {**run, **running_texts(self.run_id, self._cells)}

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

    `planned` in the state is the number of messages of the whole run; `more_texts` makes further sample lines of it.
    """

    def __init__(self, state: dict[str, Any], experiment: Experiment) -> None:
        self.run_id = str(state["run_id"])
        self.parameters: dict[str, Any] = state["parameters"]
        self.key = (str(self.parameters["scenario"]), str(self.parameters["fidelity"]))
        self.active = True
        self._cell = experiment.table(self.key[0])
        live = experiment.optional_part("live")
        self._more_texts: Callable[[dict[str, Any]], Texts] = live.live_texts if live else lambda _state: {}
        self.take(state)

    def take(self, state: dict[str, Any]) -> None:
        self._state, self._taken_ns = state, perf_counter_ns()

    def advance(self) -> None:
        """See whether the controller still writes."""
        self.active = perf_counter_ns() - self._taken_ns < SILENCE_NS

    def texts(self) -> dict[str, str]:
        """Return sample lines by family."""
        planned, cells = int(self._state.get("planned", 0)), self._state.get("cells") or []
        run = run_texts(self.run_id, self.parameters, 1, active=self.active, planned=planned)
        own = document_texts(self.run_id, self.parameters, self._cell, cells)
        return {**run, **own, **(self._more_texts(self._state) if cells else {})}


class LiveFolder:
    """Follows state.json from run to run."""

    def __init__(self, folder: Path, experiments: Experiments) -> None:
        self._experiments = experiments
        self._state_path = folder / "state.json"
        self._samples = folder / "samples.bin"
        self._seen: tuple[int, int] | None = None
        self._state: dict[str, Any] = {}
        self._run: LiveRun | StatedRun | None = None

    def run(self, stored_ids: frozenset[str]) -> LiveRun | StatedRun | None:
        """Return the run to show as live, brought up to date: running, or finished and not yet among `stored_ids`."""
        self._read_state()
        run = self._run
        if run is None or run.run_id in stored_ids:
            return None
        run.advance()
        if self._state.get("state") != "running":
            run.active = False
        return run

    def texts(self, run: LiveRun | StatedRun) -> dict[str, str]:
        """Return the run's sample lines, with the treatments found so far."""
        texts = run.texts()
        treatments = self._state.get("treatments") or []
        if treatments:
            texts["loop_treatment_verified"] = treatment_text(*run.key, treatments)
        return texts

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
        self._state = state
        run_id = str(state["run_id"])
        if state["state"] == "running" and (self._run is None or self._run.run_id != run_id):
            self._run = self._begun(self._experiments.of(state), state)
        elif state["state"] == "running" and isinstance(self._run, StatedRun):
            self._run.take(state)
        elif state["state"] == "interrupted" or (self._run is not None and self._run.run_id != run_id):
            self._run = None

    def _begun(self, experiment: Experiment, state: dict[str, Any]) -> LiveRun | StatedRun:
        planned = state.get("planned_cells")
        if planned is None:
            return StatedRun(state, experiment)
        run = state["parameters"]
        live = experiment.optional_part("live")
        kind: type[LiveCell] = live.Live if live else LiveCell
        cells = map(experiment.table(str(run["scenario"])), planned)
        return LiveRun(self._samples, state, [kind(cell, labels_of(run, cell)) for cell in cells])
