"""run.json with any value anywhere: the report names the run or shows it, and never crashes."""

import copy
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.reports import shown
from support.run_files import edited
from support.simulated_asip_runs import write_latency_run, write_throughput_run
from support.simulated_delay_runs import SYMMETRICAL, write_delay_run
from support.simulated_middleware_runs import write_middleware_run
from support.simulated_runs import simulated_cell, write_run
from support.simulated_twin_runs import single, write_twin_run

from looplab.experiments.middleware import LoadCell

# For each of three seeds and each kind of run; a night's worth is LOOPLAB_FUZZ_DOCUMENTS=1000.
DOCUMENTS = int(os.environ.get("LOOPLAB_FUZZ_DOCUMENTS") or 20)
STRANGE: list[Any] = [None, "", "x", "<script>", -1, 0, 1e300, True, [], {}, [None], {"a": []}, "2026", [[1]]]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document, as the keys that lead to it."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [(*path, key) for key in keys] + [p for key in keys for p in places(value[key], (*path, key))]


def write_loop_run(results: Path) -> Path:
    rng = np.random.default_rng(1)
    folder = write_run(results, "scenario1", cells={(20.0, 0): simulated_cell(rng, 3, 10, 900, 4290)})
    write_run(results, "scenario2", cells={(20.0, 0): simulated_cell(rng, 3, 10, 900, 4290)})
    with edited(folder) as run:
        run["bridge"] = {"counts": {"merged": 3}}
        run["events"] = [{"topic": "lab/robot/status", "status": "offline"}]
    return folder


LOADS = [LoadCell.keyed(box, False, 1, 1, devices) for box in (False, True) for devices in (30, 60)]
WRITERS: dict[str, tuple[str, Callable[[Path], Path]]] = {
    "loop": ("loop", write_loop_run),
    "qos-delay": ("qos-delay", lambda results: write_delay_run(results, pairs=SYMMETRICAL[:1])),
    "twin": ("twin", lambda results: write_twin_run(results, [single(100), single(10)], messages=40)),
    "middleware": ("middleware", lambda results: write_middleware_run(results, cells=LOADS, repetitions=3)),
    "asip": ("asip", lambda results: write_latency_run(results, cells=(("python", "serial", "one"),))),
    "asip-throughput": ("asip", lambda results: write_throughput_run(results, cells=(("java", "tcp", "one"),))),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", WRITERS)
def test_any_value_anywhere(tmp_path: Path, kind: str, seed: int) -> None:
    experiment, write_one = WRITERS[kind]
    folder = write_one(tmp_path)
    sound = json.loads((folder / "run.json").read_text())
    dice = random.Random(seed)
    everywhere = places(sound)
    for _ in range(DOCUMENTS):
        document = copy.deepcopy(sound)
        for path in dice.sample(everywhere, dice.choice([1, 1, 2])):
            target: Any = document
            try:
                for key in path[:-1]:
                    target = target[key]
                target[path[-1]] = dice.choice(STRANGE)
            except (KeyError, IndexError, TypeError):
                continue
        (folder / "run.json").write_text(json.dumps(document))
        text = shown(tmp_path, experiment).text
        assert folder.name in text or str(document.get("run_id")) in text or not document.get("run_id")
        assert "<script>" not in text
