"""What every start of the lab does first: open folders, fill what others are handed.

`pairing USER HOST PORT [plain]` prints what a client elsewhere needs to reach the broker, and does nothing else.
`recover` stores what killed controllers left, and does nothing else.
"""

import contextlib
import os
import stat
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from looplab.errors import LabError
from looplab.mqtt.pairing import write_pairing
from looplab.run import identities
from looplab.run.recovery import recover
from looplab.spec.experiment import Experiments

# Compose puts the name of a service before each line: of 80 columns so many are left.
WIDTH = 58
IDENTITIES = Path("/identities")
# The user of LAB_UID writes into these.
SHARED = ("/report", "/answers")
FOLDERS = ("/results", *SHARED)


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


def main(experiments: Experiments, words: Sequence[str] = ()) -> int:
    """Open the folders, make the secrets, print the guide.

    Return exit code 3 where a folder cannot be opened, 2 where .env is wrong.
    """
    environment = dict(os.environ)
    try:
        return _prepare(experiments, words, environment)
    except LabError as error:
        print(error, file=sys.stderr)
        return error.exit_code


def _prepare(experiments: Experiments, words: Sequence[str], environment: dict[str, str]) -> int:
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
        print(f"LAB_UID and LAB_GID in .env must be whole numbers: {error}", file=sys.stderr)
        return 2
    readers = identities.Readers(identities.BROKER_UID, uid, identities.BRIDGE_UID)
    own = [one for each in experiments.values() for one in each.secrets]
    identities.make(IDENTITIES, readers, own, environment.get("TREATMENTS_ADDRESSES", "").split())
    for name in SHARED:
        share(Path(name), gid)
    problems = [problem for name in FOLDERS if (problem := open_folder(Path(name), uid, gid))]
    for problem in problems:
        print(problem, file=sys.stderr)
    print(guide(environment, Path("/compose")))
    return 3 if problems else 0
