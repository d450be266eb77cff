"""Make what stands in for debian:trixie-slim from Debian's own packages (scripts/make-base-image)."""

import os
from pathlib import Path

from looplab.errors import MachineError
from looplab.lab.docker.builds import BUNDLE_REMEDY
from looplab.lab.programs import follow, is_there, run_script
from looplab.system.terminal import Step, say

SCRIPT = Path(__file__).resolve().parents[4] / "scripts/make-base-image"
SUITE = "trixie"
# mmdebstrap reports about so many stages.
STAGES = 15


def make_base_image(reference: str) -> None:
    """Build the image as `reference`. Raises LabError (exit code 3) without root, a mirror or space."""
    if os.geteuid() != 0:
        raise MachineError(
            f"The image {reference} is not here, no registry gives it, and building it needs root.",
            f"Run `sudo ./lab setup` once, or: {BUNDLE_REMEDY}",
        )
    if not is_there("mmdebstrap"):
        packages = ("mmdebstrap", "debian-archive-keyring")
        run_script("install-packages", *packages, title="Installing mmdebstrap", expected_s=10)
    stages = 0
    with Step(f"Building a Debian {SUITE} base from packages", expected_s=20) as step:

        def count(line: str) -> None:
            nonlocal stages
            stages += line.startswith("I: ")
            step.advance(min(stages, STAGES - 1), STAGES, line.removeprefix("I: ")[:40])

        done = follow([str(SCRIPT), reference], count, timeout_s=1200)
        if not done.good:
            errors = [line.removeprefix("E: ") for line in done.stdout.splitlines() if line.startswith("E: ")]
            fetches = [line for line in errors if line.startswith("Failed to fetch")]
            raise MachineError(
                f"The base image cannot be built: {(fetches or errors or [f'exit code {done.code}'])[0]}",
                f"Name a reachable Debian mirror in `LAB_DEBIAN_MIRROR`; check /var/tmp. Or: {BUNDLE_REMEDY}",
            )
    for line in done.stdout.splitlines():
        if line.startswith("N: "):
            say(line.removeprefix("N: "))
