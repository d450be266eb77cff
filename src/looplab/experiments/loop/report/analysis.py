"""From measured runs to everything that the report shows: verdicts, figures, CSV files, page."""

from collections import Counter
from collections.abc import Mapping, Sequence

from looplab.experiments.loop.fitted import FITTED_CONSTANTS, fitted
from looplab.experiments.loop.report import makeup, notes, published, tables
from looplab.experiments.loop.report.claims import add_causes, claims
from looplab.experiments.loop.report.figures import sketches
from looplab.report.analysis import Analysis, cell_files, verdict_rows
from looplab.report.overview import overview
from looplab.report.samples import MeasuredRuns, Runs, by_fidelity
from looplab.report.verdicts import FIDELITIES, NO_VERDICT, UNDECIDED, Verdict, judge
from looplab.spec.brokers import BROKERS, DEFAULT


def analyse(measured: Sequence[MeasuredRuns]) -> Analysis:
    """Return what these runs show, one of each scenario, fidelity and broker; those of the usual broker are judged."""
    every, measured = measured, _of_broker(measured, DEFAULT)
    runs = by_fidelity(measured)
    verdicts = judge(claims(), runs)
    add_causes(runs, verdicts)
    usual = by_fidelity([m for m in measured if not m.run.overrides])
    shown = tables.tables({**usual, **_apart(every)})
    curves = [sketch for fidelity, of_fidelity in usual.items() for sketch in sketches(of_fidelity, fidelity)]

    context = {
        "sections": {
            "claims": "Claims",
            "brokers": "Brokers",
            "know": "What to know",
            "tables": "Tables",
        }.items(),
        "broker_verdicts": _by_broker(every),
        "counts": Counter(verdict.word for _, answers in verdicts for verdict in answers.values() if verdict.run),
        "run_count": sum(len(m.runs) for m in measured),
        "titles": published.titles(),
        "tables": shown,
        "fitted": [one for one in FITTED_CONSTANTS if any(one in fitted(m.run.parameters) for m in measured)],
        "notes": notes.notes(measured),
    }

    csv_files = {
        "tables.csv": tables.csv_rows(shown),
        "verdicts.csv": verdict_rows(verdicts),
        **cell_files("loop", every),
    }
    axis = "change of O, or of the figure that the claim names (client priority: the response's p95 without R)"
    plots = [*overview("loop", verdicts, axis), *curves, *makeup.makeups(usual)]
    headings = [(f"Figure {one.number}", one.text, (one.number,)) for one in published.figures()]
    return Analysis(verdicts, plots, csv_files, context, [*headings, (makeup.HEADING, makeup.TEXT, (makeup.FIGURE,))])


def _apart(measured: Sequence[MeasuredRuns]) -> Mapping[str, Runs]:
    """Return the runs that are not as their fidelity has it, by scenario: each named by what differs."""
    by_name: dict[str, dict[str, MeasuredRuns]] = {}
    for m in measured:
        broker = _broker(m)
        differing = [*m.run.overrides, *([f"BROKER={broker}"] if broker != DEFAULT else [])]
        if differing:
            by_name.setdefault(", ".join((m.run.fidelity, *differing)), {})[m.run.scenario] = m
    return by_name


def _broker(measured: MeasuredRuns) -> str:
    """Return the broker of runs; those of before there was a choice were with the usual one."""
    return str(measured.run.parameters.get("broker", DEFAULT))


def _of_broker(measured: Sequence[MeasuredRuns], broker: str) -> list[MeasuredRuns]:
    return [m for m in measured if _broker(m) == broker]


def _by_broker(measured: Sequence[MeasuredRuns]) -> list[tuple[str, str, Mapping[str, Verdict], str]]:
    """Return title, fidelity, verdict by broker and `whose` of each claim that any of several brokers has runs for.

    Each broker's p-values are adjusted for its own questions.
    """
    runs = {broker: of for broker in BROKERS if (of := by_fidelity(_of_broker(measured, broker)))}
    judged = {broker: judge(claims(), of) for broker, of in runs.items()} if len(runs) > 1 else {}
    shown: list[tuple[str, str, Mapping[str, Verdict], str]] = []
    # The same claims, in the same order, of each broker.
    for same in zip(*judged.values(), strict=True):
        claim, _answers = same[0]
        for fidelity in FIDELITIES:
            by_broker = {broker: of[fidelity] for broker, (_, of) in zip(judged, same, strict=True)}
            if any(verdict.run for verdict in by_broker.values()):
                shown.append((claim.title, fidelity, by_broker, whose(by_broker)))
    return shown


def whose(by_broker: Mapping[str, Verdict]) -> str:
    """Return whether brokers share a finding, by their verdicts: "alike", "differs", "" if fewer than two have one."""
    decided = [verdict.outcome for verdict in by_broker.values() if verdict.outcome not in (NO_VERDICT, UNDECIDED)]
    return "" if len(decided) < 2 else "alike" if len(set(decided)) == 1 else "differs"
