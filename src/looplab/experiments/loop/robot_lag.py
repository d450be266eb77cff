"""How late the virtual robot delivered its bytes, by its own count: asked between cells, over UDP."""

import re
import socket
from collections.abc import Iterable, Mapping
from typing import Any

TIMEOUT_S = 0.5
_PAIR = re.compile(r"(lag_max_us|lag_mean_us|lags_over_1ms|deadlines)=([0-9.]+)")


def whole(cells: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the lags of all cells together, as `robot` of run.json; {} if no robot counted."""
    lags = [cell["robot_lag"] for cell in cells if cell["robot_lag"]]
    if not lags:
        return {}
    sums = {name: sum(lag[name] for lag in lags) for name in ("lags_over_1ms", "deadlines")}
    return {"lag_max_us": max(lag["lag_max_us"] for lag in lags), **sums}


def ask(address: str) -> dict[str, float]:
    """Return lag_max_us, lag_mean_us, lags_over_1ms and deadlines since the last question; {} if nobody answers.

    `address` is host:port, "" for no robot that counts.
    """
    host, _, port = address.rpartition(":")
    if not host:
        return {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(TIMEOUT_S)
        try:
            sock.connect((host, int(port)))
            sock.send(b"?")
            text = sock.recv(1000).decode("ascii", "replace")
        except (OSError, ValueError):
            return {}
    return {name: float(value) if "." in value else int(value) for name, value in _PAIR.findall(text)}
