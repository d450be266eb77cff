"""What every load has in common: how it is recognised, judged, and how strong it was."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

from looplab.errors import UsageError
from looplab.spec.reader import Reader
from looplab.spec.roles import Role
from looplab.treatments import NO_LOAD
from looplab.treatments.judgement import Treatment
from looplab.treatments.scans import Scan, grown, processes, running

# What is judged of a load's strength, what was wanted, what was found, and whether that is enough.
Measure = tuple[str, str, str, bool]
# The first scan is taken before the warm-up: the first cell begins at the second.
WARM_UP_SCANS = 1


class Setting(NamedTuple):
    """A variable of a load: its published value, a pattern that the whole value must match, what to write instead.

    `option` is that of the load's program; "" if the program reads the variable itself.
    """

    published: str
    pattern: str
    expected: str
    option: str


# The pattern of a count, and of one that may be 0, each with what to write instead.
COUNT = r"[1-9][0-9]{0,5}", "a whole number from 1 to 999999"
COUNT_OR_0 = r"0|[1-9][0-9]{0,5}", "a whole number from 0 to 999999"


def constant(published: str, option: str) -> Setting:
    """Return the rule of an option that stands in the Compose files and has no variable: a run records it."""
    return Setting(published, published, f"{published}, which is no choice", option)


class Found(NamedTuple):
    """How strong a load was in one or several cells, and the least it had to be; `cells` names them for a person."""

    cells: str
    strength: float
    least: float


@dataclass(frozen=True)
class HostLoad:
    """`name` is its role and its service in compose/loop.yaml; `comms` as in Role.

    One that is `steady` must be seen in every scan, another in one. `counted` has its messages counted by the broker.
    `settings` are the variables that its service reads; a run has them among its parameters. `neutral` are options of
    its program that are none of these and make no other load. Of `workers`, variables, one is above 0. `unit` is that
    of its strength, `weak` what makes one too weak.
    """

    name: str
    comms: tuple[str, ...]
    order: int
    steady: bool = True
    counted: bool = False
    settings: Mapping[str, Setting] = field(default_factory=dict)
    neutral: Collection[str] = ()
    workers: Collection[str] = ()
    unit: str = ""
    weak: str = ""
    # The SD of ln(mean O) between quiet runs of 100 messages (bench/data), how much of its variance is sampling, and
    # how many messages a run of a quick study takes at least.
    usual_sd: ClassVar[float] = 0.13
    sampled: ClassVar[float] = 0.0
    quick_messages: ClassVar[int] = 0

    @property
    def role(self) -> Role:
        """What the treatments service looks for."""
        return Role(self.name, self.comms, optional=True)

    def read(self, get: Reader) -> dict[str, str]:
        """Return its variables as its container has them. Raises UsageError for settings that make no load."""
        rules = self.settings.items()
        settings = {name: get.matching(name, rule.published, rule.pattern, rule.expected) for name, rule in rules}
        if self.workers and all(settings[name] == "0" for name in self.workers):
            none = " ".join(f"{name}=0" for name in self.workers)
            raise UsageError(f"{none}: {self.name} has no worker.", "Set one of them above 0, or take LOAD=none.")
        return settings

    def judge(self, scans: Sequence[Scan], *, wanted: bool) -> Treatment:
        """Judge whether the load was there, or was not, as wanted."""
        what, seen = f"{self.name} load", [running(scan, self.name) for scan in scans]
        if not wanted:
            return Treatment(what, "not running", "running" if any(seen) else "not running", not any(seen))
        alive = all(seen) if self.steady else any(seen)
        if alive:
            return self.judge_running(what, scans)
        found = f"seen in {sum(seen)} of {len(seen)} scans" if any(seen) else "not running"
        return Treatment(what, "running", found, False)

    def judge_running(self, what: str, scans: Sequence[Scan]) -> Treatment:
        """Judge a load that was wanted and seen."""
        return Treatment(what, "running", "running", True)

    def judge_options(self, scans: Sequence[Scan], settings: Mapping[str, str]) -> list[Treatment]:
        """Judge whether it was started as the run has it, by the command of its processes; [] where none was seen.

        `settings` are the run's values of `self.settings`. A count of 0 may be left out.
        """
        shown = {name: one.option for name, one in self.settings.items() if one.option}
        wanted = {option: settings[name] for name, option in shown.items() if settings[name] != "0"}
        commands = {tuple(process["argv"]) for scan in scans for process in processes(scan, self.name)}
        seen = [self._options(command) for command in sorted(filter(None, commands))]
        found = "; ".join(dict.fromkeys(map(_line, seen))) or "unknown"
        good = bool(seen) and all(one == wanted for one in seen)
        note = "" if good else "LAB_OWN or another Compose file changes its command: set its variables instead"
        return [Treatment(f"{self.name} options", _line(wanted), found, good, note=note)] if commands else []

    def _options(self, command: Sequence[str]) -> dict[str, str]:
        """Return the value of each option of a command that makes a load what it is, "" of one without."""
        options: dict[str, str] = {}
        for word in command[1:]:
            name, _, value = word.partition("=") if word.startswith("-") else (next(reversed(options), ""), "", word)
            options[name] = value
        return {name: value for name, value in options.items() if name not in self.neutral and value != "0"}

    def judge_strength(self, scans: Sequence[Scan], settings: Mapping[str, str]) -> list[Treatment]:
        """Judge how strong it was; [] before the first cell, or where nothing is to be measured.

        `settings` are the run's values of `self.settings`.
        """
        return [
            Treatment(f"{self.name} {what}", wanted, found, good, note="" if good else self.weak)
            for what, wanted, found, good in self.measures(list(pairwise(scans[WARM_UP_SCANS:])), settings)
        ]

    def measures(self, cells: Sequence[tuple[Scan, Scan]], settings: Mapping[str, str]) -> Iterator[Measure]:
        """Yield its strength in the weakest cell, and what else is to be judged."""
        if found := self.strengths(cells, settings):
            weakest = min(found, key=lambda one: one.strength / one.least)
            wanted = f"{weakest.least:.2f} {self.unit} at least"
            got = f"{weakest.strength:.2f} {self.unit} in {weakest.cells}"
            yield "in every cell", wanted, got, all(one.strength >= one.least for one in found)

    def strengths(self, cells: Sequence[tuple[Scan, Scan]], settings: Mapping[str, str]) -> list[Found]:
        """Return the load's strength in each cell, by the readings around it; [] if the lab cannot measure it."""
        return []


