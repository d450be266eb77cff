"""What an experiment declares: its `__init__.py` holds its table, a class of Cell, and one `EXPERIMENT`.

Its other files are imported when asked for, so that nothing heavy is imported where it is only listed:

| file | what it gives |
|---|---|
| `__init__.py` | the table (looplab.spec.columns), `EXPERIMENT` |
| `parameters.py` | `PARAMETERS`, a class of RunParameters |
| `controller.py` | `Controller`: one run, the steps that `looplab.run.life` goes through |
| `live.py` | only if a running cell shows more than its spec says: see looplab.exporter.server |
| `report/` | `claims.py`, `figures.py`, `page.html.j2` |
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, TypeVar

from looplab.spec.cell import Cell
from looplab.spec.parameters import RunParameters
from looplab.spec.roles import CONTROLLER, Role, Secret

F = TypeVar("F")


@dataclass(frozen=True)
class Bound(Generic[F]):
    """The claim that `figure` is from `at_least` to `at_most`, None for no bound.

    An experiment names a figure of every valid cell (`Cell.figure_names`), an exercise also its run and cell.
    """

    figure: F
    at_least: float | None = None
    at_most: float | None = None

    @property
    def ends(self) -> tuple[float, float]:
        """Both bounds, infinite where there is none."""
        high = math.inf if self.at_most is None else self.at_most
        return -math.inf if self.at_least is None else self.at_least, high

    def __str__(self) -> str:
        if self.at_least is None:
            return f"at most {self.at_most:g}"
        return f"at least {self.at_least:g}" if self.at_most is None else f"{self.at_least:g} to {self.at_most:g}"


@dataclass(frozen=True)
class Experiment:
    """`cell` is its table; `tables` holds that of each scenario whose cells differ from it.

    `scenarios` is a glob: the folders, below the checkout's root, each of which is a scenario of this experiment.

    `aliases` are other names of scenarios: Compose profiles beside theirs.
    `bounds` are claims by name and title, beside those of its report.
    `roles` are its containers as the treatments service and the exporter know them. `studies` gives the scenarios that
    each claim compares, for `./lab study`, `variants` by study the settings of each arm. `secrets` are its parts'
    passwords and tokens. `kept` are services that stay after a run.
    With `borrows` it also runs with the parts and treatments of the default experiment's scenarios: NAME-scenario5.
    `judged` is the place in a cell of what its studies compare, by which they say what they can find.
    With `host`, it has a part on the host: `host_programs(root, settings, image, say)` of its host.py is a context
    manager that yields variables for Compose.
    """

    name: str
    package: str
    scenarios: str
    roles: tuple[Role, ...] = (CONTROLLER,)
    cell: type[Cell] = Cell
    bounds: Mapping[tuple[str, str], Bound[str]] = field(default_factory=dict)
    tables: Mapping[str, type[Cell]] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    studies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    variants: Mapping[str, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)
    secrets: tuple[Secret, ...] = ()
    kept: tuple[str, ...] = ()
    host: bool = False
    borrows: bool = False
    judged: tuple[str, ...] = ("O_us", "avg")

    @property
    def folder(self) -> Path:
        """Its folder, whose files have the same names as those of every other experiment."""
        return Path(str(import_module(self.package).__file__)).parent

    @property
    def title(self) -> str:
        """What it is about, in the first line of its package."""
        return (import_module(self.package).__doc__ or self.name).partition("\n")[0].rstrip(".")

    @property
    def parameters(self) -> type[RunParameters]:
        """The parameters of its runs."""
        declared: type[RunParameters] = self.part("parameters").PARAMETERS
        return declared

    def read_parameters(self, environment: Mapping[str, str]) -> RunParameters:
        """Read and check every parameter of a run. Raises LabError (exit code 2) naming the variable at fault."""
        scenario = environment.get("SCENARIO", "").strip() or self.name
        folder = f"{Path(self.scenarios).parent}/{scenario}"
        return self.parameters.read({**environment, "SCENARIO": scenario}, folder)

    def table(self, scenario: str) -> type[Cell]:
        """Return the table of a scenario."""
        return self.tables.get(scenario, self.cell)

    def part(self, name: str) -> Any:
        """Return the module `name` of the experiment's folder, e.g. "table" or "report.claims"; imported here.

        An experiment in one file is each of its parts.
        """
        package = import_module(self.package)
        return import_module(f"{self.package}.{name}") if hasattr(package, "__path__") else package

    def optional_part(self, name: str) -> Any | None:
        """Return the module `name` of the experiment's folder, None if there is none."""
        at = self.folder / name.replace(".", "/")
        own = hasattr(import_module(self.package), "__path__")
        return self.part(name) if own and (at.with_suffix(".py").is_file() or at.is_dir()) else None


class Experiments(Mapping[str, Experiment]):
    """Experiments by name, each package imported when first asked for; `default` is that of runs which name none."""

    def __init__(self, packages: Mapping[str, str], default: str) -> None:
        self._packages = packages
        self.default = default

    def __getitem__(self, name: str) -> Experiment:
        experiment: Experiment = import_module(self._packages[name]).EXPERIMENT
        return experiment

    def __iter__(self) -> Iterator[str]:
        return iter(self._packages)

    def __len__(self) -> int:
        return len(self._packages)

    def of(self, run: Mapping[str, Any]) -> Experiment:
        """Return the experiment of a run.json document. Raises KeyError if this lab does not know it."""
        return self[str(run.get("experiment", self.default))]
