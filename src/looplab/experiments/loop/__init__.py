"""The control loop of the thesis: what stress, priority, flood and QoS do to T, R and O."""

from looplab.run.experiment import Experiment

EXPERIMENT = Experiment("loop", __name__, scenarios="compose/scenarios/*")
