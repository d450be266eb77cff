"""compose/loop.yaml as a run reads it: which load and which priorities it gives a scenario. Standard library only."""

import re
from collections.abc import Collection
from pathlib import Path

from looplab.errors import UsageError

PRIORITISED_BROKER = "broker-prioritised"
_COMMENT = re.compile(r"(?:^|\s)#.*")
# A service with its lines: `  name: …` up to the next one.
_SERVICE = re.compile(r"^  ([\w-]+):(.*?)(?=^  [\w-]+:|^\S|\Z)", re.MULTILINE | re.DOTALL)
_PROFILES = re.compile(r"\bprofiles:\s*(?:&([\w-]+)\s*)?(?:\[([^]]*)\]|\*([\w-]+))")
# The published value, which a machine that refuses it lowers.
_PRIORITY = re.compile(r"rtprio:\W+LAB_RTPRIO_(\w+):-(\d+)")


def wanted(file: Path, scenario: str, loads: Collection[str]) -> dict[str, str]:
    """Return LOAD, PRIORITY_BROKER and PRIORITY_CONTROLLER of a scenario, by the profiles and anchors in `file`.

    `loads` are the services that count as a load. Raises LabError (exit code 2) if the file does not say.
    """
    try:
        text = _COMMENT.sub("", file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read: {error}.", "Restore it: git checkout compose/loop.yaml") from error
    services = dict(_SERVICE.findall(text[text.find("\nservices:") :]))
    if scenario not in services:
        raise UsageError(f"{file} has no service {scenario}.", f"Add its line; ./lab new {scenario} does.")
    started = [name for name, profiles in _profiles(services, file).items() if scenario in profiles]
    own = [name for name in started if name in loads]
    if len(own) > 1:
        raise UsageError(f"{scenario} starts {' and '.join(own)}.", f"Leave it in the profiles of one, in {file}.")
    published = dict(_PRIORITY.findall(text))
    given = {"BROKER": PRIORITISED_BROKER in started, "CONTROLLER": "*prioritised" in services[scenario]}
    return {
        "LOAD": next(iter(own), ""),
        **{f"PRIORITY_{part}": published.get(part, "") if prioritised else "0" for part, prioritised in given.items()},
    }


def _profiles(services: dict[str, str], file: Path) -> dict[str, list[str]]:
    """Return the profiles of each service."""
    named: dict[str, list[str]] = {}
    profiles = {}
    for name, lines in services.items():
        match = _PROFILES.search(lines)
        if match is None:
            raise UsageError(
                f"{file}: {name} has no list of profiles.", "Write it as `profiles: [scenario1, scenario2]`."
            )
        anchor, listed, alias = match.groups()
        profiles[name] = named.get(alias, []) if alias else re.findall(r"[\w-]+", listed)
        if anchor:
            named[anchor] = profiles[name]
    return profiles
