"""What an experiment declares: its `__init__.py` holds one `EXPERIMENT`, its other files are imported when asked for.

Every experiment's folder has the same files. A room that needs one of them asks `experiment.part("table")`, and states
beside that call, as a Protocol, what it calls there:

| file | what it gives |
|---|---|
| `__init__.py` | `EXPERIMENT`; imports nothing heavy |
| `__main__.py` | the process of the container that measures |
| `parameters.py` | `OPTIONS`, `QUICK`, perhaps `FULL`, `read_parameters(environment)` |
| `controller.py` | `Controller`: one run, the steps that `looplab.run.life` goes through |
| `document.py` | run.json's cells, the lines of samples.csv |
| `table.py` | `table(run)`, for a terminal of 80 columns |
| `metrics.py` | `FAMILIES`, the cells of the running run, the text of a stored one |
| `run.schema.json` | what a stored run adds to `looplab/run/run.schema.json` |
| `exercise.py` | `FIELDS`, `METRICS`, `FIGURES`: what it may ask of a cell; `MEANINGS`, `LINES`, `claims()` |
| `report/` | `LAYOUT` of stored runs, `PAGE`; in `analysis.py` `analyse(measured)` |
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from looplab.treatments.roles import Role


@dataclass(frozen=True)
class Experiment:
    """`scenarios` is a glob: the folders, below the checkout's root, each of which is a scenario of this experiment.

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

    def part(self, name: str) -> Any:
        """Return the module `name` of the experiment's folder, e.g. "table" or "report.command"; imported here."""
        return import_module(f"{self.package}.{name}")


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
