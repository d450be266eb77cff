"""./lab new: a scenario of one's own from the template, listed and runnable at once."""

from __future__ import annotations

import re
from itertools import chain, count
from pathlib import Path

from looplab.errors import EXIT_USAGE, LabError
from looplab.lab.scenarios import FOLDER, TEMPLATE, scenarios

INCLUDE_LIST = Path("compose.yaml")
PROFILE_LIST = Path("compose/parts.yaml")
_NAME = re.compile(r"[a-z][a-z0-9-]{1,30}")


def new(root: Path, name: str) -> Path:
    """Make compose/scenarios/<name>, add it to the two lists, return its folder.

    Raises LabError (exit code 2) where the name is taken or not one that Compose accepts.
    """
    if not _NAME.fullmatch(name):
        raise LabError(
            f"{name!r} cannot be a scenario's name.",
            "Use 2 to 31 lower-case letters, digits and -, a letter first.",
            EXIT_USAGE,
        )
    folder = root / FOLDER / name
    if folder.exists():
        raise LabError(f"{FOLDER / name} is there already.", "Choose another name, or edit that one.", EXIT_USAGE)
    include, profiles = root / INCLUDE_LIST, root / PROFILE_LIST
    # Both lists are worked out before anything is written: a failure leaves the lab as it was.
    lists = {
        include: _added(include, "  - compose/scenarios/{}/compose.yaml", name),
        profiles: _added(profiles, "      - {}", name, after=list(scenarios(root))),
    }
    values = {"@NAME@": name, "@PREFIX@": _prefix(root, name), "@TITLE@": name}
    folder.mkdir(parents=True)
    for source in sorted((root / FOLDER / TEMPLATE).iterdir()):
        text = source.read_text(encoding="utf-8")
        for mark, value in values.items():
            text = text.replace(mark, value)
        (folder / source.name).write_text(text, encoding="utf-8")
    for path, text in lists.items():
        path.write_text(text, encoding="utf-8")
    return folder


def _added(path: Path, line: str, name: str, after: list[str] | None = None) -> str:
    """`path` with one more line in its list, behind the last line of that form."""
    lines = path.read_text(encoding="utf-8").splitlines()
    forms = [line.format(known) for known in after] if after else []
    wanted = re.compile(re.escape(line).replace(r"\{\}", r"[A-Za-z0-9-]+"))
    places = [n for n, text in enumerate(lines) if (text in forms if forms else wanted.fullmatch(text))]
    if not places:
        raise LabError(f"{path} has no list of scenarios to add {name} to.", f"Restore it: git checkout {path}", 2)
    lines.insert(places[-1] + 1, line.format(name))
    return "\n".join(lines) + "\n"


def _prefix(root: Path, name: str) -> str:
    """scenario9 has services s9-…, another name keeps itself; never one that a scenario has already."""
    numbered = re.fullmatch(r"scenario(\d+)", name)
    taken = {scenario.prefix for scenario in scenarios(root).values()}
    wanted = [f"s{numbered[1]}"] if numbered else []
    return next(prefix for prefix in chain(wanted, [name], (f"{name}-{n}" for n in count(2))) if prefix not in taken)
