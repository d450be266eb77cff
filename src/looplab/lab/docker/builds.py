"""Build images side by side with progress; a build that fails shows its last lines and a remedy."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from looplab.errors import MachineError
from looplab.lab.image_names import BASE, BASE_IMAGE
from looplab.lab.programs import Outcome, follow
from looplab.system.remedies import NO_SPACE
from looplab.system.terminal import Step

TIMEOUT_S = 3600.0
BUNDLE_REMEDY = "On a machine with a network run ./lab bundle FILE, bring FILE here, then ./lab load FILE."
LAST_LINES = 15
_NO_NETWORK = ("Temporary failure resolving", "Could not resolve", "Unable to fetch", "Failed to fetch")


def build_command(folder: Path, reference: str, base: str = BASE_IMAGE) -> Sequence[str]:
    """Return what builds the Dockerfile in `folder`, its own context, as `reference` upon the image `base`."""
    return ("docker", "build", "--tag", reference, "--build-arg", f"{BASE}={base}", str(folder))


def own_build_command(services: Iterable[str], profiles: Sequence[str]) -> Sequence[str]:
    """Return what builds own images by Compose, each by the one service of `profiles` that is named for it.

    A further build of the same image would leave one without a name.
    """
    named = [word for profile in profiles for word in ("--profile", profile)]
    return ("docker", "compose", *named, "build", *services)


def build_all(root: Path, builds: Mapping[str, Sequence[str]], environment: Mapping[str, str] | None = None) -> None:
    """Run commands side by side in `root`: each waits for the network, for the disk and for a processor in turn.

    `builds` has them by what they build. They get `environment` over the shell's own. Show each line of a builder, in
    which it names the image. Raises MachineError.
    """
    with Step("Building images") as step, ThreadPoolExecutor(max(1, len(builds))) as pool:

        def run(command: Sequence[str]) -> Outcome:
            note, place = lambda line: step.note(line[:40]), str(root)
            return follow(command, note, timeout_s=TIMEOUT_S, directory=place, environment=environment)

        for what, done in zip(builds, pool.map(run, builds.values()), strict=True):
            _check(what, done)


def _check(what: str, done: Outcome) -> None:
    """Print the last lines of a failed build and raise LabError (exit code 3)."""
    if done.good:
        return
    tail = [line for line in done.stdout.splitlines() if line.strip()][-LAST_LINES:]
    print("\n".join(f"  | {line}" for line in tail), file=sys.stderr)
    remedy = f"The lines above show the reason. To see everything: {' '.join(done.command)}"
    if any(sign in done.stdout for sign in _NO_NETWORK):
        remedy = f"Debian's package mirror cannot be reached from a build. {BUNDLE_REMEDY}"
    elif NO_SPACE.signs[0] in done.stdout:
        remedy = NO_SPACE.do
    raise MachineError(f"Building {what} failed: {done.reason}", remedy)
