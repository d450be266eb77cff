"""./lab show: print a stored run."""

import json
from pathlib import Path
from textwrap import fill
from typing import Any

from looplab.errors import EXIT_GOOD, LabError, UsageError
from looplab.experiments.registry import EXPERIMENTS
from looplab.run.folder import age
from looplab.run.life import run_table
from looplab.run.table import WIDTH, as_found
from looplab.system.terminal import printable


def show(root: Path, run: str, *, treatments: bool) -> int:
    """Print the table of the run `run` (its id, its folder or its scenario; "": the newest), or its treatments.

    UsageError if there is no such run.
    """
    folder = _folder(root / "results", run)
    try:
        document = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        experiment = EXPERIMENTS[document.get("experiment") or EXPERIMENTS.default]
        text = _treatments(document) if treatments else run_table(experiment, document)
    except Exception as error:
        # A run may come from anywhere, and the host has no program that checks it.
        message = f"{folder.name}/run.json cannot be shown ({type(error).__name__}: {error})."
        raise LabError(message, "Name another run; `./lab report` names each fault.") from error
    print(printable(text))
    return EXIT_GOOD


def _folder(results: Path, run: str) -> Path:
    """Return the folder of the newest run that `run` names."""
    stored = sorted((path.parent for path in results.glob("*/run.json")), key=lambda path: age(path.name))
    wanted = Path(run).name
    matching = [folder for folder in stored if wanted in ("", folder.name, folder.name.partition("-")[2])]
    if matching:
        return matching[-1]
    if not stored:
        raise UsageError(f"There is no run in {results}.", "Make one: ./lab run scenario1 --quick")
    newest = ", ".join(folder.name for folder in stored[:-4:-1])
    raise UsageError(f"There is no run {run!r} in {results}.", f"The newest are: {newest}.")


def _treatments(document: dict[str, Any]) -> str:
    """Return every treatment of a run: verified or not, what was wanted, what was found."""
    lines = [f"{document['run_id']}: what was done to the system"]
    for treatment in document["treatments"]:
        mark = "ok" if treatment["verified"] else "NO" if treatment["required"] else "no"
        lines.append(fill(as_found(treatment), WIDTH, initial_indent=f"  {mark}  ", subsequent_indent="        "))
    return "\n".join([*lines, "ok: as wanted; NO: not, the run is INVALID; no: not, and not required"])
