"""compose/profiles.yaml: the profiles that start what all runs share, written from the folders that there are.

Compose's profiles have no wildcard and its `include` no globs, so each name must be in a file.
"""

from pathlib import Path

from looplab.errors import UsageError
from looplab.lab.scenarios import experiments, scenarios

PROFILES = Path("compose/profiles.yaml")
_FILE = """\
# Written by `./lab new` and `./lab run` from the folders of compose/scenarios/ and compose/experiments/.
# Abstract: extended, never included.
services:
  # The control loop's parts, in every scenario.
  every-scenario:
    extends:
      file: parts.yaml
      service: hardened
    profiles:
{scenarios}
  # What the other experiments need as well.
  every-run:
    extends:
      service: every-scenario
    profiles:
{experiments}"""


def profiles_text(root: Path) -> str:
    """Return the content of compose/profiles.yaml for the scenarios and experiments under `root`."""
    listed = {"scenarios": scenarios(root), "experiments": experiments(root)}
    return _FILE.format(**{kind: "".join(f"      - {name}\n" for name in names) for kind, names in listed.items()})


def update_profiles(root: Path) -> None:
    """Write compose/profiles.yaml if a folder came or went; LabError (exit code 2) if it cannot be written."""
    path, text = root / PROFILES, profiles_text(root)
    try:
        if not path.exists() or path.read_text(encoding="utf-8", errors="replace") != text:
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"{PROFILES} cannot be written: {error.strerror}.",
            "It lists every scenario and experiment. Make it writable, or restore it: `git checkout compose`.",
        ) from error
