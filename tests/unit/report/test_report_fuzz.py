"""run.json with any value anywhere: each command names the run or shows it, and none crashes."""

import contextlib
import copy
import itertools
import json
import math
import os
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.every_experiment import SMALL
from support.places import ROOT
from support.reports import shown, write
from support.run_files import edited

from looplab.errors import LabError
from looplab.exercises.exercise import read_exercise
from looplab.exercises.marking import mark
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.commands.show import show
from looplab.lab.site import newest
from looplab.report.stored import StoredRun, read_run

# For each kind of run; a night's worth is LOOPLAB_FUZZ_DOCUMENTS=1000.
DOCUMENTS = int(os.environ.get("LOOPLAB_FUZZ_DOCUMENTS") or 12)
# Of a real run.
MUTATIONS = 20 * DOCUMENTS
REAL = ROOT / "tests/support/stored_runs/20261121T021456Z-scenario1"
STRANGE: list[Any] = [None, "", "x", "<script x>", -1, 0, 1e300, True, [], {}, [None], {"a": []}, "2026", [[1]]]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document, as the keys that lead to it."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [(*path, key) for key in keys] + [p for key in keys for p in places(value[key], (*path, key))]


GONE = object()
STRANGER = [*STRANGE, GONE, GONE, math.inf, 10**400, "\x1b[2J", "20990101T000000Z-scenario1", 0.5]


def mutations(sound: Any, dice: random.Random, values: list[Any]) -> Iterator[Any]:
    """Yield documents with a few values replaced or left out."""
    everywhere = places(sound)
    while True:
        document = copy.deepcopy(sound)
        for path in dice.sample(everywhere, dice.choice([1, 1, 1, 2, 3])):
            target: Any = document
            with contextlib.suppress(KeyError, IndexError, TypeError):
                for key in path[:-1]:
                    target = target[key]
                target[path[-1]] = dice.choice(values)
                if target[path[-1]] is GONE:
                    del target[path[-1]]
        yield document


@pytest.mark.parametrize("kind", SMALL)
def test_any_value_anywhere(tmp_path: Path, kind: str) -> None:
    folder, *_ = SMALL[kind](tmp_path)
    sound = json.loads((folder / "run.json").read_text())
    for document in itertools.islice(mutations(sound, random.Random(kind), STRANGE), DOCUMENTS):
        (folder / "run.json").write_text(json.dumps(document))
        text = shown(tmp_path, kind.removesuffix("-throughput")).text
        assert folder.name in text or str(document.get("run_id")) in text or not document.get("run_id")
        assert "<script x>" not in text


def test_a_damaged_run_ends_no_command(tmp_path: Path) -> None:
    """The commands are report, pages, show and check."""
    folder = tmp_path / "results" / REAL.name
    shutil.copytree(REAL, folder)
    sound = json.loads((folder / "run.json").read_text())
    exercise = read_exercise(ROOT, "scenario1", EXPERIMENTS)
    used = 0
    for number, document in enumerate(itertools.islice(mutations(sound, random.Random(1), STRANGER), MUTATIONS)):
        (folder / "run.json").write_text(json.dumps(document))
        for treatments in (False, True):
            with contextlib.suppress(LabError):
                show(tmp_path, "", treatments=treatments)
        run = read_run(folder, EXPERIMENTS)
        used += isinstance(run, StoredRun)
        if number % 10 == 0:
            mark(exercise, [run], {})
            newest(tmp_path / "results")
        if number == 0:
            write(tmp_path / "results", tmp_path / "report")
    assert MUTATIONS / 10 < used < MUTATIONS / 2


def test_a_run_that_no_report_can_show_is_named(tmp_path: Path) -> None:
    newer = "20261121T021537Z-scenario2"
    for name in (REAL.name, newer):
        shutil.copytree(REAL.parent / name, tmp_path / "results" / name)
    with edited(tmp_path / "results" / newer) as document:
        for cell in document["cells"]:
            del cell["load"]["seconds"]
    assert [run.run_id for run in newest(tmp_path / "results")] == [REAL.name]
    write(tmp_path / "results", tmp_path / "report")
    assert re.search(f"{newer}.*cannot be shown", (tmp_path / "report/index.html").read_text(), re.DOTALL)
    assert REAL.name in (tmp_path / "report/runs.csv").read_text()


def test_a_run_with_the_name_of_another_or_of_a_time_to_come_is_not_the_newest(tmp_path: Path) -> None:
    for name in ("20990101T000000Z-scenario1", "20261122T000000Z-scenario1"):
        shutil.copytree(REAL, tmp_path / "results" / name)
    shutil.copytree(REAL, tmp_path / "results" / REAL.name)
    assert [run.run_id for run in newest(tmp_path / "results")] == [REAL.name]
    future = tmp_path / "results/20990101T000000Z-scenario1/run.json"
    future.write_text(future.read_text().replace(REAL.name, future.parent.name))
    assert [run.run_id for run in newest(tmp_path / "results")] == [REAL.name, future.parent.name]
    assert shown(tmp_path / "results").measured[0].run.run_id == REAL.name
