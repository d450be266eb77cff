"""What the paper found, as questions that stored runs answer."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from looplab.experiments.middleware import EXPERIMENT, Placement
from looplab.experiments.middleware.report import CLIENT, PROCESSED, SERVER, MeasuredLoad, Unit
from looplab.experiments.middleware.report.placements import (
    Pair,
    balancer,
    best_loads,
    beyond_best,
    container_pairs,
    more_nodes,
    optima,
    optimum,
    places,
    siblings,
)
from looplab.report.claims import rows
from looplab.report.rules import Answer, Rule, decided, directed, every, means, no_cost, no_gain
from looplab.report.samples import MeasuredRuns
from looplab.report.statistics import FEWEST_REPETITIONS, UNKNOWN, Interval, changed, compare, over_runs
from looplab.report.verdicts import Line, Verdict, not_run

# The paper calls a system stable up to this share of errors.
MOST_ERRORS = 0.02
# A load of which so much is processed does not show what a placement can do.
ALL = 0.99
# What it prints before and after a change, and of which placements: its text and its Table 1.
PUBLISHED = {row.name: row for row in rows(EXPERIMENT)}
# What a run has in its place, or in words why it has none.
Sides = Callable[[MeasuredRuns], tuple[Placement, Placement] | str]
# What is compared in each round: two cells of one load.
Rounds = Mapping[Unit, Pair]


def answers() -> dict[str, Answer]:
    """Return what answers each finding."""
    return {
        "cores-move-optimum": _cores,
        "container-processed": partial(_in_container, {"processed": PROCESSED}),
        "container-time": partial(_in_container, {"client": CLIENT, "server": SERVER}),
        "errors-below": _errors,
        "hyper-threading": partial(_processed, "hyper-threading", siblings, None),
        "balancer-free": partial(_processed, "balancer-free", balancer, no_gain),
        "more-nodes": partial(_processed, "more-nodes", more_nodes, None),
        "five-beat-seven": partial(_processed, "five-beat-seven", beyond_best, None),
        "errors-below-nodes": _errors,
        "errors-beyond": partial(_errors_beyond, more_nodes),
        "balancer-errors": partial(_errors_beyond, balancer),
    }


def difference(pair: Pair, figure: str) -> Interval:
    """Return the paper's (first - second) / first of a figure, with its interval over the repetitions."""
    share = changed(*(list(cell.by_unit(figure).values()) for cell in pair))
    return Interval(-share.estimate, -share.high, -share.low)


def _crossed(before: Sequence[MeasuredLoad], after: Sequence[MeasuredLoad], choose: Sequence[MeasuredLoad]) -> Rounds:
    """Return for each round both sides at the load that the other half of the rounds finds best of `choose`."""
    sides = [{cell.devices: cell for cell in side} for side in (before, after)]
    common = sides[0].keys() & sides[1].keys()
    loads = best_loads([cell for cell in choose if cell.devices in common])
    return {unit: (sides[0][load], sides[1][load]) for unit, load in loads.items()}


def _figures(groups: Sequence[Rounds], figure: str) -> tuple[list[float], list[float]]:
    """Return the figure of each round on both sides, its geometric mean over the groups."""
    first, second = (means(groups, partial(_of_rounds, at, figure)) for at in (0, 1))
    return list(first.values()), list(second.values())


def _of_rounds(side: int, figure: str, rounds: Rounds) -> dict[Unit, float]:
    values = {unit: pair[side].by_unit(figure).get(unit) for unit, pair in rounds.items()}
    return {unit: value for unit, value in values.items() if value is not None}


def _decided(before: Sequence[float], after: Sequence[float], rule: Rule) -> Verdict:
    """Return a verdict that `rule` decides once the p-values of all claims are known."""
    if comparison := compare(before, after):
        return decided(comparison, rule)
    have = f"{len(before)} and {len(after)}"
    return Verdict(reason=f"{FEWEST_REPETITIONS} sound repetitions a side are needed; there are {have}.")


def _throughput(groups: Sequence[Rounds], rule: Rule, run: MeasuredRuns) -> Verdict:
    """Return the verdict on what both sides process; undecided if the run's only load asks too little of both."""
    loads = {cell.devices for cells in places(run).values() for cell in cells}
    pairs = [pair for rounds in groups for pair in rounds.values()]
    if len(loads) == 1 and all(cell.processed >= ALL * cell.requests for pair in pairs for cell in pair):
        return Verdict(reason="Both sides process all of the only load: a higher one is needed.")
    return _decided(*_figures(groups, PROCESSED), rule)


def _cores(run: MeasuredRuns) -> Verdict:
    best = [one for one in optima(run) if one.place.container] or optima(run)
    if len(best) < 2:
        return not_run("The run has loads on one number of cores only.")
    if any(len(places(run)[one.place]) < 2 for one in best):
        return not_run("The run has one load only: an optimal one needs several.")
    rule = directed("The optimal load", +1, PUBLISHED["cores-move-optimum"].printed.share)
    verdict = _decided(best[0].by_round, best[-1].by_round, rule)
    verdict.lines = [Line(str(one.place), Interval(float(one.load)), unit="devices") for one in best]
    return verdict


