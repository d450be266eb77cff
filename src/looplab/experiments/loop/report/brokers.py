"""Brokers side by side: T, R, O and the response of each, and which claims hold with which broker."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from looplab.experiments.loop.report import MeasuredLoop, cells_of
from looplab.experiments.loop.report.claims import claims
from looplab.experiments.loop.report.comparison import null_of
from looplab.report.cell import Key
from looplab.report.samples import MeasuredRuns, by_fidelity
from looplab.report.verdicts import FIDELITIES, NO_VERDICT, UNDECIDED, Verdict, judge
from looplab.spec.brokers import BROKERS, DEFAULT


@dataclass(frozen=True)
class BrokerLine:
    """One cell with one broker; `side` is scenario and fidelity, `cell` None where the run has no such cell."""

    side: tuple[str, str]
    key: Key
    broker: str
    measured: MeasuredRuns
    cell: MeasuredLoop | None

    @property
    def known(self) -> bool:
        """Whether the broker knows the quality of service."""
        return self.key[1] in BROKERS[self.broker].qos

    @property
    def version(self) -> str:
        """Return the version that the broker reported, "" if it reported none."""
        return str(self.measured.run.document["environment"].get("versions", {}).get("broker", ""))


def of_broker(measured: Sequence[MeasuredRuns], broker: str) -> list[MeasuredRuns]:
    """Return the runs with `broker`; those of before there was a choice were with the usual one."""
    return [m for m in measured if m.run.parameters.get("broker", DEFAULT) == broker]


def _by_broker(measured: Sequence[MeasuredRuns]) -> dict[str, dict[str, dict[str, MeasuredRuns]]]:
    """Return the runs by broker, fidelity and scenario, the usual broker first."""
    runs = {broker: by_fidelity(of_broker(measured, broker)) for broker in BROKERS}
    return {broker: of for broker, of in runs.items() if of}


def lines(measured: Sequence[MeasuredRuns]) -> list[BrokerLine]:
    """Return each cell with each broker, of the scenarios that several brokers ran; [] of one broker's runs alone."""
    runs = _by_broker(measured)
    shown = []
    for side in dict.fromkeys((m.run.scenario, m.run.fidelity) for m in measured):
        scenario, fidelity = side
        alike = {broker: m for broker, of in runs.items() if (m := of.get(fidelity, {}).get(scenario))}
        keys = dict.fromkeys(key for m in alike.values() for key in cells_of(m)) if len(alike) > 1 else {}
        shown += [BrokerLine(side, key, broker, m, cells_of(m).get(key)) for key in keys for broker, m in alike.items()]
    return shown


def verdicts(measured: Sequence[MeasuredRuns]) -> list[tuple[str, str, Mapping[str, Verdict], str]]:
    """Return title, fidelity, verdict by broker and `whose` of each claim that any of several brokers has runs for.

    Each broker's p-values are adjusted for its own questions.
    """
    runs = _by_broker(measured)
    if len(runs) < 2:
        return []
    judged = {broker: judge(claims(), of) for broker, of in runs.items()}
    shown: list[tuple[str, str, Mapping[str, Verdict], str]] = []
    # The same claims, in the same order, of each broker.
    for same in zip(*judged.values(), strict=True):
        claim, answers = same[0]
        for fidelity in filter(answers.__contains__, FIDELITIES):
            by_broker = {broker: of[fidelity] for broker, (_, of) in zip(judged, same, strict=True)}
            if any(verdict.run for verdict in by_broker.values()):
                shown.append((claim.title, fidelity, by_broker, whose(by_broker)))
    return shown


def whose(by_broker: Mapping[str, Verdict]) -> str:
    """Return whether brokers share a finding, by their verdicts: "alike", "differs", "" if fewer than two have one."""
    decided = [verdict.outcome for verdict in by_broker.values() if verdict.outcome not in (NO_VERDICT, UNDECIDED)]
    return "" if len(decided) < 2 else "alike" if len(set(decided)) == 1 else "differs"


def null(side: Sequence[BrokerLine]) -> str:
    """Return what two arms of one broker's scenario differ by in O, of a study that has them; else ""."""
    keys: dict[str, tuple[MeasuredRuns, list[Key]]] = {}
    for line in side:
        if line.cell is not None:
            keys.setdefault(line.broker, (line.measured, []))[1].append(line.key)
    texts = {broker: null_of(one, "O mean") for broker, one in keys.items()}
    return "; ".join(f"{broker}, O mean: {text}" for broker, text in texts.items() if text)
