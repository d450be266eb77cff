"""Cells of a run as text for Prometheus, as their spec says: those of the running run, and stored ones."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from looplab.metrics.distributions import Distribution, bounds_s
from looplab.metrics.runs import Damaged, started
from looplab.metrics.text_format import Families, labels_text, line
from looplab.run.document import INTENDED, outcomes_by_fate, samples_header
from looplab.spec.cell import Cell
from looplab.spec.columns import ABSENT, BASE_UNITS, QUANTILES, Count, Figure, Latency

Texts = dict[str, str]


def families(cell: type[Cell]) -> Families:
    """Return the metrics of an experiment's cells: type and help by name."""
    name = cell.family
    latencies = "; ".join(f"{one.metric}: {one.about}" for one in shown(cell))
    return {
        f"{name}_latency_seconds": ("histogram", f"Latency of each message ({latencies})."),
        f"{name}_latency_quantile_seconds": ("gauge", f"Exact quantile of a latency ({latencies})."),
        f"{name}_latency_mean_seconds": ("gauge", f"Mean of a latency ({latencies})."),
        f"{name}_messages_total": ("counter", "Messages of a cell by outcome."),
        f"{name}_messages_sent_total": ("counter", f"Messages of a cell: {cell.total().about}."),
        f"{name}_send_lateness_seconds": ("histogram", "How much later than due a message was sent."),
        f"{name}_send_lateness_quantile_seconds": ("gauge", "Exact quantile of the send lateness."),
        **{f"{name}_{one.metric}": ("gauge", f"{one.about[0].upper()}{one.about[1:]}.") for one in figures(cell)},
        **{f"{name}_{end}": (kind, text) for end, (kind, text) in cell.more_metrics.items()},
        f"{name}_cell_current": ("gauge", "1 for the cell that is being measured, or was last."),
        f"{name}_cell_run_started_timestamp_seconds": ("gauge", "When the run was started that this cell is of."),
    }


def shown(cell: type[Cell]) -> list[Latency]:
    """Return the latencies that Prometheus gets, each with its label `metric`."""
    return [one for one in cell.latencies() if one.metric is not None]


def figures(cell: type[Cell]) -> list[Figure | Count]:
    """Return the figures and further counts that Prometheus gets, a gauge each."""
    counts = [one for one in cell.counts() if not (one.outcome or one.total)]
    both: list[Figure | Count] = [*counts, *cell.figures()]
    return [one for one in both if one.metric is not None]


class LiveCell:
    """One cell of the running run: its messages by outcome, its latencies; `texts` renders only what changed."""

    def __init__(self, cell: Cell, labels: Mapping[str, str]) -> None:
        own = type(cell)
        self.cell, self.labels = cell, dict(labels)
        self.sent = 0
        self.outcomes = dict.fromkeys(own.outcomes(), 0)
        self.latencies = {one: Distribution(bounds_s(*one.decades)) for one in shown(own) if one.made}
        self.lateness = Distribution()
        self._fates = outcomes_by_fate(own)
        self._texts: Texts = {}
        self._rendered = (-1, -1)

    def add_sent(self, lateness_ns: int) -> None:
        """Count one message that left, so much later than due."""
        self.sent += 1
        self.lateness.add(lateness_ns)

    def settle(self, fate: str, value_ns: Callable[[Latency], int]) -> None:
        """Count one message whose fate is known; `value_ns` gives each of its latencies, ABSENT if unknown."""
        self.outcomes[self._fates[fate]] += 1
        if fate in ("answered", "late"):
            for latency, distribution in self.latencies.items():
                if (value := value_ns(latency)) != ABSENT:
                    distribution.add(value)

    def settle_row(self, fate: str, columns: Any, row: int) -> None:
        """Count one message whose fate is known; `columns` are those of the live samples."""
        self.settle(fate, lambda one: one.made(columns, row) if one.made else ABSENT)

    def texts(self) -> Texts:
        """Return sample lines by family; {} before the first message."""
        now = (self.sent, sum(self.outcomes.values()))
        if self.sent and now != self._rendered:
            self._texts = self._render()
            self._rendered = now
        return self._texts

    def _render(self) -> Texts:
        base, family = labels_text(self.labels), type(self.cell).family
        distributions = [(f'{base},metric="{one.metric}"', values) for one, values in self.latencies.items()]
        latency, messages, late = f"{family}_latency", f"{family}_messages", f"{family}_send_lateness"
        means = ((labels, one.sum_ns / one.count / 1e9) for labels, one in distributions if one.count)
        return {
            f"{latency}_seconds": "".join(
                one.histogram_text(f"{latency}_seconds", labels) for labels, one in distributions
            ),
            f"{latency}_quantile_seconds": "".join(
                one.quantile_text(f"{latency}_quantile_seconds", labels) for labels, one in distributions
            ),
            f"{latency}_mean_seconds": "".join(
                f"{latency}_mean_seconds{{{labels}}} {mean!r}\n" for labels, mean in means
            ),
            f"{messages}_total": "".join(
                f'{messages}_total{{{base},outcome="{outcome}"}} {count}\n' for outcome, count in self.outcomes.items()
            ),
            f"{messages}_sent_total": f"{messages}_sent_total{{{base}}} {self.sent}\n",
            f"{late}_seconds": self.lateness.histogram_text(f"{late}_seconds", base),
            f"{late}_quantile_seconds": self.lateness.quantile_text(f"{late}_quantile_seconds", base),
        }


def labels_of(run: Mapping[str, Any], cell: Cell) -> dict[str, str]:
    """Return the labels of a cell; `run` names its scenario and fidelity."""
    return {"scenario": str(run["scenario"]), "fidelity": str(run["fidelity"]), **cell.labels}


