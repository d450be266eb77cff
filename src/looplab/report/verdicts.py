"""Claims of a publication, and the verdicts that stored runs give on them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from looplab.report.samples import Runs

FIDELITIES = ("thesis", "corrected")
REPRODUCED, NOT_REPRODUCED, UNDECIDED, NO_RUN = "reproduced", "not reproduced", "undecided", "not run"
# A sign beside each word: in grey print, colours say nothing.
SIGNS = {REPRODUCED: "✓", NOT_REPRODUCED: "✗", UNDECIDED: "?"}
SIGNIFICANCE = 0.05
# Fixed, so that the same runs give the same report.
SEED = 20201028


@dataclass
class Verdict:
    """The answer to one claim at one fidelity, why, and other causes that the runs show."""

    outcome: str
    reason: str
    beside: list[str] = field(default_factory=list)

    @property
    def glance(self) -> str:
        """The figure for the overview, "" if there is none."""
        return ""


@dataclass(frozen=True)
class Claim:
    """`judge` answers the claim from the runs of one fidelity."""

    name: str
    title: str
    judge: Callable[[Runs, np.random.Generator], Verdict]


# Each claim with its verdict by fidelity.
Verdicts = Sequence[tuple[Claim, Mapping[str, Verdict]]]


def judge(claims: Iterable[Claim], runs: Mapping[str, Runs]) -> Verdicts:
    """Return the verdicts on `claims` from the runs by fidelity."""
    return [
        (claim, {name: claim.judge(runs.get(name, {}), np.random.default_rng(SEED)) for name in FIDELITIES})
        for claim in claims
    ]
