"""The Python packages of ./lab report and ./lab check as files, for a room without a package index."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from looplab.errors import EXIT_USAGE, LabError
from looplab.lab.programs import follow
from looplab.lab.virtual_environment import OLDEST_PYTHON, PIP_OPTIONS, python_with_pip
from looplab.system.terminal import Step

FETCH_TIMEOUT_S = 900.0
_VERSION = re.compile(r"(\d+)\.(\d+)")
_PROGRESS = re.compile(r"^(?:Collecting|Downloading|Saved) (\S+)")


def this_python() -> str:
    """The version that decides which wheels fit, e.g. "3.11"."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def read_pythons(text: str | None) -> list[str]:
    """ "3.11,3.12" as a list, without text this Python's; LabError (exit code 2) for what is no version."""
    if text is None:
        return [this_python()]
    versions = [word.strip() for word in text.split(",")]
    for version in versions:
        found = _VERSION.fullmatch(version)
        if found is None or (int(found[1]), int(found[2])) < OLDEST_PYTHON:
            raise LabError(f"{version!r} is no Python the lab runs on.", "Write e.g. --pythons 3.11,3.13", EXIT_USAGE)
    return list(dict.fromkeys(versions))


def fetch_wheels(place: Path, requirements: Sequence[str], pythons: Sequence[str]) -> dict[str, str]:
    """Put the wheels of `requirements` and all they need into `place`, for this kind of machine.

    Returns, for each Python version whose wheels could not be had, why.
    """
    missed = {}
    for version in pythons:
        with Step(f"Getting the Python packages of report and check for Python {version}", expected_s=30) as step:

            def show(line: str, step: Step = step) -> None:
                if (found := _PROGRESS.match(line.strip())) is not None:
                    step.advance(0, 1, found[1])

            done = follow(_command(place, requirements, version), show, timeout_s=FETCH_TIMEOUT_S)
            if not done.good:
                missed[version] = done.said
                step.finish_as(f"not to be had: {done.said}")
    return missed


def _command(place: Path, requirements: Sequence[str], version: str) -> list[str]:
    options = [option for option in PIP_OPTIONS if option != "--quiet"]
    return [
        *(python_with_pip(), "-m", "pip", "download", *options, "--progress-bar=off"),
        *("--only-binary=:all:", f"--python-version={version}", f"--dest={place}", *requirements),
    ]