def running_texts(run_id: str, cells: Sequence[LiveCell]) -> Texts:
    """Return the sample lines of the running run. Of many cells only the current one has histograms, unless every
    stored one has them too."""
    begun = [cell for cell in cells if cell.sent]
    if not begun:
        return {}
    own = type(begun[0].cell)
    parts = [cell.texts() for cell in begun]
    histograms = () if own.curves else (f"{own.family}_latency_seconds", f"{own.family}_send_lateness_seconds")
    texts = joined([{name: text for name, text in part.items() if name not in histograms} for part in parts])
    current = "".join(line(f"{own.family}_cell_current", one.labels, int(one is begun[-1])) for one in begun)
    return {
        **texts,
        **{name: parts[-1][name] for name in histograms},
        f"{own.family}_cell_current": current,
        **_started(own, run_id, [cell.labels for cell in begun]),
    }


def stored_texts(folder: Path, run: Mapping[str, Any], own: type[Cell]) -> Texts:
    """Return the sample lines of a stored run's valid cells.

    Raises Damaged, or KeyError, TypeError or ValueError if run.json is not what this lab writes.
    """
    cells = [own(entry) for entry in run["cells"] if entry.get("valid", True)]
    labelled = [(labels_of(run, cell), cell) for cell in cells]
    texts = {**_cell_texts(own, labelled), **_started(own, folder.name, [labels for labels, _cell in labelled])}
    if not own.curves:
        return texts
    counted = {",".join(cell.key_texts.values()): LiveCell(cell, labels) for labels, cell in labelled}
    _read_samples(folder / "samples.csv", own, counted)
    for one in counted.values():
        if one.sent != own.total().of(one.cell):
            raise Damaged(f"samples.csv holds {one.sent} messages of a cell, run.json says {own.total().of(one.cell)}")
    return {**texts, **joined([one.texts() for one in counted.values()])}


def document_texts(
    run_id: str, run: Mapping[str, Any], own: type[Cell], documents: Sequence[Mapping[str, Any]]
) -> Texts:
    """Return the sample lines of the cells that a running run has measured so far, as run.json has them."""
    labelled = [(labels_of(run, cell), cell) for cell in map(own, documents)]
    labels = [one for one, _cell in labelled]
    current = "".join(line(f"{own.family}_cell_current", one, int(one is labels[-1])) for one in labels)
    return {**_cell_texts(own, labelled), **_started(own, run_id, labels), f"{own.family}_cell_current": current}


def _cell_texts(own: type[Cell], labelled: Sequence[tuple[Mapping[str, str], Cell]]) -> Texts:
    family = own.family
    texts: dict[str, list[str]] = {}
    for labels, cell in labelled:
        for name, more, value in [*_values(cell), *cell.more_values()]:
            texts.setdefault(f"{family}_{name}", []).append(line(f"{family}_{name}", {**labels, **more}, value))
    return {name: "".join(lines) for name, lines in texts.items()}


def _values(cell: Cell) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """Yield the end of a metric's name, further labels and the value in base units, of all that a cell's spec says."""
    own = type(cell)
    for outcome, count in own.outcomes().items():
        yield "messages_total", {"outcome": outcome}, count.of(cell)
    yield "messages_sent_total", {}, own.total().of(cell)
    for name, label, one in [("latency", {"metric": str(one.metric)}, one) for one in shown(own)] + [
        ("send_lateness", {}, own.send_lateness)
    ]:
        statistics = one.of(cell)
        for statistic, q in QUANTILES.items():
            if (value := statistics.get(statistic)) is not None:
                yield f"{name}_quantile_seconds", {**label, "q": q}, value / 1e6
        if name == "latency" and (mean := statistics.get("avg")) is not None:
            yield "latency_mean_seconds", label, mean / 1e6
    for figure in figures(own):
        if (number := figure.of(cell)) is not None:
            yield str(figure.metric), {}, number / BASE_UNITS.get(figure.unit, (1, ""))[0]


def _started(own: type[Cell], run_id: str, labels: Iterable[Mapping[str, str]]) -> Texts:
    """A longer run of before has cells that this one lacks: dashboards leave them out by this time."""
    start, name = started(run_id), f"{own.family}_cell_run_started_timestamp_seconds"
    return {} if start is None else {name: "".join(line(name, one, start) for one in labels)}


def _read_samples(path: Path, own: type[Cell], cells: Mapping[str, LiveCell]) -> None:
    """Count every line of a samples.csv in its cell, found by the text of its key. Raises Damaged."""
    keys = [key.name for key in own.key_columns()]
    fates = {outcome: count.fates[0] for outcome, count in own.outcomes().items()}
    with path.open(encoding="ascii") as file:
        header, known = file.readline().rstrip("\n"), samples_header(own)
        if header not in (known, known.removesuffix(f",{INTENDED}")):
            raise Damaged("samples.csv does not begin with its columns' names")
        for number, text in enumerate(file, 2):
            try:
                fields = dict(zip(header.split(","), text.rstrip("\n").split(","), strict=True))
                one = cells[",".join(fields[name] for name in keys)]
                one.add_sent(int(fields["sent_ns"]) - int(fields["due_ns"]))
                one.settle(fates[fields["outcome"]], partial(_nanoseconds, fields))
            except (KeyError, ValueError) as error:
                raise Damaged(f"samples.csv, line {number} is not understood") from error


def _nanoseconds(fields: Mapping[str, str], latency: Latency) -> int:
    return round(float(text) * 1000) if (text := fields[latency.column]) else ABSENT


def joined(parts: list[Texts]) -> Texts:
    """Return the texts of several parts, family by family."""
    return {family: "".join(part.get(family, "") for part in parts) for family in {f for part in parts for f in part}}
