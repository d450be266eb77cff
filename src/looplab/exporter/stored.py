"""Finished runs in results/: the newest of each scenario and fidelity, parsed once and kept as text."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

from looplab.experiments.qos_delay import NAME as EXPERIMENT
from looplab.experiments.qos_delay.metrics import delay_texts
from looplab.metrics.distributions import OUTCOMES, Cell, loop_labels
from looplab.metrics.runs import run_texts, treatment_text
from looplab.metrics.text_format import line
from looplab.run.folder import SAMPLES_HEADER, SCHEMA

# A run copied into results/ by hand becomes whole without the folder's own time changing.
LOOK_AGAIN_S = 20.0

Key = tuple[str, str]
# What tells a changed file from an unchanged one.
Stamp = tuple[int, int, int, int]


class Damaged(Exception):
    """A run folder that cannot be read; says why."""


class StoredRuns:
    """`newest` maps (scenario, fidelity) to (run_id, texts); replaced as a whole by `refresh`."""

    def __init__(self, results: Path, say: Callable[[str], None] | None = None) -> None:
        self.newest: dict[Key, tuple[str, dict[str, str]]] = {}
        self.damaged: frozenset[str] = frozenset()
        self._results = results
        self._say = say if say is not None else _say_plain
        self._named: set[str] = set()
        self._broken: dict[str, Stamp] = {}
        self._keys: dict[str, tuple[Stamp, Key]] = {}
        self._parsed: dict[str, tuple[Stamp, dict[str, str]]] = {}
        self._seen: int | None = None
        self._looked = 0.0

    @property
    def run_ids(self) -> frozenset[str]:
        """The runs that are offered."""
        return frozenset(run_id for run_id, _texts in self.newest.values())

    def refresh(self) -> bool:
        """Look for new runs; cheap where the folder did not change. Tells whether the offer changed."""
        try:
            changed = self._results.stat().st_mtime_ns
            if changed == self._seen and monotonic() - self._looked < LOOK_AGAIN_S:
                return False
            names = sorted((entry.name for entry in self._results.iterdir() if entry.name[0] != "."), reverse=True)
        except OSError:
            return False
        self._seen, self._looked = changed, monotonic()
        return self._offer(names)

    def _offer(self, names: list[str]) -> bool:
        newest: dict[Key, tuple[str, dict[str, str]]] = {}
        for name in names:
            folder = self._results / name
            # Interrupted runs have no run.json, and are none of ours.
            if not (folder / "run.json").is_file():
                continue
            try:
                stamp = _stamp(folder)
                if self._broken.get(name) == stamp:
                    continue
                key = self._key(folder, stamp)
                if key not in newest:
                    newest[key] = (name, self._texts(folder, stamp))
                self._broken.pop(name, None)
            except Damaged as why:
                self._skip(name, stamp, str(why))
            except OSError as error:
                self._skip(name, (0, 0, 0, 0), f"{error.strerror}: {error.filename}")
        self._forget(set(names), {name for name, _texts in newest.values()})
        same = {key: name for key, (name, _) in newest.items()} == {k: name for k, (name, _) in self.newest.items()}
        same = same and all(newest[key][1] is self.newest[key][1] for key in newest)
        same = same and self.damaged == frozenset(self._broken)
        self.newest, self.damaged = newest, frozenset(self._broken)
        return not same

    def _key(self, folder: Path, stamp: Stamp) -> Key:
        known = self._keys.get(folder.name)
        if known is None or known[0] != stamp:
            run = _document(folder)
            known = (stamp, (run["scenario"], run["fidelity"]))
            self._keys[folder.name] = known
        return known[1]

    def _texts(self, folder: Path, stamp: Stamp) -> dict[str, str]:
        known = self._parsed.get(folder.name)
        if known is None or known[0] != stamp:
            known = (stamp, stored_texts(folder))
            self._parsed[folder.name] = known
        return known[1]

    def _skip(self, name: str, stamp: Stamp, why: str) -> None:
        self._broken[name] = stamp
        if name not in self._named:
            self._named.add(name)
            self._say(f"results/{name} is left out: {why}. Remove the folder, or measure again.")

    def _forget(self, names: set[str], offered: set[str]) -> None:
        self._broken = {name: stamp for name, stamp in self._broken.items() if name in names}
        self._keys = {name: known for name, known in self._keys.items() if name in names}
        self._parsed = {name: known for name, known in self._parsed.items() if name in offered}


def _say_plain(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def stored_texts(folder: Path) -> dict[str, str]:
    """One stored run's sample lines by family. Raises Damaged, OSError."""
    run = _document(folder)
    key = (run["scenario"], run["fidelity"])
    try:
        if run.get("experiment") == EXPERIMENT:
            return delay_texts(run)
        cells = {
            (f"{cell['interval_ms']:g}", str(cell["qos"])): Cell(loop_labels(*key, cell["interval_ms"], cell["qos"]))
            for cell in run["cells"]
        }
        _read_samples(folder / "samples.csv", cells)
        for cell in run["cells"]:
            found = cells[f"{cell['interval_ms']:g}", str(cell["qos"])].sent
            if found != cell["sent"]:
                raise Damaged(f"samples.csv holds {found} messages of a cell, run.json says {cell['sent']}")
        texts = run_texts(folder.name, run["parameters"], list(cells.values()), active=False)
        texts["loop_treatment_verified"] = treatment_text(*key, run["treatments"])
        labels = {"scenario": key[0], "fidelity": key[1]}
        texts["loop_run_valid"] = line("loop_run_valid", labels, int(bool(run["valid"])))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Damaged(f"not understood ({error!r})") from error
    return texts


def _document(folder: Path) -> dict[str, Any]:
    try:
        run = json.loads((folder / "run.json").read_text())
    except ValueError as error:
        raise Damaged("run.json is not JSON") from error
    if not isinstance(run, dict) or run.get("schema") != SCHEMA:
        raise Damaged(f"run.json is not of schema {SCHEMA}")
    if not isinstance(run.get("scenario"), str) or not isinstance(run.get("fidelity"), str):
        raise Damaged("run.json names no scenario and fidelity")
    return run


def _read_samples(path: Path, cells: dict[tuple[str, str], Cell]) -> None:
    with path.open(encoding="ascii") as file:
        if file.readline().rstrip("\n") != SAMPLES_HEADER:
            raise Damaged("samples.csv does not begin with its columns' names")
        for number, text in enumerate(file, 2):
            try:
                _take(text.rstrip("\n").split(","), cells)
            except (KeyError, ValueError) as error:
                raise Damaged(f"samples.csv, line {number} is not understood") from error


def _take(fields: list[str], cells: dict[tuple[str, str], Cell]) -> None:
    interval_ms, qos, _repetition, _sequence, due, sent, received, _total, robot_us, _overhead, outcome = fields
    if outcome not in OUTCOMES:
        raise ValueError(outcome)
    cell = cells[interval_ms, qos]
    cell.add_sent(int(sent) - int(due))
    cell.add_outcome(outcome)
    if outcome in ("answered", "late"):
        cell.add_latency(int(received) - int(sent), round(float(robot_us) * 1000))


def _stamp(folder: Path) -> Stamp:
    run, samples = (folder / "run.json").stat(), (folder / "samples.csv").stat()
    return (run.st_mtime_ns, run.st_size, samples.st_mtime_ns, samples.st_size)
