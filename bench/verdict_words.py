"""Measure, on simulated studies of known truth, how often each word of a verdict comes out.

    .venv/bin/python bench/verdict_words.py [--studies 2000] [--rounds 10] [--sd 0.1]

A study has two arms of each scenario. Runs of a round differ by `--sd` (SD of the logarithm), rounds by twice as much.
Published is +44 % on 8.7 ms, as for CPU stress. Prints the words by the true change, the words of a claim that nothing
is gained, what looking after each round would do, and what the A/A arms take away.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src")]

from looplab.report.rounds import vetoed  # noqa: E402
from looplab.report.rules import Rule, decided, directed, no_gain  # noqa: E402
from looplab.report.statistics import Block, Comparison, compare_blocks  # noqa: E402
from looplab.report.verdicts import Claim, Verdict, judge  # noqa: E402

PUBLISHED, BASELINE_US = 0.44, 8700.0
ARMS = 2
CHECKS = (5, 10, 15, 20)
Study = tuple[list[Block], list[Block]]


def study(rng: np.random.Generator, rounds: int, sd: float, change: float, baseline_us: float = BASELINE_US) -> Study:
    """Return the rounds of a study, and the two arms of its first scenario."""
    levels = np.log(baseline_us) + rng.normal(0, 2 * sd, rounds)
    before = np.exp(levels[:, None] + rng.normal(0, sd, (rounds, ARMS)))
    after = np.exp(levels[:, None] + np.log1p(change) + rng.normal(0, sd, (rounds, ARMS)))
    return (
        [(list(a), list(b)) for a, b in zip(before, after, strict=True)],
        [([a[0]], [a[1]]) for a in before],
    )


def compared(blocks: list[Block]) -> Comparison:
    found = compare_blocks(blocks)
    assert found is not None
    return found


def answer(found: Comparison, arms: Comparison, rule: Rule, beside: int = 0) -> Verdict:
    """Return the verdict on a claim that is asked with so many others, of which nothing comes."""
    nothing = Comparison(**{**found.__dict__, "p_value": 1.0})
    asked = [decided(one, rule) for one in (found, *[nothing] * beside)]
    asked[0].question = vetoed(rule(found), {"scenario1": arms})
    claims = [Claim(str(at), "", lambda _runs, verdict=one: verdict) for at, one in enumerate(asked)]  # type: ignore[misc]
    judge(claims, {})
    return asked[0]


def words(options: argparse.Namespace, rule: Rule, change: float, baseline_us: float, beside: int) -> str:
    rng, found = np.random.default_rng(1), Counter[str]()
    for _ in range(options.studies):
        blocks, arms = study(rng, options.rounds, options.sd, change, baseline_us)
        verdict = answer(compared(blocks), compared(arms), rule, beside)
        found[f"{verdict.outcome} (A/A)" if "Two arms" in verdict.reason else verdict.outcome] += 1
    return ", ".join(f"{name} {count / options.studies:.1%}" for name, count in found.most_common())


def interim(options: argparse.Namespace) -> tuple[float, float]:
    """Return how many null studies a page calls different that pools and re-tests at each look, and at the last."""
    rng, any_look, last = np.random.default_rng(2), 0, 0
    for _ in range(options.studies):
        blocks, _arms = study(rng, CHECKS[-1], options.sd, 0.0)
        called = [different(compared(blocks[:count])) for count in CHECKS]
        any_look += any(called)
        last += called[-1]
    return any_look / options.studies, last / options.studies


def different(found: Comparison) -> bool:
    return found.p_value < 0.05 and not found.share.low <= 0 <= found.share.high


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--sd", type=float, default=0.10)
    options = parser.parse_args()
    print(f"{options.studies} studies of {options.rounds} rounds, SD {options.sd:.0%}; published {PUBLISHED:+.0%}")
    for beside in (0, 13):
        print(f"\n“O is higher”, with {beside} other questions")
        for change in (0.0, 0.05, 0.10, 0.15, 0.20, 0.30, PUBLISHED, -0.15):
            rule = directed("O", +1, PUBLISHED, BASELINE_US)
            print(f"  {change:+5.0%}  {words(options, rule, change, BASELINE_US, beside)}", flush=True)
    print("\n“O is higher”, on 0.32 instead of 8.7 ms")
    for change in (0.0, PUBLISHED):
        rule = directed("O", +1, PUBLISHED, BASELINE_US)
        print(f"  {change:+5.0%}  {words(options, rule, change, 320.0, 0)}", flush=True)
    print("\n“nothing is gained”")
    for change in (0.0, -0.05, -0.10, -0.15, -0.25):
        print(f"  {change:+5.0%}  {words(options, no_gain('O'), change, BASELINE_US, 0)}", flush=True)
    any_look, last = interim(options)
    print(f"\nno difference, called different: {any_look:.1%} if checked after {CHECKS} rounds, {last:.1%} at the last")


if __name__ == "__main__":
    main()
