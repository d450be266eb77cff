"""Brokers side by side: T, R, O and the response of each, and which claims hold with which broker."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from looplab.experiments.loop.report import MeasuredLoop, cells_of
from looplab.experiments.loop.report.claims import claims
from looplab.experiments.loop.report.comparisons import values_of
from looplab.experiments.loop.report.null import null_text
from looplab.report.cell import Key
from looplab.report.csv_rows import number, spread
from looplab.report.samples import Measured, by_fidelity
from looplab.report.verdicts import FEW_RUNS, NO_RUN, ONE_RUN, UNDECIDED, Verdict, judge
from looplab.spec.brokers import BROKERS, DEFAULT

_NO_VERDICT = (NO_RUN, ONE_RUN, FEW_RUNS, UNDECIDED)


@dataclass(frozen=True)
class Line:
    """One cell with one broker; `cell` is None where that broker has no such run, or does not know the QoS."""

    scenario: str
    fidelity: str
    key: Key
    broker: str
    measured: Measured | None
    cell: MeasuredLoop | None

    @property
    def side(self) -> tuple[str, str]:
        return self.scenario, self.fidelity

    @property
    def known(self) -> bool:
        """Whether the broker knows the quality of service."""
        return self.key[1] in BROKERS[self.broker].qos

    @property
    def version(self) -> str:
        """Return the version that the broker reported, "" if it reported none."""
        environment = self.measured.run.document["environment"] if self.measured else {}
        return str(environment.get("versions", {}).get("broker", ""))


def of_broker(measured: Sequence[Measured], broker: str) -> list[Measured]:
    """Return the runs with `broker`; those of before there was a choice were with the usual one."""
    return [m for m in measured if m.run.parameters.get("broker", DEFAULT) == broker]


def brokers_of(measured: Sequence[Measured]) -> list[str]:
    """Return the brokers of these runs, the usual one first."""
    return [broker for broker in BROKERS if of_broker(measured, broker)]


def lines(measured: Sequence[Measured]) -> list[Line]:
    """Return each cell with each broker, of the scenarios that several brokers ran; [] of one broker's runs alone."""
    runs = {broker: by_fidelity(of_broker(measured, broker)) for broker in brokers_of(measured)}
    sides = dict.fromkeys((m.run.scenario, m.run.fidelity) for m in measured)
    found = []
    for scenario, fidelity in sides:
        held = {broker: m for broker, of in runs.items() if (m := of.get(fidelity, {}).get(scenario))}
        if len(held) > 1:
            keys = dict.fromkeys(key for m in held.values() for key in cells_of(m))
            found += [
                Line(scenario, fidelity, key, broker, m, cells_of(m).get(key))
                for key in keys
                for broker, m in held.items()
            ]
    return found


def verdicts(measured: Sequence[Measured]) -> list[tuple[str, str, Mapping[str, Verdict], str]]:
    """Return title, fidelity, verdict by broker and `whose` of each claim that any of several brokers has runs for.

    Each broker's p-values are adjusted for its own questions.
    """
    brokers = brokers_of(measured)
    if len(brokers) < 2:
        return []
    found: list[tuple[str, str, Mapping[str, Verdict], str]] = []
    judged = {broker: judge(claims(), by_fidelity(of_broker(measured, broker))) for broker in brokers}
    for at, (claim, by_fidelity_of_first) in enumerate(judged[brokers[0]]):
        for fidelity in by_fidelity_of_first:
            held = {broker: judged[broker][at][1][fidelity] for broker in brokers}
            if any(verdict.outcome != NO_RUN for verdict in held.values()):
                found.append((claim.title, fidelity, held, whose(held)))
    return found


def whose(held: Mapping[str, Verdict]) -> str:
    """Return whether brokers share a finding, by their verdicts: "alike", "differs", "" if fewer than two have one."""
    decided = [verdict.outcome for verdict in held.values() if verdict.outcome not in _NO_VERDICT]
    return "" if len(decided) < 2 else "alike" if len(set(decided)) == 1 else "differs"


def null(found: Sequence[Line]) -> str:
    """Return what two arms of one broker's scenario differ by in O, of a study that has them; else ""."""
    sides = {
        line.broker: (line.measured, [one.key for one in found if one.broker == line.broker and one.cell])
        for line in found
        if line.measured
    }
    texts = {
        broker: null_text([side], lambda one: values_of(one, "O", "mean", "run")) for broker, side in sides.items()
    }
    return "; ".join(f"{broker}, O mean: {text}" for broker, text in texts.items() if text)


def rows(measured: Sequence[Measured]) -> Iterator[dict[str, object]]:
    """Yield the lines of brokers.csv."""
    for line in lines(measured):
        if line.cell is not None and line.measured is not None:
            means = [spread(f"{metric}_us", line.cell.mean(metric)) for metric in "TRO"]
            yield {
                "scenario": line.scenario,
                "fidelity": line.fidelity,
                "interval_ms": f"{line.cell.interval_ms:g}",
                "qos": line.cell.qos,
                "broker": line.broker,
                "version": line.version,
                "runs": " ".join(line.measured.run_ids),
                "sent": line.cell.sent,
                "answered": line.cell.answered,
                **{name: text for mean in means for name, text in mean.items()},
                **{f"response_{name}_us": number(line.cell.response_quantile(name)) for name in ("p50", "p99")},
            }
