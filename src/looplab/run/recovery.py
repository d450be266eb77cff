"""Store what killed controllers left: the live rows of the last one, exact to the message, and their hidden folders.

A run is dead if nobody holds its lock: the kernel releases it however the process ended, and no clock decides.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from looplab.errors import LabError
from looplab.run.document import files_of
from looplab.run.folder import RunFolder
from looplab.run.record import ROWS, hold_live, read_state, write_state
from looplab.run.samples import SharedSamples
from looplab.spec.experiment import Experiments
from looplab.system.lock import Held
from looplab.system.words import plural

KILLED = "its controller was killed"
GONE = "; live memory, which `docker compose down` empties, had none of its rows"


def recover(results: Path, live: Path, experiments: Experiments) -> Iterator[str]:
    """Give the folder of each killed controller its name and what live memory holds of it; yield a sentence each."""
    try:
        # No controller of this lab begins meanwhile: it would empty the live rows.
        with hold_live(live, "recovery"):
            for folder in RunFolder.abandoned(results):
                yield _recovered(folder, live, experiments)
    except Held:
        return
    except (OSError, LabError) as error:
        yield f"What a killed controller left in results/ cannot be stored: {error}"


def _recovered(folder: RunFolder, live: Path, experiments: Experiments) -> str:
    state, run = read_state(live), folder.run_id
    own = state.get("run_id") == run and state.get("state") == "running"
    because = KILLED
    if own:
        try:
            _store_rows(folder, live, state, experiments)
        except (KeyError, TypeError, ValueError, AttributeError, ImportError) as error:
            because += f", and its live rows cannot be read ({type(error).__name__}: {error})"
    samples = folder.samples()
    if samples:
        folder.interrupt({"scenario": run.partition("-")[2], "interrupted_because": because})
    else:
        folder.discard()
    if own:
        with contextlib.suppress(OSError):
            write_state(live, {**state, "state": "interrupted"})
    nothing = "it had measured nothing" if own else "nothing is kept"
    kept = f"{plural(samples, 'sample')} kept in results/{run}" if samples else nothing
    return f"{run}: {because}; {kept}{'' if own else GONE}."


def _store_rows(folder: RunFolder, live: Path, state: dict[str, Any], experiments: Experiments) -> None:
    """Write the files again from the live rows; an experiment without them has appended all that it measured."""
    if "planned_cells" not in state:
        return
    experiment = experiments.of(state)
    parameters, rows = experiment.parameters.of_json(state["parameters"]), SharedSamples(live / ROWS)
    if rows.count != parameters.samples:
        raise ValueError(f"{rows.count} rows in place of {parameters.samples}")
    for file in files_of(experiment, parameters):
        folder.rewrite(file.name, file.header, file.lines(rows, range(rows.count)))
