"""The network namespace by ip, tc and iptables: why a command failed, which interface leads where, TCP's time-out."""

import json
import subprocess
from collections.abc import Sequence

from looplab.errors import LabError, MachineError

# What makes the links has this name, by which the treatments find it.
PROCESS_NAME = "lab-link"
TIMEOUT_S = 20
# The kernel's own bound (TCP_RTO_MAX).
MAX_RTO_MIN_MS = 120_000
CAPABILITY_REMEDY = "Give the emulator's container cap_add: [NET_ADMIN, SETUID, SETGID] as compose/loop.yaml does."
_NOT_PERMITTED = ("ermission denied", "not permitted", "must be root")


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
    last = output.strip().rpartition("\n")[2] or "no output"
    remedy = "A kernel needs what compose/links.md names; an interface vanishes with its container: restart both."
    return MachineError(f"`{shown}` failed: {last}", remedy)


def device_to(address: str) -> str:
    """Return the interface that leads to an address; raises LabError (exit code 3) if there is none."""
    return str(json.loads(run(["ip", "-json", "-4", "route", "get", address]))[0]["dev"])


def raise_rto_min(milliseconds: int) -> int:
    """Set rto_min on each IPv4 route and return how many there are. Raises LabError (exit code 3).

    By route, because /proc/sys is read-only in a container and net.ipv4.tcp_rto_min_us is of Linux 6.11.
    """
    routes = json.loads(run(["ip", "-json", "-4", "route", "show"]) or "[]")
    for route in routes:
        words = [str(route["dst"])]
        for name, key in (("via", "gateway"), ("dev", "dev"), ("proto", "protocol"), ("scope", "scope")):
            words += [name, str(route[key])] if key in route else []
        words += ["src", str(route["prefsrc"])] if "prefsrc" in route else []
        run(["ip", "-4", "route", "change", *words, "rto_min", f"{milliseconds}ms"])
    return len(routes)
