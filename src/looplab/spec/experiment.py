"""What an experiment declares: its `__init__.py` holds its table, a class of Cell, and one `EXPERIMENT`.

Its other files are imported when asked for, so that nothing heavy is imported where it is only listed:

| file | what it gives |
|---|---|
| `__init__.py` | the table (looplab.spec.columns), `EXPERIMENT` |
| `__main__.py` | the process of the container that measures |
| `parameters.py` | `PARAMETERS`, `read_parameters(environment)` |
| `controller.py` | `Controller`: one run, the steps that `looplab.run.life` goes through |
| `live.py` | only if a running cell shows more than its spec says: see looplab.metrics.cells |
| `report/` | `claims.py`, `figures.py`, `page.html.j2` |
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from looplab.spec.columns import Cell
from looplab.spec.roles import Role


@dataclass(frozen=True)
class Experiment:
    """`cell` is its table; `tables` holds that of each scenario whose cells differ from it.

    `scenarios` is a glob: the folders, below the checkout's root, each of which is a scenario of this experiment.

    `roles` are its containers as the treatments service and the exporter know them. `studies` gives the scenarios that
    each claim compares, for `./lab study`. `images` are own images, `upstream` the variables of upstream ones in .env,
    that no other experiment starts: only what runs this one gets or builds them. `switches` are variables of .env that
    are on or off.
    `passwords` are the names of its Compose secrets, which `./lab` makes. With `host`, it has a part on the host:
    host.py has `beside(root, settings, image, say)`, a context manager that yields variables for Compose.
    """

    name: str
    package: str
    scenarios: str
    roles: tuple[Role, ...]
    cell: type[Cell] = Cell
    tables: Mapping[str, type[Cell]] = field(default_factory=dict)
    studies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    images: tuple[str, ...] = ()
    upstream: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    passwords: tuple[str, ...] = ()
    host: bool = False

    @property
    def folder(self) -> Path:
        """Its folder, whose files have the same names as those of every other experiment."""
        return Path(str(import_module(self.package).__file__)).parent

    def table(self, scenario: str) -> type[Cell]:
        """Return the table of a scenario."""
        return self.tables.get(scenario, self.cell)

    def part(self, name: str) -> Any:
        """Return the module `name` of the experiment's folder, e.g. "table" or "report.command"; imported here."""
        return import_module(f"{self.package}.{name}")

    def optional_part(self, name: str) -> Any | None:
        """Return the module `name` of the experiment's folder, None if there is none."""
        return self.part(name) if (self.folder / f"{name}.py").is_file() else None


class Experiments(Mapping[str, Experiment]):
    """Experiments by name, each package imported when first asked for; `default` is that of runs which name none."""

    def __init__(self, packages: Mapping[str, str], default: str) -> None:
        self._packages = packages
        self.default = default

    def __getitem__(self, name: str) -> Experiment:
        found: Experiment = import_module(self._packages[name]).EXPERIMENT
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._packages)

    def __len__(self) -> int:
        return len(self._packages)

    def of(self, run: Mapping[str, Any]) -> Experiment:
        """Return the experiment of a run.json document. Raises KeyError if this lab does not know it."""
        return self[str(run.get("experiment", self.default))]
