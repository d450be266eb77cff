"""Build images side by side with progress; a build that fails shows its last lines and a remedy."""

import sys
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from looplab.errors import MachineError
from looplab.lab.image_names import BASE, BASE_IMAGE
from looplab.lab.programs import Outcome, follow
from looplab.system.remedies import NO_SPACE
from looplab.system.terminal import Step

TIMEOUT_S = 3600.0
BUNDLE_REMEDY = "On a machine with a network run ./lab bundle FILE, bring FILE here, then ./lab load FILE."
LAST_LINES = 15
_NO_NETWORK = ("Temporary failure resolving", "Could not resolve", "Unable to fetch", "Failed to fetch")


class Build(NamedTuple):
    """One command that builds `images`; it gets `environment` over the shell's own."""

    what: str
    images: Collection[str]
    command: Sequence[str]
    environment: Mapping[str, str] = {}


def build_of(folder: Path, reference: str, base: str = BASE_IMAGE) -> Build:
    """Return the build of the Dockerfile in `folder`, its own context, as `reference` upon the image `base`."""
    command = ("docker", "build", "--tag", reference, "--build-arg", f"{BASE}={base}", str(folder))
    return Build(reference, [reference], command)


def build_of_own(images: Mapping[str, str], profiles: Sequence[str], environment: Mapping[str, str]) -> Build:
    """Return the build of own images by Compose, each by the one service of `profiles` that is named beside it.

    A further build of the same image would leave one without a name.
    """
    named = [word for profile in profiles for word in ("--profile", profile)]
    return Build("the lab's images", images, ("docker", "compose", *named, "build", *images.values()), environment)


def build_all(root: Path, builds: Sequence[Build]) -> None:
    """Run builds side by side in `root`: each waits for the network, for the disk and for a processor in turn.

    Show each line of a builder, in which it names the image. Raises MachineError.
    """
    with Step("Building images") as step, ThreadPoolExecutor(max(1, len(builds))) as pool:

        def run(build: Build) -> Outcome:
            place, shell = str(root), build.environment
            return follow(
                build.command,
                lambda line: step.note(line[:40]),
                timeout_s=TIMEOUT_S,
                directory=place,
                environment=shell,
            )

        for build, done in zip(builds, pool.map(run, builds), strict=True):
            _check(build.what, done)


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
