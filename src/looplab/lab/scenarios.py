"""Find what can be run: the folders that the experiments of the registry name as their scenarios."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from looplab.errors import UsageError, did_you_mean
from looplab.experiments.registry import EXPERIMENTS
from looplab.spec.experiment import Experiment
from looplab.spec.parameters import RunParameters
from looplab.system.env_files import expand, read_env
from looplab.treatments.loads import loads

FOLDER = Path(EXPERIMENTS[EXPERIMENTS.default].scenarios).parent
ALIASES = EXPERIMENTS[EXPERIMENTS.default].aliases
LOOP_FILE = Path("compose/loop.yaml")
TEMPLATE = "_template"
# This file beside the scenarios' folders holds what each params.env starts from.
DEFAULTS = "default.env"
# params.env sets this variable for the thesis's scenarios, which `all` means.
PUBLISHED = "PUBLISHED"


@dataclass(frozen=True)
class Scenario:
    """`name` is its folder, profile, SCENARIO and the service of its controller; its runs are called `run_name`."""

    name: str
    title: str
    settings: Mapping[str, str]
    experiment: Experiment

    @property
    def run_name(self) -> str:
        borrowed = self.experiment.borrows and self.name != self.experiment.name
        return f"{self.experiment.name}-{self.name}" if borrowed else self.name

    def parameters(self, environment: Mapping[str, str]) -> RunParameters:
        """Return what its controller will read, with `environment` overriding as Compose lets it. Raises LabError."""
        return self.experiment.read_parameters({**environment, **expand(self.settings, environment)})

    def load_settings(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the options of all loads, which Compose takes from its own environment and not from params.env.

        Compose knows the published value of each that stands in a command.
        """
        given = {**environment, **expand(self.settings, environment)}
        rules = {name: rule for load in loads().values() for name, rule in load.settings.items()}
        return {name: given.get(name) or ("" if rule.option else rule.published) for name, rule in rules.items()}


def scenarios(root: Path) -> dict[str, Scenario]:
    """Return every scenario of the default experiment, in the order of their names."""
    return _of(root, EXPERIMENTS[EXPERIMENTS.default])


def experiments(root: Path) -> dict[str, Scenario]:
    """Return every scenario of the other experiments."""
    others = [experiment for name, experiment in EXPERIMENTS.items() if name != EXPERIMENTS.default]
    return {name: scenario for other in others for name, scenario in _of(root, other).items()}


def every(root: Path) -> dict[str, Scenario]:
    """Return every scenario of every experiment, those of the default one first."""
    return {**scenarios(root), **experiments(root)}


def chosen(root: Path, names: Iterable[str], of: str | None = None) -> list[Scenario]:
    """Return the scenarios of `names`, `all` standing for the published ones. Raises LabError (exit code 2).

    NAME-scenario5, or NAME with `of`="scenario5" (--as), is scenario5 with the experiment NAME, which `borrows` it.
    """
    known = every(root)
    wanted = [one for name in names for one in _meant(f"{name}-{of}" if of else name, known)]
    return list({one.run_name: one for one in wanted}.values())


def _meant(name: str, known: Mapping[str, Scenario]) -> list[Scenario]:
    if name == "all":
        return [one for one in known.values() if one.settings.get(PUBLISHED)]
    borrower, _, of = name.partition("-")
    if of and name not in known and borrower in EXPERIMENTS and EXPERIMENTS[borrower].borrows:
        return [replace(one, experiment=EXPERIMENTS[borrower]) for one in _meant(of, known)]
    return [known[_known(name, known)]]


def _known(name: str, known: Mapping[str, Scenario]) -> str:
    """Return the name of the scenario that is meant: `Baseline` is scenario1, `5` scenario5. Raises UsageError."""
    for meant in (name, name.lower(), f"scenario{name}", ALIASES.get(name.lower(), name)):
        if meant in known:
            return meant
    raise UsageError(f"There is no scenario {name!r}.", f"{did_you_mean(name, known)}./lab list names all.")


def check_one_kind(wanted: Iterable[Scenario]) -> Experiment:
    """Return the one experiment of these scenarios.

    Raises LabError (exit code 2) if there are several: they share variables that mean different things.
    """
    kinds = {scenario.experiment.name: scenario for scenario in wanted}
    if len(kinds) > 1:
        names = [scenario.run_name for kind, scenario in kinds.items() if kind != EXPERIMENTS.default]
        raise UsageError(
            "Scenarios of different experiments are not run by one command.", f"Run {', '.join(names)} by itself."
        )
    return next(iter(kinds.values())).experiment


def _of(root: Path, experiment: Experiment) -> dict[str, Scenario]:
    files = (path for name in ("params.env", "compose.yaml") for path in root.glob(f"{experiment.scenarios}/{name}"))
    folders = {path.parent for path in files if path.parent.name[0] != "_"}
    return {path.name: _read(path, experiment, root) for path in sorted(folders)}


def _read(folder: Path, experiment: Experiment, root: Path) -> Scenario:
    settings: dict[str, str] = {}
    for path in (folder.parent / DEFAULTS, folder / "params.env"):
        settings |= read_env(path) if path.is_file() else {}
    return Scenario(folder.name, settings.get("TITLE", folder.name), settings, experiment)
