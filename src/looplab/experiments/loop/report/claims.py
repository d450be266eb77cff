"""What the thesis claims, as questions that stored runs answer."""

from looplab.experiments.loop.report import comparisons, losses
from looplab.report.verdicts import Claim


def claims() -> list[Claim]:
    """Return the thesis's claims in the order of its chapters."""
    return [*comparisons.claims(), *losses.claims(), comparisons.qos_2()]
