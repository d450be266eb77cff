"""The file of a study: which runs, in which order, by which seed; results/<study id>.study.json."""

import hashlib
import json
import os
import re
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from looplab.run import quiet
from looplab.run.folder import sync_folder

# The modules of this room that decide, and those of an experiment's report that do not.
DECIDING = ("cell", "claims", "repetitions", "rounds", "rules", "samples", "statistics", "stored", "verdicts")
DRAWING = ("figures.py", "makeup.py", "notes.py", "tables.py")
_COMMENT = re.compile(r"^[ \t]*(#.*)?\n", re.MULTILINE)

STUDY_SCHEMA = 1
SUFFIX = ".study.json"


@dataclass
class Study:
    """A study: `arms` gives the scenario of each arm, `blocks` the arms of each round in the order to run.

    An A/A arm is one of two arms of the same scenario; no run knows its arm, so nothing can treat them differently.
    `variants` gives that of each arm in a study of several, e.g. its broker. `runs` are those that are done: block,
    arm, run_id, valid. `where` must not change before it is resumed. `loads`, `cells` and `messages` (of a run) are
    those of each scenario.
    `rules` is a digest of all that decides, taken before the first run; `words` are those by these rules, by claim and
    fidelity.
    """

    study: str
    names: list[str]
    seed: int
    rounds: int
    arms: dict[str, str]
    blocks: list[list[str]]
    options: dict[str, str]
    where: dict[str, str]
    variants: dict[str, str] = field(default_factory=dict)
    schema: int = STUDY_SCHEMA
    runs: list[dict[str, Any]] = field(default_factory=list)
    loads: dict[str, str] = field(default_factory=dict)
    cells: dict[str, list[list[Any]]] = field(default_factory=dict)
    messages: dict[str, int] = field(default_factory=dict)
    rules: str = ""
    words: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def left(self) -> list[tuple[int, str]]:
        """Block and arm of each run that is still to be made, in order."""
        done = {(run["block"], run["arm"]) for run in self.runs}
        return [(at, arm) for at, block in enumerate(self.blocks) for arm in block if (at, arm) not in done]

    @property
    def places(self) -> dict[str, tuple[int, str]]:
        """Return round and arm of each run that is done, by run id."""
        return {str(run["run_id"]): (int(run["block"]), str(run["arm"])) for run in self.runs}

    def path(self, results: Path) -> Path:
        return results / f"{self.study}{SUFFIX}"

    def write(self, results: Path) -> None:
        """Write the file whole or not at all: an interruption or a power failure leaves the state of before."""
        fresh = results / f".{self.study}{SUFFIX}.new"
        with fresh.open("w", encoding="utf-8") as file:
            file.write(json.dumps(asdict(self), indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.path(results))
        sync_folder(results)


def digest_of_rules(experiment: Path) -> str:
    """Return a digest of all that decides about an experiment, by its folder: rules, exclusions, statistics, claims.

    Comments decide nothing.
    """
    engine = [Path(__file__).with_name(f"{name}.py") for name in DECIDING]
    own = [path for path in (experiment / "report").rglob("*") if path.suffix in (".py", ".csv")]
    beside = [path for path in experiment.glob("*.py") if path.name in ("studies.py", "fitted.py", "thesis_tables.py")]
    files = sorted([*engine, Path(quiet.__file__), *own, *beside], key=lambda path: path.as_posix())
    texts = (_COMMENT.sub("", path.read_text(encoding="utf-8")) for path in files if path.name not in DRAWING)
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def read_studies(results: Path) -> list[Study]:
    """Return the studies of a folder, the oldest first; a file that is no study of this lab is left out."""
    studies = []
    for path in sorted(results.glob(f"*{SUFFIX}")):
        with suppress(OSError, ValueError, KeyError, TypeError):
            studies.append(read_study(path))
    return studies


def read_study(path: Path) -> Study:
    """Return the study of a file. Raises OSError, ValueError, KeyError or TypeError if it holds none of this lab."""
    document = json.loads(path.read_text(encoding="utf-8"))
    if document["schema"] != STUDY_SCHEMA:
        raise ValueError(f"schema {document['schema']}, this lab reads {STUDY_SCHEMA}")
    # As studies of before have it.
    document.setdefault("variants", document.pop("brokers", {}))
    return Study(**document)
