"""What every start of the lab does first: open folders, fill what others are handed.

`pairing USER HOST PORT [plain]` prints what a client elsewhere needs to reach the broker, and does nothing else.
`recover` stores what killed controllers left (live rows of the last one, hidden folders), and does nothing else.
A run is dead if nobody holds its lock: the kernel releases it however the process ended, and no clock decides.
"""

import contextlib
import os
import stat
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from looplab.errors import LabError, UsageError
from looplab.mqtt.pairing import write_pairing
from looplab.run import identities
from looplab.run.document import files_of
from looplab.run.folder import RunFolder
from looplab.run.record import LOCK, ROWS, read_state, write_state
from looplab.run.samples import SharedSamples
from looplab.spec.experiment import Experiments
from looplab.system import own_process
from looplab.system.lock import Held, hold
from looplab.system.words import plural

# Compose puts the name of a service before each line: of 80 columns so many are left.
WIDTH = 58
IDENTITIES = Path("/identities")
# The user of LAB_UID writes into these.
SHARED = ("/report", "/answers")
FOLDERS = ("/results", *SHARED)
KILLED = "its controller was killed"
GONE = "; live memory, which `docker compose down` empties, had none of its rows"


def open_folder(folder: Path, uid: int, gid: int) -> str:
    """Let `uid`:`gid` write into `folder`; returns "" or why that cannot be done."""
    facts = folder.stat()
    mode = facts.st_mode
    opened = mode & 0o1002 == 0o1002  # Older labs opened it to every user of the machine.
    owner, group = facts.st_uid == uid and mode & 0o300 == 0o300, facts.st_gid == gid and mode & 0o030 == 0o030
    if not opened and (owner or group or mode & 0o003 == 0o003):
        return ""
    try:
        # The controller's group may add, nobody may remove another's, other users may only read.
        os.chown(folder, -1, gid)
        folder.chmod(0o1775)
    except OSError as error:
        return f"{folder.name}/ is not writable for user {uid} ({error.strerror}): set LAB_UID in .env to its owner"
    return ""


def share(folder: Path, gid: int) -> None:
    """Let the group write what another user made in `folder`, e.g. root by `./lab report`.

    No symbolic link is followed, and a file with a second name stays: either may lead out of the folder.
    """
    for _, folders, files, place in os.fwalk(folder):
        for name in (*folders, *files):
            # What this process may not read stays as it is; a file system may know no owners.
            with contextlib.suppress(OSError):
                number = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=place)
                try:
                    facts = os.fstat(number)
                    if stat.S_ISDIR(facts.st_mode) or facts.st_nlink == 1:
                        os.fchown(number, -1, gid)
                        os.fchmod(number, stat.S_IMODE(facts.st_mode) | (0o070 if name in folders else 0o060))
                finally:
                    os.close(number)


def guide(environment: Mapping[str, str], compose: Path) -> str:
    """Return the profiles, where the pages are, and how to stop."""
    shown = [("reports", "LAB_PAGES_PORT", 8080), ("Prometheus", "LAB_PROMETHEUS_PORT", 9090)]
    shown += [("Grafana", "LAB_GRAFANA_PORT", 3000)] * (environment.get("GRAFANA") != "off")
    pages = ", ".join(f"{name} http://127.0.0.1:{environment.get(port) or usual}" for name, port, usual in shown)
    found = [one for kind in ("scenarios", "experiments") for one in sorted(compose.glob(f"{kind}/[!_]*/*.env"))]
    profiles = f"Profiles: {', '.join(one.parent.name for one in found)}"
    lines = [profiles, f"Pages: {pages}", "Stop all: docker compose --profile '*' down"]
    return "\n".join(textwrap.fill(line, WIDTH, subsequent_indent="  ", break_on_hyphens=False) for line in lines)


def recover(results: Path, live: Path, experiments: Experiments) -> Iterator[str]:
    """Give the folder of each killed controller its name and what live memory holds of it; yield a sentence each."""
    try:
        # No controller of this lab begins meanwhile: it would empty the live rows.
        with hold(live / LOCK, "recovery"):
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
    samples = folder.interrupt(because)
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


@own_process.program("lab-prepare")
def main(experiments: Experiments, words: Sequence[str] = ()) -> int:
    """Open the folders, make the secrets, print the guide.

    Return exit code 3 where a folder cannot be opened, 2 where .env is wrong.
    """
    environment = dict(os.environ)
    if words == ["recover"]:
        for line in recover(Path(environment["RESULTS_DIR"]), Path(environment["LIVE_DIR"]), experiments):
            print(textwrap.fill(line, WIDTH, subsequent_indent="  ", break_on_hyphens=False), flush=True)
        return 0
    if words:
        _, user, host, port, *plain = words
        pairing = identities.pairings_of(IDENTITIES, tls=not plain)[user]
        print(write_pairing(replace(pairing, host=host, port=int(port))), end="")
        return 0
    try:
        uid, gid = (int(environment.get(name) or 1000) for name in ("LAB_UID", "LAB_GID"))
    except ValueError as error:
        raise UsageError(f"LAB_UID and LAB_GID in .env must be whole numbers: {error}.", "Correct them.") from None
    own = [one for each in experiments.values() for one in each.secrets]
    identities.make(IDENTITIES, uid, own, environment.get("TREATMENTS_ADDRESSES", "").split())
    for name in SHARED:
        share(Path(name), gid)
    problems = [problem for name in FOLDERS if (problem := open_folder(Path(name), uid, gid))]
    for problem in problems:
        print(problem, file=sys.stderr)
    print(guide(environment, Path("/compose")))
    return 3 if problems else 0
