"""What the verdict engine says of a study, in the image of the report: what it can find, and what it found.

python3 -m looplab.lab.study_inside power|words EXPERIMENT results/NAME.study.json
"""

import json
import sys
from pathlib import Path

from looplab.experiments.registry import EXPERIMENTS
from looplab.report.study_file import Study, read_study
from looplab.spec.experiment import Experiment


def power(experiment: Experiment, plan: Study, results: Path) -> list[str]:
    """Return the sentences on the claims that a study names, or on all that its scenarios answer."""
    from looplab.report.analysis import claims
    from looplab.report.power import chances

    listed = claims(experiment)
    cells = {scenario: [tuple(key) for key in keys] for scenario, keys in plan.cells.items()}
    effects = {one.name: effect for one in listed if (effect := one.effect(cells))}
    named = [one.name for one in listed if one.name in plan.names]
    asked = {name: effect for name, effect in effects.items() if not named or name in named}
    others = [name for name in named if name not in effects]
    lines = [*chances(plan, asked, results, experiment.judged)] if asked else []
    if others or not asked:
        what = ", ".join(others) or experiment.name
        lines.append(f"{what}: each run counts once, in {plan.rounds} rounds; no chance is simulated.")
    return lines


def words(experiment: Experiment, plan: Study, results: Path) -> list[str]:
    """Return, as JSON, the word on each claim by fidelity, from the runs of the study alone."""
    from looplab.report.analysis import analysed
    from looplab.report.samples import measure
    from looplab.report.stored import Selection, StoredRun, read_run

    runs = (read_run(results / run_id, EXPERIMENTS) for run_id in plan.places)
    measured = measure(Selection([run for run in runs if isinstance(run, StoredRun)]))
    verdicts = analysed(experiment, measured).verdicts
    found = {
        claim.name: {fidelity: verdict.word for fidelity, verdict in answers.items() if verdict.run}
        for claim, answers in verdicts
    }
    return [json.dumps({name: by_fidelity for name, by_fidelity in found.items() if by_fidelity})]


def main() -> None:
    what, name, file = sys.argv[1:]
    path = Path(file)
    answer = {"power": power, "words": words}[what]
    print(*answer(EXPERIMENTS[name], read_study(path), path.parent), sep="\n")


if __name__ == "__main__":
    main()
