"""The experiment asip: how fast a microcontroller answers over serial, TCP and MQTT, from Python and from Java."""

from looplab.spec.experiment import Experiment
from looplab.spec.roles import BROKER, CONTROLLER, Role

NAME = "asip"
THROUGHPUT = "asip-throughput"
BRIDGE = Role("bridge", ("lab-asip-bridge",))
# Named as the languages are; a run may do without either.
CLIENTS = (
    Role("python", ("lab-asip-client",), optional=True),
    Role("java", ("lab-asip-java",), optional=True),
)
EXPERIMENT = Experiment(
    NAME,
    __name__,
    scenarios=f"compose/experiments/{NAME}*",
    roles=(CONTROLLER, BROKER, BRIDGE, *CLIENTS),
    images=("asip_java",),
    # The claims that compare cells of one run: their unit is the run.
    studies={
        "language-hardly": (NAME,),
        "channel-hardly": (NAME,),
        "java-tracks-more": (THROUGHPUT,),
        "serial-tracks-more": (THROUGHPUT,),
        "tcp-tracks-like-mqtt": (THROUGHPUT,),
    },
)
