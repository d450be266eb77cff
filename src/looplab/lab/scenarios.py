"""What can be run: the scenarios under compose/scenarios/, experiments of another kind under compose/experiments/."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from looplab.errors import EXIT_USAGE, LabError
from looplab.experiments.loop.parameters import Parameters, read_parameters
from looplab.experiments.qos_delay import NAME as EXPERIMENT
from looplab.experiments.qos_delay.parameters import QosDelayParameters
from looplab.experiments.qos_delay.parameters import read_parameters as read_qos_delay
from looplab.system.env_files import expand, read_env

FOLDER = Path("compose/scenarios")
EXPERIMENTS = Path("compose/experiments")
TEMPLATE = "_template"
THESIS = tuple(f"scenario{n}" for n in range(9))

AnyParameters = Parameters | QosDelayParameters
# What reads the parameters of each experiment; every scenario has those of the control loop.
_READERS: dict[str, Callable[[Mapping[str, str]], AnyParameters]] = {EXPERIMENT: read_qos_delay}


@dataclass(frozen=True)
class Scenario:
    """`name` is its folder, its profile and its SCENARIO; `prefix` starts the names of its services."""

    name: str
    title: str
    prefix: str
    settings: Mapping[str, str]

    @property
    def controller(self) -> str:
        return f"{self.prefix}-controller"

    def parameters(self, environment: Mapping[str, str]) -> Parameters:
        """What its controller will read, with `environment` overriding as Compose lets it."""
        return read_parameters(self._given(environment))

    def any_parameters(self, environment: Mapping[str, str]) -> AnyParameters:
        """The same of a scenario or an experiment."""
        return _READERS.get(self.name, read_parameters)(self._given(environment))

    def _given(self, environment: Mapping[str, str]) -> dict[str, str]:
        return {**environment, **expand(self.settings, environment)}


def scenarios(root: Path) -> dict[str, Scenario]:
    """Every scenario there is, in the order of their names (numbers count as numbers)."""
    return _in(root / FOLDER)


def experiments(root: Path) -> dict[str, Scenario]:
    """Every experiment beside the control loop."""
    return _in(root / EXPERIMENTS)


def chosen(root: Path, names: Iterable[str]) -> list[Scenario]:
    """The scenarios and experiments of `names`, `all` standing for the thesis's nine; LabError (exit code 2) for
    others."""
    known = {**scenarios(root), **experiments(root)}
    wanted: list[str] = []
    for name in names:
        wanted += THESIS if name == "all" else [name]
    for name in wanted:
        if name not in known:
            raise LabError(f"There is no scenario {name!r}.", f"Known are: {', '.join(known)}.", EXIT_USAGE)
    return [known[name] for name in dict.fromkeys(wanted)]


def check_one_kind(root: Path, wanted: Iterable[Scenario]) -> None:
    """LabError (exit code 2) for scenarios and experiments in one run: they share variables that mean different
    things."""
    others = experiments(root)
    names = [scenario.name for scenario in wanted]
    if len({name in others for name in names}) > 1:
        raise LabError(
            "Scenarios and experiments are not run by one command.",
            f"Run {', '.join(name for name in names if name in others)} by itself.",
            EXIT_USAGE,
        )


def _in(folder: Path) -> dict[str, Scenario]:
    folders = [path.parent for path in folder.glob("[!_]*/params.env")]
    return {path.name: _read(path) for path in sorted(folders, key=_natural)}


def _read(folder: Path) -> Scenario:
    settings = read_env(folder / "params.env")
    try:
        compose = (folder / "compose.yaml").read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise LabError(f"{folder} has no compose.yaml.", "Remove it, and make it by ./lab new.", EXIT_USAGE) from error
    found = re.search(r"^\s*([A-Za-z0-9_.-]+)-controller:\s*$", compose, re.MULTILINE)
    if found is None:
        raise LabError(f"{folder}/compose.yaml has no service named …-controller.", "See _template.", EXIT_USAGE)
    return Scenario(folder.name, settings.get("TITLE", folder.name), found[1], settings)


def _natural(path: Path) -> list[tuple[int, str]]:
    parts = re.findall(r"\d+|\D+", path.name)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]
