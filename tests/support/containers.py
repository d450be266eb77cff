"""What all tests that use the engine share: its command line, and waiting for what takes a moment."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime

from looplab.lab.checkout import Lab
from support.places import ROOT


def docker(*words: str, timeout_s: float = 120.0, status: int = 0) -> str:
    """Standard output, without the white space around it, of a docker command that must end with `status`."""
    done = subprocess.run(["docker", *words], capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == status, f"docker {' '.join(words)} gave {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout.strip()


def own_image(name: str) -> str:
    """What .env and the shell call one of the lab's own images: the one ./lab setup made."""
    return Lab(ROOT).own_images()[name]


def stamp_ns(stamp: str) -> int:
    """An engine's stamp of UTC, whose fraction has up to nine digits, in ns since 1970."""
    whole, _, fraction = stamp.removesuffix("Z").partition(".")
    return int(datetime.fromisoformat(whole).replace(tzinfo=UTC).timestamp()) * 10**9 + int(fraction.ljust(9, "0"))