def _line(options: Mapping[str, str]) -> str:
    return " ".join(f"{name} {value}".rstrip() for name, value in options.items())


def seconds(before: Scan, after: Scan) -> float:
    """Return the time between two scans."""
    return (int(after["clock_ns"]) - int(before["clock_ns"])) / 1e9


def effort(load: str, before: Scan, after: Scan) -> dict[str, Any]:
    """Return the time between two scans, and how much processor time a load took meanwhile."""
    result: dict[str, Any] = {"seconds": round(seconds(before, after), 3)}
    if load != NO_LOAD:
        # Each round of the flood is a process that has ended by then: its time is among the children's.
        result[f"{load}_cpu_s"] = round(grown(before, after, load, "cpu_ns", "children_cpu_ns") / 1e9, 3)
    return result


def published(before: Scan, after: Scan) -> tuple[int, int, float] | None:
    """Return how many messages the broker received, how many of them the run itself sent, and in how many seconds.

    None if the broker does not report it, or counts from 0 again because it was restarted.
    """
    first, last = before.get("published"), after.get("published")
    if first is None or last is None or last < first:
        return None
    span_s = (int(after["published_clock_ns"]) - int(before["published_clock_ns"])) / 1e9
    return last - first, after.get("own", 0) - before.get("own", 0), span_s
