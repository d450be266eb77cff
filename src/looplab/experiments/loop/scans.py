"""The scans of one run of the loop: at the processes, at an emulated link, at what each cell took."""

import os
from collections.abc import Mapping
from typing import Any

from looplab.errors import MachineError
from looplab.experiments.loop import EXPERIMENT, PARTS, treatments
from looplab.experiments.loop.parameters import LoopParameters
from looplab.run import placement, quiet
from looplab.treatments import link
from looplab.treatments.judgement import Treatment
from looplab.treatments.link import NO_LINK
from looplab.treatments.loads import loads
from looplab.treatments.loads.load import WARM_UP_SCANS
from looplab.treatments.scans import Scan, TreatmentsClient, grown, running

_PARTS = [role.name for role in EXPERIMENT.roles if not role.optional]
LINK_URL = "http://bridge:9107"


class Scans:
    """Taken before and after the warm-up, and after each cell."""

    def __init__(self, parameters: LoopParameters, client: TreatmentsClient, taken: list[Scan | None]) -> None:
        self._parameters, self._client, self._taken = parameters, client, taken
        self._link_url = os.environ.get("LINK_URL") or LINK_URL
        self._link_taken: list[dict[str, Any]] = []

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

    def judge_link(self) -> Treatment:
        """Judge the link, or that there was none."""
        emulating = any(running(scan, "link") for scan in self._taken)
        return link.judge(self._parameters.link, self._link_taken, emulating)

    def cell(self, index: int) -> dict[str, Any]:
        """Return what run.json holds of a cell's load, run-queue waits and noise floor.

        Empty where a scan is missing.
        """
        first = WARM_UP_SCANS + index
        before, after, *_ = [*self._taken[first : first + 2], None, None]
        if before is None or after is None:
            return {"load": {}, "cpu_wait_us": {}, "cpu_runs": {}}
        load = treatments.strength(self._parameters.load, before, after)
        runs = {part: grown(before, after, part, "runs") for part in PARTS}
        return {"load": load, "cpu_runs": runs, **quiet.between(before, after, _PARTS)}

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
