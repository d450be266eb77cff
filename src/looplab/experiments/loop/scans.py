"""The scans of one run of the loop: at the processes, at an emulated link, at what each cell took."""

import os
import re
import socket
from collections.abc import Iterable, Mapping
from typing import Any

from looplab.errors import MachineError
from looplab.experiments.loop import EXPERIMENT, treatments
from looplab.experiments.loop.parameters import LoopParameters
from looplab.run import placement, quiet
from looplab.treatments import link
from looplab.treatments.judgement import Treatment
from looplab.treatments.link import NO_LINK
from looplab.treatments.loads import loads
from looplab.treatments.loads.load import WARM_UP_SCANS
from looplab.treatments.scans import Scan, TreatmentsClient, running

_PARTS = [role.name for role in EXPERIMENT.roles if not role.optional]
LINK_URL = "http://bridge:9107"
ROBOT_TIMEOUT_S = 0.5
_LAGS = re.compile(r"(lag_max_us|lag_mean_us|lags_over_1ms|deadlines)=([0-9.]+)")


class Scans:
    """Taken before and after the warm-up, and after each cell."""

    def __init__(self, parameters: LoopParameters, client: TreatmentsClient, taken: list[Scan | None]) -> None:
        self._parameters, self._client, self._taken = parameters, client, taken
        self._link_url = os.environ.get("LINK_URL") or LINK_URL
        self._link_taken: list[dict[str, Any]] = []
        self._lags: list[dict[str, float]] = []

    def take(self, bridge: Mapping[str, Any], own: int) -> None:
        """Have the treatments read, applied and read again: between cells and never within one.

        `bridge` is what the bridge reports of itself, `own` how many messages this run has published so far.
        """
        p = self._parameters
        counted = p.load in loads() and loads()[p.load].counted
        scan = self._client.scan(treatments.applied(p), f"{p.broker_host}:{p.broker_port}" if counted else "", p.broker)
        if scan is not None:
            scan = {**scan, "own": own, "elsewhere": treatments.elsewhere(bridge)}
        if scan is not None and p.link != NO_LINK:
            self._link_taken.append(link.scan(self._link_url))
        self._taken.append(scan)
        self._lags.append(robot_lag(os.environ.get("ROBOT_STATISTICS", "")) if p.robot == "virtual" else {})

    def judge_link(self) -> Treatment:
        """Judge the link, or that there was none."""
        emulating = any(running(scan, "link") for scan in self._taken)
        return link.judge(self._parameters.link, self._link_taken, emulating)

    def cell(self, index: int) -> dict[str, Any]:
        """Return what run.json holds of a cell's load, run-queue waits, noise floor and robot's lag.

        Empty where a scan is missing.
        """
        first = WARM_UP_SCANS + index
        before, after, *_ = [*self._taken[first : first + 2], None, None]
        if before is None or after is None:
            return {"load": {}, "cpu_wait_us": {}, "cpu_runs": {}, "robot_lag": {}}
        facts = treatments.cell_facts(self._parameters.load, before, after)
        return {**facts, **quiet.between(before, after, _PARTS), "robot_lag": self._lags[first + 1]}

    def document(self) -> dict[str, Any]:
        """Return what run.json holds of an emulated link, and of each of several hosts."""
        return {**({"link": self._link_taken[-1]} if self._link_taken else {}), **placement.document(self._taken)}

    def check_load(self) -> None:
        """Raise LabError (exit code 3) if the wanted load does not run, or nobody answers who could see it."""
        self._client.fault, load = "", self._parameters.load
        if not running(self._client.scan(treatments.applied(self._parameters)), load):
            why = f"The {load} load was not seen running. {self._client.fault}".rstrip()
            raise MachineError(why, f"See `docker compose logs` of the {load} service.")

    def check_link(self) -> None:
        """Raise LabError (exit code 3) if the wanted link is not there yet: its emulator may still look for a peer."""
        state = link.scan(self._link_url, pings=0)
        if not state.get("links"):
            why = state.get("fault", "its emulator knows no link")
            remedy = "See `docker compose logs link`, and compose/links.md."
            raise MachineError(f"The link {self._parameters.link} is not there: {why}", remedy)


def robot_lags(cells: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the lags of all cells together, as `robot` of run.json; {} if no robot counted."""
    lags = [cell["robot_lag"] for cell in cells if cell["robot_lag"]]
    if not lags:
        return {}
    sums = {name: sum(lag[name] for lag in lags) for name in ("lags_over_1ms", "deadlines")}
    return {"lag_max_us": max(lag["lag_max_us"] for lag in lags), **sums}


def robot_lag(address: str) -> dict[str, float]:
    """Ask the virtual robot how late it delivered its bytes since the last question, by its own count.

    `address` is host:port, "" for no robot that counts: {}, as where nobody answers.
    """
    host, _, port = address.rpartition(":")
    if not host:
        return {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(ROBOT_TIMEOUT_S)
        try:
            sock.connect((host, int(port)))
            sock.send(b"?")
            text = sock.recv(1000).decode("ascii", "replace")
        except (OSError, ValueError):
            return {}
    return {name: float(value) if "." in value else int(value) for name, value in _LAGS.findall(text)}
