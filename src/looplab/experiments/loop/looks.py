"""The looks of one run of the loop: at the processes, at an emulated link, at how strong a load was in each cell."""

import os
from collections.abc import Mapping
from typing import Any

from looplab.experiments.loop import EXPERIMENT, treatments
from looplab.experiments.loop.parameters import Parameters
from looplab.run import stalls
from looplab.treatments import link, noise
from looplab.treatments.judgement import Treatment
from looplab.treatments.link import NO_LINK
from looplab.treatments.loads import loads
from looplab.treatments.loads.load import strength
from looplab.treatments.looks import Look, running

_PARTS = [role.name for role in EXPERIMENT.roles if not role.optional]
LINK_URL = "http://bridge:9107"


class Looks:
    """One entry a cell: `strengths` of the load (see loads.load.strength) and `stalls` (looplab.run.stalls.between)."""

    def __init__(self, parameters: Parameters) -> None:
        self.strengths: list[dict[str, Any]] = []
        self.stalls: list[dict[str, Any]] = []
        self._parameters = parameters
        self._client = treatments.client()
        self._link_url = os.environ.get("LINK_URL") or LINK_URL
        self._taken: list[Look | None] = []
        self._link_taken: list[dict[str, Any]] = []

    def take(self) -> None:
        """Have the treatments applied and read: between cells and never within one."""
        p = self._parameters
        counted = p.load in loads() and loads()[p.load].counted
        look = self._client.look(treatments.applied(p), f"{p.broker_host}:{p.broker_port}" if counted else "")
        if look is not None and p.link != NO_LINK:
            self._link_taken.append(link.look(self._link_url))
        before = self._taken[-1] if self._taken else None
        if before is not None and look is not None:
            self.strengths.append(strength(p.load, before, look))
            self.stalls.append(stalls.between(before, look, _PARTS))
        self._taken.append(look)

    def judge(self, bridge: Mapping[str, Any]) -> list[Treatment]:
        """Judge the treatments that the processes show."""
        return treatments.judge(self._parameters, self._taken, bridge)

    def judge_link(self) -> Treatment:
        """Judge the link, or that there was none."""
        emulating = any(running(look, "link") for look in self._taken)
        return link.judge(self._parameters.link, self._link_taken, emulating)

    def document(self) -> dict[str, Any]:
        """Return what run.json holds of the machine's stalls and of an emulated link."""
        return {"noise_floor": noise.over(self._taken), **({"link": self._link_taken[-1]} if self._link_taken else {})}

    def load_runs(self) -> bool:
        """Return whether the wanted load is there."""
        return running(self._client.look(treatments.applied(self._parameters)), self._parameters.load)

    def link_fault(self) -> str:
        """Return why the wanted link is not there yet, "" once it is: its emulator may still look for its peer."""
        state = link.look(self._link_url, pings=0)
        return "" if state.get("links") else str(state.get("fault", "its emulator knows no link"))
