"""A counter that sleeps: how much longer than asked does a sleep take?"""

from looplab.spec.experiment import Experiment
from looplab.spec.roles import CONTROLLER

EXPERIMENT = Experiment("counter", __name__, scenarios="compose/experiments/counter", roles=(CONTROLLER,))
