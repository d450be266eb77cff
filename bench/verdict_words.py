"""Measure, on simulated studies of known truth, how often each word of a verdict comes out.

    .venv/bin/python bench/verdict_words.py [--studies 2000] [--rounds 10] [--sd 0.1 0.1]

A study has two arms of each scenario. Runs of a round differ by `--sd` (SD of the logarithm) on either side. Published
is +44 % on 8.7 ms, as for CPU stress. Prints the words by the true change, the words of a claim that nothing is gained,
and what looking after each round would do.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src")]

from looplab.report.power import Sides, simulated  # noqa: E402
from looplab.report.rules import directed, no_gain  # noqa: E402
from looplab.report.statistics import compare_blocks  # noqa: E402
from looplab.report.verdicts import Effect  # noqa: E402

PUBLISHED, BASELINE_US = 0.44, 8700.0
RAISED = Effect(("1", "2"), directed("O", +1, PUBLISHED, BASELINE_US), PUBLISHED, BASELINE_US)
NO_GAIN = Effect(("1", "2"), no_gain("O"))
CHECKS = (5, 10, 15, 20)


def interim(sds: tuple[float, float], studies: int) -> tuple[float, float]:
    """Return how many null studies a page calls different that pools and re-tests at each look, and at the last."""
    rng, any_look, last = np.random.default_rng(2), 0, 0
    for _ in range(studies):
        blocks = Sides((2, 2), CHECKS[-1], sds).draw(rng, 0.0)
        found = [compare_blocks(blocks[:count]) for count in CHECKS]
        called = [one and one.p_value < 0.05 and not one.share.low <= 0 <= one.share.high for one in found]
        any_look += any(called)
        last += bool(called[-1])
    return any_look / studies, last / studies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--sd", type=float, nargs=2, default=(0.10, 0.10))
    given = parser.parse_args()
    sds = (given.sd[0], given.sd[1])
    sides = {"": Sides((2, 2), given.rounds, sds)}

    def show(title: str, effect: Effect, changes: tuple[float, ...], beside: int = 0, baseline: float = 0.0) -> None:
        print(f"\n{title}")
        for change in changes:
            words = simulated({"": effect}, sides, {"": change}, given.studies, beside, baseline)[""]
            each = ", ".join(f"{word} {words.share(word):.1%}" for word, _ in words.most_common())
            print(f"  {change:+5.0%}  {each}", flush=True)

    print(
        f"{given.studies} studies of {given.rounds} rounds, SD {sds[0]:.0%}, {sds[1]:.0%}; published {PUBLISHED:+.0%}"
    )
    for beside in (0, 13):
        changes = (0.0, 0.05, 0.10, 0.15, 0.20, 0.30, PUBLISHED, -0.15)
        show(f"“O is higher”, with {beside} other questions", RAISED, changes, beside)
    show("“O is higher”, on 0.32 instead of 8.7 ms", RAISED, (0.0, PUBLISHED), baseline=320.0)
    show("“nothing is gained”", NO_GAIN, (0.0, -0.05, -0.10, -0.15, -0.25))
    any_look, last = interim(sds, given.studies)
    print(f"\nno difference, called different: {any_look:.1%} if checked after {CHECKS} rounds, {last:.1%} at the last")


if __name__ == "__main__":
    main()
