"""run.json with any value anywhere: the report names the run or shows it, and never crashes."""

import copy
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from support.every_experiment import SMALL
from support.reports import shown

# For each of three seeds and each kind of run; a night's worth is LOOPLAB_FUZZ_DOCUMENTS=1000.
DOCUMENTS = int(os.environ.get("LOOPLAB_FUZZ_DOCUMENTS") or 20)
STRANGE: list[Any] = [None, "", "x", "<script x>", -1, 0, 1e300, True, [], {}, [None], {"a": []}, "2026", [[1]]]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document, as the keys that lead to it."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [(*path, key) for key in keys] + [p for key in keys for p in places(value[key], (*path, key))]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", SMALL)
def test_any_value_anywhere(tmp_path: Path, kind: str, seed: int) -> None:
    folder = SMALL[kind](tmp_path)
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
        text = shown(tmp_path, kind.removesuffix("-throughput")).text
        assert folder.name in text or str(document.get("run_id")) in text or not document.get("run_id")
        assert "<script x>" not in text
