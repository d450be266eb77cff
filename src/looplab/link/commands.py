"""Run ip, tc and iptables, and say in words a person understands why one refused."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from looplab.errors import EXIT_MACHINE, LabError

TIMEOUT_S = 20
CAPABILITY_REMEDY = "Give the emulator's container cap_add: [NET_ADMIN, SETUID, SETGID] as compose/sidecar.yaml does."


def attempt(command: Sequence[str], text: str = "") -> tuple[bool, str]:
    """(whether it went well, what it said on both streams)."""
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except FileNotFoundError:
        return False, f"{command[0]} is not installed"
    except subprocess.TimeoutExpired:
        return False, f"{command[0]} did not end within {TIMEOUT_S} s"
    return done.returncode == 0, (done.stdout + done.stderr).strip()


def run(command: Sequence[str], text: str = "") -> str:
    """Its output; raises LabError (exit code 3) with the reason where it fails."""
    good, said = attempt(command, text)
    if not good:
        raise refusal(command, said)
    return said


def refusal(command: Sequence[str], said: str) -> LabError:
    """What a failed command means for the link."""
    shown = " ".join(command)
    if "ermission denied" in said or "not permitted" in said or "must be root" in said:
        return LabError(f"`{shown}` is not permitted here.", CAPABILITY_REMEDY, EXIT_MACHINE)
    if "Cannot find device" in said or "No such device" in said or "Network is unreachable" in said:
        return LabError(
            f"`{shown}` failed: {_last(said)}",
            "The interface vanished: its container was stopped or left the network. Start both anew.",
            EXIT_MACHINE,
        )
    return LabError(f"`{shown}` failed: {_last(said)}", "See images/link/README.md, what a kernel needs.", EXIT_MACHINE)


def _last(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
