"""Routes of this network namespace: which interface leads where, and TCP's least retransmission time-out."""

import json

from looplab.errors import UsageError
from looplab.link.commands import run

# The kernel's own bound (TCP_RTO_MAX).
MAX_RTO_MIN_MS = 120_000


def device_to(address: str) -> str:
    """Return the interface that leads to an address; raises LabError (exit code 3) if there is none."""
    return str(json.loads(run(["ip", "-json", "-4", "route", "get", address]))[0]["dev"])


def parse_rto_min(text: str) -> int:
    """Return the milliseconds of LINK_RTO_MIN_MS, 0 if it is empty; raises LabError (exit code 2)."""
    text = text.strip() or "0"
    if not text.isdigit() or int(text) > MAX_RTO_MIN_MS:
        raise UsageError(f"LINK_RTO_MIN_MS={text!r}: expected 0 to {MAX_RTO_MIN_MS} ms.", "Correct `LINK_RTO_MIN_MS`.")
    return int(text)


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
