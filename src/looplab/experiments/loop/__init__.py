"""The control loop of the thesis: what stress, priority, flood and QoS do to T, R and O."""

from looplab.experiments.loop.studies import STUDIES
from looplab.spec.experiment import Experiment
from looplab.spec.roles import BROKER, CONTROLLER, LINK, Role

# Bridge and robot take the place of other machines, as the link does.
BRIDGE = Role("bridge", ("lab-bridge",), fifo=95)
ROBOT = Role("robot", ("robot",), fifo=96)

EXPERIMENT = Experiment(
    "loop",
    __name__,
    scenarios="compose/scenarios/*",
    roles=(CONTROLLER, BROKER, BRIDGE, ROBOT, LINK),
    studies=STUDIES,
)
