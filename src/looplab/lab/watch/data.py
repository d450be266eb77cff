"""What the exporter's page says, as the terminal view needs it."""

import re
import urllib.error
import urllib.request
from collections import defaultdict
from dataclasses import dataclass, field

from looplab.experiments.registry import EXPERIMENTS
from looplab.metrics.view import CellsView
from looplab.treatments.loads import loads
from looplab.spec.roles import Role

TIMEOUT_S = 3.0

_SAMPLE = re.compile(r"([a-z0-9_]+)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')

Labels = dict[str, str]
# What identifies a cell of its experiment, as text.
CellKey = tuple[str, str]


@dataclass
class CellView:
    """One cell: counts, and exact quantiles in seconds by (metric, q)."""

    sent: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    quantiles_s: dict[tuple[str, str], float] = field(default_factory=dict)
    lateness_s: dict[str, float] = field(default_factory=dict)
    # Metric -> (bound in seconds, share of answers within it), ascending.
    curves: dict[str, list[tuple[float, float]]] = field(default_factory=dict)


@dataclass
class View:
    """One look at the newest run and at the parts of the lab."""

    scenario: str = ""
    fidelity: str = ""
    active: bool = False
    planned: int = 0
    cells: dict[CellKey, CellView] = field(default_factory=dict)
    current: CellKey | None = None
    treatments: list[tuple[Labels, bool]] = field(default_factory=list)
    valid: bool | None = None
    processes: dict[str, int] = field(default_factory=dict)
    cpu_s: dict[str, float] = field(default_factory=dict)
    singles: dict[str, float] = field(default_factory=dict)
    experiment: str = EXPERIMENTS.default

    @property
    def shown(self) -> CellsView:
        """How its cells are shown."""
        found: CellsView = EXPERIMENTS[self.experiment].part("metrics").VIEW
        return found

    @property
    def roles(self) -> tuple[Role, ...]:
        """The parts that its experiment has or may have."""
        return (*EXPERIMENTS[self.experiment].roles, *(load.role for load in loads().values()))

    def key(self, labels: Labels) -> CellKey:
        """Return what identifies the cell of a sample."""
        return labels[self.shown.label], labels[self.shown.second]

    def cell(self, labels: Labels) -> CellView:
        """Return the cell of a sample, a new one if there is none yet."""
        return self.cells.setdefault(self.key(labels), CellView())

    @property
    def sent(self) -> int:
        """Messages sent in all cells."""
        return sum(cell.sent for cell in self.cells.values())


def fetch(url: str) -> str:
    """The page's text. Raises OSError."""
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            return str(answer.read().decode("utf-8", "replace"))
    except ValueError as error:
        raise OSError(str(error)) from error


def parse(text: str) -> View:
    """The view of a page; of several runs the one that is active, else the newest."""
    families: dict[str, list[tuple[Labels, float]]] = defaultdict(list)
    for line in text.splitlines():
        found = _SAMPLE.fullmatch(line)
        if found:
            name, labels, value = found.groups()
            families[name].append((dict(_LABEL.findall(labels or "")), float(value)))
    view = View()
    for labels, value in families["lab_processes"]:
        view.processes[labels["part"]] = int(value)
    for labels, value in families["lab_process_cpu_seconds_total"]:
        view.cpu_s[labels["part"]] = value
    for name, samples in families.items():
        if name.startswith("lab_") and len(samples) == 1 and not samples[0][0]:
            view.singles[name] = samples[0][1]
    _choose_run(view, families)
    if view.scenario:
        _read_run(view, families)
    return view


def _choose_run(view: View, families: dict[str, list[tuple[Labels, float]]]) -> None:
    active = {_run(labels): value == 1 for labels, value in families["loop_run_active"]}
    newest = max(families["loop_run_info"], key=lambda s: (active.get(_run(s[0]), False), s[0]["run_id"]), default=None)
    if newest is not None:
        labels = newest[0]
        view.scenario, view.fidelity = _run(labels)
        view.active = active.get(_run(labels), False)


def _run(labels: Labels) -> tuple[str, str]:
    return labels["scenario"], labels["fidelity"]


def _read_run(view: View, families: dict[str, list[tuple[Labels, float]]]) -> None:
    own = {
        name: found
        for name, samples in families.items()
        if (found := [(labels, value) for labels, value in samples if _is_of(labels, view)])
    }
    named = {name: str(experiment.part("metrics").FAMILY) for name, experiment in EXPERIMENTS.items()}
    sent = [name for name, family in named.items() if f"{family}_messages_sent_total" in own]
    view.experiment = sent[0] if sent else EXPERIMENTS.default
    view.planned = int(sum(value for _labels, value in own.get("loop_run_messages_planned", ())))
    for labels, value in own.get("loop_treatment_verified", ()):
        view.treatments.append((labels, bool(value)))
    for _labels, value in own.get("loop_run_valid", ()):
        view.valid = bool(value)
    _read_cells(view, own, named[view.experiment])


def _read_cells(view: View, own: dict[str, list[tuple[Labels, float]]], family: str) -> None:
    for labels, value in own.get(f"{family}_messages_sent_total", ()):
        view.cell(labels).sent = int(value)
    for labels, value in own.get(f"{family}_messages_total", ()):
        view.cell(labels).outcomes[labels["outcome"]] = int(value)
    for labels, value in own.get(f"{family}_latency_quantile_seconds", ()):
        view.cell(labels).quantiles_s[labels["metric"], labels["q"]] = value
    for labels, value in own.get(f"{family}_send_lateness_quantile_seconds", ()):
        view.cell(labels).lateness_s[labels["q"]] = value
    for labels, value in own.get(f"{family}_cell_current", ()):
        if value:
            view.current = view.key(labels)
    _read_curves(view, own, family)


def _read_curves(view: View, own: dict[str, list[tuple[Labels, float]]], family: str) -> None:
    if view.current is None:
        return
    cell = view.cells[view.current]
    counts = {
        labels["metric"]: value
        for labels, value in own.get(f"{family}_latency_seconds_count", ())
        if view.key(labels) == view.current
    }
    for labels, value in own.get(f"{family}_latency_seconds_bucket", ()):
        metric = labels["metric"]
        if view.key(labels) == view.current and labels["le"] != "+Inf" and counts.get(metric):
            cell.curves.setdefault(metric, []).append((float(labels["le"]), value / counts[metric]))


def _is_of(labels: Labels, view: View) -> bool:
    return labels.get("scenario") == view.scenario and labels.get("fidelity") == view.fidelity
