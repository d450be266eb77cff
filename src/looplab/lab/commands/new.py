"""./lab new: a scenario of one's own from the template, listed and runnable at once."""

import re
from itertools import chain, count
from pathlib import Path

from looplab.errors import EXIT_GOOD, UsageError
from looplab.lab.profiles import update_profiles
from looplab.lab.scenarios import FOLDER, TEMPLATE, scenarios

INCLUDE_LIST = Path("compose.yaml")
_NAME = re.compile(r"[a-z][a-z0-9-]{1,30}")
_INCLUDED = "  - compose/scenarios/{}/compose.yaml"


def new(root: Path, name: str) -> Path:
    """Make compose/scenarios/<name>, list it, return its folder.

    Raises LabError (exit code 2) if the name is taken or not one that Compose accepts.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be a scenario's name.", "Use 2 to 31 lower-case letters, digits and -, a letter first."
        )
    folder = root / FOLDER / name
    if folder.exists():
        raise UsageError(f"{FOLDER / name} is there already.", "Choose another name, or edit that one.")
    # Worked out before anything is written: a failure leaves the lab as it was.
    include = _included(root / INCLUDE_LIST, name)
    values = {"@NAME@": name, "@PREFIX@": _prefix(root, name), "@TITLE@": name}
    folder.mkdir(parents=True)
    for source in sorted((root / FOLDER / TEMPLATE).iterdir()):
        text = source.read_text(encoding="utf-8")
        for mark, value in values.items():
            text = text.replace(mark, value)
        (folder / source.name).write_text(text, encoding="utf-8")
    (root / INCLUDE_LIST).write_text(include, encoding="utf-8")
    update_profiles(root)
    return folder


def _included(path: Path, name: str) -> str:
    """Return the text of `path` with the scenario `name` behind the last one that it includes."""
    lines = path.read_text(encoding="utf-8").splitlines()
    listed = re.compile(re.escape(_INCLUDED).replace(r"\{\}", r"[A-Za-z0-9-]+"))
    places = [number for number, text in enumerate(lines) if listed.fullmatch(text)]
    if not places:
        raise UsageError(f"{path} has no list of scenarios to add {name} to.", f"Restore it: git checkout {path}")
    lines.insert(places[-1] + 1, _INCLUDED.format(name))
    return "\n".join(lines) + "\n"


def _prefix(root: Path, name: str) -> str:
    """Return the start of its services' names: s9 for scenario9, else its name; never one that is taken."""
    numbered = re.fullmatch(r"scenario(\d+)", name)
    taken = {scenario.prefix for scenario in scenarios(root).values()}
    wanted = [f"s{numbered[1]}"] if numbered else []
    return next(prefix for prefix in chain(wanted, [name], (f"{name}-{n}" for n in count(2))) if prefix not in taken)


def command(root: Path, name: str) -> int:
    """Make a scenario and print what comes next; return the exit code."""
    folder = new(root, name)
    print(f"{folder.relative_to(root)} is there: edit params.env and compose.yaml, then ./lab run {name}")
    return EXIT_GOOD