def _in_container(figures: Mapping[str, str], run: MeasuredRuns) -> Verdict:
    """Compare the first of `figures` in a container and on bare metal; the lines show the differences of each."""
    pairs, best = container_pairs(run), _at_optimum(run)
    if not pairs:
        return not_run("The run has no load in a container and on bare metal.")
    if PROCESSED in figures.values():
        verdict = _throughput(best, no_gain("The throughput in a container"), run)
        if comparison := compare(*_figures(best, "cpu_per_request"), runs=False):
            share = comparison.share
            verdict.notes.append(
                f"At the optimal load the processor time of a request changes by {share.estimate:+.1%} in a container "
                f"({share.low:+.1%} to {share.high:+.1%})."
            )
    else:
        verdict = _decided(*_figures(best, CLIENT), no_cost("The median time of a request"))
    verdict.lines = [
        Line(f"{name}, {pair[0].devices} devices, {pair[0].place.size}", difference(pair, of), "about 0 %", "change")
        for pair in pairs
        for name, of in figures.items()
    ]
    return verdict


def _at_optimum(run: MeasuredRuns) -> list[Rounds]:
    """Return of each number of cores the pair of each round at the optimal load of bare metal in other rounds."""
    by_place: dict[Placement, list[Pair]] = {}
    for pair in container_pairs(run):
        by_place.setdefault(pair[0].place, []).append(pair)
    sides = [[[pair[at] for pair in pairs] for at in (0, 1)] for pairs in by_place.values()]
    return [_crossed(bare, boxed, bare) for bare, boxed in sides]


def _up_to_optimum(run: MeasuredRuns) -> list[MeasuredLoad]:
    by_place = places(run).values()
    return [cell for cells in by_place for best in [optimum(cells).load] for cell in cells if cell.devices <= best]


def _share_of_errors(cell: MeasuredLoad) -> Interval:
    return over_runs(list(_errors_of(cell).values())) or UNKNOWN


_errors = every(
    "failed_share", 0, MOST_ERRORS, "below 2 %", _up_to_optimum, "no sound load", unit="%", judged=_share_of_errors
)


def _processed(claim: str, sides: Sides, rule: Callable[[str], Rule] | None, run: MeasuredRuns) -> Verdict:
    """Compare the requests that two placements process, in each round at the load that the others find best.

    Without a `rule` the second must process more, by the published change of the claim.
    """
    chosen, by_place = sides(run), places(run)
    if isinstance(chosen, str):
        return not_run(chosen)
    before, after = (by_place[place] for place in chosen)
    rounds = _crossed(before, after, [*before, *after])
    if not rounds:
        return not_run("There is no load with a sound cell on both.")
    printed, what = PUBLISHED[claim].printed.share, f"The throughput of {chosen[1]}"
    verdict = _throughput([rounds], rule(what) if rule else directed(what, +1, printed), run)
    cells = dict.fromkeys(cell for pair in rounds.values() for cell in pair)
    verdict.lines = [Line(str(cell), cell.interval(PROCESSED), unit="requests") for cell in cells]
    if verdict.share:
        verdict.lines = [*verdict.lines, Line("change", verdict.share, f"{printed:+.1%}", "change")]
    here, there = " and ".join(map(str, chosen)), PUBLISHED[claim].within
    if there and here != there:
        verdict.notes.append(f"{here} stand for {there} of the paper.")
    return verdict


def _errors_beyond(sides: Sides, run: MeasuredRuns) -> Verdict:
    """Compare the errors of two placements at the loads beyond the optimal one of the first."""
    chosen, by_place = sides(run), places(run)
    if isinstance(chosen, str):
        return not_run(chosen)
    best = optimum(by_place[chosen[0]]).load
    first, second = ({cell.devices: cell for cell in by_place[place] if cell.devices > best} for place in chosen)
    pairs = [(first[load], second[load]) for load in sorted(first.keys() & second.keys())]
    if not pairs:
        return not_run(f"The run has no load beyond the optimal one of {chosen[0]}, on both.")
    before, after = (list(means([pair[at] for pair in pairs], _errors_of).values()) for at in (0, 1))
    verdict = _decided(before, after, directed(f"The share of errors of {chosen[1]}", -1, None))
    verdict.lines = [
        Line(f"{b} against {a}", changed(*(list(_errors_of(cell).values()) for cell in (a, b))), unit="change")
        for a, b in pairs
    ]
    return verdict


def _errors_of(cell: MeasuredLoad) -> dict[Unit, float]:
    # Half a request more, so that a share of 0 has a logarithm (Haldane 1956).
    return cell.by_unit(lambda one: (one.failed + one.unfinished + 0.5) / (one.requests + 1))
