"""Run ip, tc and iptables, and explain to a person why one failed."""

import subprocess
from collections.abc import Sequence

from looplab.errors import LabError, MachineError

TIMEOUT_S = 20
CAPABILITY_REMEDY = "Give the emulator's container cap_add: [NET_ADMIN, SETUID, SETGID] as compose/loop.yaml does."
_NOT_PERMITTED = ("ermission denied", "not permitted", "must be root")
_NO_INTERFACE = ("Cannot find device", "No such device", "Network is unreachable")


def attempt(command: Sequence[str], text: str = "") -> tuple[bool, str]:
    """Run a command with `text` as its input; return (whether it succeeded, its output on both streams)."""
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except FileNotFoundError:
        return False, f"{command[0]} is not installed"
    except subprocess.TimeoutExpired:
        return False, f"{command[0]} did not end within {TIMEOUT_S} s"
    return done.returncode == 0, (done.stdout + done.stderr).strip()


def run(command: Sequence[str], text: str = "") -> str:
    """Run a command and return its output; raises LabError (exit code 3) with the reason if it fails."""
    good, output = attempt(command, text)
    if not good:
        raise refusal(command, output)
    return output


def refusal(command: Sequence[str], output: str) -> LabError:
    """Return the error that a failed command means for the link."""
    shown = " ".join(command)
    if any(words in output for words in _NOT_PERMITTED):
        return MachineError(f"`{shown}` is not permitted here.", CAPABILITY_REMEDY)
    remedy = "See images/link/README.md, what a kernel needs."
    if any(words in output for words in _NO_INTERFACE):
        remedy = "The interface vanished: its container was stopped or left the network. Restart both containers."
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return MachineError(f"`{shown}` failed: {lines[-1] if lines else 'no output'}", remedy)
