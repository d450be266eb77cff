"""What does a load do to an application? Each claim compares runs beside it with runs without it."""

from looplab.experiments.own import EXPERIMENT
from looplab.report.rounds import figure_claims
from looplab.report.verdicts import Claim


def claims() -> list[Claim]:
    """Return the claim on each load."""
    return figure_claims(__file__, EXPERIMENT.studies)
