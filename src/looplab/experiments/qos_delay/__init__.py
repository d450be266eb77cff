"""The experiment qos-delay: how the latency from publisher to subscriber grows with the delay of the network."""

from looplab.run.experiment import Experiment
from looplab.treatments.roles import BROKER, CONTROLLER, LINK

NAME = "qos-delay"
EXPERIMENT = Experiment(NAME, __name__, scenarios=f"compose/experiments/{NAME}", roles=(CONTROLLER, BROKER, LINK))
