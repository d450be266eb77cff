"""run.json with any value anywhere: the report names the run or shows it, and never crashes."""

import copy
import json
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.reports import shown
from support.simulated_runs import simulated_cell, write_run

# For each of three seeds; a night's worth is LOOPLAB_FUZZ_DOCUMENTS=1000.
DOCUMENTS = int(os.environ.get("LOOPLAB_FUZZ_DOCUMENTS") or 20)
STRANGE: list[Any] = [None, "", "x", "<script>", -1, 0, 1e300, True, [], {}, [None], {"a": []}, "2026", [[1]]]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document, as the keys that lead to it."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [(*path, key) for key in keys] + [p for key in keys for p in places(value[key], (*path, key))]


@pytest.mark.parametrize("seed", range(3))
def test_any_value_anywhere(results: Path, seed: int) -> None:
    rng = np.random.default_rng(1)
    folder = write_run(results, "scenario1", cells={(20.0, 0): simulated_cell(rng, 3, 10, 900, 4290)})
    write_run(results, "scenario2", cells={(20.0, 0): simulated_cell(rng, 3, 10, 900, 4290)})
    sound = json.loads((folder / "run.json").read_text())
    sound["bridge"] = {"counts": {"merged": 3}}
    sound["events"] = [{"topic": "lab/robot/status", "status": "offline"}]
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
        text = shown(results).text
        assert folder.name in text or str(document.get("run_id")) in text or not document.get("run_id")
        assert "<script>" not in text
