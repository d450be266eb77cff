"""What every load has in common: how it is recognised, judged, and how strong it was."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from looplab.treatments.judgement import Treatment
from looplab.treatments.looks import Look, processes, running
from looplab.treatments.roles import Role

# A pattern that the whole value must match, and what to write instead.
Rule = tuple[str, str]
NO_LOAD = "none"
COUNT: Rule = (r"[1-9][0-9]{0,5}", "a whole number from 1 to 999999")


@dataclass(frozen=True)
class Load:
    """`name` is its role, its value of LOAD and its file in compose/; `comms` as in Role.

    One that is `steady` must be seen in every look, another in one. `counted` has its messages counted by the broker.
    `settings` are the variables that its Compose file reads, with what each may be.
    """

    name: str
    comms: tuple[str, ...]
    order: int
    steady: bool = True
    counted: bool = False
    settings: Mapping[str, Rule] = field(default_factory=dict)

    @property
    def role(self) -> Role:
        """What the treatments service looks for."""
        return Role(self.name, self.comms, optional=True)

    def judge(self, looks: Sequence[Look], *, wanted: bool) -> Treatment:
        """Judge whether the load was there, or was not, as wanted."""
        what, seen = f"{self.name} load", [running(look, self.name) for look in looks]
        if not wanted:
            return Treatment(what, "not running", "running" if any(seen) else "not running", not any(seen))
        alive = all(seen) if self.steady else any(seen)
        if alive:
            return self.judge_running(what, looks)
        found = f"seen in {sum(seen)} of {len(seen)} looks" if any(seen) else "not running"
        return Treatment(what, "running", found, False)

    def judge_running(self, what: str, looks: Sequence[Look]) -> Treatment:
        """Judge a load that was wanted and seen."""
        return Treatment(what, "running", "running", True)

    def judge_rate(self, looks: Sequence[Look], own_messages: int) -> list[Treatment]:
        """Judge how hard it was in each cell, [] where nothing shows it; `own_messages` a cell are the run's own."""
        return []


def strength(load: str, before: Look, after: Look) -> dict[str, Any]:
    """Return how hard a load was between two looks: CPU seconds consumed, messages a second at the broker."""
    result: dict[str, Any] = {"seconds": round((after["clock_ns"] - before["clock_ns"]) / 1e9, 3)}
    if load != NO_LOAD:
        result[f"{load}_cpu_s"] = round(_cpu_s(after, load) - _cpu_s(before, load), 3)
    first, last = before.get("published"), after.get("published")
    # A broker that was restarted counts from 0 again: there is no rate.
    if first is not None and last is not None and last >= first:
        span_s = (after["published_clock_ns"] - before["published_clock_ns"]) / 1e9
        result["broker_publish_per_s"] = round((last - first) / span_s, 1)
    return result


def _cpu_s(look: Look, role: str) -> float:
    return float(sum(process["cpu_ticks"] for process in processes(look, role))) / float(look["ticks_hz"])
