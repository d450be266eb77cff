"""From measured runs of twin to everything that the report shows."""

from collections.abc import Iterator, Sequence

from looplab.experiments.twin.report.claims import claims
from looplab.experiments.twin.report.figures import TITLES, sketches
from looplab.experiments.twin.report.groups import groups
from looplab.report.analysis import Analysis, analysis
from looplab.report.csv_rows import number
from looplab.report.samples import Measured, by_fidelity
from looplab.report.verdicts import judge


def analyse(measured: Sequence[Measured]) -> Analysis:
    """Return what these runs show: of each scenario and fidelity the newest and those like it."""
    runs = by_fidelity(measured)
    return analysis(
        "twin",
        measured,
        judge(claims(), runs),
        sketches=[sketch for by_scenario in runs.values() for sketch in sketches(by_scenario)],
        titles=TITLES,
        files={"twin-brokers.csv": _broker_rows(measured)},
    )


def _broker_rows(measured: Sequence[Measured]) -> Iterator[dict[str, object]]:
    for m in measured:
        for group in groups(m):
            for cell in group.cells:
                for one in cell.per_broker:
                    yield {
                        "scenario": m.run.scenario,
                        "fidelity": m.run.fidelity,
                        "brokers": group.brokers,
                        "placement": group.placement,
                        "write_mode": cell.write_mode,
                        "interval_ms": f"{cell.interval_ms:g}",
                        "repetition": cell.repetition,
                        "broker": one["broker"],
                        "stored": one["stored"],
                        "rate_out_per_s": number(one["rate_out_per_s"], ".4f"),
                        "operation_s": number(one["operation_s"], ".6f"),
                    }
