"""What a study can find, printed before it starts; runs in the image of the report, which has the verdict engine.

python3 -m looplab.lab.study_power EXPERIMENT results/NAME.study.json
"""

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


def main() -> None:
    name, file = sys.argv[1:]
    path = Path(file)
    print(*power(EXPERIMENTS[name], read_study(path), path.parent), sep="\n")


if __name__ == "__main__":
    main()
