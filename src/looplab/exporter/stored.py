"""Finished runs in results/: the newest of each scenario and fidelity, parsed once and kept as text."""

import json
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from looplab.metrics.cells import stored_texts as cell_texts
from looplab.metrics.runs import Damaged, run_texts, treatment_text
from looplab.metrics.text_format import line
from looplab.run.folder import SCHEMA
from looplab.spec.experiment import Experiments

# A run copied into results/ by hand becomes whole without the folder's own time changing.
LOOK_AGAIN_S = 20.0

Key = tuple[str, str]
# A file with another of these has changed.
Stamp = tuple[int, int, int, int]


@dataclass
class _Known:
    """What is known of one run folder for as long as its files keep their `stamp`."""

    stamp: Stamp | None
    key: Key = ("", "")
    texts: dict[str, str] | None = None
    fault: str = ""


class StoredRuns:
    """`newest` maps (scenario, fidelity) to (run_id, texts); replaced as a whole by `refresh`.

    A folder whose own time did not change is looked at again after `look_again_s`.
    """

    def __init__(self, results: Path, experiments: Experiments, look_again_s: float = LOOK_AGAIN_S) -> None:
        self.newest: dict[Key, tuple[str, dict[str, str]]] = {}
        self.damaged: frozenset[str] = frozenset()
        self._results = results
        self._experiments = experiments
        self._look_again_s = look_again_s
        self._known: dict[str, _Known] = {}
        self._reported: set[str] = set()
        self._seen: int | None = None
        self._looked = 0.0

    @property
    def run_ids(self) -> frozenset[str]:
        return frozenset(run_id for run_id, _texts in self.newest.values())

    def refresh(self) -> bool:
        """Look for new runs, which is cheap if the folder did not change; return whether the offer changed."""
        try:
            changed = self._results.stat().st_mtime_ns
            if changed == self._seen and monotonic() - self._looked < self._look_again_s:
                return False
            names = sorted((entry.name for entry in self._results.iterdir() if entry.name[0] != "."), reverse=True)
        except OSError:
            return False
        self._seen, self._looked = changed, monotonic()
        return self._offer(names)

    def _offer(self, names: list[str]) -> bool:
        newest: dict[Key, tuple[str, dict[str, str]]] = {}
        known: dict[str, _Known] = {}
        for name in names:
            # Interrupted runs have no run.json, and are none of ours.
            if (self._results / name / "run.json").is_file():
                known[name] = entry = self._read(name, newest)
                if entry.fault:
                    self._report(name, entry.fault)
                elif entry.texts is not None and entry.key not in newest:
                    newest[entry.key] = (name, entry.texts)
                else:
                    # A newer run represents its scenario: no memory for this one's text.
                    entry.texts = None
        before = ({key: (name, id(texts)) for key, (name, texts) in self.newest.items()}, self.damaged)
        self.newest, self._known = newest, known
        self.damaged = frozenset(name for name, entry in known.items() if entry.fault)
        return before != ({key: (name, id(texts)) for key, (name, texts) in newest.items()}, self.damaged)

    def _read(self, name: str, newest: dict[Key, tuple[str, dict[str, str]]]) -> _Known:
        """Return what is known of a run, its text included unless a newer one represents its scenario."""
        folder = self._results / name
        stamp: Stamp | None = None
        try:
            stamp = _stamp(folder)
            entry = self._known.get(name)
            if entry is not None and entry.stamp == stamp and (entry.fault or entry.texts or entry.key in newest):
                return entry
            run = _document(folder)
            entry = _Known(stamp, (run["scenario"], run["fidelity"]))
            if entry.key not in newest:
                entry.texts = stored_texts(folder, run, self._experiments)
        except Damaged as why:
            return _Known(stamp, fault=str(why))
        except OSError as error:
            return _Known(None, fault=f"{error.strerror}: {error.filename}")
        return entry

    def _report(self, name: str, why: str) -> None:
        if name not in self._reported:
            self._reported.add(name)
            text = f"results/{name} is left out: {why}. Remove the folder, or measure again."
            print(text, file=sys.stderr, flush=True)


def stored_texts(folder: Path, run: dict[str, Any], experiments: Experiments) -> dict[str, str]:
    """Return the sample lines of one stored run by family. Raises Damaged, OSError."""
    try:
        experiment = experiments.of(run)
    except KeyError as error:
        raise Damaged(f"of the experiment {error.args[0]}, which this lab does not know") from error
    key = (run["scenario"], run["fidelity"])
    labels = {"scenario": key[0], "fidelity": key[1]}
    try:
        texts = {
            **cell_texts(folder, run, experiment.table(key[0])),
            **run_texts(folder.name, {**run["parameters"], **labels}, len(run["cells"]), active=False),
        }
        texts["loop_treatment_verified"] = treatment_text(*key, run["treatments"])
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


def _stamp(folder: Path) -> Stamp:
    run, samples = (folder / "run.json").stat(), (folder / "samples.csv").stat()
    if not (stat.S_ISREG(run.st_mode) and stat.S_ISREG(samples.st_mode)):
        # A pipe would never end.
        raise Damaged("run.json or samples.csv is no file")
    return (run.st_mtime_ns, run.st_size, samples.st_mtime_ns, samples.st_size)
